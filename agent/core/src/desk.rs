//! The tool calls of an agent that is not the loop: offered, bounded, limited and recorded as the loop's own.

use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::archive::Archive;
use crate::conversation::KEPT_WHOLE_BYTES;
use crate::duty::Duty;
use crate::event::{AgentEvent, EventSink};
use crate::extract;
use crate::limits::Meter;
use crate::message::{Part, ToolCall, ToolDefinition};
use crate::outcome::{Failure, FailureKind, Outcome, Status, StopReason};
use crate::question::first_messages;
use crate::recall;
use crate::settings::AgentSettings;
use crate::task::Task;
use crate::tools::{ProgressSink, ToolAnnotations, ToolHost, bound};
use crate::turn::{Submitted, Turn};

/// The tools of one task as an agent gets them that brings its own loop. A step is one of its calls: of its turns
/// nothing is known, nor of what its model costs.
pub struct Desk {
    tools: Arc<ToolHost>,
    settings: AgentSettings,
    sink: Arc<dyn EventSink>,
    recall_name: &'static str,
    archive: Mutex<Archive>,
    meter: Mutex<Meter>,
    answer: watch::Sender<Option<Submitted>>,
    /// Ends calls that are under way when the desk closes.
    stop: CancellationToken,
    running: TaskTracker,
}

/// Of what an agent said, beside the answer that was found in it: the whole is an artefact.
const RAW_ANSWER_BYTES: usize = 16 * 1024;

/// For calls that are told to stop: they come back at once, unless a server is stuck while it starts anew.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A tool as it is offered, and what its server says of it.
#[derive(Debug, Clone)]
pub struct DeskTool {
    pub definition: ToolDefinition,
    pub annotations: ToolAnnotations,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    pub content: Vec<Part>,
    pub structured: Option<Value>,
    pub is_error: bool,
}

/// How an agent came to its end, whether it has answered or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEnd {
    /// By itself, and in order.
    Ended,
    TimeOver,
    Cancelled,
    /// For people: what went wrong.
    Failed(String),
}

impl Desk {
    /// Opens the desk; the first event of the attempt is told.
    pub async fn open(
        task: &Task,
        tools: Arc<ToolHost>,
        settings: AgentSettings,
        sink: Arc<dyn EventSink>,
    ) -> Self {
        let recall_name = recall::name(&tools);
        let offered = tools.offered().iter().map(|tool| tool.canonical.clone());
        let mut messages = first_messages(task, &settings).await;
        // Whatever tells such an agent how to behave is its own.
        messages.remove(0);
        sink.emit(AgentEvent::Started {
            attempt: task.attempt,
            tools: offered.chain([recall::CANONICAL.to_owned()]).collect(),
            messages,
            offer: serde_json::to_string(&tools.to_record()).ok().and_then(|offer| sink.keep_offer(&offer)),
        });
        let meter = Mutex::new(Meter::start(&settings));
        Self {
            tools,
            settings,
            sink,
            recall_name,
            archive: Mutex::default(),
            meter,
            answer: watch::Sender::new(None),
            stop: CancellationToken::new(),
            running: TaskTracker::new(),
        }
    }

    pub fn tools(&self) -> Vec<DeskTool> {
        let offered = self.tools.definitions().into_iter().zip(self.tools.offered());
        let mut tools: Vec<DeskTool> = offered
            .map(|(definition, offered)| DeskTool { definition, annotations: offered.annotations })
            .collect();
        let annotations = ToolAnnotations { read_only: true, ..ToolAnnotations::default() };
        tools.push(DeskTool { definition: recall::definition(self.recall_name), annotations });
        tools
    }

    /// Names of the servers that are behind the tools.
    pub fn servers(&self) -> Vec<String> {
        self.tools.servers().map(|server| server.name().to_owned()).collect()
    }

    /// What the agent calls the tool that takes the answer.
    pub fn answer_tool(&self) -> &str {
        let tool = self.tools.find(&self.settings.answer_tool);
        tool.map_or(self.settings.answer_tool.as_str(), |tool| &tool.model_name)
    }

