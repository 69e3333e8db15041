"""Makes the frozen web, its search index, the questions and the rehearsals. All content is invented.

Needs reportlab 4 (PyPI). Nobody needs to run it to use the files.
"""
import json, pathlib, shutil, uuid

from reportlab.lib.pagesizes import A4
from reportlab.pdfgen import canvas

HERE = pathlib.Path(__file__).parent
WWW = HERE / "www"
DOCUMENTS = HERE.parent.parent / "mcp-servers" / "tests" / "documents"
index, tasks = [], []


def put(address, content):
    path = WWW / address
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def page(address, title, body, description, date="2024-03-01", words=""):
    menu = "".join(f"<li><a href='/{name}'>{name.title()}</a>" for name in ("news", "contact", "imprint", "search"))
    put(address, f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title>"
        f"<meta property='article:published_time' content='{date}'></head><body><nav><ul>{menu}</ul></nav>"
        f"<main><h1>{title}</h1>{body}</main><footer>All rights reserved.</footer></body></html>")
    found(address, title, description, date, words)


def found(address, title, description, date=None, words=""):
    url = "http://" + address.removesuffix("index.html")
    index.append({"url": url, "title": title, "description": description, "date": date, "words": words})


def table(head, rows):
    line = lambda kind, cells: "<tr>" + "".join(f"<{kind}>{cell}</{kind}>" for cell in cells) + "</tr>"
    return "<table>" + line("th", head) + "".join(line("td", row) for row in rows) + "</table>"


def pdf(address, pages):
    path = WWW / address
    path.parent.mkdir(parents=True, exist_ok=True)
    out = canvas.Canvas(str(path), pagesize=A4, invariant=1)
    for lines in pages:
        y = 800
        for line in lines:
            out.setFont("Helvetica", 11)
            for column, cell in enumerate(line if isinstance(line, tuple) else (line,)):
                out.drawString(60 + 150 * column, y, cell)
            y -= 16
        out.showPage()
    out.save()


def question(level, text, answer, search, url, pattern, between, document=False):
    task = str(uuid.uuid5(uuid.NAMESPACE_URL, "gaia-web/" + text))
    record = {"task_id": task, "Question": text, "Level": level, "Final answer": answer, "file_name": "",
              "Annotator Metadata": {"Steps": "", "Number of steps": "", "How long did this take?": "", "Tools": "",
                                     "Number of tools": ""}}
    call = lambda tool, **arguments: {"calls": [{"tool": tool, "arguments": arguments}]}
    between = between.replace("||", "|…") if "||" in between else between.replace("|", "…")
    submit = call("submit", answer="${between:" + between + "}")
    ours = [call("brave_web_search", query=search), call("fetch", url=url, max_length=2000),
            call("find", url=url, pattern=pattern), submit]
    theirs = [call("brave_web_search", query=search), call("fetch", url=url, max_length=200000), submit]
    entry = {"task_id": task, "match": text[:60]}
    tasks.append((record, {**entry, "turns": ours}, {**entry, "turns": theirs}, document))


filler = lambda topic, count: "".join(
    f"<p>Paragraph {number} of the notes on {topic}: keepers wrote down wind, tide and passing sails, day by day, and "
    f"little of it matters to anyone now.</p>" for number in range(count))

# Lighthouses: a wiki page with an infobox, a long history, a PDF report.
page("wiki.varn.example/index.html", "Wiki of the Varn coast", "<ul><li><a href='/Greyhead_Light'>Greyhead Light</a>"
     "<li><a href='/Varn_Harbour'>Varn Harbour</a></ul>", "Encyclopedia of the coast of Varn")
page("wiki.varn.example/Greyhead_Light", "Greyhead Light",
     "<table class='infobox'><tr><th colspan=2>Greyhead Light<tr><th>Built<td>1877<tr><th>Tower height<td>31 m"
     "<tr><th>Focal height<td>44 m<tr><th>Architect<td>Ana Bolt<tr><th>Range<td>19 nmi</table>" + filler("Greyhead", 60)
     + "<h2>Keepers</h2><p>The last keeper, Teodor Vance, left on 3 October 1968.</p>",
     "Lighthouse on the Greyhead rock, with its keepers and its history")
