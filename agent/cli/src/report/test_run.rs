//! Stored runs for tests.

use gaia_agent::{Failure, FailureKind, Status, Usage};
use proptest::prelude::*;

use crate::scoring::score_answer;
use crate::store::{
    PlannedSample, RunDirectory, RunLock, RunRecord, SampleEntry, SampleKey, SampleResult, SampleTiming,
    test_record,
};

/// How a sample of a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Correct,
    Wrong,
    NoAnswer,
    Error,
    Missing,
    /// Answered, but the truth is hidden.
    Unscored,
}

impl Arbitrary for Ending {
    type Parameters = ();
    type Strategy = prop::sample::Select<Ending>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        prop::sample::select(vec![
            Ending::Correct,
            Ending::Wrong,
            Ending::NoAnswer,
            Ending::Error,
            Ending::Missing,
        ])
    }
}

pub(crate) fn record_of(endings: &[(u8, Ending)]) -> RunRecord {
    let ids: Vec<String> = (0..endings.len()).map(|index| format!("task-{index}")).collect();
    let samples: Vec<_> =
        ids.iter().map(String::as_str).zip(endings.iter().map(|(level, _)| *level)).collect();
    test_record(&samples)
}

pub(crate) fn entry(task_id: &str, level: u8, ending: Ending) -> SampleEntry {
    let planned = PlannedSample { task_id: task_id.to_owned(), level };
    SampleEntry { planned, epoch: 1, result: result(task_id, level, ending) }
}

/// A run on the disk; its samples are `task-0` and so on.
pub(crate) fn stored_run(
    runs: &std::path::Path,
    endings: &[(u8, Ending)],
) -> (RunDirectory, RunRecord, RunLock) {
    let record = record_of(endings);
    let (run, lock) = RunDirectory::create(runs, &record).unwrap();
    for (index, (level, ending)) in endings.iter().enumerate() {
        let task_id = format!("task-{index}");
        if let Some(result) = result(&task_id, *level, *ending) {
            run.sample(&SampleKey { task_id, epoch: 1 }).commit(&result).unwrap();
        }
    }
    (run, record, lock)
}

fn result(task_id: &str, level: u8, ending: Ending) -> Option<SampleResult> {
    let (status, answer, truth, error) = match ending {
        Ending::Correct => (Status::Answered, Some("42"), Some("42"), None),
        Ending::Wrong => (Status::Answered, Some("41 | or\nso"), Some("42"), None),
        Ending::Unscored => (Status::Answered, Some("42"), None, None),
        Ending::NoAnswer => (Status::NoAnswer, None, Some("42"), None),
        Ending::Error => (Status::Error, None, Some("42"), Some("MCP server `bash` died")),
        Ending::Missing => return None,
    };
    Some(SampleResult {
        task_id: task_id.to_owned(),
        epoch: 1,
        level,
        status,
        answer: answer.map(str::to_owned),
        raw_answer: answer.map(|answer| format!("FINAL ANSWER: {answer}")),
        steps: 4,
        tool_calls: 3,
        usage: Usage { input_tokens: 1000, output_tokens: 100, cached_tokens: 0, reasoning_tokens: 0 },
        cost_usd: None,
        timing: SampleTiming { wall: 2.5, model: 1.0, tool: 0.5, sandbox: 0.75, overhead: 0.25 },
        score: score_answer(answer, truth),
        error: error.map(|message| Failure { kind: FailureKind::Server, message: message.to_owned() }),
    })
}
