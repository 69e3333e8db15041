//! The tool calls of one turn: each is answered exactly once, whatever happens.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::archive::Archive;
use crate::duty::{Asked, Duty, OwnTool};
use crate::event::{AgentEvent, EventSink};
use crate::limits::{Left, Spent};
use crate::media;
use crate::message::{Part, ToolCall};
use crate::recall;
use crate::repair::repaired;
use crate::settings::AgentSettings;
use crate::tools::{OfferedTool, ProgressSink, ToolHost, ToolOutput, bound, validate};

/// Bytes above the limit that still pass whole. A server that keeps to the same limit itself adds a line about what
/// it left out and where that is: cutting again would lose just that line.
const SLACK_BYTES: usize = 1024;

/// What a turn's calls came to.
#[derive(Debug, Default)]
pub(crate) struct TurnResults {
    /// One for each call, in the order of the calls.
    pub(crate) results: Vec<CallResult>,
    /// Of the first successful call of the answer tool.
    pub(crate) answer: Option<Submitted>,
    pub(crate) tool_time: Duration,
    /// By those that were handed a question.
    pub(crate) spent: Spent,
}

/// The one result of a call.
#[derive(Debug)]
pub(crate) struct CallResult {
    pub(crate) call_id: String,
    /// As the model sees it.
    pub(crate) content: Vec<Part>,
    /// Counts the calls of the task from 1.
    pub(crate) number: u32,
    /// What the call was, in short.
    pub(crate) label: String,
    /// The text of the output whole, for `recall`; absent where `recall` would not help.
    pub(crate) text: Option<String>,
    pub(crate) is_error: bool,
    pub(crate) structured: Option<Value>,
}

/// An answer that the answer tool took.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Submitted {
    pub(crate) answer: String,
    /// The argument as the model sent it.
    pub(crate) raw: String,
}

/// Runs the calls of one turn.
pub(crate) struct Turn<'a> {
    pub(crate) step: u32,
    pub(crate) tools: &'a ToolHost,
    /// What the model calls the loop's own tool.
    pub(crate) recall_name: &'a str,
    pub(crate) archive: &'a Mutex<Archive>,
    pub(crate) duty: Duty<'a>,
    /// What there is for those that are handed a question.
    pub(crate) left: Left,
    /// The number of the first call of the turn.
    pub(crate) first_number: u32,
    pub(crate) settings: &'a AgentSettings,
    pub(crate) sink: &'a dyn EventSink,
    /// Ends a call that runs; the calls after it are answered without being made.
    pub(crate) cancel: &'a CancellationToken,
    /// Hears what servers say of the progress of a call.
    pub(crate) progress: Option<ProgressSink>,
}

