use std::borrow::Cow;
use std::io::Write;

use crate::store::{RunDirectory, RunRecord, StoreError};

const HEADER: &str = "task_id,epoch,level,status,answer,correct,kind,steps,tool_calls,input_tokens,output_tokens,\
cost_usd,wall_seconds,model_seconds,tool_seconds,error_kind,error,answer_of";

/// Writes one row for each requested sample, by RFC 4180. It holds no truth.
pub fn write_csv(out: &mut dyn Write, run: &RunDirectory, record: &RunRecord) -> Result<(), StoreError> {
    write!(out, "{HEADER}\r\n")?;
    for entry in run.entries(record) {
        let entry = entry?;
        let identity =
            [entry.planned.task_id.clone(), entry.epoch.to_string(), entry.planned.level.to_string()];
        let rest = match &entry.result {
            None => {
                let mut cells = vec![String::new(); HEADER.split(',').count() - identity.len() - 1];
                cells[0] = "missing".to_owned();
                cells
            }
            Some(result) => {
                let score = result.score.as_ref();
                vec![
                    name_of(&result.status),
                    result.answer.clone().unwrap_or_default(),
                    score.map(|score| score.correct.to_string()).unwrap_or_default(),
                    score.map(|score| score.kind.clone()).unwrap_or_default(),
                    result.steps.to_string(),
                    result.tool_calls.to_string(),
                    result.usage.input_tokens.to_string(),
                    result.usage.output_tokens.to_string(),
                    result.cost_usd.map(|cost| cost.to_string()).unwrap_or_default(),
                    result.timing.wall.to_string(),
                    result.timing.model.to_string(),
                    result.timing.tool.to_string(),
                    result.error.as_ref().map(|error| name_of(&error.kind)).unwrap_or_default(),
                    result.error.as_ref().map(|error| error.message.clone()).unwrap_or_default(),
                ]
            }
        };
        // In every row: rows of several runs end up in one table.
        let label = record.strategy.label();
        let cells: Vec<_> = identity.iter().chain(&rest).chain([&label]).map(|cell| quoted(cell)).collect();
        write!(out, "{}\r\n", cells.join(","))?;
    }
    Ok(())
}

/// The name that an enum without data has in JSON.
fn name_of(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
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
        write_csv(&mut text, &run, &record).unwrap();
        let text = String::from_utf8(text).unwrap();
        let rows: Vec<_> = text.split_terminator("\r\n").collect();
        assert_eq!(rows[1], "task-0,1,1,answered,42,true,number,4,3,1000,100,,2.5,1,0.5,,,single run");
        assert_eq!(
            rows[2],
            "task-1,1,2,error,,false,number,4,3,1000,100,,2.5,1,0.5,server,MCP server `bash` died,single run"
        );
        assert!(rows[3].ends_with(",single run"), "{}", rows[3]);
        assert!(rows.iter().all(|row| row.split(',').count() == HEADER.split(',').count()), "{text}");
    }

    #[test]
    fn cells_are_quoted_when_they_must_be() {
        assert_eq!(quoted("a"), "a");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }
}
