use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Message, Part, ToolCall};
use crate::model::ModelError;
use crate::outcome::{Failure, Outcome, StopReason, Usage};
use crate::tools::SpilledFile;

/// Everything that happens while a task is worked on. Progress, transcript, report and telemetry read this
/// and nothing else. The truth is in none of the variants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// First event of an attempt: what the model was offered and told.
    Started {
        attempt: u32,
        tools: Vec<String>,
        messages: Vec<Message>,
        /// Where the tools are kept as they were offered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offer: Option<String>,
    },
    /// An attempt goes on from where the one before was lost: what that did after this turn is void, and the turns up
    /// to it stand.
    Continued {
        attempt: u32,
        after_step: u32,
    },
    /// A model request is about to be sent.
    ModelCall {
        step: u32,
        /// Fingerprint of all that is asked: messages and tools.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<String>,
    },
    /// A model request failed and is tried again.
    ModelRetry {
        step: u32,
        attempt: u32,
        reason: String,
        wait_ms: u64,
    },
    /// A request was changed for what the endpoint refuses, or a reply was read otherwise than the API has it.
    ModelNotice {
        step: u32,
        text: String,
    },
    /// There is no reply, after all retries.
    ModelFailed {
        step: u32,
        failure: ModelFailure,
    },
    ModelReply {
        step: u32,
        content: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        /// As in `Message::Assistant`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carried: Option<Value>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
        finish_reason: String,
        usage: Usage,
        /// US dollars for this reply; absent when no price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        duration_ms: u64,
        /// The part of `duration_ms` in which the request waited for its turn at the endpoint.
        #[serde(default)]
        queued_ms: u64,
    },
    /// A call is about to go to a server; `tool` is `server/tool`.
    ToolStarted {
        step: u32,
        call_id: String,
        tool: String,
        arguments: Value,
    },
    /// The one result of a call, as the model sees it.
    ToolResult {
        step: u32,
        call_id: String,
        /// `server/tool`, or the unknown name the model used.
        tool: String,
        content: Vec<Part>,
        is_error: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
        /// The kept artefact that holds the whole text, when `content` was cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole: Option<String>,
        duration_ms: u64,
    },
    /// The loop spoke to the model in a user message of its own: a nudge or the last call for an answer.
    Prompted {
        step: u32,
        text: String,
    },
    /// Old tool output was shortened or old turns were summarised to fit the window. What was dropped stands in the
    /// events before, and `recall` reads it.
    Compacted {
        step: u32,
        shortened_results: u32,
        dropped_bytes: u64,
        /// The calls whose output was shortened or left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        call_ids: Vec<String>,
        /// What stands in the place of the turns that were left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
    },
    /// A limit ended the loop; a last call without tools follows.
    LimitReached {
        step: u32,
        reason: StopReason,
    },
    /// A role of a strategy began with a conversation of its own. Its events carry its name as `branch`.
    BranchStarted {
        tools: Vec<String>,
        messages: Vec<Message>,
    },
    /// A role came to an end. What it used is part of the outcome of the whole.
    BranchEnded {
        outcome: Outcome,
    },
    /// A strategy chose among the answers of its roles.
    Decided {
        /// How: by majority, by a judge, because a reviewer agreed.
        reason: String,
        candidates: Vec<Candidate>,
        answer: Option<String>,
    },
    /// The program of an agent that is not the loop came to an end.
    ProgramEnded {
        /// Such as `exited with code 0`, or why it was killed.
        exit: String,
        stdout_bytes: u64,
        stderr_bytes: u64,
        /// The kept artefacts with what it wrote, or the head and tail of that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdout: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr: Option<String>,
    },
    /// A server wrote to its stderr, logged, died or was restarted.
    ServerNotice {
        server: String,
        level: NoticeLevel,
        text: String,
    },
    Failed {
        failure: Failure,
    },
    /// Last event of an attempt.
    Finished {
        outcome: Outcome,
    },
}

/// An answer that a role came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub branch: String,
    pub answer: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    Info,
    Warning,
    Error,
}

/// How a request to the model failed for good, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFailure {
    pub kind: ModelFailureKind,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailureKind {
    Refused,
    Request,
    ContextOverflow,
    ContentRefused,
    Garbled,
    Unavailable,
    Cancelled,
}

impl From<&ModelError> for ModelFailure {
    fn from(error: &ModelError) -> Self {
        let (kind, window_tokens) = match error {
            ModelError::Refused(_) => (ModelFailureKind::Refused, None),
            ModelError::Request(_) => (ModelFailureKind::Request, None),
            ModelError::ContextOverflow { window_tokens, .. } => {
                (ModelFailureKind::ContextOverflow, *window_tokens)
            }
            ModelError::ContentRefused(_) => (ModelFailureKind::ContentRefused, None),
            ModelError::Garbled(_) => (ModelFailureKind::Garbled, None),
            ModelError::Unavailable(_) => (ModelFailureKind::Unavailable, None),
            ModelError::Cancelled => (ModelFailureKind::Cancelled, None),
        };
        Self { kind, message: error.to_string(), window_tokens }
    }
}

impl From<ModelFailure> for ModelError {
    fn from(failure: ModelFailure) -> Self {
        let ModelFailure { kind, message, window_tokens } = failure;
        match kind {
            ModelFailureKind::Refused => Self::Refused(message),
            ModelFailureKind::Request => Self::Request(message),
            ModelFailureKind::ContextOverflow => Self::ContextOverflow { message, window_tokens },
            ModelFailureKind::ContentRefused => Self::ContentRefused(message),
            ModelFailureKind::Garbled => Self::Garbled(message),
            ModelFailureKind::Unavailable => Self::Unavailable(message),
            ModelFailureKind::Cancelled => Self::Cancelled,
        }
    }
}

/// Takes the events of one task in order. It must not block for long: the loop waits for it.
pub trait EventSink: Send + Sync {
    fn emit(&self, event: AgentEvent);

    /// An event of a role of a strategy, such as `run 2`; a role of a role is `run 2/planner`.
    fn emit_from(&self, _branch: &str, event: AgentEvent) {
        self.emit(event);
    }

    /// Keeps a tool output whose event holds only a part, and names where it is kept. `None` when nothing is kept.
    fn keep(&self, _text: &str) -> Option<String> {
        None
    }

    /// Keeps the list of tools that a task is offered, and names where. `None` when nothing is kept.
    fn keep_offer(&self, _offer: &str) -> Option<String> {
        None
    }

    /// Keeps what there is of an answer that was too long to be taken.
    fn keep_file(&self, _file: &SpilledFile) -> Option<String> {
        None
    }
}
