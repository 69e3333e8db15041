//! What the live display shows, as lines of text: a pure function of what is known, the time and the size of the screen.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gaia_agent::Status;
use serde::{Deserialize, Serialize};

use super::short;
use crate::store::{SampleKey, SampleResult};

/// A sample that shows no sign of life for so long is told about: longer than a command may take by the presets, so that
/// a slow tool alone is no news.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(300);

/// Lines of running samples at most, on the tallest screen: beyond that nobody reads them.
const MAX_RUNNING_LINES: usize = 15;

/// Columns of a bar.
const BAR_COLUMNS: usize = 20;

/// Samples that must have ended before the time that is left is guessed.
const MIN_SAMPLES_FOR_GUESS: usize = 3;

/// Everything that is shown.
#[derive(Debug)]
pub(super) struct Board {
    begun: Instant,
    levels: BTreeMap<u8, Tally>,
    /// Samples that ended in this session.
    ended: usize,
    tokens: u64,
    cost_usd: Option<f64>,
    running: BTreeMap<SampleKey, Running>,
}

/// What is being done, as numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Activity {
    /// The longest at work first.
    pub running: Vec<RunningSample>,
    pub tokens: u64,
    pub cost_usd: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunningSample {
    pub task_id: String,
    pub epoch: u32,
    pub level: u8,
    pub step: u32,
    pub doing: String,
    /// Since it began.
    pub seconds: f64,
    /// Since it began to do that.
    pub doing_seconds: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) done: usize,
    pub(super) total: usize,
    correct: usize,
    no_answer: usize,
    errors: usize,
}

impl Tally {
    fn count(&mut self, result: &SampleResult) {
        self.done += 1;
        self.correct += usize::from(result.score.as_ref().is_some_and(|score| score.correct));
        self.no_answer += usize::from(result.status == Status::NoAnswer);
        self.errors += usize::from(result.status == Status::Error);
    }
}

#[derive(Debug)]
struct Running {
    level: u8,
    begun: Instant,
    step: u32,
    doing: String,
    /// When it began to do that.
    since: Instant,
    /// How often it was told about as stuck for what it is doing.
    warnings: u32,
}