impl Turn<'_> {
    /// In order, but for neighbours that do not disturb each other: those run at the same time.
    pub(crate) async fn run(&self, calls: &[ToolCall]) -> TurnResults {
        let planned: Vec<Planned> =
            (self.first_number..).zip(calls).map(|(number, call)| self.plan(number, call)).collect();
        let mut turn = TurnResults::default();
        for group in planned.chunk_by(|left, right| left.side_by_side() && right.side_by_side()) {
            let spent = turn.spent;
            for done in join_all(group.iter().map(|planned| self.answer(planned, &spent))).await {
                turn.tool_time += done.duration;
                turn.spent += done.spent;
                turn.answer = turn.answer.take().or(done.answer);
                turn.results.push(done.result);
            }
        }
        turn
    }

    fn plan<'c>(&'c self, number: u32, call: &'c ToolCall) -> Planned<'c> {
        let refuse =
            |reason| Step::Refuse(format!("the arguments of `{}` were not accepted: {reason}", call.name));
        let step = if call.name == self.recall_name {
            recall::arguments(&call.arguments).map_or_else(refuse, Step::Recall)
        } else if let Some(own) = self.duty.tool(self.tools).filter(|own| own.name == call.name) {
            own.read(&call.arguments).map_or_else(refuse, |text| Step::Own(own, text))
        } else if let Some(tool) = self.offered(&call.name) {
            // Nothing is called with a repair that does not fit the schema: the model hears of its own mistake.
            validate(&call.arguments, tool)
                .or_else(|reason| {
                    let repaired = repaired(&call.arguments, &tool.input_schema).ok_or(reason.clone())?;
                    validate(&repaired, tool).map_err(|_| reason)
                })
                .map_or_else(refuse, |arguments| Step::Call(tool, arguments))
        } else {
            Step::Refuse(self.unknown_tool(&call.name))
        };
        Planned { number, call, step }
    }

    /// The tool of this name, or the one behind what chat templates put around names: `functions.bash`,
    /// `bash<|channel|>commentary`. Whoever works for a manager does not see the answer tool: the answer is the
    /// manager's.
    fn offered(&self, name: &str) -> Option<&OfferedTool> {
        let bare = name.split("<|").next().unwrap_or_default().trim();
        let bare = bare.strip_prefix("functions.").unwrap_or(bare);
        let tool = self.tools.find(name).or_else(|| self.tools.find(bare));
        tool.filter(|tool| self.duty.is_offered(tool, self.settings))
    }

    fn unknown_tool(&self, name: &str) -> String {
        let own = self.duty.tool(self.tools).map(|own| own.name);
        let offered = self.tools.offered().iter().filter(|tool| self.duty.is_offered(tool, self.settings));
        let names: Vec<&str> =
            offered.map(|tool| tool.model_name.as_str()).chain(own).chain([self.recall_name]).collect();
        let names = names.join(", ");
        if name.is_empty() {
            return format!("the call names no tool and was not made; the tools are: {names}");
        }
        format!("there is no tool `{name}`; the tools are: {names}")
    }

    async fn answer(&self, planned: &Planned<'_>, spent: &Spent) -> Answered {
        let call = planned.call;
        let (tool, arguments) = match &planned.step {
            Step::Refuse(reason) => return self.refuse(planned, &call.name, reason),
            Step::Recall(arguments) => return self.recall(planned, arguments),
            Step::Own(own, text) => return self.own(planned, own, text, self.left.less(spent)).await,
            Step::Call(tool, _) if self.cancel.is_cancelled() => {
                return self.refuse(planned, &tool.canonical, "not called: the time for this task is over");
            }
            Step::Call(tool, arguments) => (*tool, arguments),
        };
        self.started(call, &tool.canonical, Value::Object(arguments.clone()));
        let progress = self.progress.clone();
        let mut output = self.tools.call_watched(tool, arguments.clone(), self.cancel, progress).await;
        output.content = media::fitted(std::mem::take(&mut output.content), self.settings).await;
        let answer = self.answer_of(tool, arguments, &output);
        let shown = self.shown(planned.number, &output);
        let whole = shown.whole.or_else(|| self.sink.keep_file(output.whole.as_ref()?));
        self.sink.emit(AgentEvent::ToolResult {
            step: self.step,
            call_id: call.id.clone(),
            tool: tool.canonical.clone(),
            content: shown.content.clone(),
            is_error: output.is_error,
            structured: output.structured.clone(),
            whole,
            duration_ms: millis(output.duration),
        });
        let mut result = planned.result(shown.content, Some(shown.text));
        result.is_error = output.is_error;
        result.structured = output.structured;
        Answered { result, answer, duration: output.duration, spent: Spent::default() }
    }

    /// A question is handed on, or what was found is handed back.
    async fn own(&self, planned: &Planned<'_>, own: &OwnTool, text: &str, left: Left) -> Answered {
        self.started(planned.call, own.canonical, json!({ own.argument: text }));
        match &self.duty {
            Duty::Manager(helpers) => {
                let Asked { text, failed, spent } = helpers.ask(text, left, self.cancel).await;
                let mut answered = self.own_result(planned, own.canonical, text, failed);
                answered.spent = spent;
                answered
            }
            Duty::Helper | Duty::Alone => {
                let submitted = Submitted { answer: text.trim().to_owned(), raw: text.to_owned() };
                let mut answered = self.own_result(planned, own.canonical, "reported".to_owned(), false);
                answered.answer = Some(submitted);
                answered
            }
        }
    }

    fn recall(&self, planned: &Planned<'_>, arguments: &Value) -> Answered {
        self.started(planned.call, recall::CANONICAL, arguments.clone());
        let archive = self.archive.lock().unwrap_or_else(PoisonError::into_inner);
        match recall::answer(arguments, &archive) {
            Ok(text) => self.own_result(planned, recall::CANONICAL, text, false),
            Err(reason) => self.own_result(planned, recall::CANONICAL, format!("error: {reason}"), true),
        }
    }

    fn refuse(&self, planned: &Planned<'_>, tool: &str, reason: &str) -> Answered {
        self.own_result(planned, tool, format!("error: {reason}"), true)
    }

    fn started(&self, call: &ToolCall, tool: &str, arguments: Value) {
        self.sink.emit(AgentEvent::ToolStarted {
            step: self.step,
            call_id: call.id.clone(),
            tool: tool.to_owned(),
            arguments,
        });
    }

    /// A result that no server gave.
    fn own_result(&self, planned: &Planned<'_>, tool: &str, text: String, is_error: bool) -> Answered {
        let content = vec![Part::Text { text }];
        self.sink.emit(AgentEvent::ToolResult {
            step: self.step,
            call_id: planned.call.id.clone(),
            tool: tool.to_owned(),
            content: content.clone(),
            is_error,
            structured: None,
            whole: None,
            duration_ms: 0,
        });
        let mut result = planned.result(content, None);
        result.is_error = is_error;
        Answered { result, answer: None, duration: Duration::ZERO, spent: Spent::default() }
    }

    /// A non-empty answer of a successful call of the answer tool: what the tool made of it, else what was sent.
    fn answer_of(
        &self,
        tool: &OfferedTool,
        arguments: &Map<String, Value>,
        output: &ToolOutput,
    ) -> Option<Submitted> {
        if tool.canonical != self.settings.answer_tool || output.is_error {
            return None;
        }
        let sent = arguments.get("answer").map(text_of).unwrap_or_default();
        let structured =
            output.structured.as_ref().and_then(|structured| structured.get("answer")).map(text_of);
        let answer = structured.filter(|answer| !answer.trim().is_empty()).unwrap_or_else(|| sent.clone());
        let answer = answer.trim().to_owned();
        (!answer.is_empty()).then_some(Submitted { answer, raw: sent })
    }

    /// The output as the model gets it, and where the whole is kept when that is not all of it.
    fn shown(&self, number: u32, output: &ToolOutput) -> Shown {
        let mut texts = Vec::new();
        let mut media = Vec::new();
        for part in &output.content {
            match part {
                Part::Text { text } => texts.push(text.as_str()),
                other => media.push(other.clone()),
            }
        }
        let text = texts.join("\n");
        let limit_bytes = match self.settings.result_bytes {
            limit if text.len() <= limit + SLACK_BYTES => text.len(),
            limit => limit,
        };
        let way_back = format!("`{}`, under call {number}", self.recall_name);
        let bounded = bound(&text, limit_bytes, Some(&way_back));
        let whole = if bounded.dropped_bytes > 0 { self.sink.keep(&text) } else { None };
        let mut content = Vec::with_capacity(1 + media.len());
        if !bounded.text.is_empty() || media.is_empty() {
            let text = if bounded.text.is_empty() { "(no output)".to_owned() } else { bounded.text };
            content.push(Part::Text { text });
        }
        content.extend(media);
        Shown { content, text, whole }
    }
}

/// The output of a call on its way to the model.
struct Shown {
    content: Vec<Part>,
    /// All text of it.
    text: String,
    /// The artefact that holds that text, when the model gets less.
    whole: Option<String>,
}

struct Planned<'a> {
    number: u32,
    call: &'a ToolCall,
    step: Step<'a>,
}

enum Step<'a> {
    Call(&'a OfferedTool, Map<String, Value>),
    /// Answered by the loop out of what it kept.
    Recall(Value),
    /// The tool that the duty brings along, with its one argument.
    Own(OwnTool, String),
    /// Answered without a call, with words for the model.
    Refuse(String),
}

impl Planned<'_> {
    fn side_by_side(&self) -> bool {
        matches!(&self.step, Step::Call(tool, _) if tool.side_by_side)
    }

    fn result(&self, content: Vec<Part>, text: Option<String>) -> CallResult {
        CallResult {
            call_id: self.call.id.clone(),
            content,
            number: self.number,
            label: format!("{} {}", self.call.name, self.call.arguments),
            text,
            is_error: false,
            structured: None,
        }
    }
}

struct Answered {
    result: CallResult,
    answer: Option<Submitted>,
    duration: Duration,
    spent: Spent,
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
