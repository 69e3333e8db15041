use std::time::Duration;

use tokio::time::Instant;

use crate::outcome::{StopReason, Usage};
use crate::settings::{AgentSettings, Budget};

/// Counts what a task uses and says when something ran out.
#[derive(Debug)]
pub(crate) struct Meter {
    started: Instant,
    max_steps: u32,
    timeout: Duration,
    budget: Budget,
    pub(crate) steps: u32,
    pub(crate) tool_calls: u32,
    pub(crate) usage: Usage,
    pub(crate) model_time: Duration,
    pub(crate) tool_time: Duration,
    /// Tokens of replies whose provider counted none, by the rule of thumb of four bytes a token.
    estimated_tokens: u64,
}

/// Bytes of a token, for replies without a count; within some percent for English text and code.
pub(crate) const BYTES_PER_TOKEN: usize = 4;

impl Meter {
    pub(crate) fn start(settings: &AgentSettings) -> Self {
        Self {
            started: Instant::now(),
            max_steps: settings.max_steps,
            timeout: settings.sample_timeout,
            budget: settings.budget,
            steps: 0,
            tool_calls: 0,
            usage: Usage::default(),
            model_time: Duration::ZERO,
            tool_time: Duration::ZERO,
            estimated_tokens: 0,
        }
    }

    /// `sent_and_received_bytes` is asked only when the provider counted nothing: it walks the whole conversation.
    pub(crate) fn count_reply(
        &mut self,
        usage: Usage,
        sent_and_received_bytes: impl FnOnce() -> usize,
        took: Duration,
    ) {
        self.steps += 1;
        self.model_time += took;
        self.usage += usage;
        if usage.total() == 0 {
            self.estimated_tokens += (sent_and_received_bytes() / BYTES_PER_TOKEN) as u64;
        }
    }

    /// What ran out, if anything.
    pub(crate) fn exhausted(&self) -> Option<StopReason> {
        let tokens = self.usage.total() + self.estimated_tokens;
        let checks = [
            (self.started.elapsed() >= self.timeout, StopReason::TimeLimit),
            (self.steps >= self.max_steps, StopReason::StepLimit),
            (self.budget.tokens.is_some_and(|limit| tokens >= limit), StopReason::TokenLimit),
            (
                self.budget.cost_usd.zip(self.cost_usd()).is_some_and(|(limit, cost)| cost >= limit),
                StopReason::CostLimit,
            ),
        ];
        checks.into_iter().find_map(|(ran_out, reason)| ran_out.then_some(reason))
    }

    /// US dollars so far; `None` without a price.
    pub(crate) fn cost_usd(&self) -> Option<f64> {
        self.budget.price.map(|price| price.of(&self.usage))
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.started + self.timeout
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}
