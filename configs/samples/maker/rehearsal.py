"""What the rehearsal model does for each sample: real commands that find the answer in the file.

No answer is written here. Every command runs in a bare Debian or python:3.11 image: Python's standard library, no network.
`${file}` is the attachment; the last line `ANSWER: ...` of the tool outputs is what gets submitted.
"""
from maker.plain import shifted
from maker.turns import PDF, PNG, WORD, XLSX, bash, python, say

LEVEL_1 = {
    "plots-green": [
        say("I read the cells with their fill colours.", XLSX),
        say("Green is a colour whose green part is the largest.", python(r"""
import xlsx
total = 0
for _, _, cells in xlsx.sheets("${file}"):
    for value, colour in cells.values():
        if colour and colour != "00000000":
            red, green, blue = (int(colour[i:i + 2], 16) for i in (2, 4, 6))
            if green > red and green > blue:
                total += value
print(f"ANSWER: {total:g}")
""", folder="/tmp")),
    ],
    "stations": [
        say("", bash("head -5 ${file}; wc -l ${file}"), bash("cut -d, -f2 ${file} | sort | uniq -c")),
        say("Some readings are empty. I leave them out.", python(r"""
import collections, csv, statistics
readings = collections.defaultdict(list)
for row in csv.DictReader(open("${file}")):
    if row["temp_c"]:
        readings[row["station"]].append(float(row["temp_c"]))
means = {station: statistics.fmean(values) for station, values in readings.items()}
print(means)
best = max(means, key=means.get)
print(f"ANSWER: {best}, {means[best]:.2f}")
""")),
    ],
    "minutes": [
        say("", python(WORD + r"""
for p in body.iter(W + "p"):
    print("".join(t.text or "" for t in p.iter(W + "t")))
""")),
        say("The last paragraph hands one item on, so I look up the earliest due date and then that correction.", python(WORD + r"""
import datetime, re
text = lambda node: "".join(t.text or "" for t in node.iter(W + "t"))
rows = [[text(cell) for cell in row.iter(W + "tc")] for row in body.iter(W + "tr")][1:]
_, who, due = min(rows, key=lambda row: datetime.datetime.strptime(row[2] + " 2024", "%d %B %Y"))
for line in map(text, body.iter(W + "p")):
    moved = re.search(re.escape(who) + r"'s item goes to ([A-Z]\w+ [A-Z]\w+)", line)
    who = moved.group(1) if moved else who
print(f"ANSWER: {who}")
""")),
    ],
    "people": [
        say("", bash("head -c 700 ${file}")),
        say("", python(r"""
import json
people = [x for x in json.load(open("${file}"))["@graph"] if x["@type"] == "Person"]
counts = [sum(w["@type"] == "ScholarlyArticle" for w in x["workExample"]) for x in people]
print(counts)
print(f"ANSWER: {sum(counts) / len(counts):g}")
""")),
    ],
    "catalog": [
        say("", python(r"""
import xml.etree.ElementTree as ET
books = ET.parse("${file}").getroot().findall("book")
print(len(books), "books")
raise SystemExit(0 if books else 3)
""")),
        say("No books were found: the elements must be in a namespace.", bash("head -4 ${file}")),
        say("", python(r"""
import xml.etree.ElementTree as ET
N = "{urn:example:catalog}"
novels = [b for b in ET.parse("${file}").getroot().findall(N + "book") if b.get("kind") == "novel"]
novels.sort(key=lambda b: -int(b.find(N + "year").text))
print("ANSWER: " + ", ".join(b.find(N + "title").text for b in novels))
""")),
    ],
    "notes": [
        say("", bash("cat ${file}")),
        say("", bash("echo \"ANSWER: $(sed -n '2,5p' ${file} | cut -c1 | tr -d '\\n')\"")),
    ],
    "puzzle": [
        say("I read the code before I run it.", bash("cat ${file}")),
        say("", bash("printf 'ANSWER: %s\\n' \"$(python3 ${file})\"")),
    ],
    "chart": [
        say("I have to count pixels, so I decode the picture.", PNG),
        say("The grid lines are 5 units apart; the bars stand on the axis.", python(r"""
import png
rows = png.pixels("${file}")
height, width = len(rows), len(rows[0])
grey = [y for y in range(height) if sum(p == (215, 215, 215) for p in rows[y]) > width // 8]
units = 5 / (grey[1] - grey[0])
blue = lambda p: p[2] > p[0] + 50 and p[2] > p[1] + 50
columns = [sum(blue(rows[y][x]) for y in range(height)) for x in range(width)]
bars, x = [], 0
while x < width:
    run = x
    while run < width and columns[run] > 20:
        run += 1
    if run - x > 20:
        bars.append(round(max(columns[x:run]) * units))
    x = max(run, x + 1)
print("blue bars:", bars)
print("ANSWER:", sum(bars))
""", folder="/tmp")),
    ],
    "fridays": [
        say("", bash("python3 --version")),
        say("", python(r"""
import datetime
days = [datetime.date(year, month, 13) for year in range(1901, 2001) for month in range(1, 13)]
print("ANSWER:", sum(day.strftime("%A") == "Friday" for day in days))
""")),
    ],
    "caesar": [
        say("I try all shifts and look for common words.", python(r"""
cipher = "CIPHERTEXT"
letters = "abcdefghijklmnopqrstuvwxyz"
def back(by):
    return "".join(letters[(letters.index(c) - by) % 26] if c in letters else c for c in cipher)
common = ("the", "of", "a", "and", "with")
best = max((back(by) for by in range(26)), key=lambda text: sum(word in common for word in text.split()))
open("/tmp/plain.txt", "w").write(best + "\n")
print(best)
""".replace("CIPHERTEXT", shifted()))),
        say("", bash("echo \"ANSWER: $(tr ' ' '\\n' < /tmp/plain.txt | tail -n 2 | paste -s -d ' ')\"")),
    ],
}

