#!/usr/bin/env python3
"""Make the sample set: 2023/validation/ and rehearsal.jsonl beside this file. Nobody needs to run this to use the set.

Needs  pip install openpyxl==3.1.5 xlsxwriter==3.3.1 python-docx==1.2.0 python-pptx==1.0.2 reportlab==5.1.0 pillow==13.0.0 lameenc==1.9.0 pyarrow==26.0.1
Run    python3 make_samples.py      (Python 3.11; two runs with these versions give the same bytes)
Answers are computed here from the data that goes into the files; the rehearsal finds them again from the files alone.
"""
import json, pathlib, uuid

from maker import media, office, plain
from maker.rehearsal import TURNS

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "2023" / "validation"

# name, level, extension, maker, tools, question
SAMPLES = [
    ("plots-green", 1, "xlsx", office.plots, "Spreadsheet reader that shows cell colours",
     "The attached spreadsheet is a map of garden plots: each cell is one plot and holds its yearly rent in euros. Plots of the Green Club have a green background. What is the total yearly rent, in euros, of the Green Club's plots? Give only the number."),
    ("stations", 1, "csv", plain.stations, "Calculator",
     "Leaving out missing readings, which station in the attached file has the highest mean temperature, and what is that mean rounded to two decimals? Answer as: station, mean"),
    ("minutes", 1, "docx", office.minutes, "Word processor file reader",
     "According to the attached minutes, who in the end must finish the action that is due first? Give the full name."),
    ("people", 1, "jsonld", plain.people, "Text file reader",
     "What is the mean number of scholarly articles per person in the attached file, counting persons who have none?"),
    ("catalog", 1, "xml", plain.catalog, "Text file reader",
     "List the titles of all novels in the attached catalogue, from the newest to the oldest, separated by commas."),
    ("notes", 1, "txt", plain.notes, "Text file reader",
     "Read the first letters of lines 2 to 5 of the attached file in order. Which word do they spell?"),
    ("puzzle", 1, "py", plain.puzzle, "Python",
     "What is the final numeric output of the attached Python code?"),
    ("chart", 1, "png", media.chart, "Image recognition",
     "In the attached bar chart, what is the sum of the values of the blue bars?"),
    ("fridays", 1, None, plain.fridays, "Calendar or Python",
     "How often did the 13th day of a month fall on a Friday from 1 January 1901 to 31 December 2000 in the Gregorian calendar? Give only the number."),
    ("caesar", 1, None, plain.caesar, "None",
     f"In the following English sentence every letter was replaced by the letter a fixed number of places further on in the alphabet, going on from z to a: \"{plain.shifted()}\". What are the last two words of the original sentence?"),
    ("sales", 2, "xlsx", office.sales, "Spreadsheet reader",
     "Using the attached workbook, which region's net figure (all four quarters less returns) grew most from 2021 to 2023, and by how much? Answer as: region, amount"),
    ("plots-edge", 2, "xlsx", office.plots_edge, "Spreadsheet reader that shows cell colours",
     "In the attached map of garden plots every cell holds the yearly rent of one plot in euros. What is the total rent of those plots with a blue background that lie on the outer edge of the map? Give only the number."),
    ("talk", 2, "pptx", office.talk, "Presentation reader",
     "Which slides of the attached presentation mention otters on the slide itself, not counting the speaker notes? Give their titles in the order of the slides, separated by commas."),
    ("tariff", 2, "pdf", office.tariff, "PDF reader",
     "According to the table in the attached tariff, what does a parcel of 2.4 kg to Zone 3 cost in euros, without any surcharge? Give the number with two decimals."),
    ("bundle", 2, "zip", plain.bundle, "Archive reader, calculator",
     "The attached archive has a list of tool loans and the daily fees in cents. Who has the highest bill, and how much is it in euros? Answer as: name, amount with two decimals"),
    ("peptide", 2, "pdb", plain.peptide, "Python",
     "In the attached PDB file, what is the distance in angstroms between the alpha carbons of the first and the second residue? Round to three decimals."),
    ("morse", 2, "wav", media.morse, "Audio analysis",
     "The attached recording is one word in Morse code. Which word is it?"),
    ("chapters", 2, "mp3", media.chapters, "Reader of ID3 tags",
     "The attached sound file is divided into chapters. Which chapter is the longest, and how many seconds long is it? Answer as: title, seconds"),
    ("photo", 2, "jpg", media.photo, "Reader of EXIF data",
     "According to the data stored in the attached photograph, on which day of the week was it taken, and at what altitude in metres? Answer as: weekday, altitude"),
    ("pump", 2, "txt", plain.pump_log, "Python",
     "The attached log of a pumping station has times with different UTC offsets. What is the longest time that the pump ran without being stopped? Answer as HH:MM:SS"),
    ("grid", 2, "py", plain.grid, "Python",
     "The attached Python program is meant to print the number of shortest ways through a grid of 9 by 7 blocks of streets from one corner to the opposite one, but its outer loop ends one round too early. What does it print once that is corrected?"),
    ("agreement", 2, "docx", office.agreement, "Word processor file reader that knows tracked changes",
     "In the attached agreement, once all tracked changes are accepted, what is the sum of all instalments in euros? Give only the number."),
    ("seats", 2, None, plain.seats, "None",
     "Ana, Bo, Cleo, Dag, Edit and Finn sit in a row of six chairs, numbered from 1 on the left to 6 on the right. Ana sits at neither end. Cleo sits directly to the right of Bo. Dag sits somewhere to the left of Ana. Edit sits next to Dag but not next to Bo. Finn sits two chairs to the left of Edit. Who sits where? Give the names from chair 1 to chair 6, separated by commas."),
    ("orders", 3, "zip", plain.orders, "Archive reader, Python",
     "The attached archive holds the orders of two branches and the exchange rates. What is the total in euros of all orders that were not cancelled? Round only the total, to two decimals."),
    ("rota", 3, "xlsx", office.rota, "Spreadsheet reader that shows cell colours",
     "The attached workbook shows who worked which shift in a week, how long the shifts are, and what the people are paid. Who earned most in that week, and how many euros? Answer as: name, amount with two decimals"),
    ("discs", 3, "png", media.discs, "Image recognition",
     "The attached picture shows discs and squares in orange, green and purple. Count only the discs. List the three colours from the one with the most discs to the one with the fewest, separated by commas."),
    ("berths", 3, "pdf", office.berths, "PDF reader, Python",
     "According to the attached harbour log, which ships stayed for more than 100 hours? Give their names in alphabetical order, separated by commas."),
    ("network", 3, "json", plain.network, "Python",
     "The attached file describes a tram network: its lines run in both directions, `minutes` are the times between neighbouring stops, and each change of line costs the given time. Which stops does the fastest journey from Lighthouse to Observatory pass? Give all of them in order, both ends included, separated by commas."),
    ("ballots", 3, "csv", plain.ballots, "Python",
     "The attached file holds the ballots of an election, each ranking up to five candidates. It is decided by instant-runoff voting: until somebody has more than half of the ballots that still count, the candidate with the fewest is struck out and each ballot goes to its next candidate who is left. Who wins?"),
    ("tilings", 3, None, plain.tilings, "Python",
     "In how many ways can a board of 6 by 8 squares be covered completely by 24 dominoes of 1 by 2 squares, when coverings that differ by a turn or a reflection count as different? Give only the number."),
]


