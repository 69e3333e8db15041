"""The rehearsal of the questions of level 1."""
from maker.plain import shifted
from maker.turns import PNG, WORD, XLSX, bash, python, say

TURNS = {
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
