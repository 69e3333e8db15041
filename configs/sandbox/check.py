"""Opens each fixture with every tool that is meant for it, inside the image, and compares with the known answer.

`python3 check.py FIXTURES` prints a line for each; the exit code is 1 when one differs. ./check starts it.
"""

import io
import json
import pathlib
import re
import subprocess
import sys

FIXTURES = pathlib.Path(sys.argv[1])
WORK = pathlib.Path("/tmp")
# Seconds for one program. The slowest, text recognition, takes one or two.
PROGRAM_SECONDS = 120
CHECKS = []


def check(what, answer):
    """Registers a function that must return `answer`."""

    def register(function):
        CHECKS.append((what, answer, function))
        return function

    return register


def run(*command, stdin=None):
    """The standard output of a program that must succeed."""
    result = subprocess.run(command, input=stdin, capture_output=True, timeout=PROGRAM_SECONDS, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"`{command[0]}` ended with {result.returncode}: {result.stderr.decode(errors='replace')[-300:]}")
    return result.stdout.decode()


def fixture(name):
    return str(FIXTURES / name)


# Spreadsheets


@check("plots.xlsx   openpyxl, fills of the cells", "847, 14")
def plots_openpyxl():
    import openpyxl

    cells = [cell for row in openpyxl.load_workbook(fixture("plots.xlsx")).active.iter_rows() for cell in row]
    colour = {cell.coordinate: cell.fill.start_color.rgb for cell in cells if cell.fill.fill_type == "solid"}
    green = sum(cell.value for cell in cells if colour.get(cell.coordinate) == "FF92D050")
    last = cells[-1]
    edge = [cell for cell in cells if cell.row in (1, last.row) or cell.column in (1, last.column)]
    return f"{green}, {sum(colour.get(cell.coordinate) == 'FF5B9BD5' for cell in edge)}"


def most_grown(first, last):
    """The region whose last column grew most between two tables, each with a header."""
    before, after = ({row[0]: row[-1] for row in table[1:]} for table in (first, last))
    region = max(before, key=lambda name: after[name] - before[name])
    return f"{region}, {after[region] - before[region]:.0f}"


@check("sales.xlsx   openpyxl, cached values of formulas, a hidden sheet", ("East, 14692", "hidden"))
def sales_openpyxl():
    import openpyxl

    book = openpyxl.load_workbook(fixture("sales.xlsx"), data_only=True)
    return most_grown(*(list(book[year].values) for year in ("2021", "2023"))), book["notes"].sheet_state


@check("sales.xlsx   pandas with calamine", "East, 14692")
def sales_pandas():
    import pandas

    tables = pandas.read_excel(fixture("sales.xlsx"), sheet_name=["2021", "2023"], header=None, engine="calamine")
    return most_grown(*(table.values.tolist() for table in tables.values()))


@check("stations.csv pandas", "Birch, 12.23; 9 missing")
def stations_pandas():
    import pandas

    table = pandas.read_csv(fixture("stations.csv"))
    readings = pandas.to_numeric(table["temp_c"], errors="coerce")
    means = readings.groupby(table["station"]).mean()
    return f"{means.idxmax()}, {means.max():.2f}; {readings.isna().sum()} missing"


@check("stations.csv sqlite3", "Birch|12.23")
def stations_sqlite():
    query = "select station, round(avg(temp_c), 2) from s where temp_c glob '*[0-9]*' group by station order by 2 desc limit 1;"
    return run("sqlite3", ":memory:", f".import --csv {fixture('stations.csv')} s", query).strip()


# Documents


@check("minutes.docx python-docx, a table and the last paragraph", "30 April: Petra Novak's item goes to Owen Lloyd")
def minutes_docx():
    import docx

    document = docx.Document(fixture("minutes.docx"))
    due = next(row.cells[2].text for row in document.tables[0].rows if row.cells[1].text == "Petra Novak")
    return f"{due}: " + re.search("Petra .* Owen Lloyd", document.paragraphs[-1].text)[0]


@check("talk.pptx    python-pptx, slides that mention otters, and notes that do", (2, 1))
def talk_pptx():
    import pptx

    slides = pptx.Presentation(fixture("talk.pptx")).slides
    texts = [" ".join(shape.text_frame.text for shape in slide.shapes if shape.has_text_frame) for slide in slides]
    notes = [slide.notes_slide.notes_text_frame.text for slide in slides if slide.has_notes_slide]
    return sum("otter" in text.lower() for text in texts), sum("otter" in text.lower() for text in notes)