def task_id(name):
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "gaia-sample:" + name))


def records():
    for name, level, extension, maker, tools, question in SAMPLES:
        file_name = f"{task_id(name)}.{extension}" if extension else ""
        answer = str(maker(OUT / file_name if extension else None))
        yield name, {"task_id": task_id(name), "Question": question, "Level": level, "Final answer": answer, "file_name": file_name,
                     "file_path": f"2023/validation/{file_name}" if file_name else "",
                     "Annotator Metadata": {"Steps": "", "Number of steps": "", "How long did this take?": "", "Tools": tools, "Number of tools": "1"}}


def write_parquet(path, rows):
    import pyarrow as pa
    import pyarrow.parquet as pq
    text = pa.string()
    notes = pa.struct([(k, text) for k in ("Steps", "Number of steps", "How long did this take?", "Tools", "Number of tools")])
    schema = pa.schema([("task_id", text), ("Question", text), ("Level", text), ("Final answer", text), ("file_name", text), ("file_path", text), ("Annotator Metadata", notes)])
    pq.write_table(pa.Table.from_pylist([{**r, "Level": str(r["Level"])} for r in rows], schema), path, compression="snappy")


def match(question):
    """Shortest beginning, of at least 40 characters and ending with a word, that no other question holds."""
    others = [s[-1] for s in SAMPLES if s[-1] != question]
    for end in range(min(40, len(question)), len(question) + 1):
        if (end == len(question) or question[end] == " ") and not any(question[:end] in other for other in others):
            return question[:end]
    raise ValueError(question)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    named = list(records())
    rows = [r for _, r in named]
    with open(OUT / "metadata.jsonl", "w", encoding="utf-8") as f:
        for r in rows:
            # The old layout had no file_path in the file and the level as a number.
            f.write(json.dumps({k: v for k, v in r.items() if k != "file_path"}, ensure_ascii=False) + "\n")
    write_parquet(OUT / "metadata.parquet", rows)
    for level in (1, 2, 3):
        write_parquet(OUT / f"metadata.level{level}.parquet", [r for r in rows if r["Level"] == level])
    with open(HERE / "rehearsal.jsonl", "w", encoding="utf-8") as f:
        for name, r in named:
            turns = [*TURNS[name], {"calls": [{"tool": "submit", "arguments": {"answer": "${answer}"}}]}]
            f.write(json.dumps({"task_id": r["task_id"], "match": match(r["Question"]), "turns": turns}, ensure_ascii=False) + "\n")
    assert TURNS.keys() == {name for name, _ in named}
    for name, r in named:
        print(f"{name:12s} L{r['Level']} {r['Final answer']}")


if __name__ == "__main__":
    main()
