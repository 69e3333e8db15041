//! One role at work: tools of its own, a run of the loop, an ending whatever happens.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::{Role, Work, failed};
use crate::agent::exchange::{CallIds, Exchange};
use crate::agent::{CancelAt, LAST_CALL_TIMEOUT, Run, Setup};
use crate::branch::BranchSink;
use crate::duty::Duty;
use crate::event::{AgentEvent, EventSink};
use crate::limits::{Left, Meter, Spent};
use crate::message::{Message, Part};
use crate::model::ModelError;
use crate::outcome::{Failure, FailureKind, Outcome};
use crate::question::first_messages;
use crate::task::Task;
use crate::tools::{ToolHost, bound};

/// What a role came to.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) spent: Spent,
    /// Of the work, cut to what another role is shown of it.
    pub(super) transcript: String,
}

/// Bytes of one role's work that another is shown: enough for the last outputs, from which answers come.
const TRANSCRIPT_BYTES: usize = 12 * 1024;

impl Work<'_> {
    /// The first event of a task that several roles work on.
    pub(super) async fn begin(&self) {
        self.sink.emit(AgentEvent::Started {
            attempt: self.task.attempt,
            tools: Vec::new(),
            messages: first_messages(self.task, &self.worker.settings).await,
            offer: None,
        });
    }

    /// The last events of it.
    pub(super) fn conclude(&self, outcome: Outcome) -> Outcome {
        if let Some(failure) = &outcome.error {
            self.sink.emit(AgentEvent::Failed { failure: failure.clone() });
        }
        self.sink.emit(AgentEvent::Finished { outcome: outcome.clone() });
        outcome
    }

    /// Tools for a run, or why there are none.
    pub(super) async fn open(&self, branch: Option<&str>) -> Result<Arc<ToolHost>, Failure> {
        tokio::select! {
            opened = self.tools.open(branch) => {
                opened.map_err(|error| Failure { kind: FailureKind::Server, message: error.to_string() })
            }
            () = self.cancel.cancelled() => Err(cancelled()),
        }
    }

    /// A run of the loop from the question to its ending, with tools of its own. A crash in it is an ending too.
    /// `addition` is said to it after the question.
    pub(super) async fn run(&self, branch: &str, role: &Role, addition: Option<&str>, left: Left) -> Ended {
        let sink = BranchSink::new(self.sink, branch);
        let tools = match self.open(Some(branch)).await {
            Ok(tools) => tools,
            Err(failure) => return never_began(&sink, failure),
        };
        let settings = left.limit(&role.settings);
        let setup = Setup {
            model: role.model.as_ref(),
            tools: &tools,
            settings: &settings,
            sink: &sink,
            cancel: self.cancel,
            duty: Duty::Alone,
            planning: None,
            addition,
        };
        let ended = to_end(self.task, setup, &sink).await;
        self.tools.close(tools).await;
        ended
    }
}

/// A run from the question to its ending.
pub(super) async fn to_end(task: &Task, setup: Setup<'_>, sink: &BranchSink<'_>) -> Ended {
    let work = async {
        let mut run = Run::start(task, setup).await;
        let outcome = run.finish().await;
        Ended { outcome, spent: run.spent(), transcript: shortened(&run) }
    };
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| crashed(sink, panic.as_ref()))
}

pub(super) fn shortened(run: &Run<'_>) -> String {
    bound(&run.transcript(), TRANSCRIPT_BYTES, None).text
}

/// The ending of a role whose run panicked.
pub(super) fn crashed(sink: &BranchSink<'_>, panic: &(dyn Any + Send)) -> Ended {
    let words = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    let message = format!("a fault of gaia's own: {words}");
    tracing::error!("{message}");
    ended_by(sink, Failure { kind: FailureKind::Internal, message })
}

fn never_began(sink: &BranchSink<'_>, failure: Failure) -> Ended {
    sink.emit(AgentEvent::Started { attempt: 0, tools: Vec::new(), messages: Vec::new(), offer: None });
    ended_by(sink, failure)
}

fn ended_by(sink: &BranchSink<'_>, failure: Failure) -> Ended {
    let outcome = failed(failure.clone());
    sink.emit(AgentEvent::Failed { failure });
    sink.emit(AgentEvent::Finished { outcome: outcome.clone() });
    Ended { outcome, spent: sink.seen(), transcript: String::new() }
}

pub(super) fn cancelled() -> Failure {
    Failure { kind: FailureKind::Cancelled, message: "cancelled before there was an answer".to_owned() }
}

/// One reply of a role that has neither tools nor a second turn.
pub(super) async fn say(
    work: &Work<'_>,
    branch: &str,
    role: &Role,
    meter: &mut Meter,
    system: &str,
    text: String,
) -> Result<String, ModelError> {
    let sink = BranchSink::new(work.sink, branch);
    let messages = vec![
        Message::System { content: system.to_owned() },
        Message::User { content: vec![Part::Text { text }] },
    ];
    sink.emit(AgentEvent::BranchStarted { tools: Vec::new(), messages: messages.clone() });
    let price = role.settings.budget.price;
    let exchange =
        Exchange { model: role.model.as_ref(), price, sink: &sink, step: 1, messages: &messages, tools: &[] };
    // As the last call of a run: it may come when the time of the task is over.
    let in_time = work.cancel.child_token();
    let _timer = CancelAt::start(Instant::now() + LAST_CALL_TIMEOUT, &in_time);
    let reply = exchange.run(meter, &mut CallIds::default(), &in_time).await?;
    meter.steps += 1;
    Ok(reply.content.unwrap_or_default())
}