impl Board {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            begun: now,
            levels: BTreeMap::new(),
            ended: 0,
            tokens: 0,
            cost_usd: None,
            running: BTreeMap::new(),
        }
    }

    /// One more sample that was asked for, and how it ended if it did so in an earlier session.
    pub(super) fn plan(&mut self, level: u8, ended: Option<&SampleResult>) {
        let tally = self.levels.entry(level).or_default();
        tally.total += 1;
        if let Some(result) = ended {
            tally.count(result);
        }
    }

    pub(super) fn start(&mut self, key: SampleKey, level: u8, now: Instant) {
        let doing = "starting its servers".to_owned();
        self.running.insert(key, Running { level, begun: now, step: 0, doing, since: now, warnings: 0 });
    }

    pub(super) fn note(&mut self, key: &SampleKey, step: u32, doing: String, now: Instant) {
        if let Some(running) = self.running.get_mut(key) {
            running.step = step;
            running.doing = doing;
            running.since = now;
            running.warnings = 0;
        }
    }

    pub(super) fn spend(&mut self, tokens: u64, cost_usd: Option<f64>) {
        self.tokens += tokens;
        if let Some(cost) = cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
    }

    pub(super) fn stop(&mut self, key: &SampleKey) {
        self.running.remove(key);
    }

    pub(super) fn finish(&mut self, result: &SampleResult) {
        self.ended += 1;
        self.levels.entry(result.level).or_default().count(result);
    }

    pub(super) fn all(&self) -> Tally {
        self.levels.values().fold(Tally::default(), |all, level| Tally {
            done: all.done + level.done,
            total: all.total + level.total,
            correct: all.correct + level.correct,
            no_answer: all.no_answer + level.no_answer,
            errors: all.errors + level.errors,
        })
    }

    pub(super) fn activity(&self, now: Instant) -> Activity {
        let seconds =
            |since: Instant| (now.saturating_duration_since(since).as_secs_f64() * 1e3).round() / 1e3;
        let mut running: Vec<(&SampleKey, &Running)> = self.running.iter().collect();
        running.sort_by_key(|(_, running)| running.begun);
        let running = running.into_iter().map(|(key, running)| RunningSample {
            task_id: key.task_id.clone(),
            epoch: key.epoch,
            level: running.level,
            step: running.step,
            doing: running.doing.clone(),
            seconds: seconds(running.begun),
            doing_seconds: seconds(running.since),
        });
        Activity { running: running.collect(), tokens: self.tokens, cost_usd: self.cost_usd }
    }

    /// Samples that have done the same thing for too long and that were not told about yet: once after
    /// [`STUCK_AFTER`], again after twice the time, and so on.
    pub(super) fn stuck(&mut self, now: Instant) -> Vec<String> {
        let mut told = Vec::new();
        for (key, running) in &mut self.running {
            let silent = now.saturating_duration_since(running.since);
            if silent >= STUCK_AFTER * 2u32.saturating_pow(running.warnings) {
                running.warnings += 1;
                told.push(format!(
                    "sample {} (level {}, epoch {}) has been at the same thing for {}: step {}, {}",
                    key.task_id,
                    running.level,
                    key.epoch,
                    clock(silent),
                    running.step,
                    running.doing
                ));
            }
        }
        told
    }

    /// One line that says where the run stands, for logs.
    pub(super) fn summary(&self, now: Instant) -> String {
        format!("{}, {}", self.outcomes(), self.spending(now))
    }

    fn outcomes(&self) -> String {
        let all = self.all();
        format!(
            "{}/{} samples, {} correct, {} no answer, {} errors, {} running",
            all.done,
            all.total,
            all.correct,
            all.no_answer,
            all.errors,
            self.running.len()
        )
    }

    fn spending(&self, now: Instant) -> String {
        let mut parts: Vec<String> = self.cost_usd.iter().map(|cost| format!("${cost:.2}")).collect();
        let elapsed = now.saturating_duration_since(self.begun);
        let rate = self.tokens as f64 / elapsed.as_secs_f64().max(1.0) * 60.0;
        parts.push(format!("{} tokens ({}/min)", thousands(self.tokens as f64), thousands(rate)));
        parts.push(format!("{} gone", clock(elapsed)));
        let all = self.all();
        if self.ended >= MIN_SAMPLES_FOR_GUESS && all.total > all.done {
            let left = elapsed.as_secs_f64() / self.ended as f64 * (all.total - all.done) as f64;
            parts.push(format!("about {} left", clock(Duration::from_secs_f64(left))));
        }
        parts.join(", ")
    }

    /// The lines for a screen of this size; the last column stays free.
    pub(super) fn lines(&self, now: Instant, columns: usize, rows: usize) -> Vec<String> {
        let mut lines: Vec<String> = self
            .levels
            .iter()
            .map(|(level, tally)| {
                format!(
                    "level {level} {} {:>3}/{:<3} {} correct",
                    bar(tally),
                    tally.done,
                    tally.total,
                    tally.correct
                )
            })
            .collect();
        lines.push(self.outcomes());
        lines.push(self.spending(now));
        // Some rows are left to what stands above.
        let room = rows.saturating_sub(lines.len() + 3).min(MAX_RUNNING_LINES);
        let mut running: Vec<(&SampleKey, &Running)> = self.running.iter().collect();
        running.sort_by_key(|(_, running)| running.begun);
        let shown = if running.len() > room { room.saturating_sub(1) } else { running.len() };
        lines.extend(running[..shown].iter().map(|(key, running)| {
            let silent = now.saturating_duration_since(running.since);
            let mark = if silent >= STUCK_AFTER { '!' } else { ' ' };
            format!(
                "{mark}{:>6}  level {}  {:<12}  step {:>2}  {} {}",
                clock(now.saturating_duration_since(running.begun)),
                running.level,
                short(&key.task_id),
                running.step,
                running.doing,
                clock(silent)
            )
        }));
        if shown < running.len() {
            lines.push(format!("         and {} more", running.len() - shown));
        }
        lines.iter().map(|line| line.chars().take(columns.saturating_sub(1)).collect()).collect()
    }
}

