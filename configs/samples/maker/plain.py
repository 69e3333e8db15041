"""Questions without a file, and attachments that are text, tables, archives and the like.

Each function writes one file to `path` (None for a question without a file) and returns the right answer.
"""
import csv, datetime, io, itertools, json, math, random, string, subprocess, sys, zipfile
import xml.etree.ElementTree as ET

STAMP = (2024, 1, 1, 0, 0, 0)


# --- without a file -----------------------------------------------------------------------------
def fridays(_):
    return sum(datetime.date(y, m, 13).weekday() == 4 for y in range(1901, 2001) for m in range(1, 13))


PLAIN = "the ferry leaves the old harbour at noon with three crates of apples and a box of copper kettles"


def shifted(by=11):
    letters = string.ascii_lowercase
    return PLAIN.translate(str.maketrans(letters, letters[by:] + letters[:by]))


def caesar(_):
    return " ".join(PLAIN.split()[-2:])


def seats(_):
    names = "Ana Bo Cleo Dag Edit Finn".split()

    def fits(row):
        at = {n: i for i, n in enumerate(row, 1)}
        return (at["Ana"] not in (1, 6) and at["Cleo"] == at["Bo"] + 1 and at["Dag"] < at["Ana"]
                and abs(at["Edit"] - at["Dag"]) == 1 and abs(at["Edit"] - at["Bo"]) > 1 and at["Finn"] == at["Edit"] - 2)
    rows = [row for row in itertools.permutations(names) if fits(row)]
    assert len(rows) == 1, rows
    return ", ".join(rows[0])


def tilings(_, rows=6, columns=8):
    product = 1.0  # Kasteleyn's formula
    for j in range(1, rows + 1):
        for k in range(1, columns + 1):
            product *= 4 * math.cos(math.pi * j / (rows + 1)) ** 2 + 4 * math.cos(math.pi * k / (columns + 1)) ** 2
    return round(product ** 0.25)


# --- csv, txt, py, pdb, xml, json, jsonld ---------------------------------------------------------
def stations(path):
    rnd = random.Random(21); rows = []; names = ["Alder", "Birch", "Cedar", "Dogwood"]
    for day in range(1, 29):
        for n in names:
            t = round(rnd.gauss({"Alder": 11, "Birch": 12, "Cedar": 12.2, "Dogwood": 9}[n], 3), 1)
            rows.append([f"2024-02-{day:02d}", n, "" if rnd.random() < 0.06 else t])
    with open(path, "w", newline="") as f:
        w = csv.writer(f); w.writerow(["date", "station", "temp_c"]); w.writerows(rows)
    mean = {n: (lambda v: sum(v) / len(v))([r[2] for r in rows if r[1] == n and r[2] != ""]) for n in names}
    best = max(mean, key=mean.get)
    return f"{best}, {mean[best]:.2f}"


def ballots(path):
    rnd = random.Random(44)
    names = ["Okoro", "Lindqvist", "Marchetti", "Haddad", "Sato"]
    weight = dict(zip(names, [27, 24, 19, 17, 13]))
    votes = []
    for _ in range(240):
        first = rnd.choices(names, [weight[n] for n in names])[0]
        rest = [n for n in names if n != first]
        # Those who like the small candidates like the second best next: the first round's winner loses.
        rest.sort(key=lambda n: rnd.random() - (0.5 if n == "Lindqvist" and first != "Okoro" else 0))
        votes.append([first, *rest][:rnd.randrange(2, 6)])
    with open(path, "w", newline="") as f:
        w = csv.writer(f); w.writerow(["ballot", "first", "second", "third", "fourth", "fifth"])
        w.writerows([i, *v, *[""] * (5 - len(v))] for i, v in enumerate(votes, 1))
    left = set(names)
    while True:
        count = {n: sum(next((c for c in v if c in left), None) == n for v in votes) for n in left}
        order = sorted(left, key=count.get)
        if count[order[-1]] * 2 > sum(count.values()):
            assert order[-1] != max(names, key=lambda n: sum(v[0] == n for v in votes))
            return order[-1]
        assert count[order[0]] < count[order[1]]
        left.remove(order[0])


def notes(path):
    path.write_text("Café notes – read the first letter of each line.\nKeys are with the porter.\nEvery door has a code.\nLeave before six.\nPlease water the fern.\n", encoding="utf-8")
    return "KELP"


