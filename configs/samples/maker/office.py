"""Attachments that are office documents: xlsx, docx, pptx, pdf. As in plain.py: each function writes a file and returns the answer."""
import datetime, io, random, re, zipfile

DAY = datetime.datetime(2024, 1, 1)


def fixed_zip(path):
    """Write an office file again with fixed dates, so that every run gives the same bytes."""
    with zipfile.ZipFile(path) as z:
        parts = [(n, z.read(n)) for n in z.namelist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for n, b in parts:
            if n == "docProps/core.xml":
                b = re.sub(rb"(<dcterms:(created|modified)[^>]*>)[^<]*", rb"\g<1>2024-01-01T00:00:00Z", b)
            info = zipfile.ZipInfo(n, (2024, 1, 1, 0, 0, 0)); info.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(info, b)


# --- xlsx -------------------------------------------------------------------------------------------
def plots(path, wanted="green rent"):
    from openpyxl import Workbook
    from openpyxl.styles import PatternFill
    rnd = random.Random(7)
    wb = Workbook(); ws = wb.active; ws.title = "Plots"
    fills = {"green": "FF92D050", "blue": "FF5B9BD5", "yellow": "FFFFFF00"}
    total = edge = 0
    for r in range(1, 8):
        for c in range(1, 10):
            colour = rnd.choice(["green", "blue", "yellow", "blue", None]); rent = rnd.randrange(40, 95)
            cell = ws.cell(r, c, rent)
            if colour:
                cell.fill = PatternFill("solid", start_color=fills[colour])
            total += rent if colour == "green" else 0
            edge += rent if colour == "blue" and (r in (1, 7) or c in (1, 9)) else 0
    wb.properties.created = wb.properties.modified = DAY
    wb.save(path); fixed_zip(path)
    return total if wanted == "green rent" else edge


def plots_edge(path):
    return plots(path, "blue rent on the edge")


def sales(path):
    import xlsxwriter
    rnd = random.Random(12)
    wb = xlsxwriter.Workbook(str(path)); wb.set_properties({"created": DAY})
    best = {}
    for year in (2021, 2022, 2023):
        ws = wb.add_worksheet(str(year)); ws.write_row(0, 0, ["Region", "Q1", "Q2", "Q3", "Q4", "Returns", "Net"])
        for i, region in enumerate(["North", "East", "South", "West"], 1):
            q = [rnd.randrange(1000, 9000) for _ in range(4)]; ret = rnd.randrange(100, 900); net = sum(q) - ret
            ws.write_row(i, 0, [region, *q, ret]); ws.write_formula(i, 6, f"=SUM(B{i+1}:E{i+1})-F{i+1}", None, net)
            best[(region, year)] = net
    hid = wb.add_worksheet("notes"); hid.write(0, 0, "Figures of 2022 are in thousands of crowns, all others in thousands of euros."); hid.hide()
    wb.close(); fixed_zip(path)
    growth = {r: best[(r, 2023)] - best[(r, 2021)] for r in ("North", "East", "South", "West")}
    return f"{max(growth, key=growth.get)}, {max(growth.values())}"


def rota(path):
    """Shifts are cell colours, explained on a second sheet, paid by a third."""
    from openpyxl import Workbook
    from openpyxl.styles import PatternFill
    rnd = random.Random(17)
    shifts = {"Early": ("FFFFD966", 7.5), "Late": ("FF9DC3E6", 8), "Night": ("FFB4A7D6", 9.5)}
    wages = {"Farid": 21.4, "Greta": 23.4, "Hugo": 19.8, "Imke": 22.6, "Jorge": 20.9}
    wb = Workbook(); ws = wb.active; ws.title = "Rota"
    ws.append(["", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
    pay = {}
    for r, name in enumerate(wages, 2):
        ws.cell(r, 1, name); pay[name] = 0
        for c in range(2, 9):
            shift = rnd.choice([None, *shifts])
            if shift:
                ws.cell(r, c).fill = PatternFill("solid", start_color=shifts[shift][0])
                # Sunday pays half as much again.
                pay[name] += wages[name] * shifts[shift][1] * (1.5 if c == 8 else 1)
    ws.cell(4, 3, "swapped, see office")
    legend = wb.create_sheet("Legend"); legend.append(["Colour", "Shift", "Hours"])
    for r, (shift, (colour, hours)) in enumerate(shifts.items(), 2):
        legend.cell(r, 1).fill = PatternFill("solid", start_color=colour); legend.cell(r, 2, shift); legend.cell(r, 3, hours)
    legend.cell(6, 1, "Sunday is paid at one and a half times the wage.")
    sheet = wb.create_sheet("Wages"); sheet.append(["Name", "Euros an hour"])
    for row in wages.items():
        sheet.append(row)
    wb.properties.created = wb.properties.modified = DAY
    wb.save(path); fixed_zip(path)
    who = max(pay, key=pay.get)
    return f"{who}, {pay[who]:.2f}"


# --- docx -------------------------------------------------------------------------------------------
def minutes(path):
    from docx import Document
    d = Document(); d.core_properties.created = d.core_properties.modified = DAY; d.core_properties.author = "gaia"
    d.add_heading("Minutes of the harbour committee", 1)
    d.add_paragraph("Present: Ilse Brandt (chair), Tomas Reyes, Wanjiru Kamau, Petra Novak. Excused: Owen Lloyd.")
    d.add_paragraph("The committee agreed to repaint the east pier. Owen Lloyd had sent a note asking for a quieter ferry horn; it was put off.")
    rows = [("Get three quotes for paint", "Tomas Reyes", "14 May"), ("Inform the fishing club", "Wanjiru Kamau", "2 May"),
            ("Check the insurance", "Petra Novak", "30 April"), ("Order warning signs", "Tomas Reyes", "5 May")]
    t = d.add_table(rows=1, cols=3); t.rows[0].cells[0].text, t.rows[0].cells[1].text, t.rows[0].cells[2].text = "Action", "Who", "Due"
    for r in rows:
        c = t.add_row().cells
        for i, v in enumerate(r):
            c[i].text = v
    d.add_paragraph("Correction at the end of the meeting: Petra Novak's item goes to Owen Lloyd, same due date.")
    d.save(path); fixed_zip(path)
    return "Owen Lloyd"


def agreement(path):
    """Tracked changes: what plain text extractors show is neither the old nor the new agreement."""
    from docx import Document
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn
    d = Document(); d.core_properties.created = d.core_properties.modified = DAY; d.core_properties.author = "gaia"
    d.add_heading("Agreement on the repair of the boat shed", 1)
    d.add_paragraph("The owner pays the carpenter in instalments.")
    total = 0

    def change(paragraph, kind, text):
        mark = OxmlElement(f"w:{kind}"); mark.set(qn("w:id"), str(len(text))); mark.set(qn("w:author"), "N. Berg"); mark.set(qn("w:date"), "2024-02-01T00:00:00Z")
        run = OxmlElement("w:r"); piece = OxmlElement("w:delText" if kind == "del" else "w:t"); piece.text = text
        piece.set(qn("xml:space"), "preserve"); run.append(piece); mark.append(run); paragraph._p.append(mark)
    for name, old, new in (("first", 4200, 4650), ("second", 3900, None), ("third", 5125, 5125), ("fourth", None, 2380), ("last", 6010, 6095)):
        p = d.add_paragraph()
        if old == new:
            p.add_run(f"The {name} instalment is {new:,} euros.")
        elif new is None:
            change(p, "del", f"The {name} instalment is {old:,} euros.")
        elif old is None:
            change(p, "ins", f"The {name} instalment is {new:,} euros.")
        else:
            p.add_run(f"The {name} instalment is "); change(p, "del", f"{old:,}"); change(p, "ins", f"{new:,}"); p.add_run(" euros.")
        total += new or 0
    d.save(path); fixed_zip(path)
    return total


# --- pptx -------------------------------------------------------------------------------------------
def talk(path):
    from pptx import Presentation
    from pptx.util import Inches
    from PIL import Image, ImageDraw
    p = Presentation(); p.core_properties.created = p.core_properties.modified = DAY
    slides = [("River animals", ["A talk for beginners"], ""), ("Otters", ["Eat fish and crabs", "Live in holts"], "Mention the dam project."),
              ("Beavers", ["Build dams", "Eat bark"], ""), ("Crayfish", ["Hide under stones", "Are eaten by otters"], ""),
              ("Herons", ["Hunt standing still"], "Say here that herons and otters avoid each other."), ("Thank you", ["Questions?"], "")]
    for title, points, notes in slides:
        s = p.slides.add_slide(p.slide_layouts[1]); s.shapes.title.text = title; s.placeholders[1].text = "\n".join(points)
        if notes:
            s.notes_slide.notes_text_frame.text = notes
    im = Image.new("RGB", (160, 90), "white"); ImageDraw.Draw(im).ellipse((20, 10, 140, 80), fill=(90, 120, 60)); b = io.BytesIO(); im.save(b, "PNG"); b.seek(0)
    p.slides[3].shapes.add_picture(b, Inches(6), Inches(5))
    p.save(path); fixed_zip(path)
    return ", ".join(title for title, points, _ in slides if "otter" in (title + " ".join(points)).lower())


# --- pdf --------------------------------------------------------------------------------------------
def scan_image(lines, size=(1240, 700), seed=3, angle=0.6):
    from PIL import Image, ImageDraw, ImageFont, ImageFilter
    im = Image.new("L", size, 250); d = ImageDraw.Draw(im); f = ImageFont.load_default(40)
    for i, t in enumerate(lines):
        d.text((90, 70 + 78 * i), t, fill=25, font=f)
    im = im.rotate(angle, fillcolor=250, resample=Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(0.7))
    rnd = random.Random(seed); px = im.load()
    for _ in range(2500):
        px[rnd.randrange(size[0]), rnd.randrange(size[1])] = rnd.choice([60, 180, 210])
    return im


def tariff(path):
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.lib import colors
    from reportlab.platypus import Image as Picture, PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle
    st = getSampleStyleSheet(); rnd = random.Random(5)
    steps = [0.5, 1, 2, 5, 10]; price = [[round(3.2 + s * 1.1 + z * 1.75 + rnd.random() * 0.3, 2) for z in range(1, 5)] for s in steps]
    head = ["Up to (kg)", "Zone 1", "Zone 2", "Zone 3", "Zone 4"]
    tab = Table([head] + [[str(s)] + [f"{x:.2f}" for x in row] for s, row in zip(steps, price)], style=TableStyle([
        ("GRID", (0, 0), (-1, -1), 0.5, colors.black), ("BACKGROUND", (0, 0), (-1, 0), colors.lightgrey)]))
    im = scan_image(["CORRECTION SLIP  (please keep with the tariff)", "From 1 March the surcharge for", "parcels over 1 kg to Zone 3 is",
                     "EUR 2.35 per parcel.", "Ref. CS-7741"])
    b = io.BytesIO(); im.save(b, "JPEG", quality=60); b.seek(0)
    doc = SimpleDocTemplate(str(path), pagesize=A4, invariant=1, title="Parcel tariff")
    doc.build([Paragraph("Parcel tariff 2024", st["Title"]), Paragraph("Prices in euros. A parcel pays the price of the first row whose weight it does not exceed.", st["Normal"]),
               Spacer(1, 12), tab, PageBreak(), Picture(b, 480, 271)])
    return f"{price[steps.index(5)][2]:.2f}"


def berths(path):
    """Three pages of arrivals and departures, each ship's two lines on different pages."""
    from reportlab.pdfgen.canvas import Canvas
    rnd = random.Random(25)
    ships = "Aurora Bittern Corvus Dunlin Egret Fulmar Godwit Halcyon Isolde Jackdaw Kestrel Lapwing".split()
    begin, lines, long_stays = datetime.datetime(2024, 6, 1), [], []
    for ship in ships:
        came = begin + datetime.timedelta(minutes=rnd.randrange(0, 24000))
        stay = rnd.choice([rnd.randrange(600, 5400), rnd.randrange(6300, 12000)])
        lines += [(came, f"arrived {ship}"), (came + datetime.timedelta(minutes=stay), f"departed {ship}")]
        if stay > 100 * 60:
            long_stays.append(ship)
    assert 3 <= len(long_stays) <= 6, long_stays
    lines.sort()
    c = Canvas(str(path), invariant=1, pageCompression=1); c.setTitle("Harbour log")
    for page in range(3):
        c.setFont("Helvetica-Bold", 14); c.drawString(60, 780, f"Harbour log, page {page + 1}"); c.setFont("Helvetica", 11)
        for i, (when, text) in enumerate(lines[page * 8:page * 8 + 8]):
            c.drawString(60, 740 - 22 * i, when.strftime("%d %B %Y %H:%M")); c.drawString(230, 740 - 22 * i, text)
        c.showPage()
    c.save()
    return ", ".join(sorted(long_stays))
