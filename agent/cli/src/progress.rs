//! What the user sees while samples run.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use gaia_agent::{AgentEvent, Status};
use indicatif::{ProgressBar, ProgressStyle};

use crate::console::{Console, Display};
use crate::store::{SampleKey, SampleResult};

/// Progress of one session: bars on a terminal, else a line for each sample that ends.
#[derive(Debug)]
pub struct Progress {
    console: Console,
    total: usize,
    state: Mutex<Tally>,
    overall: ProgressBar,
}

#[derive(Debug, Default)]
struct Tally {
    done: usize,
    correct: usize,
    errors: usize,
}

/// Shows one running sample until it is dropped.
#[derive(Debug)]
pub struct SampleProgress {
    bar: ProgressBar,
}

impl Progress {
    /// `done` of `total` samples ended in earlier sessions.
    pub fn new(console: Console, done: usize, total: usize) -> Self {
        let overall = match console.display() {
            Display::Live => {
                let bar = console.bars().add(ProgressBar::new(total as u64));
                bar.set_style(style("{elapsed_precise} [{bar:30}] {pos}/{len} {msg}"));
                bar.set_position(done as u64);
                bar.enable_steady_tick(Duration::from_secs(1));
                bar
            }
            Display::Lines | Display::Silent => ProgressBar::hidden(),
        };
        Self { console, total, state: Mutex::new(Tally { done, ..Tally::default() }), overall }
    }

    pub fn start(&self, key: &SampleKey, level: u8) -> SampleProgress {
        let bar = match self.console.display() {
            Display::Live => {
                let bar = self.console.bars().insert_before(&self.overall, ProgressBar::new_spinner());
                bar.set_style(style("  {elapsed:>4} {prefix}  {msg}"));
                bar.set_prefix(format!("level {level}  {}", short(&key.task_id)));
                bar.set_message("starting its servers");
                bar.enable_steady_tick(Duration::from_secs(1));
                bar
            }
            Display::Lines | Display::Silent => ProgressBar::hidden(),
        };
        SampleProgress { bar }
    }

    pub fn finish(&self, result: &SampleResult) {
        let mut tally = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        tally.done += 1;
        tally.correct += usize::from(result.score.as_ref().is_some_and(|score| score.correct));
        tally.errors += usize::from(result.status == Status::Error);
        self.overall.set_position(tally.done as u64);
        self.overall.set_message(format!("{} correct, {} errors", tally.correct, tally.errors));
        match self.console.display() {
            Display::Lines => self.console.say(&line(tally.done, self.total, result)),
            Display::Live if result.status == Status::Error => {
                self.console.say(&line(tally.done, self.total, result));
            }
            Display::Live | Display::Silent => {}
        }
    }

    /// Takes the bars off the screen.
    pub fn clear(&self) {
        self.overall.finish_and_clear();
    }
}

impl SampleProgress {
    pub fn observe(&self, event: &AgentEvent) {
        match event {
            AgentEvent::ModelCall { step } => self.bar.set_message(format!("step {step}  model")),
            AgentEvent::ModelRetry { step, wait_ms, .. } => {
                self.bar.set_message(format!(
                    "step {step}  model failed, next try in {:.0} s",
                    *wait_ms as f64 / 1e3
                ));
            }
            AgentEvent::ToolStarted { step, tool, .. } => {
                self.bar.set_message(format!("step {step}  {tool}"))
            }
            AgentEvent::LimitReached { step, .. } => self.bar.set_message(format!("step {step}  last call")),
            _ => {}
        }
    }
}

impl Drop for SampleProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// One finished sample on one line.
fn line(done: usize, total: usize, result: &SampleResult) -> String {
    let width = total.to_string().len();
    let verdict = match (result.status, &result.score) {
        (Status::Error, _) => "error",
        (Status::NoAnswer, _) => "no answer",
        (Status::Answered, None) => "answered",
        (Status::Answered, Some(score)) if score.correct => "correct",
        (Status::Answered, Some(_)) => "incorrect",
    };
    let mut line = format!(
        "[{done:>width$}/{total}] level {}  {:<12}  {verdict:<9}  {:>2} steps  {:.1} s",
        result.level,
        short(&result.task_id),
        result.steps,
        result.timing.wall
    );
    if let Some(error) = &result.error {
        line.push_str("  ");
        line.push_str(error.message.lines().next().unwrap_or_default());
    }
    line
}

/// Enough of a task id to find it.
const SHORT_ID_CHARACTERS: usize = 12;

fn short(task_id: &str) -> String {
    if task_id.chars().count() <= SHORT_ID_CHARACTERS {
        return task_id.to_owned();
    }
    task_id.chars().take(SHORT_ID_CHARACTERS - 1).chain(['…']).collect()
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants above; a bad one falls back to the default look.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use gaia_agent::{Failure, FailureKind, Usage};

    use super::*;
    use crate::store::{SampleScore, SampleTiming};

    #[test]
    fn a_line_says_which_sample_ended_how() {
        let mut result = SampleResult {
            task_id: "97800d35-0000-4000".into(),
            epoch: 1,
            level: 1,
            status: Status::Answered,
            answer: Some("42".into()),
            raw_answer: None,
            steps: 4,
            tool_calls: 3,
            usage: Usage::default(),
            cost_usd: None,
            timing: SampleTiming { wall: 2.14, ..SampleTiming::default() },
            score: Some(SampleScore {
                correct: true,
                kind: "number".into(),
                reason: String::new(),
                truth: "42".into(),
            }),
            error: None,
        };
        assert_eq!(line(3, 26, &result), "[ 3/26] level 1  97800d35-00…  correct     4 steps  2.1 s");
        result.status = Status::Error;
        result.error = Some(Failure { kind: FailureKind::Server, message: "server died\nmore".into() });
        assert!(line(26, 26, &result).ends_with("error       4 steps  2.1 s  server died"));
    }
}
