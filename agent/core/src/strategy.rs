//! How a task is worked on: by one run of the loop, or by several that plan, vote, review or help each other.
//!
//! A strategy is a small program over the same loop. Whatever its roles do is recorded under their names, and they draw
//! on the limits of the one task together.

mod delegate;
mod plan;
mod react;
mod role;
mod verify;
mod vote;

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

pub use delegate::Delegate;
pub use plan::Plan;
pub use react::React;
pub use verify::Verify;
pub use vote::Vote;

use crate::event::{AgentEvent, EventSink};
use crate::model::ChatModel;
use crate::outcome::{Failure, Outcome, Status, StopReason, Timing, Usage};
use crate::settings::AgentSettings;
use crate::task::Task;
use crate::tools::{StartError, ToolHost};

/// Works on one task until it has exactly one outcome. It never fails, and its last event is `Finished`.
#[async_trait]
pub trait Strategy: Send + Sync {
    async fn work(&self, work: Work<'_>) -> Outcome;

    /// Whether it is one run of the loop and asks no other role: then a recording can lead it.
    fn is_one_run(&self) -> bool {
        false
    }
}

/// A task and everything it is worked on with.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    pub task: &'a Task,
    /// Whoever does what no other role does. Its settings hold the limits of the task as a whole.
    pub worker: &'a Role,
    pub tools: &'a dyn ToolSource,
    pub sink: &'a dyn EventSink,
    /// Ends the task early with an outcome of kind `cancelled`.
    pub cancel: &'a CancellationToken,
}

/// A model, and the settings of the loop when that model is the one that is asked.
#[derive(Clone)]
pub struct Role {
    pub model: Arc<dyn ChatModel>,
    /// Limits in it count for the worker only.
    pub settings: AgentSettings,
}

/// Starts the tools of a run, once for each run that must not see what another did with its own.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// What servers say is recorded under `branch`.
    async fn open(&self, branch: Option<&str>) -> Result<Arc<ToolHost>, StartError>;

    /// Takes back tools that `open` gave, and ends them: at once, or when it suits the work on other tasks.
    async fn close(&self, tools: Arc<ToolHost>);
}

/// Whether two answers are one and the same to the scorer.
pub type SameAnswer = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// The outcome of a task that ended before its loop began, with its events.
pub fn never_began(attempt: u32, sink: &dyn EventSink, failure: Failure) -> Outcome {
    let outcome = failed(failure.clone());
    sink.emit(AgentEvent::Started { attempt, tools: Vec::new(), messages: Vec::new(), offer: None });
    sink.emit(AgentEvent::Failed { failure });
    sink.emit(AgentEvent::Finished { outcome: outcome.clone() });
    outcome
}

fn failed(failure: Failure) -> Outcome {
    let cancelled = failure.kind == crate::outcome::FailureKind::Cancelled;
    Outcome {
        status: Status::Error,
        stop: if cancelled { StopReason::Cancelled } else { StopReason::Error },
        answer: None,
        raw_answer: None,
        steps: 0,
        tool_calls: 0,
        usage: Usage::default(),
        cost_usd: None,
        timing: Timing::default(),
        error: Some(failure),
    }
}

#[cfg(test)]
#[path = "strategy_tests.rs"]
mod tests;
