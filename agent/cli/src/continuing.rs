//! A sample that was lost in its middle goes on from its last whole turn: the loop is led through what it did, its
//! tools do again what they did, and from there on all is real.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use gaia_agent::model::{ChatModel, ModelError, ModelRequest, Reply, RetryObserver, fingerprint};
use gaia_agent::tools::{OfferedTool, StandIn, ToolHost, ToolOutput};
use gaia_agent::{AgentEvent, StopReason};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::recording::{RecordedReply, Recording, is_of_the_loop, step};
use crate::replay::RecordedTools;
use crate::store::StoreError;

/// How a session begins a sample of which an earlier one left a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    Anew,
    /// Where its state can be rebuilt; else anew.
    WhereItStopped,
}

/// What leads a sample to where it was.
pub struct Continuing {
    pub after_step: u32,
    /// Events of the loop that stand in the log already.
    told: AtomicUsize,
    model: Mutex<VecDeque<RecordedReply>>,
    tools: RecordedTools,
    /// What was done again went another way: nothing that comes of it counts.
    diverged: AtomicBool,
    /// Ends the attempt when it has diverged.
    give_up: CancellationToken,
}

impl Continuing {
    /// `None` when there is no whole turn to go on from.
    pub fn of(recording: Recording) -> Result<Option<Arc<Self>>, StoreError> {
        let after_step = last_whole_turn(&recording.events).filter(|_| can_go_on(&recording.events));
        let Some(after_step) = after_step else { return Ok(None) };
        let mut recording = recording;
        recording.events.retain(|event| step(event).is_none_or(|step| step <= after_step));
        Ok(Some(Arc::new(Self {
            after_step,
            told: AtomicUsize::new(recording.events.iter().filter(|event| is_of_the_loop(event)).count()),
            model: Mutex::new(recording.replies()),
            tools: RecordedTools::new(recording.results()?),
            diverged: AtomicBool::new(false),
            give_up: CancellationToken::new(),
        })))
    }

    /// Whether this event stands in the log already; the first that does not is the first of the new part.
    pub fn is_told(&self, event: &AgentEvent) -> bool {
        is_of_the_loop(event)
            && self.told.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |told| told.checked_sub(1)).is_ok()
    }

    /// Whether this event of the loop belongs to the new part.
    pub fn is_new(&self, event: &AgentEvent) -> bool {
        is_of_the_loop(event) && self.told.load(Ordering::SeqCst) == 0
    }

    pub fn has_diverged(&self) -> bool {
        self.diverged.load(Ordering::SeqCst)
    }

    /// Cancelled when there is no sense in going on.
    pub fn give_up(&self) -> &CancellationToken {
        &self.give_up
    }

    /// `live` once the recorded replies are used up.
    pub fn model(self: &Arc<Self>, live: Arc<dyn ChatModel>) -> ContinuedModel {
        ContinuedModel { continuing: self.clone(), live }
    }

    fn diverge(&self, why: &str) {
        tracing::warn!("a sample cannot go on from where it stopped: {why}; it begins anew");
        self.diverged.store(true, Ordering::SeqCst);
        self.give_up.cancel();
    }
}

/// Whether there is something to go on with: an attempt that was lost before its end, or between its answer and the
/// commit of it. One that a limit, an error or a cancellation ended begins anew.
fn can_go_on(events: &[AgentEvent]) -> bool {
    events.iter().all(|event| match event {
        AgentEvent::Finished { outcome } => {
            matches!(outcome.stop, StopReason::AnswerTool | StopReason::AnswerText)
        }
        _ => true,
    })
}

/// The last turn all of whose calls have a result.
fn last_whole_turn(events: &[AgentEvent]) -> Option<u32> {
    let mut open: HashMap<&str, u32> = HashMap::new();
    let mut last = None;
    for event in events {
        match event {
            AgentEvent::ModelReply { step, tool_calls, .. } => {
                open.extend(tool_calls.iter().map(|call| (call.id.as_str(), *step)));
                last = Some(*step);
            }
            AgentEvent::ToolResult { call_id, .. } => {
                open.remove(call_id.as_str());
            }
            _ => {}
        }
    }
    match open.values().min() {
        Some(first_open) => last.map(|_| first_open - 1).filter(|step| *step > 0),
        None => last,
    }
}

/// Says again what was said, and then asks.
pub struct ContinuedModel {
    continuing: Arc<Continuing>,
    live: Arc<dyn ChatModel>,
}

#[async_trait]
impl ChatModel for ContinuedModel {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        observer: &dyn RetryObserver,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        let next = self.continuing.model.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(recorded) = next else { return self.live.reply(request, observer, cancel).await };
        if recorded.request.is_some_and(|then| then != fingerprint(request)) {
            self.continuing.diverge(&format!("step {} asks another thing than then", recorded.step));
            return Err(ModelError::Cancelled);
        }
        recorded.reply
    }
}