def pump_log(path):
    rnd = random.Random(8)
    zones = [datetime.timezone(datetime.timedelta(hours=h)) for h in (0, 1, 2, -3)]
    now = datetime.datetime(2024, 3, 30, 21, 4, 9, tzinfo=datetime.timezone.utc)
    lines, longest = [], datetime.timedelta()

    def log(text):
        lines.append(f"{now.astimezone(rnd.choice(zones)).isoformat()} {text}")
    for n in range(14):
        now += datetime.timedelta(seconds=rnd.randrange(300, 9000)); log(f"pump START cycle={n}")
        began = now
        for _ in range(rnd.randrange(4)):
            now += datetime.timedelta(seconds=rnd.randrange(60, 5400)); log(f"level {rnd.randrange(20, 90)} cm")
        now += datetime.timedelta(seconds=rnd.randrange(60, 5400)); log(f"pump STOP cycle={n}")
        longest = max(longest, now - began)
    path.write_text("\n".join(lines) + "\n")
    seconds = int(longest.total_seconds())
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def puzzle(path):
    path.write_text('import itertools\n\n\nclass Counter:\n    def __init__(self, start):\n        self.n = start\n\n    def step(self, k):\n'
                    '        self.n = (self.n * 31 + k) % 1009\n        return self.n\n\n\ndef run():\n    c = Counter(17)\n    seen = []\n'
                    '    for k in itertools.count(1):\n        v = c.step(k)\n        if v % 7 == 0:\n            seen.append(v)\n        if len(seen) == 12:\n            return sum(seen) - max(seen)\n\n\nprint(run())\n')
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True).stdout.strip()


def grid(path):
    path.write_text('"""Shortest ways along the streets of a town, from one corner to the opposite one."""\n\n\n'
                    'def ways(rows, columns):\n    line = [1] * (columns + 1)\n    for row in range(1, rows):\n'
                    '        for column in range(1, columns + 1):\n            line[column] += line[column - 1]\n    return line[columns]\n\n\nprint(ways(9, 7))\n')
    return math.comb(16, 7)


def peptide(path):
    atoms = [("N", "ALA", 1, 27.340, 24.430, 2.614), ("CA", "ALA", 1, 26.266, 25.413, 2.842), ("C", "ALA", 1, 26.913, 26.639, 3.531), ("O", "ALA", 1, 27.886, 26.463, 4.263),
             ("N", "GLY", 2, 26.335, 27.770, 3.258), ("CA", "GLY", 2, 26.850, 29.021, 3.898), ("C", "GLY", 2, 26.100, 29.253, 5.202), ("O", "GLY", 2, 24.865, 29.024, 5.330)]
    lines = ["HEADER    FIXTURE PEPTIDE                         01-JAN-24   9XYZ"]
    for i, (a, r, n, x, y, z) in enumerate(atoms, 1):
        lines.append(f"ATOM  {i:5d}  {a:<3s} {r} A{n:4d}    {x:8.3f}{y:8.3f}{z:8.3f}  1.00 20.00           {a[0]}  ")
    path.write_text("\n".join(lines + ["TER", "END"]) + "\n")
    carbons = [a for a in atoms if a[0] == "CA"]
    return f"{math.dist(carbons[0][3:], carbons[1][3:]):.3f}"


def people(path):
    group = [("Ada Quist", [3, 5, 4]), ("Bram Okafor", [7, 1]), ("Chiyo Lindt", [2, 2, 2, 2]), ("Dario Weiss", [])]
    graph = [{"@id": f"https://example.org/p/{i}", "@type": "Person", "name": n, "alumniOf": {"@type": "University", "name": "Coast University"},
              "workExample": [{"@type": "ScholarlyArticle", "name": f"Paper {i}.{j}", "pageEnd": k} for j, k in enumerate(w, 1)]} for i, (n, w) in enumerate(group, 1)]
    path.write_text(json.dumps({"@context": "https://schema.org", "@graph": graph}, indent=1))
    return f"{sum(len(w) for _, w in group) / len(group):g}"