fn bar(tally: &Tally) -> String {
    let filled = (BAR_COLUMNS * tally.done).checked_div(tally.total).unwrap_or(0).min(BAR_COLUMNS);
    format!("[{}{}]", "█".repeat(filled), "░".repeat(BAR_COLUMNS - filled))
}

/// `42 s`, `4:12`, `1:04:12`.
fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

fn thousands(number: f64) -> String {
    match number {
        number if number >= 1e6 => format!("{:.1} M", number / 1e6),
        number if number >= 1e4 => format!("{:.0} k", number / 1e3),
        number => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> SampleKey {
        SampleKey { task_id: format!("task-{number:04}-long-id"), epoch: 1 }
    }

    fn result(level: u8, status: Status) -> SampleResult {
        let result = super::super::tests::result();
        let score = result.score.clone().filter(|_| status == Status::Answered);
        SampleResult { level, status, score, ..result }
    }

    #[test]
    fn a_hundred_running_samples_fit_on_a_small_screen() {
        let start = Instant::now();
        let mut board = Board::new(start);
        for number in 0..53 {
            let ended = result(1, if number % 2 == 0 { Status::Answered } else { Status::NoAnswer });
            board.plan(1, Some(&ended).filter(|_| number < 10));
        }
        for _ in 0..86 {
            board.plan(2, None);
        }
        for number in 0..100 {
            board.start(key(number), 2, start + Duration::from_secs(number as u64));
        }
        let now = start + Duration::from_secs(400);
        board.note(&key(0), 3, "bash/bash".to_owned(), now - Duration::from_secs(301));
        let lines = board.lines(now, 80, 24);
        assert!(lines.len() <= 21, "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:#?}");
        assert_eq!(lines[0], "level 1 [███░░░░░░░░░░░░░░░░░]  10/53  5 correct");
        assert!(
            lines[2].starts_with("10/139 samples, 5 correct, 5 no answer, 0 errors, 100 running"),
            "{}",
            lines[2]
        );
        assert_eq!(lines[4], "!  6:40  level 2  task-0000-l…  step  3  bash/bash 5:01", "the oldest first");
        assert_eq!(lines.last().unwrap(), "         and 86 more");
        assert_eq!(board.lines(now, 80, 4).len(), 5, "levels, outcomes and spending are always there");
    }

    #[test]
    fn money_tokens_rate_and_what_is_left_are_counted() {
        let start = Instant::now();
        let mut board = Board::new(start);
        for _ in 0..6 {
            board.plan(1, None);
        }
        for status in [Status::Answered, Status::NoAnswer, Status::Error] {
            board.finish(&result(1, status));
            board.spend(20_000, Some(0.25));
        }
        let summary = board.summary(start + Duration::from_secs(120));
        assert_eq!(
            summary,
            "3/6 samples, 1 correct, 1 no answer, 1 errors, 0 running, $0.75, 60 k tokens (30 k/min), 2:00 gone, about 2:00 left"
        );
    }

    #[test]
    fn a_silent_sample_is_told_about_once_and_again_after_twice_the_time() {
        let start = Instant::now();
        let mut board = Board::new(start);
        board.start(key(1), 3, start);
        board.note(&key(1), 7, "fetch/fetch".to_owned(), start);
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(board.stuck(after(299)).is_empty());
        assert_eq!(
            board.stuck(after(300)),
            [
                "sample task-0001-long-id (level 3, epoch 1) has been at the same thing for 5:00: step 7, fetch/fetch"
            ]
        );
        assert!(board.stuck(after(599)).is_empty());
        assert_eq!(board.stuck(after(600)).len(), 1);
        board.note(&key(1), 8, "model".to_owned(), after(700));
        assert!(board.stuck(after(999)).is_empty(), "it lives");
        assert_eq!(board.stuck(after(1000)).len(), 1);
        board.stop(&key(1));
        assert!(board.stuck(after(9999)).is_empty());
    }
}
