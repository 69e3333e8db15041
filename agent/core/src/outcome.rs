use std::ops::{AddAssign, SubAssign};

use serde::{Deserialize, Serialize};

/// How a task ended: always exactly one of these, and each stays in the denominator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub status: Status,
    pub stop: StopReason,
    /// The extracted answer; for `answered` never empty.
    pub answer: Option<String>,
    /// The text the answer was extracted from, or the answer tool's own argument.
    pub raw_answer: Option<String>,
    /// Model turns taken, the forced last one included.
    pub steps: u32,
    pub tool_calls: u32,
    pub usage: Usage,
    /// US dollars; `None` when no price is known.
    pub cost_usd: Option<f64>,
    pub timing: Timing,
    pub error: Option<Failure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Answered,
    NoAnswer,
    Error,
}

/// What ended the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer tool was called.
    AnswerTool,
    /// A turn without tool calls held a final answer marker.
    AnswerText,
    /// The model fell silent: nudged twice, and no answer.
    Idle,
    StepLimit,
    TokenLimit,
    CostLimit,
    TimeLimit,
    ContextLimit,
    /// The budget of the whole run.
    RunLimit,
    Cancelled,
    Error,
}

/// Why a task has no answer although nothing ran out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    /// For people: what was tried, what came back, what to do.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The provider refused the key, the model or the account: every other task will fail alike.
    ModelRefused,
    /// The provider rejected this task's request.
    RequestRejected,
    /// The provider could not be reached or kept failing after all retries.
    ModelUnavailable,
    /// The provider declined to answer this content.
    ContentRefused,
    /// A required MCP server did not start or could not be restarted.
    Server,
    /// The program of an agent that is not the loop could not be started, or failed.
    Agent,
    Cancelled,
    /// A fault of ours.
    Internal,
}

/// Tokens as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_tokens: u64,
    pub reasoning_tokens: u64,
}

impl Usage {
    pub fn total(&self) -> u64 {
        self.input_tokens + self.output_tokens
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cached_tokens += other.cached_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
    }
}

impl SubAssign for Usage {
    fn sub_assign(&mut self, other: Self) {
        self.input_tokens -= other.input_tokens;
        self.output_tokens -= other.output_tokens;
        self.cached_tokens -= other.cached_tokens;
        self.reasoning_tokens -= other.reasoning_tokens;
    }
}

/// Where the time went, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timing {
    /// From the first line of the loop to its last.
    pub wall: f64,
    /// Waiting for the model, retries included.
    pub model: f64,
    /// Waiting for tools; calls that run at the same time count once each.
    pub tool: f64,
}