question(1, "Who designed the lighthouse on the Greyhead rock, according to the encyclopedia of the Varn coast?", "Ana Bolt",
         "Greyhead lighthouse architect Varn encyclopedia", "http://wiki.varn.example/Greyhead_Light", "architect",
         "| Architect || |")
question(2, "On which day did the last keeper of the Greyhead Light leave? Answer as in: 5 June 1950", "3 October 1968",
         "Greyhead Light last keeper left", "http://wiki.varn.example/Greyhead_Light", "last keeper",
         "Teodor Vance, left on |.")
pdf("harbour.varn.example/reports/1911.pdf", [
    ["Harbour Board of Varn", "Report of the year 1911", "", "Contents: lights, dredging, dues"],
    ["Lights of the coast", ("Light", "Tower in metres", "Keepers"), ("Greyhead", "31", "3"), ("Saint Orla", "27", "2"),
     ("Mews Point", "38", "4"), ("Old Quay", "12", "1")],
    ["Dredging", "The bar was dredged to 5.2 metres in May.", "Dues", "Dues came to 18,455 crowns."]])
page("harbour.varn.example/index.html", "Harbour board of Varn", "<p>Reports: <a href='/reports/1911.pdf'>1911</a></p>",
     "The harbour board and its yearly reports")
found("harbour.varn.example/reports/1911.pdf", "Report of the year 1911 (PDF)", "Harbour board of Varn: lights, dredging, dues")
question(2, "In the harbour board of Varn's report of 1911, how many keepers did the light at Mews Point have?", "4",
         "harbour board Varn report 1911 lights keepers", "http://harbour.varn.example/reports/1911.pdf", "Mews Point",
         "| Mews Point | 38 || |", document=True)
question(2, "To what depth in metres was the bar dredged, according to the report of the harbour board of Varn for 1911?", "5.2",
         "harbour board Varn report 1911 dredging bar", "http://harbour.varn.example/reports/1911.pdf", "dredged",
         "The bar was dredged to | metres", document=True)

# Statistics: a table-heavy page and a workbook.
page("stats.norland.example/fish", "Landings of fish by port", filler("the fleet", 5) + table(
    ("Port", "2019", "2020", "2021"), [("Varn", "4120", "3980", "4411"), ("Orla", "1033", "990", "1207"),
     ("Mews", "2518", "2602", "2377")]), "Tonnes of fish landed, by port and year")
question(1, "How many tonnes of fish were landed at Orla in 2021, according to the statistics of Norland?", "1207",
         "Norland statistics tonnes of fish landed Orla 2021", "http://stats.norland.example/fish", "Orla",
         "| Orla | 1033 | 990 || |")
put("stats.norland.example/sales.xlsx", (DOCUMENTS / "sales.xlsx").read_bytes())
found("stats.norland.example/sales.xlsx", "Net sales by region (workbook)", "Quarterly sales of four regions, 2021 to 2023")
question(2, "In the workbook of net sales by region at Norland's statistics, what were East's net sales in 2023?", "25456",
         "Norland workbook net sales by region", "http://stats.norland.example/sales.xlsx", "East",
         "| East | 8527 | 1497 | 7714 | 8495 | 777 || |", document=True)

# A forum, documentation, a shop, a charset, an application shell, a post office with a PDF.
page("forum.kites.example/t/812", "Which kite won at Dunmere?", "".join(
    f"<article><h3>{name} wrote on {day} June 2022</h3><p>{text}</p></article>" for name, day, text in [
        ("Rolf", 2, "I think it was the delta."), ("Ines", 3, "No: the judges' sheet says the box kite Corrie won, with 87 points."),
        ("Rolf", 4, "You are right, I was there and forgot.")]), "Thread on the winner of the Dunmere kite festival")
