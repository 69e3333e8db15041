use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::budget::SharedBudget;
use crate::outcome::{StopReason, Usage};
use crate::settings::{AgentSettings, Budget};

/// Counts what a task uses and says when something ran out.
#[derive(Debug)]
pub(crate) struct Meter {
    started: Instant,
    max_steps: u32,
    timeout: Duration,
    budget: Budget,
    run_budget: Option<Arc<SharedBudget>>,
    told: Scarcity,
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
            run_budget: settings.run_budget.clone(),
            told: Scarcity::None,
            steps: 0,
            tool_calls: 0,
            usage: Usage::default(),
            model_time: Duration::ZERO,
            tool_time: Duration::ZERO,
            estimated_tokens: 0,
        }
    }

    /// Counts a reply and says what it cost. `sent_and_received_bytes` is asked only when the provider counted nothing:
    /// it walks the whole conversation.
    pub(crate) fn count_reply(
        &mut self,
        usage: Usage,
        sent_and_received_bytes: impl FnOnce() -> usize,
    ) -> Option<f64> {
        self.usage += usage;
        let mut tokens = usage.total();
        if tokens == 0 {
            tokens = (sent_and_received_bytes() / BYTES_PER_TOKEN) as u64;
            self.estimated_tokens += tokens;
        }
        let cost_usd = self.budget.price.map(|price| price.of(&usage));
        if let Some(run) = &self.run_budget {
            run.spend(tokens, cost_usd.unwrap_or_default());
        }
        cost_usd
    }

    /// What ran out, if anything.
    pub(crate) fn exhausted(&self) -> Option<StopReason> {
        let tokens = self.tokens();
        let checks = [
            (self.run_budget.as_ref().is_some_and(|run| run.is_spent()), StopReason::RunLimit),
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

    fn tokens(&self) -> u64 {
        self.usage.total() + self.estimated_tokens
    }

    /// For the model when little is left, and once more when next to nothing is.
    pub(crate) fn little_left(&mut self, answer_tool: &str) -> Option<String> {
        if self.exhausted().is_some() {
            return None;
        }
        let mut scarcest = Scarcity::None;
        let mut words = Vec::new();
        let mut add = |left: f64, of: f64, text: String| {
            let scarcity = match left / of {
                share if share <= NEXT_TO_NOTHING => Scarcity::NextToNothing,
                share if share <= LITTLE => Scarcity::Little,
                _ => return,
            };
            scarcest = scarcest.max(scarcity);
            words.push(text);
        };
        let steps = self.max_steps.saturating_sub(self.steps);
        add(f64::from(steps), f64::from(self.max_steps), format!("{steps} of {} turns", self.max_steps));
        if let Some(limit) = self.budget.tokens {
            let left = limit.saturating_sub(self.tokens());
            add(left as f64, limit as f64, format!("{left} of {limit} tokens"));
        }
        if let Some((limit, cost)) = self.budget.cost_usd.zip(self.cost_usd()) {
            add(limit - cost, limit, format!("{:.2} of {limit:.2} US dollars", limit - cost));
        }
        let time = self.timeout.saturating_sub(self.elapsed());
        let seconds = [time, self.timeout].map(|time| time.as_secs_f64());
        add(seconds[0], seconds[1], format!("{:.0} of {:.0} seconds", seconds[0], seconds[1]));
        if scarcest <= self.told {
            return None;
        }
        self.told = scarcest;
        Some(format!(
            "Little is left for this task: {}. Bring it to an end: call `{answer_tool}` with your best answer in time.",
            words.join(", ")
        ))
    }
}

/// How much is left of what there is least of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scarcity {
    None,
    Little,
    NextToNothing,
}

/// The share that counts as little: at 50 turns, ten are enough to bring a line of thought to its end.
const LITTLE: f64 = 0.2;

/// The share at which the model is told a second time.
const NEXT_TO_NOTHING: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(max_steps: u32, budget: Budget) -> Meter {
        Meter {
            started: Instant::now(),
            max_steps,
            timeout: Duration::from_secs(3_600),
            budget,
            run_budget: None,
            told: Scarcity::None,
            steps: 0,
            tool_calls: 0,
            usage: Usage::default(),
            model_time: Duration::ZERO,
            tool_time: Duration::ZERO,
            estimated_tokens: 0,
        }
    }

    #[test]
    fn the_model_is_told_twice_and_only_of_what_is_scarce() {
        let mut meter = meter(40, Budget { tokens: Some(1_000), ..Budget::default() });
        let mut told = Vec::new();
        for step in 1..=40 {
            meter.steps = step;
            told.extend(meter.little_left("submit").map(|text| (step, text)));
        }
        assert_eq!(told.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [32, 38]);
        assert!(told[0].1.contains("8 of 40 turns") && told[0].1.contains("`submit`"), "{}", told[0].1);
        assert!(!told[0].1.contains("tokens") && !told[0].1.contains("seconds"), "{}", told[0].1);
    }

    #[test]
    fn tokens_and_money_are_told_too() {
        let price = crate::settings::Price { input: 1_000.0, cached: 0.0, output: 0.0, reasoning: 0.0 };
        let budget = Budget { tokens: Some(1_000), cost_usd: Some(1.0), price: Some(price) };
        let mut meter = meter(40, budget);
        meter.count_reply(Usage { input_tokens: 850, ..Usage::default() }, || 0);
        let told = meter.little_left("submit").unwrap();
        assert!(told.contains("150 of 1000 tokens") && told.contains("0.15 of 1.00 US dollars"), "{told}");
        meter.count_reply(Usage { input_tokens: 200, ..Usage::default() }, || 0);
        assert_eq!(meter.little_left("submit"), None, "what has run out is told by the last call");
    }
}