@check("talk.pptx    the picture in it, with pillow", ("PNG", (160, 90)))
def talk_picture():
    import pptx
    from PIL import Image

    shapes = [shape for slide in pptx.Presentation(fixture("talk.pptx")).slides for shape in slide.shapes]
    picture = Image.open(io.BytesIO(next(shape.image.blob for shape in shapes if hasattr(shape, "image"))))
    return picture.format, picture.size


# The row for up to 5 kg, and Zone 3 in it.
TARIFF_ROW = re.compile(r"^\s*5\s+[\d.]+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", re.MULTILINE)


@check("tariff.pdf   pdftotext, a table", "14.11")
def tariff_pdftotext():
    return TARIFF_ROW.search(run("pdftotext", "-layout", fixture("tariff.pdf"), "-"))[1]


@check("tariff.pdf   pypdf, a table", "14.11")
def tariff_pypdf():
    import pypdf

    return TARIFF_ROW.search(pypdf.PdfReader(fixture("tariff.pdf")).pages[0].extract_text(extraction_mode="layout"))[1]


@check("tariff.pdf   pdfplumber, a table", "14.11")
def tariff_pdfplumber():
    import pdfplumber

    with pdfplumber.open(fixture("tariff.pdf")) as document:
        rows = {row[0]: row for row in document.pages[0].extract_table()}
    return rows["5"][rows["Up to (kg)"].index("Zone 3")]


@check("tariff.pdf   qpdf, number of pages", 2)
def tariff_qpdf():
    return int(run("qpdf", "--show-npages", fixture("tariff.pdf")))


# Pictures


@check("tariff.pdf   pdftoppm and tesseract, the scanned page", "Zone 3 is EUR 2.35")
def tariff_scan():
    run("pdftoppm", "-r", "200", "-f", "2", "-l", "2", "-png", "-singlefile", fixture("tariff.pdf"), str(WORK / "scan"))
    words = run("tesseract", str(WORK / "scan.png"), "stdout").split()
    return re.search(r"Zone 3 is EUR [\d.]*\d", " ".join(words))[0]


@check("sign.png     pytesseract and pillow", ("13:45", "40 minutes"))
def sign_pytesseract():
    import pytesseract
    from PIL import Image

    text = pytesseract.image_to_string(Image.open(fixture("sign.png")))
    return re.search(r"Saturday.*- *(\d\d:\d\d)", text)[1], re.search(r"Last entry (\d+ minutes)", text)[1]


def blue_bars(pixels):
    """The sum of the blue bars in an array of red, green and blue; 10 pixels are one unit of the chart."""
    import numpy

    red, green, blue = (pixels[:, :, channel].astype(int) for channel in range(3))
    heights = ((blue > red + 60) & (blue > green + 40)).sum(axis=0)
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate([[0], (heights > 0).astype(int), [0]])))
    return sum(round(heights[left:right].max() / 10) for left, right in zip(edges[::2], edges[1::2]))


@check("chart.png    pillow and numpy, the blue bars", 72)
def chart_pillow():
    import numpy
    from PIL import Image

    return blue_bars(numpy.asarray(Image.open(fixture("chart.png")).convert("RGB")))


@check("chart.png    opencv, the blue bars", 72)
def chart_opencv():
    import cv2

    return blue_bars(cv2.cvtColor(cv2.imread(fixture("chart.png")), cv2.COLOR_BGR2RGB))


@check("chart.png    exiftool and file", ("700x460", "700 x 460"))
def chart_metadata():
    size = run("exiftool", "-s3", "-ImageSize", fixture("chart.png")).strip()
    return size, re.search(r"\d+ x \d+", run("file", fixture("chart.png")))[0]


@check("matplotlib   draws a chart without a display, with letters", (640, 480))
def matplotlib_draws():
    from matplotlib import pyplot
    from PIL import Image

    pyplot.bar(["Mon", "Tue"], [14, 22])
    pyplot.savefig(WORK / "plot.png", dpi=100)
    return Image.open(WORK / "plot.png").size


# Sound and video


def seconds(path):
    return f"{float(run('ffprobe', '-v', 'error', '-show_entries', 'format=duration', '-of', 'csv=p=0', str(path))):.1f}"


def converted(name, to, *options):
    """The path of a fixture after a conversion, which decodes all of it."""
    path = WORK / to
    run("ffmpeg", "-nostdin", "-v", "error", "-xerror", "-y", *options, "-i", fixture(name), str(path))
    return path


@check("voicemail.mp3 ffmpeg, decoded to wav", "13.8")
def voicemail_ffmpeg():
    return seconds(converted("voicemail.mp3", "voicemail.wav"))


@check("voicemail.mp3 sox, decoded", "13.8")
def voicemail_sox():
    run("sox", fixture("voicemail.mp3"), str(WORK / "sox.wav"))
    return seconds(WORK / "sox.wav")