question(1, "With how many points did the box kite win at Dunmere, according to a forum of kite flyers?", "87",
         "Dunmere kite festival winner box kite points forum", "http://forum.kites.example/t/812", "points",
         "Corrie won, with | points")
page("docs.tidal.example/guide/limits", "Limits of the Tidal engine", "<p>Defaults:</p><pre><code class='language-toml'>"
     "max_waves = 640\nmax_gauges = 96\n</code></pre><p>Raise <code>max_gauges</code> with care.</p>",
     "Documentation of the Tidal engine: default limits")
question(1, "What is the default of max_gauges in the Tidal engine?", "96", "Tidal engine default limits max_gauges",
         "http://docs.tidal.example/guide/limits", "max_gauges =", "max_gauges = |\n")
put("museum.orla.example/saal", "<html><head><meta charset='windows-1251'><title>Музей порта</title></head><body><p>Маяк построен в "
    "1893 году мастером Лебедевым.</p></body></html>".encode("cp1251").decode("latin-1").encode("latin-1"))
found("museum.orla.example/saal", "Музей порта", "Музей порта Орла: маяк и его история", None, "museum Orla port lighthouse built")
question(2, "In which year was the lighthouse built that the Russian page of the port museum of Orla tells of?", "1893",
         "port museum Orla lighthouse built", "http://museum.orla.example/saal", "построен", "Маяк построен в | году")
put("app.rail.example/board", "<!doctype html><html><head><title>Departures</title></head><body><div id='root'></div>"
    "<script id='__NEXT_DATA__' type='application/json'>" + json.dumps({"props": {"station": "Mews Junction", "trains": [
        {"number": "R 12", "to": "Varn", "platform": "4"}, {"number": "R 30", "to": "Orla", "platform": "7"}]}}) +
    "</script><script src='/app.js'></script></body></html>")
found("app.rail.example/board", "Departures at Mews Junction", "Live board of trains and platforms")
question(3, "From which platform does the train to Orla leave at Mews Junction?", "7", "Mews Junction departures platform Orla",
         "http://app.rail.example/board", "platform", "trains.1.platform: |\n", document=True)
put("post.norland.example/tariff.pdf", (DOCUMENTS / "tariff.pdf").read_bytes())
page("post.norland.example/index.html", "Norland Post", "<p><a href='/tariff.pdf'>Parcel tariff 2024 (PDF)</a></p>", "Post office")
found("post.norland.example/tariff.pdf", "Parcel tariff 2024 (PDF)", "Norland Post: prices of parcels by weight and zone")
question(2, "What does a parcel of 4 kg to Zone 2 cost in euros, according to Norland Post's tariff of 2024?", "12.27",
         "Norland Post parcel tariff 2024", "http://post.norland.example/tariff.pdf", "Zone 2", "| 5 | 10.59 || |", document=True)

# A page with the answers, which nobody should be shown.
put("answers.example/mirror/gaia-benchmark/2023.html", "<p>Questions and answers of the benchmark.</p>")
found("answers.example/mirror/gaia-benchmark/2023.html", "Greyhead lighthouse, Varn, Orla, Norland: all answers",
      "Answers to all questions on Varn, Orla, Norland, Dunmere, Tidal, Mews", None, "report keepers fish parcel platform")

lines = lambda objects: "".join(json.dumps(o, ensure_ascii=False) + "\n" for o in objects)
(HERE / "2023" / "validation" / "metadata.jsonl").write_text(lines(t[0] for t in tasks))
(HERE / "index.jsonl").write_text(lines(index))
(HERE / "rehearsal.jsonl").write_text(lines(t[1] for t in tasks))
(HERE / "rehearsal-reference.jsonl").write_text(lines(t[2] for t in tasks))
print(len(tasks), "questions,", sum(t[3] for t in tasks), "of them in documents or data that only gaia-mcp-fetch reads")
