use std::io;

use gaia_agent::Status;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::figures::is_withheld;
use super::trace::trace;
use crate::store::{RunDirectory, RunRecord, SampleKey, StoreError};

/// Most bytes of a submission. HelloAgents' guide gives 10 MB; the leaderboard publishes no limit. Beyond it the
/// optional traces are left out.
const MAX_BYTES: usize = 10_000_000;

/// The lines that the leaderboard takes, and what is to be known of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// JSON lines.
    pub text: Vec<u8>,
    pub lines: usize,
    /// Lines with the empty answer: no answer, an error, a sample that did not end or a row that was not asked.
    pub empty: usize,
    pub traces: Traces,
}

/// Whether the lines hold how their answers came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traces {
    Kept,
    /// With them the file would have had so many bytes, which is too much.
    TooLong {
        bytes: usize,
    },
}

/// One line for each row of the split.
#[derive(Serialize)]
struct Line<'a> {
    task_id: &'a str,
    /// Always text: the leaderboard's program fails on null and on JSON numbers.
    model_answer: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_trace: Option<String>,
}

impl Submission {
    /// The answers of the first epoch, every row of the split exactly once, asked or not. A row without an answer has the
    /// empty text: the leaderboard divides by the lines it gets, so a row that is left out would flatter the score.
    pub fn of_run(run: &RunDirectory, record: &RunRecord) -> Result<Self, StoreError> {
        let with_traces = Self::build(run, record, Traces::Kept)?;
        match with_traces.text.len() {
            bytes if bytes > MAX_BYTES => Self::build(run, record, Traces::TooLong { bytes }),
            _ => Ok(with_traces),
        }
    }

    fn build(run: &RunDirectory, record: &RunRecord, traces: Traces) -> Result<Self, StoreError> {
        let mut submission = Self { text: Vec::new(), lines: 0, empty: 0, traces };
        for entry in run.entries(record).take(record.dataset.samples.len()) {
            let entry = entry?;
            let answered = entry.result.as_ref().filter(|result| result.status == Status::Answered);
            let trace = match answered.filter(|_| traces == Traces::Kept) {
                Some(result) => {
                    let key = SampleKey { task_id: entry.planned.task_id.clone(), epoch: entry.epoch };
                    trace(run, &key)?.or_else(|| result.raw_answer.clone())
                }
                None => None,
            };
            submission.add(&Line {
                task_id: &entry.planned.task_id,
                model_answer: answered.and_then(|result| result.answer.as_deref()).unwrap_or_default(),
                reasoning_trace: trace,
            })?;
        }
        for row in record.dataset.unselected.iter().flatten() {
            submission.add(&Line { task_id: &row.task_id, model_answer: "", reasoning_trace: None })?;
        }
        Ok(submission)
    }

    fn add(&mut self, line: &Line<'_>) -> Result<(), StoreError> {
        serde_json::to_writer(&mut self.text, line).map_err(io::Error::from)?;
        self.text.push(b'\n');
        self.lines += 1;
        self.empty += usize::from(line.model_answer.is_empty());
        Ok(())
    }

