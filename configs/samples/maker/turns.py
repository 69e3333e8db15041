"""Building blocks of the rehearsal's turns, among them readers of file formats that need only Python's standard library."""


def bash(command):
    return {"tool": "bash", "arguments": {"command": command}}


def python(code, folder=None):
    script = "python3 - <<'EOF'\n" + code.strip("\n") + "\nEOF"
    return bash(f"cd {folder} && {script}" if folder else script)


def say(text, *calls, reasoning=None):
    turn = {"content": text} if text else {}
    if reasoning:
        turn["reasoning"] = reasoning
    return {**turn, "calls": list(calls)}


# Cell values and fill colours of a workbook with the standard library alone; kept in /tmp for the next command.
XLSX = bash(r"""
cat > /tmp/xlsx.py <<'EOF'
import re, zipfile
import xml.etree.ElementTree as ET

M = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def sheets(path):
    z = zipfile.ZipFile(path)
    tree = lambda name: ET.fromstring(z.read(name))
    styles = tree("xl/styles.xml")
    fills = [f.find(f"{M}patternFill/{M}fgColor") for f in styles.find(M + "fills")]
    colours = [None if f is None else f.get("rgb") for f in fills]
    xfs = [colours[int(x.get("fillId", 0))] for x in styles.find(M + "cellXfs")]
    shared = []
    if "xl/sharedStrings.xml" in z.namelist():
        shared = ["".join(t.text or "" for t in si.iter(M + "t")) for si in tree("xl/sharedStrings.xml")]
    targets = {r.get("Id"): r.get("Target") for r in tree("xl/_rels/workbook.xml.rels")}
    for sheet in tree("xl/workbook.xml").find(M + "sheets"):
        cells = {}
        target = targets[sheet.get(R)].removeprefix("/xl/")
        for c in tree("xl/" + target).iter(M + "c"):
            letters, row = re.match(r"([A-Z]+)(\d+)", c.get("r")).groups()
            column = 0
            for letter in letters:
                column = column * 26 + ord(letter) - 64
            v = c.find(M + "v")
            value = v.text if v is not None else None
            if c.get("t") == "s":
                value = shared[int(value)]
            elif c.get("t") == "inlineStr":
                value = "".join(t.text or "" for t in c.iter(M + "t"))
            elif value is not None:
                value = float(value)
            cells[int(row), column] = value, xfs[int(c.get("s", 0))]
        yield sheet.get("name"), sheet.get("state"), cells
EOF
cd /tmp && python3 -c "
import xlsx, collections
for name, state, cells in xlsx.sheets('${file}'):
    print(name, state or 'visible', len(cells), 'cells', dict(collections.Counter(colour for _, colour in cells.values())))
"
""".strip("\n"))

# Pixels of an 8-bit RGB or palette PNG.
PNG = bash(r"""
cat > /tmp/png.py <<'EOF'
import struct, zlib


def pixels(path):
    data, at, packed, palette = open(path, "rb").read(), 8, b"", None
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and colour in (2, 3), (depth, colour)
        elif kind == b"PLTE":
            palette = [tuple(body[i:i + 3]) for i in range(0, size, 3)]
        elif kind == b"IDAT":
            packed += body
        at += 12 + size
    step = 3 if colour == 2 else 1
    raw, row_bytes, above, rows = zlib.decompress(packed), width * step, bytes(width * step), []
    for y in range(height):
        start = y * (row_bytes + 1)
        kind, line = raw[start], bytearray(raw[start + 1:start + 1 + row_bytes])
        if kind:
            for i in range(row_bytes):
                a, b, c = line[i - step] if i >= step else 0, above[i], above[i - step] if i >= step else 0
                p = a + b - c
                paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
                line[i] = line[i] + (0, a, b, (a + b) // 2, paeth)[kind] & 255
        above = bytes(line)
        rows.append([tuple(line[i:i + 3]) for i in range(0, row_bytes, 3)] if step == 3 else [palette[i] for i in line])
    return rows
EOF
cd /tmp && python3 -c "
import png, collections
rows = png.pixels('${file}')
print(len(rows[0]), 'by', len(rows), collections.Counter(p for row in rows for p in row).most_common(7))
"
""".strip("\n"))

# Strings shown by the content streams of a PDF with simple fonts.
PDF = bash(r"""
cat > /tmp/pdf.py <<'EOF'
import base64, re, zlib


def texts(path):
    for head, body in re.findall(rb"<<((?:(?!endobj).)*?)>>\s*stream\r?\n(.*?)endstream", open(path, "rb").read(), re.S):
        if b"/Image" in head or b"/FlateDecode" not in head:
            continue
        if b"/ASCII85Decode" in head:
            body = base64.a85decode(body.strip().removesuffix(b"~>"))
        text = zlib.decompressobj().decompress(body).decode("latin-1")
        yield [re.sub(r"\\(.)", r"\1", s) for s in re.findall(r"\(((?:\\.|[^\\()])*)\)\s*Tj", text)]
EOF
cd /tmp && python3 -c "
import pdf
for page in pdf.texts('${file}'):
    print(page)
"
""".strip("\n"))

WORD = r"""
import zipfile, xml.etree.ElementTree as ET
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
body = ET.fromstring(zipfile.ZipFile("${file}").read("word/document.xml"))
"""
