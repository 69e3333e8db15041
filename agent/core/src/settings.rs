use std::sync::Arc;
use std::time::Duration;

use crate::budget::SharedBudget;
use crate::media::ImageLimits;
use crate::outcome::Usage;

/// How the loop behaves, the same for every task of a run.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// Model turns, before the forced last one.
    pub max_steps: u32,
    /// Canonical name of the answer tool: `server/tool`.
    pub answer_tool: String,
    pub sample_timeout: Duration,
    pub budget: Budget,
    /// What all tasks of a run share; `None` is no limit.
    pub run_budget: Option<Arc<SharedBudget>>,
    /// Bytes of one tool result that the model sees; the default is `tools::DEFAULT_RESULT_BYTES`.
    pub result_bytes: usize,
    /// The model's window in tokens, when known.
    pub context_window_tokens: Option<u64>,
    /// Media types that the model takes in a message, as prefixes: `image/`.
    pub accepted_media: Vec<String>,
    /// What the provider takes as one picture.
    pub image_limits: ImageLimits,
    pub system_prompt: String,
}

impl AgentSettings {
    /// Whether the model takes this media type inside a message.
    pub(crate) fn takes(&self, media_type: &str) -> bool {
        self.accepted_media.iter().any(|prefix| media_type.starts_with(prefix.as_str()))
    }
}

/// What one task may use; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    pub tokens: Option<u64>,
    pub cost_usd: Option<f64>,
    /// Without a price money cannot be counted.
    pub price: Option<Price>,
}

/// US dollars a million tokens. Reasoning tokens are counted as part of the output, and most providers bill them as such.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    pub input: f64,
    pub cached: f64,
    pub output: f64,
    pub reasoning: f64,
}

impl Price {
    /// US dollars for `usage`; cached input is taken out of the input it is part of, reasoning out of the output.
    pub fn of(&self, usage: &Usage) -> f64 {
        let fresh = usage.input_tokens.saturating_sub(usage.cached_tokens);
        let said = usage.output_tokens.saturating_sub(usage.reasoning_tokens);
        let bill = [
            (fresh, self.input),
            (usage.cached_tokens, self.cached),
            (said, self.output),
            (usage.reasoning_tokens, self.reasoning),
        ];
        bill.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_and_reasoning_tokens_are_billed_once_and_at_their_own_price() {
        let price = Price { input: 2.0, cached: 0.5, output: 8.0, reasoning: 4.0 };
        let usage = Usage {
            input_tokens: 1_000_000,
            cached_tokens: 400_000,
            output_tokens: 100_000,
            reasoning_tokens: 50_000,
        };
        assert!((price.of(&usage) - (1.2 + 0.2 + 0.4 + 0.2)).abs() < 1e-12);
    }
}
