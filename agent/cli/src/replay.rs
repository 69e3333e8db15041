//! A sample played again from its recording, and the first place where it goes another way.

mod compare;
mod parts;

use std::sync::Arc;
use std::time::Duration;

use gaia_agent::model::ChatModel;
use gaia_agent::tools::{RecordedTool, ToolHost};
use gaia_agent::{AgentSettings, Message, Outcome, Part, SharedBudget, Task};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::dataset::Sample;
use crate::recording::Recording;
use crate::sample::Staged;
use crate::store::StoreError;
use compare::Comparing;
pub use parts::{RecordedModel, RecordedTools};

/// Nothing is waited for in a replay; what the clock did is in the recording.
const NO_TIME_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Where a replay first goes another way than the recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The model turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Which event, and which part of it.
    pub what: String,
    pub recorded: String,
    pub now: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(step) = self.step {
            write!(formatter, "step {step}, ")?;
        }
        write!(formatter, "{}: {} → {}", self.what, self.recorded, self.now)
    }
}

/// What plays: each side is recorded or real.
pub struct Players<'a> {
    pub model: Arc<dyn ChatModel>,
    pub tools: &'a ToolHost,
}

/// What a replay came to.
#[derive(Debug)]
pub struct Replayed {
    pub outcome: Outcome,
    pub difference: Option<Difference>,
}

/// The task as it is asked now, where the question is at hand; else as it was asked then.
pub fn task_of(recording: &Recording, sample: Option<&Sample>, staged: Option<&Staged>) -> Task {
    let question = match sample {
        Some(sample) => sample.question.clone(),
        None => question_of(recording.messages()),
    };
    Task {
        id: sample.map(|sample| sample.task_id.clone()).unwrap_or_default(),
        question,
        attachment: staged.and_then(|staged| staged.attachment.clone()),
        attempt: 1,
    }
}

fn question_of(messages: &[Message]) -> String {
    let texts = messages.iter().filter_map(|message| match message {
        Message::User { content } => content.iter().find_map(|part| match part {
            Part::Text { text } => Some(text.clone()),
            _ => None,
        }),
        _ => None,
    });
    texts.into_iter().next().unwrap_or_default()
}

/// Plays one sample and compares event by event.
pub async fn replay(
    recording: &Recording,
    task: &Task,
    settings: &AgentSettings,
    players: Players<'_>,
) -> Result<Replayed, StoreError> {
    let mut settings = settings.clone();
    settings.sample_timeout = NO_TIME_LIMIT;
    settings.run_budget = recording
        .tokens_at_run_limit()
        .filter(|tokens| *tokens > 0)
        .map(|tokens| Arc::new(SharedBudget::new(Some(tokens), None, 0, 0.0)));
    let sink = Comparing::new(recording)?;
    let cancel = CancellationToken::new();
    let model = players.model.as_ref();
    let outcome = gaia_agent::run_task(task, model, players.tools, &settings, &sink, &cancel).await;
    Ok(Replayed { outcome, difference: sink.into_difference() })
}

/// The tools of a recording, with its results behind them.
pub fn recorded_host(recording: &Recording, tools: Vec<RecordedTool>) -> anyhow::Result<ToolHost> {
    let stand_in = Arc::new(RecordedTools::new(recording.results()?));
    Ok(ToolHost::recorded(tools, stand_in)?)
}
