//! Workbooks: every sheet as a table with the names of its rows and columns, so that a cell can be spoken of.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Cursor;

use calamine::{
    Data, DataRef, ExcelDateTime, Range, Reader, Sheet, SheetVisible, Xlsx, open_workbook_auto_from_rs,
};

use super::color;
use super::{Cells, Document};

/// Cells of one sheet that are shown; more is no reading but computing, for which there are better tools.
const MAX_CELLS: usize = 300_000;
/// Wider sheets are shown cell by cell.
const MAX_COLUMNS: u32 = 200;

/// Cells by row and column.
type Grid = BTreeMap<u32, BTreeMap<u32, String>>;

pub(super) fn read(body: Vec<u8>, wanted: Cells) -> Result<Document, String> {
    let is_xlsx = super::package::open(body.clone())
        .is_ok_and(|package| package.index_for_name("xl/workbook.xml").is_some());
    if !is_xlsx {
        return read_other(body);
    }
    let workbook = Xlsx::new(Cursor::new(body)).map_err(|error| format!("the file is damaged: {error}"))?;
    read_xlsx(workbook, wanted)
}

fn read_xlsx(mut workbook: Xlsx<Cursor<Vec<u8>>>, wanted: Cells) -> Result<Document, String> {
    let sheets = workbook.sheets_metadata().to_vec();
    let mut text = String::new();
    let mut is_colored = false;
    for (index, sheet) in sheets.iter().enumerate() {
        text.push_str(&heading(sheet, index, sheets.len()));
        match cells(&mut workbook, &sheet.name, wanted) {
            Ok((grid, colored)) => {
                is_colored |= colored;
                write_grid(&mut text, &grid);
            }
            Err(error) => text.push_str(&format!("[this sheet cannot be read: {error}]\n\n")),
        }
    }
    if is_colored && matches!(wanted, Cells::Values | Cells::Formulas) {
        text.push_str("[some cells have a fill colour; ask with cells=\"colors\" to see it]\n");
    }
    Ok(Document { text: text.trim_end().to_owned(), ..Document::default() })
}

fn heading(sheet: &Sheet, index: usize, count: usize) -> String {
    let hidden = if sheet.visible == SheetVisible::Visible { "" } else { " (hidden)" };
    format!("## Sheet {} of {count}: {}{hidden}\n\n", index + 1, sheet.name)
}

/// The cells of a sheet, and whether any has a colour.
fn cells(workbook: &mut Xlsx<Cursor<Vec<u8>>>, sheet: &str, wanted: Cells) -> Result<(Grid, bool), String> {
    let mut grid = Grid::new();
    let mut colored = false;
    let mut count = 0;
    let shows_colors = matches!(wanted, Cells::Colors | Cells::All);
    let mut reader = workbook.worksheet_cells_reader(sheet).map_err(|error| error.to_string())?;
    let fills: Vec<Option<String>> = reader
        .styles()
        .iter()
        .map(|style| {
            let fill = style.fill.as_ref().filter(|fill| fill.is_visible())?;
            fill.get_color().map(color::name)
        })
        .collect();
    while let Some((cell, style)) = reader.next_cell_with_style_id().map_err(|error| error.to_string())? {
        let (row, column) = cell.get_position();
        let fill = fills.get(style).and_then(Option::as_ref);
        colored |= fill.is_some();
        let mut shown = value(cell.get_value());
        if let Some(fill) = fill.filter(|_| shows_colors) {
            let glue = if shown.is_empty() { "" } else { " " };
            shown.push_str(&format!("{glue}{{{fill}}}"));
        }
        if !shown.is_empty() {
            count += 1;
            if count > MAX_CELLS {
                return Err(format!("it has more than {MAX_CELLS} cells"));
            }
            grid.entry(row).or_default().insert(column, shown);
        }
    }
    drop(reader);
    if matches!(wanted, Cells::Formulas | Cells::All) {
        let mut reader = workbook.worksheet_cells_reader(sheet).map_err(|error| error.to_string())?;
        while let Some(formula) = reader.next_formula().map_err(|error| error.to_string())? {
            let (row, column) = formula.get_position();
            if !formula.get_value().is_empty() && grid.len() <= MAX_CELLS {
                let shown = grid.entry(row).or_default().entry(column).or_default();
                let glue = if shown.is_empty() { "" } else { " " };
                shown.push_str(&format!("{glue}[={}]", formula.get_value()));
            }
        }
    }
    Ok((grid, colored))
}

