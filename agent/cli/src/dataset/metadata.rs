use std::collections::BTreeMap;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row as ParquetRow};
use serde_json::{Map, Value};

use crate::config::Split;
use crate::dataset::error::{DatasetError, Position, RowProblem};
use crate::dataset::locate::Snapshot;
use crate::dataset::row::Row;

/// All rows of the split, each checked by itself and all for duplicate ids. Parquet is preferred; when JSON
/// lines are there too, both must say the same.
pub(super) fn read(snapshot: &Snapshot, split: Split) -> Result<Vec<Row>, DatasetError> {
    let mut tables = Vec::new();
    if !snapshot.metadata.parquet.is_empty() {
        let mut raw = Vec::new();
        for (file, level) in &snapshot.metadata.parquet {
            read_parquet(file, *level, &mut raw)?;
        }
        tables.push(check(raw, split)?);
    }
    if let Some(file) = &snapshot.metadata.jsonl {
        let mut raw = Vec::new();
        read_json_lines(file, &mut raw)?;
        tables.push(check(raw, split)?);
    }
    let mut tables = tables.into_iter();
    let rows = tables.next().unwrap_or_default();
    if let (Some(other), Some(second)) = (tables.next(), &snapshot.metadata.jsonl)
        && let Some(difference) = difference(&rows, &other)
    {
        let first = snapshot.metadata.parquet[0].0.clone();
        return Err(DatasetError::Disagreement { first, second: second.clone(), difference });
    }
    if rows.is_empty() {
        let file = snapshot.metadata.files().into_iter().next().unwrap_or_default();
        return Err(DatasetError::BadFile { file, message: "no rows".to_owned() });
    }
    Ok(rows)
}

/// A row that could be read as an object, or the reason why not.
struct RawRow {
    file: std::path::PathBuf,
    position: Position,
    fields: Result<Map<String, Value>, String>,
    /// The level that the name of the file promises.
    level: Option<u8>,
}

fn check(raw: Vec<RawRow>, split: Split) -> Result<Vec<Row>, DatasetError> {
    let mut problems = Vec::new();
    let mut rows: Vec<Row> = Vec::with_capacity(raw.len());
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for RawRow { file, position, fields, level } in raw {
        let row = match fields.map_err(|message| (None, message)).and_then(|fields| {
            let task_id = fields.get("task_id").and_then(Value::as_str).map(str::to_owned);
            Row::parse(&file, position, &fields, split).map_err(|message| (task_id, message))
        }) {
            Ok(row) => row,
            Err((task_id, message)) => {
                problems.push(RowProblem { file, position, task_id, message });
                continue;
            }
        };
        if let Some(level) = level.filter(|level| *level != row.level) {
            problems.push(row.problem(format!("level {} in the file of level {level}", row.level)));
        }
        if let Some(first) = seen.get(&row.task_id).map(|index| &rows[*index]) {
            let place = if first.file == row.file {
                first.position.to_string()
            } else {
                format!("`{}`, {}", first.file.display(), first.position)
            };
            problems.push(row.problem(format!("duplicate `task_id`: first in {place}")));
        } else {
            seen.insert(row.task_id.clone(), rows.len());
        }
        rows.push(row);
    }
    if problems.is_empty() { Ok(rows) } else { Err(DatasetError::Rows(problems)) }
}

fn difference(first: &[Row], second: &[Row]) -> Option<String> {
    let by_id = |rows: &[Row]| -> BTreeMap<String, Row> {
        rows.iter().map(|row| (row.task_id.clone(), row.clone())).collect()
    };
    let (first, second) = (by_id(first), by_id(second));
    for (task_id, row) in &first {
        match second.get(task_id) {
            None => return Some(format!("only the first holds task `{task_id}`")),
            Some(other) => {
                if let Some(field) = row.first_difference(other) {
                    return Some(format!("`{field}` of task `{task_id}`"));
                }
            }
        }
    }
    let only = second.keys().find(|task_id| !first.contains_key(*task_id))?;
    Some(format!("only the second holds task `{only}`"))
}

/// What git leaves in place of a large file that was not fetched.
pub(super) const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Says what to do about a Git LFS pointer.
pub(super) const LFS_ADVICE: &str =
    "a Git LFS pointer, not the file itself: run `git lfs pull` in the snapshot";

fn read_json_lines(file: &Path, rows: &mut Vec<RawRow>) -> Result<(), DatasetError> {
    let bytes = fs_err::read(file)?;
    if bytes.starts_with(LFS_POINTER) {
        return Err(DatasetError::BadFile { file: file.to_owned(), message: LFS_ADVICE.to_owned() });
    }
    // A byte-order mark is what some editors put in front.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let fields = std::str::from_utf8(line)
            .map_err(|error| format!("not UTF-8 after column {}", error.valid_up_to()))
            .and_then(|text| match serde_json::from_str(text) {
                Ok(Value::Object(fields)) => Ok(fields),
                Ok(other) => Err(format!("not a JSON object but {}", kind(&other))),
                Err(error) => Err(format!("not valid JSON: {}", without_line(&error))),
            });
        let position = Position::Line(index + 1);
        rows.push(RawRow { file: file.to_owned(), position, fields, level: None });
    }
    Ok(())
}

/// serde counts lines from the start of its text, which is one line of ours.
fn without_line(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

/// With its article, for error texts.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn read_parquet(file: &Path, level: Option<u8>, rows: &mut Vec<RawRow>) -> Result<(), DatasetError> {
    let bad = |message: String| DatasetError::BadFile { file: file.to_owned(), message };
    let bytes = fs_err::read(file)?;
    if bytes.starts_with(LFS_POINTER) {
        return Err(bad(LFS_ADVICE.to_owned()));
    }
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes))
        .map_err(|error| bad(format!("not a Parquet file: {error}")))?;
    let iterator = reader.get_row_iter(None).map_err(|error| bad(error.to_string()))?;
    for (index, row) in iterator.enumerate() {
        let row = row.map_err(|error| bad(format!("row {}: {error}", index + 1)))?;
        let position = Position::Row(index + 1);
        rows.push(RawRow { file: file.to_owned(), position, fields: object(&row), level });
    }
    Ok(())
}

fn object(row: &ParquetRow) -> Result<Map<String, Value>, String> {
    row.get_column_iter()
        .map(|(name, field)| Ok((name.clone(), value(field).map_err(|error| format!("`{name}`: {error}"))?)))
        .collect()
}

fn value(field: &Field) -> Result<Value, String> {
    match field {
        Field::Group(row) => object(row).map(Value::Object),
        // Text columns that a writer did not mark as text.
        Field::Bytes(bytes) => std::str::from_utf8(bytes.data())
            .map(Value::from)
            .map_err(|error| format!("not UTF-8 after byte {}", error.valid_up_to())),
        other => Ok(other.to_json_value()),
    }
}
