use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::table::{Cell, Kind};
use super::{ExportError, Table};
use crate::store::{RunDirectory, RunRecord};

/// Rows of one group, which are in memory together: turns of some ten samples.
const GROUP_ROWS: usize = 1_000;

/// Writes a table as Parquet, compressed with Snappy, which every reader knows.
pub fn write_parquet(
    out: impl Write + Send,
    run: &RunDirectory,
    record: &RunRecord,
    table: Table,
) -> Result<(), ExportError> {
    let fields: String = table
        .columns()
        .iter()
        .map(|(name, kind)| match kind {
            Kind::Text | Kind::Json => format!("OPTIONAL BYTE_ARRAY {name} (UTF8); "),
            Kind::Whole => format!("OPTIONAL INT64 {name}; "),
            Kind::Number => format!("OPTIONAL DOUBLE {name}; "),
            Kind::Flag => format!("OPTIONAL BOOLEAN {name}; "),
        })
        .collect();
    let schema = Arc::new(parse_message_type(&format!("message gaia {{ {fields}}}"))?);
    let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut writer = SerializedFileWriter::new(out, schema, properties)?;
    let mut rows = Vec::new();
    for entry in run.entries(record) {
        rows.extend(table.rows(run, record, &entry?)?);
        if rows.len() >= GROUP_ROWS {
            write_group(&mut writer, &rows)?;
            rows.clear();
        }
    }
    write_group(&mut writer, &rows)?;
    writer.close()?;
    Ok(())
}

fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    rows: &[Vec<Cell>],
) -> Result<(), ExportError> {
    let mut group = writer.next_row_group()?;
    let mut index = 0;
    while let Some(mut column) = group.next_column()? {
        let cells = || rows.iter().filter_map(|row| row.get(index));
        // 1 where there is a value.
        let levels: Vec<i16> = cells().map(|cell| i16::from(*cell != Cell::None)).collect();
        let levels = Some(levels.as_slice());
        match column.untyped() {
            ColumnWriter::ByteArrayColumnWriter(typed) => {
                let values: Vec<ByteArray> = cells()
                    .filter_map(|cell| match cell {
                        Cell::Text(text) => Some(text.as_str().into()),
                        Cell::Json(value) => Some(value.to_string().as_str().into()),
                        _ => None,
                    })
                    .collect();
                typed.write_batch(&values, levels, None)?;
            }
            ColumnWriter::Int64ColumnWriter(typed) => {
                let values: Vec<i64> = cells()
                    .filter_map(|cell| match cell {
                        Cell::Whole(number) => Some(*number),
                        _ => None,
                    })
                    .collect();
                typed.write_batch(&values, levels, None)?;
            }
            ColumnWriter::DoubleColumnWriter(typed) => {
                let values: Vec<f64> = cells()
                    .filter_map(|cell| match cell {
                        Cell::Number(number) => Some(*number),
                        _ => None,
                    })
                    .collect();
                typed.write_batch(&values, levels, None)?;
            }
            ColumnWriter::BoolColumnWriter(typed) => {
                let values: Vec<bool> = cells()
                    .filter_map(|cell| match cell {
                        Cell::Flag(flag) => Some(*flag),
                        _ => None,
                    })
                    .collect();
                typed.write_batch(&values, levels, None)?;
            }
            // The schema above has no others.
            _ => {}
        }
        column.close()?;
        index += 1;
    }
    group.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::report::test_run::{Ending, stored_run};

    #[test]
    fn a_table_is_read_back_with_its_types_and_what_is_not_there() {
        let runs = tempfile::tempdir().unwrap();
        let endings = [(1, Ending::Correct), (2, Ending::Error), (3, Ending::Missing)];
        let (run, record, _lock) = stored_run(runs.path(), &endings);
        let mut bytes = Vec::new();
        write_parquet(&mut bytes, &run, &record, Table::Samples).unwrap();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3);
        let answers: Vec<_> = rows.iter().map(|row| row.get_string(4).ok().cloned()).collect();
        assert_eq!(answers, [Some("42".to_owned()), None, None]);
        assert_eq!((rows[0].get_bool(5).unwrap(), rows[1].get_bool(5).unwrap()), (true, false));
        assert_eq!((rows[0].get_long(9).unwrap(), rows[0].get_double(12).unwrap()), (1000, 2.5));
        assert!(rows[2].get_bool(5).is_err() && rows[2].get_string(3).unwrap() == "missing");
    }

    #[test]
    fn turns_are_rows_and_their_calls_are_json() {
        let runs = tempfile::tempdir().unwrap();
        let (run, record, _lock) = stored_run(runs.path(), &[(1, Ending::Correct), (1, Ending::Missing)]);
        let sample = run.sample(&crate::store::SampleKey { task_id: "task-0".to_owned(), epoch: 1 });
        let lines = [
            r#"{"type":"started","attempt":1,"tools":[],"messages":[]}"#,
            r#"{"type":"model_reply","step":1,"content":"é","finish_reason":"stop","usage":{"input_tokens":7},"duration_ms":1500}"#,
            r#"{"type":"tool_result","step":2,"call_id":"c","tool":"a/b","content":[],"is_error":true,"duration_ms":250}"#,
            "",
        ];
        fs_err::write(sample.events_path(), lines.join("\n")).unwrap();
        let mut bytes = Vec::new();
        write_parquet(&mut bytes, &run, &record, Table::Turns).unwrap();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let column =
            |name: &str| Table::Turns.columns().iter().position(|(column, _)| *column == name).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].get_string(column("content")).unwrap(), "é");
        assert_eq!(rows[0].get_double(column("model_seconds")).unwrap(), 1.5);
        assert_eq!(rows[0].get_long(column("input_tokens")).unwrap(), 7);
        assert!(rows[1].get_long(column("input_tokens")).is_err());
        assert_eq!(rows[1].get_long(column("tool_errors")).unwrap(), 1);
        let calls: serde_json::Value =
            serde_json::from_str(rows[1].get_string(column("calls")).unwrap()).unwrap();
        assert_eq!(calls[0]["tool"], "a/b");
    }
}
