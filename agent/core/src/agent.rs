//! The loop: ask the model, run its calls, stop at an answer or a limit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::archive::Archive;
use crate::conversation::{Conversation, KEPT_WHOLE_BYTES, Pressure};
use crate::duty::Duty;
use crate::event::{AgentEvent, EventSink};
use crate::extract;
use crate::habits::Habits;
use crate::limits::{Left, Meter, Spent};
use crate::message::{Message, Part, ToolDefinition};
use crate::model::{ChatModel, ModelError, Reply};
use crate::outcome::{Failure, FailureKind, Outcome, Status, StopReason};
use crate::question::first_messages;
use crate::recall;
use crate::settings::AgentSettings;
use crate::task::Task;
use crate::tools::ToolHost;
use crate::turn::{Submitted, Turn};
use crate::window::Window;

mod compaction;
mod ending;
pub(crate) mod exchange;
mod planning;

use ending::{Ending, cancelled, explain, failed};
use exchange::{CallIds, Exchange};
pub(crate) use planning::Planning;

/// Works on one task until it has exactly one outcome. It never fails: what goes wrong is an outcome too.
///
/// The last event is `Finished` with the same outcome. `cancel` ends the task early with an outcome of kind
/// `cancelled`; the tools stay open, they are the caller's.
pub async fn run_task(
    task: &Task,
    model: &dyn ChatModel,
    tools: &ToolHost,
    settings: &AgentSettings,
    sink: &dyn EventSink,
    cancel: &CancellationToken,
) -> Outcome {
    let setup =
        Setup { model, tools, settings, sink, cancel, duty: Duty::Alone, planning: None, addition: None };
    Run::start(task, setup).await.finish().await
}

/// What a run of the loop works with.
pub(crate) struct Setup<'a> {
    pub(crate) model: &'a dyn ChatModel,
    pub(crate) tools: &'a ToolHost,
    pub(crate) settings: &'a AgentSettings,
    pub(crate) sink: &'a dyn EventSink,
    pub(crate) cancel: &'a CancellationToken,
    pub(crate) duty: Duty<'a>,
    pub(crate) planning: Option<Planning<'a>>,
    /// Said after the question and its file.
    pub(crate) addition: Option<&'a str>,
}

/// Nudges in a row before the loop gives up on a model that neither calls a tool nor answers.
const NUDGES_IN_A_ROW: u32 = 2;

/// For the last call, which comes after the task's own time: slow models take a minute or two for one reply.
pub(crate) const LAST_CALL_TIMEOUT: Duration = Duration::from_secs(180);

/// One run of the loop: a conversation, its tools and its limits.
pub(crate) struct Run<'a> {
    model: &'a dyn ChatModel,
    tools: &'a ToolHost,
    settings: &'a AgentSettings,
    sink: &'a dyn EventSink,
    cancel: &'a CancellationToken,
    duty: Duty<'a>,
    planning: Option<Planning<'a>>,
    definitions: Vec<ToolDefinition>,
    conversation: Conversation,
    meter: Meter,
    window: Window,
    archive: Mutex<Archive>,
    habits: Habits,
    ids: CallIds,
    /// What the model calls the loop's own tool.
    recall_name: &'static str,
    /// What the model calls the tool that ends the run.
    answer_name: String,
    summaries: u32,
}

/// What a turn leads to.
enum Next {
    Continue,
    End(Ending),
    /// Something ran out: one last call for an answer.
    LastCall(StopReason),
}

