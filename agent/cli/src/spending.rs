//! What a sample has cost so far, attempts that were lost included: every reply of a model stands in its event log.

use std::borrow::Cow;
use std::io::{BufRead, BufReader};

use gaia_agent::Usage;
use serde::Deserialize;

use crate::store::{Expense, SampleDirectory, StoreError};

/// Every reply in the log of a sample, which need not be there.
pub(crate) fn spent_by(sample: &SampleDirectory) -> Result<Expense, StoreError> {
    #[derive(Deserialize)]
    struct Reply<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        usage: Usage,
        cost_usd: Option<f64>,
    }
    let mut spent = Expense::default();
    let file = match fs_err::File::open(sample.events_path()) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(spent),
        Err(error) => return Err(error.into()),
    };
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        // Other events have no usage, or that of a whole task.
        if let Ok(reply) = serde_json::from_slice::<Reply<'_>>(&line)
            && reply.kind == "model_reply"
        {
            spent += Expense { usage: reply.usage, cost_usd: reply.cost_usd };
        }
        line.clear();
    }
    Ok(spent)
}

#[cfg(test)]
mod tests {
    use gaia_agent::{AgentEvent, EventSink};

    use super::*;
    use crate::store::{RunDirectory, SampleKey, test_record, test_result};

    fn reply(step: u32, input_tokens: u64) -> AgentEvent {
        AgentEvent::ModelReply {
            step,
            content: None,
            reasoning: None,
            carried: None,
            tool_calls: Vec::new(),
            finish_reason: "stop".into(),
            usage: Usage { input_tokens, ..Usage::default() },
            cost_usd: Some(0.5),
            duration_ms: 1,
            queued_ms: 0,
        }
    }

    #[test]
    fn attempts_that_were_lost_count_and_a_torn_line_does_not() {
        let runs = tempfile::tempdir().unwrap();
        let (run, _lock) = RunDirectory::create(runs.path(), &test_record(&[("a", 1)])).unwrap();
        let sample = run.sample(&SampleKey { task_id: "a".into(), epoch: 1 });
        assert_eq!(spent_by(&sample).unwrap(), Expense::default());
        for attempt in 1..=2 {
            let log = sample.start_attempt(Default::default()).unwrap();
            log.emit(AgentEvent::Started { attempt, tools: vec![], messages: vec![], offer: None });
            log.emit(reply(1, 100));
            log.emit_from("run 2", reply(1, 10));
            log.close().unwrap();
        }
        let path = sample.events_path();
        let text = fs_err::read_to_string(&path).unwrap();
        fs_err::write(&path, &text[..text.len() - 20]).unwrap();
        let spent = spent_by(&sample).unwrap();
        assert_eq!((spent.usage.input_tokens, spent.cost_usd), (210, Some(1.5)));

        let outcome = Expense::of_result(&test_result());
        assert_eq!(outcome.or_more(spent), spent);
        assert_eq!(spent.or_more(outcome), spent);
        let counted = Expense { usage: Usage { input_tokens: 100, ..Usage::default() }, cost_usd: Some(0.5) };
        let lost = spent.beyond(counted);
        assert_eq!((lost.usage.input_tokens, lost.cost_usd), (110, Some(1.0)));
        assert_eq!(counted.beyond(spent), Expense::default(), "an outcome that tells more than the log");
    }
}
