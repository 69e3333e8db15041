use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::budget::SharedBudget;
use crate::outcome::{Failure, Outcome, Status, StopReason, Timing, Usage};
use crate::settings::{AgentSettings, Budget, Price};

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
    /// US dollars for the replies that have a price.
    priced_usd: f64,
    /// There was a reply without a price: what all of them cost is not known.
    unpriced: bool,
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
            priced_usd: 0.0,
            unpriced: false,
        }
    }

    /// Counts a reply and says what it cost, at the price of the model that gave it. `sent_and_received_bytes` is asked
    /// only when the provider counted nothing: it walks the whole conversation.
    pub(crate) fn count_reply(
        &mut self,
        usage: Usage,
        price: Option<Price>,
        sent_and_received_bytes: impl FnOnce() -> usize,
    ) -> Option<f64> {
        self.usage += usage;
        let mut tokens = usage.total();
        if tokens == 0 {
            tokens = (sent_and_received_bytes() / BYTES_PER_TOKEN) as u64;
            self.estimated_tokens += tokens;
        }
        let cost_usd = price.map(|price| price.of(&usage));
        self.priced_usd += cost_usd.unwrap_or_default();
        self.unpriced |= cost_usd.is_none();
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

    /// US dollars so far; `None` when not every reply has a price.
    pub(crate) fn cost_usd(&self) -> Option<f64> {
        self.budget.price.filter(|_| !self.unpriced).map(|_| self.priced_usd)
    }

    /// The ending of a task with everything that was counted.
    pub(crate) fn outcome(
        &self,
        status: Status,
        stop: StopReason,
        answer: Option<String>,
        raw_answer: Option<String>,
        error: Option<Failure>,
    ) -> Outcome {
        Outcome {
            status,
            stop,
            answer,
            raw_answer,
            steps: self.steps,
            tool_calls: self.tool_calls,
            usage: self.usage,
            cost_usd: self.cost_usd(),
            timing: Timing {
                wall: self.elapsed().as_secs_f64(),
                model: self.model_time.as_secs_f64(),
                tool: self.tool_time.as_secs_f64(),
            },
            error,
        }
    }

    pub(crate) fn spent(&self) -> Spent {
        Spent {
            steps: self.steps,
            tool_calls: self.tool_calls,
            usage: self.usage,
            estimated_tokens: self.estimated_tokens,
            priced_usd: self.priced_usd,
            unpriced: self.unpriced,
            model_time: self.model_time,
            tool_time: self.tool_time,
        }
    }

    /// Counts what another role used up of the same limits. The budget of the run has it already.
    pub(crate) fn add(&mut self, spent: &Spent) {
        self.steps += spent.steps;
        self.tool_calls += spent.tool_calls;
        self.usage += spent.usage;
        self.estimated_tokens += spent.estimated_tokens;
        self.priced_usd += spent.priced_usd;
        self.unpriced |= spent.unpriced;
        self.model_time += spent.model_time;
        self.tool_time += spent.tool_time;
    }

    pub(crate) fn left(&self) -> Left {
        Left {
            steps: self.max_steps.saturating_sub(self.steps),
            tokens: self.budget.tokens.map(|limit| limit.saturating_sub(self.tokens())),
            cost_usd: self.budget.cost_usd.map(|limit| (limit - self.priced_usd).max(0.0)),
            time: self.timeout.saturating_sub(self.elapsed()),
        }
    }

    /// From now on, so much more may be used.
    pub(crate) fn grant(&mut self, left: Left) {
        self.max_steps = self.steps + left.steps;
        self.budget.tokens = left.tokens.map(|tokens| self.tokens() + tokens);
        self.budget.cost_usd = left.cost_usd.map(|cost| self.priced_usd + cost);
        self.timeout = self.elapsed() + left.time;
        self.told = Scarcity::None;
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

/// What a role used of a task's limits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Spent {
    pub(crate) steps: u32,
    pub(crate) tool_calls: u32,
    pub(crate) usage: Usage,
    estimated_tokens: u64,
    priced_usd: f64,
    unpriced: bool,
    pub(crate) model_time: Duration,
    pub(crate) tool_time: Duration,
}

impl Spent {
    fn tokens(&self) -> u64 {
        self.usage.total() + self.estimated_tokens
    }

    /// Takes away what was counted before.
    pub(crate) fn take(&mut self, before: &Self) {
        self.steps -= before.steps;
        self.tool_calls -= before.tool_calls;
        self.usage -= before.usage;
        self.estimated_tokens -= before.estimated_tokens;
        self.priced_usd -= before.priced_usd;
        self.model_time -= before.model_time;
        self.tool_time -= before.tool_time;
    }

    /// A reply of a model that was seen going by.
    pub(crate) fn reply(usage: Usage, cost_usd: Option<f64>) -> Self {
        let priced_usd = cost_usd.unwrap_or_default();
        Self { steps: 1, usage, priced_usd, unpriced: cost_usd.is_none(), ..Self::default() }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.tool_calls += other.tool_calls;
        self.usage += other.usage;
        self.estimated_tokens += other.estimated_tokens;
        self.priced_usd += other.priced_usd;
        self.unpriced |= other.unpriced;
        self.model_time += other.model_time;
        self.tool_time += other.tool_time;
    }
}

/// What is left of a task's limits, or a part of it that a role gets. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Left {
    pub(crate) steps: u32,
    pub(crate) tokens: Option<u64>,
    pub(crate) cost_usd: Option<f64>,
    pub(crate) time: Duration,
}