impl<'a> Run<'a> {
    pub(crate) async fn start(task: &Task, setup: Setup<'a>) -> Self {
        let Setup { model, tools, settings, sink, cancel, duty, planning, addition } = setup;
        let mut messages = first_messages(task, settings).await;
        if let (Some(text), Some(Message::User { content })) = (addition, messages.last_mut()) {
            content.push(Part::Text { text: text.to_owned() });
        }
        let recall_name = recall::name(tools);
        let own = duty.tool(tools);
        let all = tools.offered().iter().zip(tools.definitions());
        let (offered, mut definitions): (Vec<_>, Vec<_>) =
            all.filter(|(tool, _)| duty.is_offered(tool, settings)).unzip();
        definitions.extend(own.map(|own| own.definition()));
        definitions.push(recall::definition(recall_name));
        let names = offered.iter().map(|tool| tool.canonical.as_str());
        let names = names.chain(own.map(|own| own.canonical)).chain([recall::CANONICAL]);
        sink.emit(AgentEvent::Started {
            attempt: task.attempt,
            tools: names.map(str::to_owned).collect(),
            messages: messages.clone(),
            offer: serde_json::to_string(&tools.to_record()).ok().and_then(|offer| sink.keep_offer(&offer)),
        });
        let answer_name = match (duty, own) {
            (Duty::Helper, Some(own)) => own.name,
            _ => tools
                .find(&settings.answer_tool)
                .map_or(settings.answer_tool.as_str(), |tool| &tool.model_name),
        };
        Self {
            model,
            tools,
            settings,
            sink,
            cancel,
            duty,
            planning,
            definitions,
            conversation: Conversation::new(messages, recall_name),
            meter: Meter::start(settings),
            window: Window::new(settings.context_window_tokens),
            archive: Mutex::default(),
            habits: Habits::default(),
            ids: CallIds::default(),
            recall_name,
            answer_name: answer_name.to_owned(),
            summaries: 0,
        }
    }

    /// Works until there is an outcome, which is the last event.
    pub(crate) async fn finish(&mut self) -> Outcome {
        let ending = self.work().await;
        let outcome = self.outcome(ending);
        self.sink.emit(AgentEvent::Finished { outcome: outcome.clone() });
        outcome
    }

    /// Says something to the model that came to an end, and lets it work on with so much more.
    pub(crate) async fn go_on(&mut self, text: String, left: Left) -> Outcome {
        self.meter.grant(left);
        self.prompt(self.meter.steps + 1, text);
        self.finish().await
    }

    pub(crate) fn spent(&self) -> Spent {
        self.meter.spent()
    }

    /// What was said, called and seen so far, as far as it is still in the conversation.
    pub(crate) fn transcript(&self) -> String {
        self.conversation.old_turns(0).map(|turns| turns.transcript).unwrap_or_default()
    }

    async fn work(&mut self) -> Ending {
        // Ends with the task's time as well as with the caller's patience.
        let in_time = self.cancel.child_token();
        let _timer = CancelAt::start(self.meter.deadline(), &in_time);
        let mut nudges = 0;
        loop {
            let next = match self.meter.exhausted() {
                Some(reason) => Next::LastCall(reason),
                None => self.turn(&in_time, &mut nudges).await,
            };
            match next {
                Next::Continue => {}
                Next::End(ending) => return ending,
                Next::LastCall(_) if self.cancel.is_cancelled() => return cancelled(),
                Next::LastCall(reason) => return self.last_call(reason).await,
            }
        }
    }