#[async_trait]
impl StandIn for Continuing {
    async fn answer(
        &self,
        host: &ToolHost,
        tool: &OfferedTool,
        arguments: &Map<String, Value>,
        cancel: &CancellationToken,
    ) -> Option<ToolOutput> {
        let then = self.tools.take(tool, arguments)?;
        // What changes nothing leaves no state behind.
        if tool.annotations.read_only {
            return Some(then);
        }
        let now = host.call_server(tool, arguments.clone(), cancel).await;
        if !ended_alike(&then, &now) {
            self.diverge(&format!("`{}` ended in another way than then", tool.canonical));
        }
        // The model has read the words of then.
        Some(then)
    }
}

/// Words may differ (times, process ids); success and exit status say whether the same was done.
fn ended_alike(then: &ToolOutput, now: &ToolOutput) -> bool {
    let status = |output: &ToolOutput| {
        let structured = output.structured.as_ref();
        ["exit_code", "signal", "timed_out"].map(|key| structured.and_then(|facts| facts.get(key)).cloned())
    };
    then.is_error == now.is_error && now.failure.is_none() && status(then) == status(now)
}

#[cfg(test)]
mod tests {
    use gaia_agent::{Part, ToolCall, Usage};
    use serde_json::json;

    use super::*;

    fn reply(step: u32, calls: &[&str]) -> AgentEvent {
        AgentEvent::ModelReply {
            step,
            content: None,
            reasoning: None,
            carried: None,
            tool_calls: calls
                .iter()
                .map(|id| ToolCall {
                    id: (*id).to_owned(),
                    name: "bash".to_owned(),
                    arguments: "{}".to_owned(),
                })
                .collect(),
            finish_reason: "tool_calls".to_owned(),
            usage: Usage::default(),
            cost_usd: None,
            duration_ms: 1,
            queued_ms: 0,
        }
    }

    fn result(step: u32, call_id: &str) -> AgentEvent {
        AgentEvent::ToolResult {
            step,
            call_id: call_id.to_owned(),
            tool: "bash/bash".to_owned(),
            content: vec![Part::Text { text: "x".to_owned() }],
            is_error: false,
            structured: None,
            whole: None,
            duration_ms: 1,
        }
    }

    #[test]
    fn a_turn_is_whole_when_every_call_has_its_result() {
        let mut events = vec![reply(1, &["a", "b"]), result(1, "a")];
        assert_eq!(last_whole_turn(&events), None);
        events.push(result(1, "b"));
        assert_eq!(last_whole_turn(&events), Some(1));
        events.push(reply(2, &[]));
        assert_eq!(last_whole_turn(&events), Some(2));
        events.push(reply(3, &["c"]));
        assert_eq!(last_whole_turn(&events), Some(2));
        assert_eq!(last_whole_turn(&[]), None);
    }

    #[test]
    fn an_answer_that_was_not_committed_is_gone_on_from_and_another_end_is_not() {
        let finished = |stop| AgentEvent::Finished {
            outcome: gaia_agent::Outcome {
                status: gaia_agent::Status::Answered,
                stop,
                answer: Some("x".to_owned()),
                raw_answer: None,
                steps: 1,
                tool_calls: 1,
                usage: Usage::default(),
                cost_usd: None,
                timing: gaia_agent::Timing::default(),
                error: None,
            },
        };
        let lost = vec![reply(1, &["a"]), result(1, "a")];
        assert!(can_go_on(&lost));
        for (stop, goes_on) in [
            (StopReason::AnswerTool, true),
            (StopReason::AnswerText, true),
            (StopReason::TimeLimit, false),
            (StopReason::Cancelled, false),
            (StopReason::Error, false),
        ] {
            assert_eq!(can_go_on(&[lost.clone(), vec![finished(stop)]].concat()), goes_on, "{stop:?}");
        }
    }

    #[test]
    fn what_was_done_again_must_end_as_it_did() {
        let output = |text: &str, exit_code: i32, is_error: bool| ToolOutput {
            content: vec![Part::Text { text: text.to_owned() }],
            structured: Some(json!({ "exit_code": exit_code, "duration_ms": text.len() })),
            is_error,
            failure: None,
            whole: None,
            duration: std::time::Duration::ZERO,
        };
        let then = output("took 3 s", 0, false);
        assert!(ended_alike(&then, &output("took 12 s", 0, false)));
        assert!(!ended_alike(&then, &output("took 3 s", 1, false)));
        assert!(!ended_alike(&then, &output("took 3 s", 0, true)));
    }
}
