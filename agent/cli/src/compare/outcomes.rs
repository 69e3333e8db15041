use std::collections::BTreeMap;

use gaia_scorer::statistics::{Interval, Proportion};
use serde::Serialize;

use crate::report::is_withheld;
use crate::store::{RunDirectory, RunRecord, StoreError};

/// What became of the tasks of a run.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    /// By task.
    pub tasks: BTreeMap<String, TaskOutcome>,
    tokens: u64,
    cost_usd: Option<f64>,
    seconds: f64,
    missing: u64,
}

/// The epochs of one task.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TaskOutcome {
    pub level: u8,
    pub asked: u32,
    pub right: u32,
}

/// One run by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunFigures {
    /// What it is called in the comparison.
    pub letter: String,
    pub run: String,
    pub model: String,
    pub rehearsal: bool,
    /// How each answer came about.
    pub answers: String,
    pub dataset: String,
    pub split: String,
    pub epochs: u32,
    /// Samples asked for; those without an outcome count as wrong.
    pub num: u64,
    pub missing: u64,
    pub correct: u64,
    pub score: Option<f64>,
    /// 95 %, Wilson.
    pub interval: Option<Interval>,
    pub tokens: u64,
    pub cost_usd: Option<f64>,
    /// Of samples one after the other.
    pub seconds: f64,
}

#[cfg(test)]
impl Outcomes {
    pub(super) fn of_tasks(tasks: impl IntoIterator<Item = (String, TaskOutcome)>) -> Self {
        Self { tasks: tasks.into_iter().collect(), ..Self::default() }
    }
}

impl TaskOutcome {
    pub fn share(self) -> f64 {
        f64::from(self.right) / f64::from(self.asked.max(1))
    }
}

impl Outcomes {
    /// A sample without an outcome is a wrong one, as it is in the score.
    pub fn of_run(run: &RunDirectory, record: &RunRecord) -> Result<Self, StoreError> {
        let mut outcomes = Self::default();
        let withheld = record.withheld();
        for entry in run.entries(record) {
            let entry = entry?;
            // What a stage left out was not asked.
            if is_withheld(&entry, &withheld) {
                continue;
            }
            let task = outcomes.tasks.entry(entry.planned.task_id).or_default();
            task.level = entry.planned.level;
            task.asked += 1;
            let Some(result) = entry.result else {
                outcomes.missing += 1;
                continue;
            };
            task.right += u32::from(result.score.is_some_and(|score| score.correct));
            outcomes.tokens += result.usage.total();
            outcomes.seconds += result.timing.wall;
            if let Some(cost) = result.cost_usd {
                *outcomes.cost_usd.get_or_insert(0.0) += cost;
            }
        }
        // Written when a session ends: what was spent is spent.
        if let Some(lost) = record.totals.as_ref().map(|totals| totals.lost) {
            outcomes.tokens += lost.usage.total();
            if let Some(cost) = lost.cost_usd {
                *outcomes.cost_usd.get_or_insert(0.0) += cost;
            }
        }
        Ok(outcomes)
    }

    /// Samples without an outcome.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    pub(super) fn figures(&self, letter: String, record: &RunRecord) -> RunFigures {
        let num: u64 = self.tasks.values().map(|task| u64::from(task.asked)).sum();
        let correct: u64 = self.tasks.values().map(|task| u64::from(task.right)).sum();
        let proportion = Proportion { successes: correct, failures: num - correct };
        let has_truth = record.dataset.has_truth;
        RunFigures {
            letter,
            run: record.id.clone(),
            model: if record.rehearsal { "rehearsal (scripted)".to_owned() } else { record.model.clone() },
            rehearsal: record.rehearsal,
            answers: record.strategy.label(),
            dataset: record.dataset.name.clone(),
            split: record.dataset.split.clone(),
            epochs: record.epochs,
            num,
            missing: self.missing,
            correct,
            score: proportion.share().filter(|_| has_truth),
            interval: proportion.clustered_wilson_interval(record.epochs).filter(|_| has_truth),
            tokens: self.tokens,
            cost_usd: self.cost_usd,
            seconds: self.seconds,
        }
    }
}