    async fn turn(&mut self, in_time: &CancellationToken, nudges: &mut u32) -> Next {
        if let Err(error) = self.plan(in_time).await {
            return Next::End(failed(error));
        }
        let step = self.meter.steps + 1;
        self.make_room(step, in_time).await;
        let reply = match self.ask(step, Offer::Tools, in_time).await {
            Ok(reply) => reply,
            Err(ModelError::ContextOverflow { .. }) => return Next::LastCall(StopReason::ContextLimit),
            Err(ModelError::Cancelled) if !self.cancel.is_cancelled() => {
                return Next::LastCall(StopReason::TimeLimit);
            }
            Err(ModelError::Garbled(_)) if *nudges < NUDGES_IN_A_ROW => {
                *nudges += 1;
                // It was a reply all the same, and must not be had for ever.
                self.meter.steps += 1;
                self.prompt(
                    step,
                    "Your last reply could not be read as a tool call. Call one tool, with its arguments as one JSON object."
                        .to_owned(),
                );
                return Next::Continue;
            }
            Err(ModelError::Garbled(_)) => return Next::LastCall(StopReason::Idle),
            Err(error) => return Next::End(failed(error)),
        };
        if reply.tool_calls.is_empty() {
            return self.without_calls(step, reply, nudges);
        }
        *nudges = 0;
        let turn = Turn {
            step,
            tools: self.tools,
            recall_name: self.recall_name,
            archive: &self.archive,
            duty: self.duty,
            left: self.meter.left(),
            first_number: self.meter.tool_calls + 1,
            settings: self.settings,
            sink: self.sink,
            cancel: in_time,
            progress: None,
        };
        let done = turn.run(&reply.tool_calls).await;
        self.meter.tool_calls += u32::try_from(reply.tool_calls.len()).unwrap_or(u32::MAX);
        self.meter.tool_time += done.tool_time;
        self.meter.add(&done.spent);
        let mut repeats = Vec::new();
        for (call, result) in reply.tool_calls.iter().zip(&done.results) {
            repeats.extend(self.habits.note(call, &result.content));
        }
        self.conversation.push_reply(reply.content, reply.reasoning, reply.carried, reply.tool_calls);
        let archive = self.archive.get_mut().unwrap_or_else(PoisonError::into_inner);
        for result in done.results {
            let text = result.text.filter(|text| text.len() > KEPT_WHOLE_BYTES);
            let kept = text.is_some_and(|text| match archive.keep(result.number, &result.label, &text) {
                Ok(()) => true,
                Err(error) => {
                    tracing::warn!("failed to keep the output of call {}: {error}", result.number);
                    false
                }
            });
            self.conversation.push_result(result.call_id, result.content, kept.then_some(result.number));
        }
        if let Some(Submitted { answer, raw }) = done.answer {
            return Next::End(Ending::Answered { stop: StopReason::AnswerTool, answer, raw });
        }
        let little_left = self.meter.little_left(&self.answer_name);
        for notice in repeats.into_iter().chain(little_left) {
            self.prompt(step, notice);
        }
        Next::Continue
    }

    fn without_calls(&mut self, step: u32, reply: Reply, nudges: &mut u32) -> Next {
        let text = reply.content.clone().unwrap_or_default();
        let cut_off = reply.finish_reason == "length";
        self.conversation.push_reply(reply.content, reply.reasoning, reply.carried, Vec::new());
        // Behind a marker in a reply that was cut off may stand half an answer.
        if let Some(answer) = extract::final_answer(&text).filter(|_| !cut_off) {
            return Next::End(Ending::Answered { stop: StopReason::AnswerText, answer, raw: text });
        }
        if *nudges == NUDGES_IN_A_ROW {
            return Next::LastCall(StopReason::Idle);
        }
        *nudges += 1;
        let answer_tool = &self.answer_name;
        let nudge = if cut_off {
            format!(
                "Your reply was cut off at the output limit. Be brief: call a tool, or call `{answer_tool}` with your final answer."
            )
        } else {
            format!(
                "You called no tool and gave no final answer. Go on working with the tools, or call `{answer_tool}` with your final answer."
            )
        };
        self.prompt(step, nudge);
        Next::Continue
    }

    /// One last call without tools. What comes is the answer, by its marker or as a whole.
    async fn last_call(&mut self, reason: StopReason) -> Ending {
        self.sink.emit(AgentEvent::LimitReached { step: self.meter.steps, reason });
        let step = self.meter.steps + 1;
        self.prompt(step, format!(
            "{} No tools can be called any more. Answer now from what you know so far, with your best guess if you are not sure. Reply with nothing but this line:\nFINAL ANSWER: [YOUR FINAL ANSWER]",
            explain(reason)
        ));
        if reason == StopReason::ContextLimit {
            self.compact(step, Pressure::AllResults);
        }
        let in_time = self.cancel.child_token();
        let _timer = CancelAt::start(Instant::now() + LAST_CALL_TIMEOUT, &in_time);
        match self.ask(step, Offer::Nothing, &in_time).await {
            Ok(reply) => {
                let text = reply.content.unwrap_or_default();
                match extract::forced_answer(&text) {
                    Some(answer) => Ending::Answered { stop: reason, answer, raw: text },
                    None => {
                        Ending::NoAnswer { stop: reason, raw: Some(text).filter(|text| !text.is_empty()) }
                    }
                }
            }
            Err(ModelError::ContextOverflow { .. }) => {
                Ending::NoAnswer { stop: StopReason::ContextLimit, raw: None }
            }
            Err(ModelError::Cancelled) if self.cancel.is_cancelled() => cancelled(),
            Err(ModelError::Cancelled) => Ending::Failed {
                stop: StopReason::Error,
                failure: Failure {
                    kind: FailureKind::ModelUnavailable,
                    message: format!(
                        "the last call for an answer got none within {} s",
                        LAST_CALL_TIMEOUT.as_secs()
                    ),
                },
            },
            Err(error) => failed(error),
        }
    }

