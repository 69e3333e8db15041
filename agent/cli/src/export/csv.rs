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
    use crate::export::write_inspect;
    use crate::report::test_run::{Ending, stored_run};
    use crate::store::{Saved, StagedRecord, StagedStop};

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
    fn what_a_stage_left_out_has_a_word_of_its_own() {
        let runs = tempfile::tempdir().unwrap();
        let endings = [(1, Ending::Correct), (2, Ending::Missing), (3, Ending::Missing)];
        let (run, mut record, _lock) = stored_run(runs.path(), &endings);
        let stopped = StagedStop {
            reason: "enough".to_owned(),
            withheld: vec!["task-2".to_owned()],
            saved: Saved::default(),
        };
        record.staged = Some(StagedRecord { stages: Vec::new(), stopped: Some(stopped) });
        let mut text = Vec::new();
        write_csv(&mut text, &run, &record, Table::Samples).unwrap();
        let text = String::from_utf8(text).unwrap();
        let statuses: Vec<_> = text.lines().skip(1).filter_map(|row| row.split(',').nth(3)).collect();
        assert_eq!(statuses, ["answered", "missing", "not_run"]);

        let mut log = std::io::Cursor::new(Vec::new());
        write_inspect(&mut log, &run, &record).unwrap();
        let mut log = zip::ZipArchive::new(log).unwrap();
        let header: serde_json::Value = serde_json::from_reader(log.by_name("header.json").unwrap()).unwrap();
        let scores = &header["results"]["scores"][0];
        assert_eq!(
            (&scores["metrics"]["accuracy"]["value"], &scores["unscored_samples"]),
            (&serde_json::json!(0.5), &serde_json::json!(1)),
            "{header:#}"
        );
    }

    #[test]
    fn cells_are_quoted_when_they_must_be() {
        assert_eq!(quoted("a"), "a");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }
}
