//! Tables: which are data, and how they look in Markdown.

use std::collections::HashSet;
use std::fmt::Write;

use html5ever::local_name;

use super::dom::{Dom, Into, NodeId, Step};
use super::select::Selection;

/// A cell that spans more is broken or malicious.
const MAX_COLUMN_SPAN: usize = 200;
/// As HTML itself allows.
const MAX_ROW_SPAN: usize = 2_000;
/// Cells of one table once spans are filled in.
const MAX_CELLS: usize = 400_000;

/// A table that is being read.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<Cell>>,
    /// Before the table.
    pub(super) caption: String,
}

#[derive(Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) is_heading: bool,
}

impl Table {
    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn add(&mut self, cell: Cell) {
        if self.rows.is_empty() {
            self.begin_row();
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    /// One line for each row. A cell that spans rows is repeated in each of them, so that each row is whole by itself;
    /// of one that spans columns, a heading is repeated and a value stands in the first.
    pub(super) fn lines(self) -> Vec<String> {
        let mut grid: Vec<Vec<Option<String>>> = Vec::new();
        let mut cells = 0;
        let height = self.rows.len();
        let first_is_heading = self.rows.first().is_some_and(|row| row.iter().all(|cell| cell.is_heading));
        for (index, row) in self.rows.into_iter().enumerate() {
            let mut column = 0;
            for cell in row {
                while slot(&mut grid, index, column).is_some() {
                    column += 1;
                }
                let columns = cell.columns.clamp(1, MAX_COLUMN_SPAN);
                let rows = cell.rows.clamp(1, MAX_ROW_SPAN).min(height - index);
                cells += columns * rows;
                if cells > MAX_CELLS {
                    return written(grid, first_is_heading);
                }
                for below in 0..rows {
                    for beside in 0..columns {
                        let is_shown = beside == 0 || cell.is_heading;
                        let text = if is_shown { cell.text.clone() } else { String::new() };
                        *slot(&mut grid, index + below, column + beside) = Some(text);
                    }
                }
                column += columns;
            }
        }
        written(grid, first_is_heading)
    }
}

fn slot(grid: &mut Vec<Vec<Option<String>>>, row: usize, column: usize) -> &mut Option<String> {
    if grid.len() <= row {
        grid.resize_with(row + 1, Vec::new);
    }
    let cells = &mut grid[row];
    if cells.len() <= column {
        cells.resize(column + 1, None);
    }
    &mut cells[column]
}

fn written(mut grid: Vec<Vec<Option<String>>>, first_is_heading: bool) -> Vec<String> {
    grid.retain(|row| row.iter().flatten().any(|text| !text.is_empty()));
    let width = grid.iter().map(Vec::len).max().unwrap_or_default();
    // A column of icons.
    let used: Vec<bool> = (0..width)
        .map(|column| {
            grid.iter().any(|row| {
                row.get(column).is_some_and(|text| text.as_ref().is_some_and(|text| !text.is_empty()))
            })
        })
        .collect();
    let columns: Vec<usize> = (0..width).filter(|column| used[*column]).collect();
    let mut lines = Vec::with_capacity(grid.len() + 2);
    let rule = format!("|{}", " --- |".repeat(columns.len()));
    // Markdown wants a heading; a table without one gets an empty one.
    if !first_is_heading && !grid.is_empty() {
        lines.push(format!("|{}", "  |".repeat(columns.len())));
        lines.push(rule.clone());
    }
    for (index, row) in grid.iter().enumerate() {
        let mut line = String::from("|");
        for column in &columns {
            let text = row.get(*column).and_then(Option::as_deref).unwrap_or_default();
            // Writing to a string does not fail.
            let _ = write!(line, " {text} |");
        }
        lines.push(line);
        if index == 0 && first_is_heading {
            lines.push(rule.clone());
        }
    }
    lines
}

/// The tables that hold data: several columns, and neither tables nor sections of a page in their cells. Others are
/// there for the layout, and their cells are read one after the other.
pub(super) fn data_tables(dom: &Dom, selection: &Selection) -> HashSet<NodeId> {
    struct Open {
        id: NodeId,
        is_layout: bool,
        cells_in_row: u32,
        widest: u32,
    }
    let mut open: Vec<Open> = Vec::new();
    let mut data = HashSet::new();
    dom.walk(selection.root, |step| match step {
        Step::Enter(id) if selection.skips(id) => Into::Skip,
        Step::Enter(id) => {
            let Some(name) = dom.name(id) else { return Into::Children };
            match *name {
                local_name!("table") => {
                    open.iter_mut().for_each(|table| table.is_layout = true);
                    open.push(Open { id, is_layout: false, cells_in_row: 0, widest: 0 });
                }
                local_name!("tr") => {
                    open.iter_mut().last().into_iter().for_each(|table| table.cells_in_row = 0)
                }
                local_name!("td") | local_name!("th") => {
                    if let Some(table) = open.last_mut() {
                        table.cells_in_row += 1;
                        table.widest = table.widest.max(table.cells_in_row);
                    }
                }
                local_name!("h1")
                | local_name!("h2")
                | local_name!("article")
                | local_name!("pre")
                | local_name!("textarea")
                | local_name!("form") => {
                    open.iter_mut().last().into_iter().for_each(|table| table.is_layout = true)
                }
                _ => {}
            }
            Into::Children
        }
        Step::Leave(id) => {
            if open.last().is_some_and(|table| table.id == id)
                && let Some(table) = open.pop()
                && !table.is_layout
                && table.widest > 1
            {
                data.insert(id);
            }
            Into::Children
        }
    });
    data
}