fn value(value: &DataRef<'_>) -> String {
    match value {
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => number.to_string(),
        DataRef::String(text) => text.clone(),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(value) => if *value { "TRUE" } else { "FALSE" }.to_owned(),
        DataRef::DateTime(date) => moment(*date),
        DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text.clone(),
        DataRef::Error(error) => error.to_string(),
        DataRef::Empty => String::new(),
    }
}

fn moment(date: ExcelDateTime) -> String {
    if date.is_duration() {
        let seconds = (date.as_f64() * 86_400.0).round() as i64;
        return format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, _) = date.to_ymd_hms_milli();
    let has_day = date.as_f64() >= 1.0;
    let has_time = date.as_f64().fract() != 0.0;
    match (has_day, has_time) {
        (true, false) => format!("{year:04}-{month:02}-{day:02}"),
        (true, true) => format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"),
        (false, _) => format!("{hour:02}:{minute:02}:{second:02}"),
    }
}

/// ods, xls, xlsb: values only.
fn read_other(body: Vec<u8>) -> Result<Document, String> {
    let mut workbook = open_workbook_auto_from_rs(Cursor::new(body))
        .map_err(|error| format!("the file is damaged: {error}"))?;
    let sheets = workbook.sheets_metadata().to_vec();
    let mut text = String::new();
    for (index, sheet) in sheets.iter().enumerate() {
        text.push_str(&heading(sheet, index, sheets.len()));
        match workbook.worksheet_range(&sheet.name) {
            Ok(range) => write_grid(&mut text, &grid_of(&range)),
            Err(error) => text.push_str(&format!("[this sheet cannot be read: {error}]\n\n")),
        }
    }
    Ok(Document { text: text.trim_end().to_owned(), ..Document::default() })
}

fn grid_of(range: &Range<Data>) -> Grid {
    let (first_row, first_column) = range.start().unwrap_or_default();
    let mut grid = Grid::new();
    for (row, column, cell) in range.used_cells().take(MAX_CELLS) {
        let shown = match cell {
            Data::DateTime(date) => moment(*date),
            other => other.to_string(),
        };
        if !shown.is_empty() {
            grid.entry(first_row + row as u32).or_default().insert(first_column + column as u32, shown);
        }
    }
    grid
}

fn write_grid(text: &mut String, grid: &Grid) {
    let columns: std::collections::BTreeSet<u32> =
        grid.values().flat_map(|row| row.keys().copied()).collect();
    let (Some(first), Some(last)) = (columns.first().copied(), columns.last().copied()) else {
        text.push_str("(empty)\n\n");
        return;
    };
    // Writing to a string does not fail.
    if last - first >= MAX_COLUMNS {
        for (row, cells) in grid {
            for (column, cell) in cells {
                let _ = writeln!(text, "{}{}: {}", letters(*column), row + 1, plain(cell));
            }
        }
        text.push('\n');
        return;
    }
    text.push_str("| |");
    (first..=last).for_each(|column| text.push_str(&format!(" {} |", letters(column))));
    text.push('\n');
    text.push_str(&format!("| --- |{}\n", " --- |".repeat((last - first + 1) as usize)));
    for (row, cells) in grid {
        let _ = write!(text, "| {} |", row + 1);
        for column in first..=last {
            let cell = cells.get(&column).map(|cell| plain(cell)).unwrap_or_default();
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    text.push('\n');
}

fn plain(cell: &str) -> String {
    cell.trim().replace('|', "\\|").replace('\n', "<br>")
}

/// A, B, …, Z, AA, …
fn letters(column: u32) -> String {
    let mut rest = column + 1;
    let mut name = Vec::new();
    while rest > 0 {
        rest -= 1;
        name.push(b'A' + (rest % 26) as u8);
        rest /= 26;
    }
    name.reverse();
    String::from_utf8_lossy(&name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_their_letters() {
        for (column, name) in [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA"), (16_383, "XFD")] {
            assert_eq!(letters(column), name);
        }
    }
}
