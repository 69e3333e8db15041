"""The rehearsal of the questions of level 2."""
from maker.turns import PDF, WORD, XLSX, bash, python, say

TURNS = {
    "sales": [
        say("", XLSX),
        say("One sheet is hidden; its note is about 2022, which the question leaves out.", python(r"""
import xlsx
net = {}
for year, _, cells in xlsx.sheets("${file}"):
    heads = {c: v for (r, c), (v, _) in cells.items() if r == 1}
    for (r, c), (value, _) in cells.items():
        if r > 1 and c > 1:
            region = cells[r, 1][0]
            sign = {"Q": 1, "R": -1}.get(heads[c][0], 0)
            net[region, year] = net.get((region, year), 0) + sign * value
regions = {region for region, _ in net}
growth = {region: net[region, "2023"] - net[region, "2021"] for region in regions}
print(growth)
best = max(growth, key=growth.get)
print(f"ANSWER: {best}, {growth[best]:g}")
""", folder="/tmp")),
    ],
    "plots-edge": [
        say("", XLSX, reasoning="The colours are only in the styles of the cells, so the values alone will not do."),
        say("Now the outer edge.", python(r"""
import xlsx
cells = next(xlsx.sheets("${file}"))[2]
rows, columns = {r for r, _ in cells}, {c for _, c in cells}
edge = lambda r, c: r in (min(rows), max(rows)) or c in (min(columns), max(columns))
blue = lambda colour: colour and int(colour[6:8], 16) > max(int(colour[2:4], 16), int(colour[4:6], 16))
chosen = [value for (r, c), (value, colour) in cells.items() if edge(r, c) and blue(colour)]
print(chosen)
print(f"ANSWER: {sum(chosen):g}")
""", folder="/tmp")),
    ],
    "talk": [
        say("", python(r"""
import zipfile
for name in zipfile.ZipFile("${file}").namelist():
    if name.startswith(("ppt/slides/", "ppt/notesSlides/")):
        print(name)
""")),
        say("Notes are in files of their own. Only the slides count.", python(r"""
import re, zipfile, xml.etree.ElementTree as ET
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
z = zipfile.ZipFile("${file}")
slides = [re.fullmatch(r"ppt/slides/slide(\d+)\.xml", name) for name in z.namelist()]
titles = []
for slide in sorted(filter(None, slides), key=lambda m: int(m.group(1))):
    texts = [t.text or "" for t in ET.fromstring(z.read(slide.group())).iter(A)]
    if "otter" in " ".join(texts).lower():
        titles.append(texts[0])
print("ANSWER: " + ", ".join(titles))
""")),
    ],
    "tariff": [
        say("", PDF),
        say("A parcel pays the first row whose weight it does not exceed.", python(r"""
import pdf
words = next(page for page in pdf.texts("${file}") if "Zone 3" in page)
words = words[words.index("Up to (kg)"):]
head, cells = words[:5], words[5:]
rows = [cells[i:i + 5] for i in range(0, len(cells) - 4, 5)]
row = next(row for row in rows if float(row[0]) >= 2.4)
print(head, row)
print("ANSWER:", row[head.index("Zone 3")])
""", folder="/tmp")),
    ],
    "bundle": [
        say("", bash("python3 -m zipfile -l ${file}"),
            bash("mkdir -p /tmp/bundle && python3 -m zipfile -e ${file} /tmp/bundle && cat /tmp/bundle/readme.txt")),
        say("", python(r"""
import collections, csv, json
fees = json.load(open("data/prices.json"))
bills = collections.Counter()
for loan in csv.DictReader(open("data/loans.csv")):
    bills[loan["person"]] += int(loan["days"]) * fees[loan["tool"]]
print(bills)
who, cents = bills.most_common(1)[0]
print(f"ANSWER: {who}, {cents / 100:.2f}")
""", folder="/tmp/bundle")),
    ],
    "peptide": [
        say("", bash("grep -n ATOM ${file}")),
        say("Fixed columns: the name in 13 to 16, coordinates from 31 on.", python(r"""
import math
atoms = [line for line in open("${file}") if line.startswith("ATOM") and line[12:16].strip() == "CA"]
places = [[float(line[i:i + 8]) for i in (30, 38, 46)] for line in atoms]
print(f"ANSWER: {math.dist(places[0], places[1]):.3f}")
""")),
    ],
    "morse": [
        say("", python(r"""
import wave
with wave.open("${file}") as w:
    print(w.getparams())
""")),
        say("I turn the loudness into lengths of tones and pauses, in units of the shortest tone.", python(r"""
import itertools, wave
with wave.open("${file}") as w:
    rate, data = w.getframerate(), w.readframes(w.getnframes())
size = rate // 100
loud = [max(abs(b - 128) for b in data[i:i + size]) > 40 for i in range(0, len(data), size)]
runs = [(on, len(list(group))) for on, group in itertools.groupby(loud)]
unit = min(length for on, length in runs if on)
signs = ""
for on, length in runs[1:-1]:
    if on:
        signs += "-" if length > 2 * unit else "."
    elif length > 2 * unit:
        signs += " "
print(signs)
codes = (".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --..").split()
table = {code: chr(65 + i) for i, code in enumerate(codes)}
print("ANSWER:", "".join(table[sign] for sign in signs.split()))
""")),
    ],
    "chapters": [
        say("", bash("head -c 64 ${file} | od -c | head -5")),
        say("An ID3 tag of version 2.3 with chapter frames.", python(r"""
import struct
data = open("${file}", "rb").read()
size = sum(b << s for b, s in zip(data[6:10], (21, 14, 7, 0)))
def frames(block):
    while len(block) > 10 and block[0]:
        length = struct.unpack(">I", block[4:8])[0]
        yield block[:4], block[10:10 + length]
        block = block[10 + length:]
chapters = []
for name, body in frames(data[10:10 + size]):
    if name == b"CHAP":
        _, rest = body.split(b"\0", 1)
        start, end = struct.unpack(">II", rest[:8])
        title = dict(frames(rest[16:]))[b"TIT2"][1:].decode("latin-1")
        chapters.append(((end - start) / 1000, title))
print(chapters)
length, title = max(chapters)
print(f"ANSWER: {title}, {length:g}")
""")),
    ],
    "photo": [
        say("", bash("head -c 300 ${file} | od -A d -c | head -12")),
        say("The EXIF block is a small TIFF: I walk its directories.", python(r"""
import datetime, struct
data = open("${file}", "rb").read()
tiff = data[data.index(b"Exif\0\0") + 6:]
order = "<" if tiff[:2] == b"II" else ">"
def entries(at):
    count = struct.unpack(order + "H", tiff[at:at + 2])[0]
    for i in range(at + 2, at + 2 + 12 * count, 12):
        tag, kind, n = struct.unpack(order + "HHI", tiff[i:i + 8])
        yield tag, tiff[i + 8:i + 12]
def number(value):
    return struct.unpack(order + "I", value)[0]
root = dict(entries(number(tiff[4:8])))
exif, gps = dict(entries(number(root[0x8769]))), dict(entries(number(root[0x8825])))
at = number(exif[0x9003])
taken = datetime.datetime.strptime(tiff[at:at + 19].decode(), "%Y:%m:%d %H:%M:%S")
at = number(gps[6])
over, under = struct.unpack(order + "II", tiff[at:at + 8])
print(taken, over, under)
print(f"ANSWER: {taken.strftime('%A')}, {over / under:g}")
""")),
    ],
    "pump": [
        say("", bash("head -6 ${file}; grep -c START ${file}; grep -c STOP ${file}")),
        say("", python(r"""
import datetime
began, longest = None, datetime.timedelta()
for line in open("${file}"):
    when, rest = line.split(" ", 1)
    when = datetime.datetime.fromisoformat(when)
    if "START" in rest:
        began = when
    elif "STOP" in rest:
        longest = max(longest, when - began)
seconds = int(longest.total_seconds())
print(f"ANSWER: {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}")
""")),
    ],
    "grid": [
        say("", bash("cat -n ${file}; python3 ${file}")),
        say("The outer loop should run to `rows` itself.",
            bash("sed 's/range(1, rows)/range(1, rows + 1)/' ${file} > /tmp/fixed/program.py"),
            reasoning="The attachment should stay as it is, so I change a copy."),
        say("That folder does not exist yet.", bash(
            "mkdir -p /tmp/fixed && sed 's/range(1, rows)/range(1, rows + 1)/' ${file} > /tmp/fixed/program.py"
            " && printf 'ANSWER: %s\\n' \"$(python3 /tmp/fixed/program.py)\"")),
    ],
    "agreement": [
        say("Plain text first.", python(WORD + r"""
for p in body.iter(W + "p"):
    print("".join(t.text or "" for t in p.iter() if t.tag in (W + "t", W + "delText")))
""")),
        say("Two amounts in one sentence: tracked changes. Deleted text has an element of its own, which I leave out.", python(WORD + r"""
import re
total = 0
for p in body.iter(W + "p"):
    text = "".join(t.text or "" for t in p.iter(W + "t"))
    found = re.search(r"instalment is ([\d,]+) euros", text)
    if found:
        print(text)
        total += int(found.group(1).replace(",", ""))
print("ANSWER:", total)
""")),
    ],
    "seats": [
        say("Six people: 720 orders, so I try them all.", python(r"""
import itertools
rows = []
for row in itertools.permutations(["Ana", "Bo", "Cleo", "Dag", "Edit", "Finn"]):
    ana, bo, cleo, dag, edit, finn = (row.index(n) + 1 for n in ("Ana", "Bo", "Cleo", "Dag", "Edit", "Finn"))
    if 1 < ana < 6 and cleo == bo + 1 and dag < ana and abs(edit - dag) == 1 and abs(edit - bo) != 1 and finn == edit - 2:
        rows.append(", ".join(row))
assert len(rows) == 1, rows
print("ANSWER: " + rows[0])
""")),
    ],
}