LEVEL_2 = {
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

LEVEL_3 = {
    "orders": [
        say("", bash("python3 -m zipfile -l ${file} && mkdir -p /tmp/orders && python3 -m zipfile -e ${file} /tmp/orders"
                     " && cat /tmp/orders/README.txt /tmp/orders/rates.json")),
        say("An archive in the archive.",
            bash("cd /tmp/orders && python3 -m zipfile -e orders.zip . && ls -l && head -c 120 south.csv | od -c | head -4"),
            bash("head -3 /tmp/orders/north.csv | cat -v")),
        say("", python(r"""
import csv, json
rates = json.load(open("rates.json"))["euros_for_one"]
total = 0
for name, encoding in (("north.csv", "latin-1"), ("south.csv", "utf-16")):
    with open(name, encoding=encoding, newline="") as f:
        for order in csv.DictReader(f, delimiter=";"):
            if order["state"] != "cancelled":
                total += float(order["amount"].replace(",", ".")) * rates[order["currency"]]
print(f"ANSWER: {total:.2f}")
""", folder="/tmp/orders")),
    ],
    "rota": [
        say("", XLSX),
        say("I print the sheets, as the legend may hold notes.", python(r"""
import xlsx
for name, _, cells in xlsx.sheets("${file}"):
    print(name)
    for place, (value, colour) in sorted(cells.items()):
        if name != "Rota" or value:
            print(" ", place, value, colour)
""", folder="/tmp")),
        say("Sundays are paid at a higher rate: the legend says so in words.", python(r"""
import xlsx
book = {name: cells for name, _, cells in xlsx.sheets("${file}")}
legend, wages, rota = book["Legend"], book["Wages"], book["Rota"]
hours = {legend[r, 1][1]: value for (r, c), (value, _) in legend.items() if c == 3 and isinstance(value, float)}
wage = {value: wages[r, 2][0] for (r, c), (value, _) in wages.items() if c == 1 and r > 1}
pay = dict.fromkeys(wage, 0)
for (r, c), (_, colour) in rota.items():
    if r > 1 and c > 1 and colour in hours:
        factor = 1.5 if rota[1, c][0] == "Sun" else 1
        pay[rota[r, 1][0]] += hours[colour] * wage[rota[r, 1][0]] * factor
print(pay)
best = max(pay, key=pay.get)
print(f"ANSWER: {best}, {pay[best]:.2f}")
""", folder="/tmp")),
    ],
    "discs": [
        say("", PNG),
        say("A square fills its bounding box, a disc about four fifths of it.", python(r"""
import collections, png
rows = png.pixels("${file}")
height, width = len(rows), len(rows[0])
def name(p):
    if p == (255, 255, 255):
        return None
    return ("orange", "green", "purple")[p.index(max(p))]
seen, discs, squares = set(), collections.Counter(), collections.Counter()
for y in range(height):
    for x in range(width):
        colour = name(rows[y][x])
        if not colour or (x, y) in seen:
            continue
        todo, shape = [(x, y)], {(x, y)}
        while todo:
            a, b = todo.pop()
            for near in ((a + 1, b), (a - 1, b), (a, b + 1), (a, b - 1)):
                if 0 <= near[0] < width and 0 <= near[1] < height and near not in shape and name(rows[near[1]][near[0]]) == colour:
                    shape.add(near)
                    todo.append(near)
        seen |= shape
        xs, ys = [a for a, _ in shape], [b for _, b in shape]
        box = (max(xs) - min(xs) + 1) * (max(ys) - min(ys) + 1)
        (squares if len(shape) > 0.95 * box else discs)[colour] += 1
print("discs", discs, "squares", squares)
print("ANSWER: " + ", ".join(colour for colour, _ in discs.most_common()))
""", folder="/tmp")),
    ],
    "berths": [
        say("", PDF),
        say("Arrival and departure of a ship can be on different pages, so I put the pages together first.", python(r"""
import datetime, itertools, pdf
words = list(itertools.chain.from_iterable(pdf.texts("${file}")))
came, stays = {}, {}
for when, what in zip(words, words[1:]):
    verb, _, ship = what.partition(" ")
    if verb in ("arrived", "departed"):
        moment = datetime.datetime.strptime(when, "%d %B %Y %H:%M")
        if verb == "arrived":
            came[ship] = moment
        else:
            stays[ship] = (moment - came[ship]).total_seconds() / 3600
print(stays)
print("ANSWER: " + ", ".join(sorted(ship for ship, hours in stays.items() if hours > 100)))
""", folder="/tmp")),
    ],
    "network": [
        say("", bash("cat ${file}")),
        say("Shortest path over pairs of stop and line; a change of line adds its own time.", python(r"""
import heapq, json
net = json.load(open("${file}"))
edges = {}
for name, line in net["lines"].items():
    for a, b, minutes in zip(line["stops"], line["stops"][1:], line["minutes"]):
        edges.setdefault(a, []).append((b, name, minutes))
        edges.setdefault(b, []).append((a, name, minutes))
queue, done = [(0, ["Lighthouse"], "")], set()
while True:
    minutes, way, line = heapq.heappop(queue)
    if way[-1] == "Observatory":
        break
    if (way[-1], line) not in done:
        done.add((way[-1], line))
        for stop, other, gap in edges[way[-1]]:
            change = net["change_minutes"] if line not in ("", other) else 0
            heapq.heappush(queue, (minutes + gap + change, way + [stop], other))
print(minutes, "minutes")
print("ANSWER: " + ", ".join(way))
""")),
    ],
    "ballots": [
        say("", bash("head -4 ${file}; wc -l ${file}"), bash("cut -d, -f2 ${file} | tail -n +2 | sort | uniq -c | sort -rn")),
        say("Nobody has more than half, so it goes to the rounds.", python(r"""
import collections, csv
with open("${file}", newline="") as f:
    ballots = [[name for name in row[1:] if name] for row in list(csv.reader(f))[1:]]
left = {name for ballot in ballots for name in ballot}
while True:
    count = collections.Counter(dict.fromkeys(left, 0))
    count.update(next(name for name in ballot if name in left) for ballot in ballots if left.intersection(ballot))
    print(dict(count))
    (best, votes), (last, _) = count.most_common()[0], count.most_common()[-1]
    if 2 * votes > sum(count.values()):
        break
    left.remove(last)
print("ANSWER:", best)
""")),
    ],
    "tilings": [
        say("Column by column, with the squares that stick out into the next column as the state.", python(r"""
import collections
rows, columns = 6, 8
def fill(row, now, after):
    if row == rows:
        yield after
    elif now >> row & 1:
        yield from fill(row + 1, now, after)
    else:
        yield from fill(row + 1, now, after | 1 << row)
        if row + 1 < rows and not now >> row + 1 & 1:
            yield from fill(row + 2, now, after)
ways = collections.Counter({0: 1})
for _ in range(columns):
    following = collections.Counter()
    for now, count in ways.items():
        for after in fill(0, now, 0):
            following[after] += count
    ways = following
print("ANSWER:", ways[0])
""")),
    ],
}

TURNS = {**LEVEL_1, **LEVEL_2, **LEVEL_3}