@check("platform.wav ffmpeg, to m4a", "13.7")
def platform_ffmpeg():
    return seconds(converted("platform.wav", "platform.m4a"))


@check("platform.wav wave and scipy", (22050, 1, "13.7"))
def platform_wave():
    import wave

    from scipy.io import wavfile

    with wave.open(fixture("platform.wav")) as sound:
        rate, channels = sound.getframerate(), sound.getnchannels()
    _, samples = wavfile.read(fixture("platform.wav"))
    return rate, channels, f"{len(samples) / rate:.1f}"


@check("chart.png    ffmpeg, to a mov and a frame of it", ("2.0", 72))
def chart_video():
    import cv2

    video = converted("chart.png", "chart.mov", "-loop", "1", "-t", "2")
    run("ffmpeg", "-nostdin", "-v", "error", "-y", "-ss", "1", "-i", str(video), "-frames:v", "1", str(WORK / "frame.png"))
    return seconds(video), blue_bars(cv2.cvtColor(cv2.imread(str(WORK / "frame.png")), cv2.COLOR_BGR2RGB))


# Structured text, archives


def bill(loans, prices):
    import collections
    import csv

    owed = collections.Counter()
    for loan in csv.DictReader(io.StringIO(loans)):
        owed[loan["person"]] += int(loan["days"]) * json.loads(prices)[loan["tool"]]
    [(name, cents)] = owed.most_common(1)
    return f"{name}, {cents / 100:.2f}"


for program in (["unzip", "-p"], ["7z", "x", "-so"], ["bsdtar", "-xOf"]):

    @check(f"bundle.zip   {program[0]}", "Jonas, 13.60")
    def bundle(program=program):
        return bill(*(run(*program, fixture("bundle.zip"), f"data/{name}") for name in ("loans.csv", "prices.json")))


@check("people.jsonld jq", 2.25)
def people_jq():
    people = '[."@graph"[] | select(."@type" == "Person")]'
    articles = '[.workExample[]? | select(."@type" == "ScholarlyArticle")] | length'
    return float(run("jq", f"{people} | map({articles}) | add / length", fixture("people.jsonld")))


NOVELS = "Salt, North Wind, Blue Lantern"


@check("catalog.xml  lxml", NOVELS)
def catalog_lxml():
    from lxml import etree

    names = {"c": "urn:example:catalog"}
    books = etree.parse(fixture("catalog.xml")).xpath("//c:book[@kind='novel']", namespaces=names)
    books.sort(key=lambda book: -int(book.findtext("c:year", namespaces=names)))
    return ", ".join(book.findtext("c:title", namespaces=names) for book in books)


@check("catalog.xml  beautifulsoup4", NOVELS)
def catalog_soup():
    import bs4

    books = bs4.BeautifulSoup(pathlib.Path(fixture("catalog.xml")).read_bytes(), "xml").find_all("book", kind="novel")
    return ", ".join(book.title.text for book in sorted(books, key=lambda book: -int(book.year.text)))


# Molecules, chess, mathematics


@check("peptide.pdb  biopython, distance of the first two atoms", "1.474")
def peptide_biopython():
    from Bio.PDB import PDBParser

    first, second, *_ = PDBParser(QUIET=True).get_structure("peptide", fixture("peptide.pdb")).get_atoms()
    return f"{first - second:.3f}"


@check("chess        stockfish finds mate in one", "a1a8")
def chess_stockfish():
    import chess
    import chess.engine

    board = chess.Board("6k1/5ppp/8/8/8/8/8/R3K3 w - - 0 1")
    with chess.engine.SimpleEngine.popen_uci("stockfish") as engine:
        return engine.play(board, chess.engine.Limit(depth=5)).move.uci()


@check("sympy, networkx", ("2", 3))
def mathematics():
    import networkx
    import sympy

    return str(sympy.integrate("sin(x)", ("x", 0, "pi"))), networkx.shortest_path_length(networkx.path_graph(4), 0, 3)


@check("the shell's tools", [])
def shell():
    tools = "awk bc bzip2 curl diff file git less patch ps pip python python3 rg sed tar unzip wget xz zip".split()
    return [tool for tool in tools if subprocess.run(["which", tool], capture_output=True, check=False).returncode != 0]


def main():
    wrong = 0
    for what, answer, function in CHECKS:
        try:
            found = function()
            line = f"ok     {what}: {found}" if found == answer else f"WRONG  {what}: {found!r}, expected {answer!r}"
        except Exception as error:  # noqa: BLE001: whatever a tool throws is its result
            line = f"WRONG  {what}: {type(error).__name__}: {error}"
        wrong += not line.startswith("ok")
        print(line, flush=True)
    print(f"{len(CHECKS) - wrong} passed, {wrong} failed", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
