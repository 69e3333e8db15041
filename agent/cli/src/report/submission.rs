use std::io::{self, Write};

use gaia_agent::Status;
use serde::Serialize;

use crate::store::{RunDirectory, RunRecord, StoreError};

/// One line for each task, as the leaderboard takes it.
#[derive(Serialize)]
struct Line<'a> {
    task_id: &'a str,
    /// Always text: the leaderboard's program fails on null and on JSON numbers.
    model_answer: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_trace: Option<&'a str>,
}

/// Writes the answers of the first epoch, every requested task exactly once. A task without an answer has the empty
/// text: the leaderboard divides by the lines it gets.
pub fn write_submission(
    out: &mut dyn Write,
    run: &RunDirectory,
    record: &RunRecord,
) -> Result<(), StoreError> {
    for entry in run.entries(record).take(record.dataset.samples.len()) {
        let entry = entry?;
        let answered = entry.result.as_ref().filter(|result| result.status == Status::Answered);
        let line = Line {
            task_id: &entry.planned.task_id,
            model_answer: answered.and_then(|result| result.answer.as_deref()).unwrap_or_default(),
            reasoning_trace: answered.and_then(|result| result.raw_answer.as_deref()),
        };
        serde_json::to_writer(&mut *out, &line).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::test_run::{Ending, stored_run};

    #[test]
    fn every_task_once_and_never_null() {
        let runs = tempfile::tempdir().unwrap();
        let endings = [(1, Ending::Correct), (1, Ending::NoAnswer), (2, Ending::Error), (3, Ending::Missing)];
        let (run, mut record, _lock) = stored_run(runs.path(), &endings);
        record.epochs = 2;
        let mut text = Vec::new();
        write_submission(&mut text, &run, &record).unwrap();
        let lines: Vec<Value> = String::from_utf8(text)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let answers: Vec<_> =
            lines.iter().map(|line| (line["task_id"].clone(), line["model_answer"].clone())).collect();
        let expected = [("task-0", "42"), ("task-1", ""), ("task-2", ""), ("task-3", "")];
        assert_eq!(answers, expected.map(|(task, answer)| (Value::from(task), Value::from(answer))));
        assert_eq!(lines[0]["reasoning_trace"], "FINAL ANSWER: 42");
        assert_eq!(lines[1].get("reasoning_trace"), None);
    }
}
