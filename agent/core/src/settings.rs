use std::time::Duration;

/// How the loop behaves, the same for every task of a run.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// Model turns, before the forced last one.
    pub max_steps: u32,
    /// Canonical name of the answer tool: `server/tool`.
    pub answer_tool: String,
    pub sample_timeout: Duration,
    pub budget: Budget,
    /// Bytes of one tool result that the model sees; the default is `tools::DEFAULT_RESULT_BYTES`.
    pub result_bytes: usize,
    /// The model's window in tokens, when known.
    pub context_window_tokens: Option<u64>,
    /// Media types that the model takes in a message, as prefixes: `image/`.
    pub accepted_media: Vec<String>,
    pub system_prompt: String,
}

/// What one task may use; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    pub tokens: Option<u64>,
    pub cost_usd: Option<f64>,
    /// US dollars a million input, cached input and output tokens; without it money cannot be counted.
    pub price: Option<Price>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    pub input: f64,
    pub cached: f64,
    pub output: f64,
}