    /// Always comes back, as the calls of the loop do.
    pub async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
        progress: Option<ProgressSink>,
    ) -> Called {
        let running = self.running.token();
        if self.stop.is_cancelled() {
            // The last event is told.
            let text = "error: the task is over".to_owned();
            return Called { content: vec![Part::Text { text }], structured: None, is_error: true };
        }
        let (number, left) = {
            let mut meter = self.meter();
            meter.tool_calls += 1;
            meter.steps += 1;
            (meter.tool_calls, meter.left())
        };
        let call = ToolCall {
            id: format!("call_{number}"),
            name: name.to_owned(),
            arguments: Value::Object(arguments).to_string(),
        };
        if let Some(reason) = self.refusal(number, name) {
            return self.refuse(number, call, reason);
        }
        let cancel = cancel.child_token();
        let turn = Turn {
            step: number,
            tools: &self.tools,
            recall_name: self.recall_name,
            archive: &self.archive,
            duty: Duty::Alone,
            left,
            first_number: number,
            settings: &self.settings,
            sink: self.sink.as_ref(),
            cancel: &cancel,
            progress,
        };
        let done = {
            let mut working = std::pin::pin!(turn.run(slice::from_ref(&call)));
            tokio::select! {
                done = &mut working => done,
                () = self.stop.cancelled() => {
                    cancel.cancel();
                    working.await
                }
            }
        };
        self.meter().tool_time += done.tool_time;
        if let Some(submitted) = done.answer {
            self.answer.send_if_modified(|answer| {
                let is_first = answer.is_none();
                answer.get_or_insert(submitted);
                is_first
            });
        }
        let Some(result) = done.results.into_iter().next() else {
            return self.refuse(number, call, "the call has no result".to_owned());
        };
        if let Some(text) = result.text.filter(|text| text.len() > KEPT_WHOLE_BYTES) {
            let mut archive = self.archive.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = archive.keep(result.number, &result.label, &text) {
                tracing::warn!("failed to keep the output of call {number}: {error}");
            }
        }
        drop(running);
        Called { content: result.content, structured: result.structured, is_error: result.is_error }
    }

    /// Waits for an answer that the answer tool took.
    pub async fn answered(&self) {
        // Fails only when the sender is gone, which is ours.
        self.answer.subscribe().wait_for(Option::is_some).await.ok();
    }

    pub fn has_answer(&self) -> bool {
        self.answer.borrow().is_some()
    }

    /// Closes the desk: the outcome, which is also the last event. Without an answer that was handed in, one is looked
    /// for in what the agent said, by its marker.
    pub async fn close(&self, end: AgentEnd, said: &str) -> Outcome {
        self.stop.cancel();
        self.running.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.running.wait()).await.is_err() {
            tracing::warn!("a tool call did not stop in time");
        }
        self.ended(end, said)
    }

    fn ended(&self, end: AgentEnd, said: &str) -> Outcome {
        let meter = self.meter();
        let submitted = self.answer.borrow().clone();
        let outcome = match (submitted, extract::final_answer(said), end) {
            (_, _, AgentEnd::Cancelled) => meter.outcome(
                Status::Error,
                StopReason::Cancelled,
                None,
                None,
                Some(failure(FailureKind::Cancelled, "cancelled before there was an answer".to_owned())),
            ),
            (Some(Submitted { answer, raw }), _, _) => {
                meter.outcome(Status::Answered, StopReason::AnswerTool, Some(answer), Some(raw), None)
            }
            (None, Some(answer), _) => {
                let raw = Some(bound(said, RAW_ANSWER_BYTES, None).text);
                meter.outcome(Status::Answered, StopReason::AnswerText, Some(answer), raw, None)
            }
            (None, None, AgentEnd::Failed(message)) => {
                let failure = failure(FailureKind::Agent, message);
                meter.outcome(Status::Error, StopReason::Error, None, None, Some(failure))
            }
            (None, None, AgentEnd::TimeOver) => {
                meter.outcome(Status::NoAnswer, StopReason::TimeLimit, None, None, None)
            }
            (None, None, AgentEnd::Ended) => {
                let stop = match meter.tool_calls > self.settings.max_steps {
                    true => StopReason::StepLimit,
                    false => StopReason::Idle,
                };
                meter.outcome(Status::NoAnswer, stop, None, None, None)
            }
        };
        drop(meter);
        if let Some(failure) = &outcome.error {
            self.sink.emit(AgentEvent::Failed { failure: failure.clone() });
        }
        self.sink.emit(AgentEvent::Finished { outcome: outcome.clone() });
        outcome
    }

    /// Why a call is not made; whoever has used up the calls may still answer.
    fn refusal(&self, number: u32, name: &str) -> Option<String> {
        if self.has_answer() {
            return Some("the task is over: its answer was taken".to_owned());
        }
        let limit = self.settings.max_steps;
        let answer_tool = self.answer_tool();
        if number <= limit || name == answer_tool {
            return None;
        }
        if number == limit + 1 {
            self.sink.emit(AgentEvent::LimitReached { step: limit, reason: StopReason::StepLimit });
        }
        Some(format!(
            "the {limit} tool calls of this task are used up; call `{answer_tool}` with your best answer"
        ))
    }

    fn refuse(&self, number: u32, call: ToolCall, reason: String) -> Called {
        let content = vec![Part::Text { text: format!("error: {reason}") }];
        self.sink.emit(AgentEvent::ToolResult {
            step: number,
            call_id: call.id,
            tool: call.name,
            content: content.clone(),
            is_error: true,
            structured: None,
            whole: None,
            duration_ms: 0,
        });
        Called { content, structured: None, is_error: true }
    }

    fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failure(kind: FailureKind, message: String) -> Failure {
    Failure { kind, message }
}
