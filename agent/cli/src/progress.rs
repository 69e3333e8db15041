//! What the user sees while samples run.

mod board;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gaia_agent::{AgentEvent, Status};
use indicatif::{ProgressBar, ProgressStyle};

use crate::console::{Console, Display};
use crate::store::{SampleKey, SampleResult};
use board::Board;
pub use board::{Activity, RunningSample};

/// Between two pictures of the live display.
const REDRAW_INTERVAL: Duration = Duration::from_millis(500);

/// Between two lines about the state of the run where there is no live display: often enough to see in a CI log that it
/// lives, seldom enough not to fill it.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Size of a screen that does not tell its own.
const USUAL_SCREEN: (usize, usize) = (80, 24);

/// Progress of one session: a board that redraws itself on a terminal, else a line for each sample that ends.
#[derive(Debug)]
pub struct Progress {
    console: Console,
    shared: Arc<Shared>,
    bar: ProgressBar,
}

#[derive(Debug)]
struct Shared {
    board: Mutex<Board>,
    ended: Mutex<bool>,
    wake: Condvar,
}

/// Shows one running sample until it is dropped.
#[derive(Debug)]
pub struct SampleProgress {
    key: SampleKey,
    shared: Arc<Shared>,
}

impl Progress {
    /// Of no samples yet: [`plan`](Self::plan) names them.
    pub fn new(console: Console) -> Self {
        let shared = Arc::new(Shared {
            board: Mutex::new(Board::new(Instant::now())),
            ended: Mutex::new(false),
            wake: Condvar::new(),
        });
        let bar = match console.display() {
            Display::Live => {
                let bar = console.bars().add(ProgressBar::new_spinner());
                // The template is a constant; a bad one falls back to the default look.
                bar.set_style(
                    ProgressStyle::with_template("{msg}")
                        .unwrap_or_else(|_| ProgressStyle::default_spinner()),
                );
                bar
            }
            Display::Lines | Display::Silent => ProgressBar::hidden(),
        };
        if console.display() != Display::Silent {
            let (console, shared, bar) = (console.clone(), shared.clone(), bar.clone());
            // A thread, for a run so busy that no task gets its turn is what one wants to see.
            let watch = std::thread::Builder::new().name("progress".to_owned());
            if let Err(error) = watch.spawn(move || watch_over(&console, &shared, &bar)) {
                tracing::warn!(%error, "no live display: its thread could not be started");
            }
        }
        Self { console, shared, bar }
    }

    /// One sample that was asked for, and how it ended if it did so in an earlier session.
    pub fn plan(&self, level: u8, ended: Option<&SampleResult>) {
        locked(&self.shared.board).plan(level, ended);
    }

    pub fn start(&self, key: &SampleKey, level: u8) -> SampleProgress {
        locked(&self.shared.board).start(key.clone(), level, Instant::now());
        SampleProgress { key: key.clone(), shared: self.shared.clone() }
    }

    pub fn finish(&self, result: &SampleResult) {
        let (done, total) = {
            let mut board = locked(&self.shared.board);
            board.finish(result);
            let all = board.all();
            (all.done, all.total)
        };
        match self.console.display() {
            Display::Lines => self.console.say(&line(done, total, result)),
            Display::Live if result.status == Status::Error => {
                self.console.say(&line(done, total, result));
            }
            Display::Live | Display::Silent => {}
        }
    }

    /// What is being done, for others than the screen.
    pub fn activity(&self) -> Activity {
        locked(&self.shared.board).activity(Instant::now())
    }

    /// Takes the board off the screen.
    pub fn clear(&self) {
        *locked(&self.shared.ended) = true;
        self.shared.wake.notify_all();
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl SampleProgress {
    pub fn observe(&self, event: &AgentEvent) {
        self.note(None, event);
    }

    /// The same of a role of a strategy.
    pub fn observe_branch(&self, branch: &str, event: &AgentEvent) {
        self.note(Some(branch), event);
    }

    fn note(&self, branch: Option<&str>, event: &AgentEvent) {
        let mut board = locked(&self.shared.board);
        let (step, doing) = match event {
            AgentEvent::ModelCall { step, .. } => (*step, "model".to_owned()),
            AgentEvent::ModelRetry { step, wait_ms, .. } => {
                (*step, format!("model failed, next try in {:.0} s,", *wait_ms as f64 / 1e3))
            }
            AgentEvent::ToolStarted { step, tool, .. } => (*step, tool.clone()),
            AgentEvent::LimitReached { step, .. } => (*step, "last call".to_owned()),
            AgentEvent::ModelReply { usage, cost_usd, .. } => return board.spend(usage.total(), *cost_usd),
            _ => return,
        };
        let doing = match branch {
            Some(branch) => format!("{branch}, {doing}"),
            None => doing,
        };
        board.note(&self.key, step, doing, Instant::now());
    }
}

impl Drop for SampleProgress {
    fn drop(&mut self) {
        locked(&self.shared.board).stop(&self.key);
    }
}

/// Draws, and tells of samples that are stuck, until the session ends.
fn watch_over(console: &Console, shared: &Shared, bar: &ProgressBar) {
    let is_live = console.display() == Display::Live;
    let interval = if is_live { REDRAW_INTERVAL } else { LINE_INTERVAL };
    loop {
        let (ended, _) = shared
            .wake
            .wait_timeout_while(locked(&shared.ended), interval, |ended| !*ended)
            .unwrap_or_else(PoisonError::into_inner);
        if *ended {
            return;
        }
        drop(ended);
        let now = Instant::now();
        let (stuck, picture) = {
            let mut board = locked(&shared.board);
            let picture = if is_live {
                let (columns, rows) = screen();
                board.lines(now, columns, rows).join("\n")
            } else {
                board.summary(now)
            };
            (board.stuck(now), picture)
        };
        for sample in stuck {
            console.say(&sample);
        }
        if is_live { bar.set_message(picture) } else { console.say(&picture) }
    }
}

/// Columns and rows.
fn screen() -> (usize, usize) {
    let size = console::Term::stderr().size_checked();
    size.map_or(USUAL_SCREEN, |(rows, columns)| (columns.into(), rows.into()))
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use gaia_agent::{Failure, FailureKind, Usage};

    use super::*;
    use crate::store::{SampleScore, SampleTiming};

    /// One that ended well.
    pub(super) fn result() -> SampleResult {
        SampleResult {
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
        }
    }

    #[test]
    fn a_line_says_which_sample_ended_how() {
        let mut result = result();
        assert_eq!(line(3, 26, &result), "[ 3/26] level 1  97800d35-00…  correct     4 steps  2.1 s");
        result.status = Status::Error;
        result.error = Some(Failure { kind: FailureKind::Server, message: "server died\nmore".into() });
        assert!(line(26, 26, &result).ends_with("error       4 steps  2.1 s  server died"));
    }
}