    /// One reply of the model. An overflow leads to compaction and one more try. The last call gets one try more
    /// with nothing but the question: a guess is better than no answer.
    async fn ask(
        &mut self,
        step: u32,
        offer: Offer,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        let mut reply = self.ask_once(step, offer, cancel).await;
        for measure in offer.measures() {
            let Err(ModelError::ContextOverflow { window_tokens, .. }) = &reply else { break };
            self.window.overflown(*window_tokens, self.conversation.text_bytes());
            let done = match measure {
                Measure::Compact(pressure) => self.compact(step, *pressure),
                Measure::Summarise => self.summarise(step, cancel).await,
            };
            if done {
                reply = self.ask_once(step, offer, cancel).await;
            }
        }
        reply
    }

    async fn ask_once(
        &mut self,
        step: u32,
        offer: Offer,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        let tools = match offer {
            Offer::Tools => self.definitions.as_slice(),
            Offer::Nothing => &[],
        };
        let conversation = &self.conversation;
        let (messages, price) = (conversation.messages(), self.settings.budget.price);
        let exchange = Exchange { model: self.model, price, sink: self.sink, step, messages, tools };
        let reply = exchange.run(&mut self.meter, &mut self.ids, cancel).await?;
        self.meter.steps += 1;
        let said = reply.tool_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>();
        let received = said + reply.content.as_ref().map_or(0, String::len);
        self.window.count(reply.usage, conversation.text_bytes() + received);
        Ok(reply)
    }

    /// A reply outside of the conversation: it is counted and recorded, but is no turn.
    async fn ask_for(
        &mut self,
        step: u32,
        messages: &[Message],
        tools: &[ToolDefinition],
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        let price = self.settings.budget.price;
        Exchange { model: self.model, price, sink: self.sink, step, messages, tools }
            .run(&mut self.meter, &mut self.ids, cancel)
            .await
    }

    fn prompt(&mut self, step: u32, text: String) {
        self.sink.emit(AgentEvent::Prompted { step, text: text.clone() });
        self.conversation.push_user(text);
    }

    fn outcome(&self, ending: Ending) -> Outcome {
        let meter = &self.meter;
        let (status, stop, answer, raw_answer, error) = match ending {
            Ending::Answered { stop, answer, raw } => (Status::Answered, stop, Some(answer), Some(raw), None),
            Ending::NoAnswer { stop, raw } => (Status::NoAnswer, stop, None, raw, None),
            Ending::Failed { stop, failure } => (Status::Error, stop, None, None, Some(failure)),
        };
        if let Some(failure) = &error {
            self.sink.emit(AgentEvent::Failed { failure: failure.clone() });
        }
        meter.outcome(status, stop, answer, raw_answer, error)
    }
}

/// What a model request offers besides the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    Tools,
    Nothing,
}

/// What is tried when the conversation does not fit.
#[derive(Debug, Clone, Copy)]
enum Measure {
    Compact(Pressure),
    Summarise,
}

impl Offer {
    /// In the order in which they are tried.
    fn measures(self) -> &'static [Measure] {
        use Measure::{Compact, Summarise};
        match self {
            Self::Tools => {
                &[Compact(Pressure::OldResults { whole_turns: 1 }), Summarise, Compact(Pressure::AllResults)]
            }
            Self::Nothing => &[Compact(Pressure::AllResults), Compact(Pressure::AllButQuestion)],
        }
    }
}

/// Cancels a token at an instant, unless dropped before.
pub(crate) struct CancelAt(tokio::task::JoinHandle<()>);

impl CancelAt {
    pub(crate) fn start(instant: Instant, token: &CancellationToken) -> Self {
        let token = token.clone();
        Self(tokio::spawn(async move {
            tokio::time::sleep_until(instant).await;
            token.cancel();
        }))
    }
}

impl Drop for CancelAt {
    fn drop(&mut self) {
        self.0.abort();
    }
}