impl Left {
    /// A share of everything, of the steps rounded down.
    pub(crate) fn share(self, share: f64) -> Self {
        Self {
            steps: (f64::from(self.steps) * share + SHARE_ROUNDING) as u32,
            tokens: self.tokens.map(|tokens| (tokens as f64 * share) as u64),
            cost_usd: self.cost_usd.map(|cost| cost * share),
            time: self.time.mul_f64(share),
        }
    }

    pub(crate) fn less(self, spent: &Spent) -> Self {
        Self {
            steps: self.steps.saturating_sub(spent.steps),
            tokens: self.tokens.map(|tokens| tokens.saturating_sub(spent.tokens())),
            cost_usd: self.cost_usd.map(|cost| (cost - spent.priced_usd).max(0.0)),
            time: self.time.saturating_sub(spent.model_time + spent.tool_time),
        }
    }

    /// The settings of a role that may use this much. Its last call for an answer is one of the steps.
    pub(crate) fn limit(self, settings: &AgentSettings) -> AgentSettings {
        let budget = Budget { tokens: self.tokens, cost_usd: self.cost_usd, ..settings.budget };
        AgentSettings {
            max_steps: self.steps.saturating_sub(1).max(1),
            sample_timeout: self.time,
            budget,
            ..settings.clone()
        }
    }

    /// Whether a role could do anything at all with it: a turn and a last call.
    pub(crate) fn is_too_little(&self) -> bool {
        self.steps < 2 || self.tokens == Some(0) || self.cost_usd == Some(0.0) || self.time.is_zero()
    }
}

/// A third of three times as many is one third, also in floating point.
const SHARE_ROUNDING: f64 = 1e-9;

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
            priced_usd: 0.0,
            unpriced: false,
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
        meter.count_reply(Usage { input_tokens: 850, ..Usage::default() }, Some(price), || 0);
        let told = meter.little_left("submit").unwrap();
        assert!(told.contains("150 of 1000 tokens") && told.contains("0.15 of 1.00 US dollars"), "{told}");
        meter.count_reply(Usage { input_tokens: 200, ..Usage::default() }, Some(price), || 0);
        assert_eq!(meter.little_left("submit"), None, "what has run out is told by the last call");
    }

    #[test]
    fn what_roles_spend_is_counted_as_ones_own_and_an_unpriced_reply_leaves_no_sum() {
        let price = Price { input: 1_000.0, cached: 0.0, output: 0.0, reasoning: 0.0 };
        let budget = Budget { tokens: Some(1_000), cost_usd: Some(1.0), price: Some(price) };
        let mut whole = meter(10, budget);
        let mut role = meter(10, budget);
        role.steps = 3;
        role.count_reply(Usage { input_tokens: 200, ..Usage::default() }, Some(price), || 0);
        role.count_reply(Usage::default(), Some(price), || 400);
        whole.add(&role.spent());
        let left = whole.left();
        assert_eq!((left.steps, left.tokens), (7, Some(700)), "{left:?}");
        assert!((left.cost_usd.unwrap() - 0.8).abs() < 1e-9 && whole.cost_usd() == role.cost_usd());
        whole.add(&Spent::reply(Usage { input_tokens: 1, ..Usage::default() }, None));
        assert_eq!(whole.cost_usd(), None, "a sum with a part missing is no sum");
        role.grant(left);
        assert_eq!(role.left().tokens, left.tokens);
        assert_eq!(role.left().steps, left.steps);
    }

    #[test]
    fn shares_add_up_to_no_more_than_there_is() {
        for runs in 1..=9_u32 {
            for steps in 0..60 {
                let mut left =
                    Left { steps, tokens: Some(999), cost_usd: None, time: Duration::from_secs(60) };
                let mut used = 0;
                for number in 0..runs {
                    let part = left.share(1.0 / f64::from(runs - number));
                    used += part.steps;
                    left.steps -= part.steps;
                }
                assert_eq!(used, steps, "{runs} runs of {steps} steps");
            }
        }
    }
}