    /// In hex, to tell later which file was handed in.
    pub fn sha256(&self) -> String {
        Sha256::digest(&self.text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Why the run is not a whole one: what a leaderboard should not be given without a reason. Empty for a whole run.
pub fn shortcomings(run: &RunDirectory, record: &RunRecord) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    if record.rehearsal {
        found.push("it is a rehearsal: its answers come from a script and not from a model".to_owned());
    }
    match &record.dataset.unselected {
        None => {
            found.push(
                "it does not say whether the split has other rows (it was begun by an older gaia)".to_owned(),
            );
        }
        Some(rows) => {
            let left_out =
                rows.iter().filter(|row| row.task_id != crate::dataset::PLACEHOLDER_TASK_ID).count();
            if left_out > 0 {
                found.push(format!("{left_out} rows of the {} split were not asked", record.dataset.split));
            }
        }
    }
    let withheld = record.withheld();
    let (mut missing, mut errors, mut not_run) = (0, 0, 0);
    for entry in run.entries(record).take(record.dataset.samples.len()) {
        let entry = entry?;
        match entry.result.as_ref().map(|result| result.status) {
            None if is_withheld(&entry, &withheld) => not_run += 1,
            None => missing += 1,
            Some(Status::Error) => errors += 1,
            Some(Status::Answered | Status::NoAnswer) => {}
        }
    }
    if not_run > 0 {
        found.push(format!("{not_run} samples were not run: a stage before them was not good enough"));
    }
    if missing > 0 {
        found.push(format!("{missing} samples have no outcome yet (`gaia resume` finishes them)"));
    }
    if errors > 0 {
        found.push(format!(
            "{errors} samples ended in an error (`gaia resume --rerun errors` does them again)"
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::test_run::{Ending, stored_run};
    use crate::store::PlannedSample;

    fn lines(submission: &Submission) -> Vec<Value> {
        let text = std::str::from_utf8(&submission.text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_row_of_the_split_once_and_never_null() {
        let runs = tempfile::tempdir().unwrap();
        let endings = [(1, Ending::Correct), (1, Ending::NoAnswer), (2, Ending::Error), (3, Ending::Missing)];
        let (run, mut record, _lock) = stored_run(runs.path(), &endings);
        record.epochs = 2;
        record.dataset.unselected = Some(vec![PlannedSample { task_id: "0-0-0-0-0".to_owned(), level: 3 }]);
        let submission = Submission::of_run(&run, &record).unwrap();
        let lines = lines(&submission);
        let answers: Vec<_> =
            lines.iter().map(|line| (line["task_id"].clone(), line["model_answer"].clone())).collect();
        let expected = [("task-0", "42"), ("task-1", ""), ("task-2", ""), ("task-3", ""), ("0-0-0-0-0", "")];
        assert_eq!(answers, expected.map(|(task, answer)| (Value::from(task), Value::from(answer))));
        assert_eq!(lines[0]["reasoning_trace"], "FINAL ANSWER: 42");
        assert_eq!(lines[1].get("reasoning_trace"), None);
        assert_eq!((submission.lines, submission.empty), (5, 4));
    }

    #[test]
    fn a_whole_run_has_no_shortcomings_and_each_other_kind_is_told() {
        let runs = tempfile::tempdir().unwrap();
        let (run, mut record, _lock) =
            stored_run(runs.path(), &[(1, Ending::Correct), (2, Ending::NoAnswer)]);
        let placeholder = PlannedSample { task_id: "0-0-0-0-0".to_owned(), level: 3 };
        record.dataset.unselected = Some(vec![placeholder]);
        assert_eq!(shortcomings(&run, &record).unwrap(), Vec::<String>::new());

        let runs = tempfile::tempdir().unwrap();
        let (run, mut record, _lock) = stored_run(runs.path(), &[(1, Ending::Error), (2, Ending::Missing)]);
        record.rehearsal = true;
        record.dataset.unselected = Some(vec![PlannedSample { task_id: "other".to_owned(), level: 3 }]);
        let found = shortcomings(&run, &record).unwrap().join("\n");
        for part in [
            "rehearsal",
            "1 rows of the validation split",
            "1 samples have no outcome",
            "1 samples ended in an error",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        record.dataset.unselected = None;
        assert!(shortcomings(&run, &record).unwrap().join("\n").contains("older gaia"));
    }

    #[test]
    fn traces_that_make_the_file_too_long_are_left_out() {
        let runs = tempfile::tempdir().unwrap();
        let (run, record, _lock) = stored_run(runs.path(), &[(1, Ending::Correct), (1, Ending::Correct)]);
        let sample = run.sample(&crate::store::SampleKey { task_id: "task-0".to_owned(), epoch: 1 });
        let mut result = sample.result().unwrap().unwrap();
        result.raw_answer = Some("x".repeat(MAX_BYTES));
        sample.commit(&result).unwrap();
        let submission = Submission::of_run(&run, &record).unwrap();
        assert!(matches!(submission.traces, Traces::TooLong { bytes } if bytes > MAX_BYTES));
        assert!(submission.text.len() < 1000);
        assert_eq!(lines(&submission)[0]["model_answer"], "42");
    }
}
