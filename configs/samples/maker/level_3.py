"""The rehearsal of the questions of level 3."""
from maker.turns import PDF, PNG, XLSX, bash, python, say

TURNS = {
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
