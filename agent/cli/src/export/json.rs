use std::io::Write;

use serde_json::{Map, Value, json};

use super::table::{Cell, Column, rfc3339};
use super::{ExportError, Table};
use crate::store::{RunDirectory, RunRecord};

/// Of the document; fields may be added without a new one.
const VERSION: u32 = 1;

/// Writes one document: the run, and each sample with its turns. One sample at a time is in memory.
pub fn write_json(out: &mut dyn Write, run: &RunDirectory, record: &RunRecord) -> Result<(), ExportError> {
    let about = json!({
        "id": record.id,
        "model": record.model,
        "rehearsal": record.rehearsal,
        "answer_of": record.strategy.label(),
        "dataset": record.dataset.name,
        "split": record.dataset.split,
        "dataset_fingerprint": record.dataset.fingerprint,
        "epochs": record.epochs,
        "started": rfc3339(record.started),
        "ended": record.ended.and_then(rfc3339),
        "program_version": record.program_version,
    });
    write!(out, "{{\"gaia_export\":{VERSION},\"run\":{about},\"samples\":[")?;
    for (index, entry) in run.entries(record).enumerate() {
        let entry = entry?;
        let mut sample = Map::new();
        for row in Table::Samples.rows(run, record, &entry)? {
            sample = object(Table::Samples.columns(), row);
        }
        let turns = Table::Turns.rows(run, record, &entry)?;
        let turns = turns.into_iter().map(|row| Value::from(object(Table::Turns.columns(), row)));
        sample.insert("turns".to_owned(), turns.collect());
        if index > 0 {
            out.write_all(b",")?;
        }
        write!(out, "\n{}", Value::from(sample))?;
    }
    Ok(out.write_all(b"\n]}\n")?)
}

fn object(columns: &[Column], row: Vec<Cell>) -> Map<String, Value> {
    let values = row.into_iter().map(|cell| match cell {
        Cell::Text(text) => text.into(),
        Cell::Whole(number) => number.into(),
        Cell::Number(number) => number.into(),
        Cell::Flag(flag) => flag.into(),
        Cell::Json(value) => value,
        Cell::None => Value::Null,
    });
    columns.iter().map(|(name, _)| (*name).to_owned()).zip(values).collect()
}
