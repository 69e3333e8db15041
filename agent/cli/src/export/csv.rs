use std::borrow::Cow;
use std::io::Write;

use super::table::Cell;
use super::{ExportError, Table};
use crate::store::{RunDirectory, RunRecord};

/// Writes a table by RFC 4180.
pub fn write_csv(
    out: &mut dyn Write,
    run: &RunDirectory,
    record: &RunRecord,
    table: Table,
) -> Result<(), ExportError> {
    let header: Vec<&str> = table.columns().iter().map(|(name, _)| *name).collect();
    write!(out, "{}\r\n", header.join(","))?;
    for entry in run.entries(record) {
        for row in table.rows(run, record, &entry?)? {
            let cells: Vec<String> = row.iter().map(|cell| quoted(&written(cell)).into_owned()).collect();
            write!(out, "{}\r\n", cells.join(","))?;
        }
    }
    Ok(())
}

fn written(cell: &Cell) -> Cow<'_, str> {
    match cell {
        Cell::Text(text) => text.into(),
        Cell::Whole(number) => number.to_string().into(),
        Cell::Number(number) => number.to_string().into(),
        Cell::Flag(flag) => flag.to_string().into(),
        Cell::Json(value) => value.to_string().into(),
        Cell::None => "".into(),
    }
}

fn quoted(cell: &str) -> Cow<'_, str> {
    if cell.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\"")).into()
    } else {
        cell.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::test_run::{Ending, stored_run};

    #[test]
    fn every_row_has_every_column() {
        let runs = tempfile::tempdir().unwrap();
        let (run, record, _lock) =
            stored_run(runs.path(), &[(1, Ending::Correct), (2, Ending::Error), (3, Ending::Missing)]);
        let mut text = Vec::new();
        write_csv(&mut text, &run, &record, Table::Samples).unwrap();
        let text = String::from_utf8(text).unwrap();
        let rows: Vec<_> = text.split_terminator("\r\n").collect();
        let id = &record.id;
        assert_eq!(
            rows[1],
            format!(
                "task-0,1,1,answered,42,true,number,4,3,1000,100,,2.5,1,0.5,,,single run,{id},some-model,0,0"
            )
        );
        assert_eq!(
            rows[2],
            format!(
                "task-1,1,2,error,,false,number,4,3,1000,100,,2.5,1,0.5,server,MCP server `bash` died,single run,{id},\
                 some-model,0,0"
            )
        );
        assert!(
            rows[3].starts_with("task-2,1,3,missing,,,") && rows[3].contains(",single run,"),
            "{}",
            rows[3]
        );
        let columns = Table::Samples.columns().len();
        assert!(rows.iter().all(|row| row.split(',').count() == columns), "{text}");
    }

    #[test]
    fn cells_are_quoted_when_they_must_be() {
        assert_eq!(quoted("a"), "a");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }
}