def catalog(path):
    items = [("Blue Lantern", "novel", 1999, "sv"), ("Small Boats", "guide", 2005, "en"), ("Winter Bread", "cookbook", 2011, "en"), ("Salt", "novel", 2015, "pt"), ("North Wind", "novel", 2011, "en"), ("Moss", "guide", 2018, "sv")]
    root = ET.Element("catalog", xmlns="urn:example:catalog")
    for t, k, y, l in items:
        b = ET.SubElement(root, "book", kind=k); ET.SubElement(b, "title", lang=l).text = t; ET.SubElement(b, "year").text = str(y)
    ET.indent(root); ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    return ", ".join(t for t, k, y, l in sorted(items, key=lambda i: -i[2]) if k == "novel")


NETWORK = {"change_minutes": 4, "lines": {
    "A": {"stops": ["Quay", "Market", "Museum", "Hill", "Airfield"], "minutes": [3, 4, 6, 9]},
    "B": {"stops": ["Mill", "Market", "Station", "Fen"], "minutes": [5, 2, 7]},
    "C": {"stops": ["Lighthouse", "Quay", "Station", "Airfield"], "minutes": [8, 6, 14]},
    "D": {"stops": ["Fen", "Hill", "Observatory"], "minutes": [3, 5]},
    "E": {"stops": ["Lighthouse", "Dunes", "Station", "Observatory"], "minutes": [6, 7, 16]}}}


def network(path):
    path.write_text(json.dumps(NETWORK, indent=1))
    ways = []

    def walk(stop, line, minutes, seen, change):
        if stop == "Observatory":
            ways.append((minutes, seen))
        for name, l in NETWORK["lines"].items():
            for i, gap in enumerate(l["minutes"]):
                for a, b in (l["stops"][i:i + 2], l["stops"][i:i + 2][::-1]):
                    if a == stop and b not in seen:
                        walk(b, name, minutes + gap + (change if line not in (None, name) else 0), [*seen, b], change)
    walk("Lighthouse", None, 0, ["Lighthouse"], NETWORK["change_minutes"])
    ways.sort()
    assert ways[0][0] < ways[1][0], ways[:3]
    return ", ".join(ways[0][1])


# --- zip ----------------------------------------------------------------------------------------------
def bundle(path):
    fees = {"drill": 250, "saw": 180, "ladder": 120}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        def add(n, s): z.writestr(zipfile.ZipInfo(n, STAMP), s)
        add("readme.txt", "loans.csv lists who borrowed which tool. prices.json has each tool's daily fee in cents.\n")
        add("data/loans.csv", "person,tool,days\nMarta,drill,3\nJonas,saw,2\nMarta,ladder,5\nEmil,drill,1\nJonas,drill,4\nEmil,ladder,6\n")
        add("data/prices.json", json.dumps(fees))
    bill = {"Marta": 3 * fees["drill"] + 5 * fees["ladder"], "Jonas": 2 * fees["saw"] + 4 * fees["drill"], "Emil": fees["drill"] + 6 * fees["ladder"]}
    who = max(bill, key=bill.get)
    return f"{who}, {bill[who] / 100:.2f}"


def orders(path):
    rnd = random.Random(31)
    rates = {"EUR": 1.0, "SEK": 0.0885, "GBP": 1.1642, "CHF": 1.0437}
    cents, branches = 0.0, {}
    for branch, places in (("north", ["Kråkvik", "Östanå", "Märsta"]), ("south", ["Málaga", "Cádiz", "Évora"])):
        rows = []
        for n in range(1, 41):
            amount, currency = rnd.randrange(500, 90000) / 100, rnd.choice(list(rates))
            state = rnd.choice(["paid", "paid", "open", "cancelled"])
            rows.append([f"{branch[0].upper()}{n:03d}", rnd.choice(places), f"{amount:.2f}".replace(".", ","), currency, state])
            cents += amount * rates[currency] if state != "cancelled" else 0
        branches[branch] = "order;place;amount;currency;state\n" + "".join(";".join(r) + "\n" for r in rows)
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(zipfile.ZipInfo("north.csv", STAMP), branches["north"].encode("latin-1"))
        z.writestr(zipfile.ZipInfo("south.csv", STAMP), branches["south"].encode("utf-16"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(zipfile.ZipInfo("orders.zip", STAMP), inner.getvalue())
        z.writestr(zipfile.ZipInfo("rates.json", STAMP), json.dumps({"base": "EUR", "euros_for_one": rates}))
        z.writestr(zipfile.ZipInfo("README.txt", STAMP), "north.csv is Latin-1, south.csv is UTF-16. Amounts have a decimal comma.\n")
    return f"{cents:.2f}"
