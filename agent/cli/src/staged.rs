//! A run in stages: a quick check, then level after level, each only when the one before was good enough.
//!
//! This is the one place where verdicts bear on what is run next: on whole levels, and only where the user asked for it.
//! What is then not run is named, and is not in the score.

mod queue;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::config::StagedConfig;
use crate::page::{money, percent};
use crate::store::{PlannedSample, SampleResult, Saved, StageRecord, StagedStop};
pub use queue::StagedQueue;

/// What is to be done, stage after stage. A sample is in the first stage that names it.
#[derive(Debug, Clone, PartialEq)]
struct Stage {
    name: String,
    tasks: BTreeSet<String>,
    gate: Gate,
}

/// What must hold for the next stage to begin.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gate {
    /// Anything is answered at all.
    Answered,
    /// More than this share of the level is right.
    MoreThan {
        level: u8,
        share: f64,
    },
    Open,
}

/// Stages that have samples, in order.
fn stages(samples: &[PlannedSample], config: StagedConfig) -> Vec<Stage> {
    let mut taken: BTreeMap<u8, usize> = BTreeMap::new();
    let quick = samples.iter().filter(|sample| {
        let taken = taken.entry(sample.level).or_default();
        *taken += 1;
        *taken <= config.quick_samples
    });
    let quick: BTreeSet<String> = quick.map(|sample| sample.task_id.clone()).collect();
    let of_level = |level: u8| -> BTreeSet<String> {
        let of_level = samples.iter().filter(|sample| sample.level == level);
        of_level.map(|sample| sample.task_id.clone()).collect()
    };
    let check = Stage { name: "quick check".to_owned(), tasks: quick, gate: Gate::Answered };
    let levels = [(1, Some(config.level_1)), (2, Some(config.level_2)), (3, None)];
    let levels = levels.map(|(level, share)| Stage {
        name: format!("level {level}"),
        tasks: of_level(level),
        gate: share.map_or(Gate::Open, |share| Gate::MoreThan { level, share }),
    });
    [check].into_iter().chain(levels).filter(|stage| !stage.tasks.is_empty()).collect()
}

/// What a run would do, a line a stage, for people.
pub fn plan(samples: &[PlannedSample], epochs: u32, config: StagedConfig) -> Vec<String> {
    let mut begun = BTreeSet::new();
    let lines = stages(samples, config).into_iter().map(|stage| {
        let new = stage.tasks.iter().filter(|task| begun.insert((*task).clone())).count();
        let count = new as u64 * u64::from(epochs);
        let more = if new < stage.tasks.len() { "more samples" } else { "samples" };
        let gate = match stage.gate {
            Gate::Answered => "; goes on when one of them is answered, right or wrong".to_owned(),
            Gate::MoreThan { level, share } => format!(
                "; level {} begins when more than {} of level {level} is right",
                level + 1,
                percent(share)
            ),
            Gate::Open => String::new(),
        };
        format!("{}: {count} {more}{gate}", stage.name)
    });
    lines.collect()
}

/// What is known of the samples that have an outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Ended {
    level: u8,
    is_answered: bool,
    is_right: bool,
    tokens: u64,
    cost_usd: Option<f64>,
    seconds: f64,
}

impl Ended {
    fn of(result: &SampleResult) -> Self {
        Self {
            level: result.level,
            is_answered: result.status == gaia_agent::Status::Answered,
            is_right: result.score.as_ref().is_some_and(|score| score.correct),
            tokens: result.usage.total(),
            cost_usd: result.cost_usd,
            seconds: result.timing.wall,
        }
    }
}

type Endings = HashMap<(String, u32), Ended>;

/// How a stage came out. What has no outcome is not right.
fn judge(stage: &Stage, epochs: u32, endings: &Endings) -> StageRecord {
    let of_stage = || {
        let keys = stage.tasks.iter().flat_map(|task| (1..=epochs).map(move |epoch| (task.clone(), epoch)));
        keys.map(|key| endings.get(&key).copied().unwrap_or_default())
    };
    let (samples, correct) =
        (of_stage().count() as u64, of_stage().filter(|end| end.is_right).count() as u64);
    let share = correct as f64 / samples.max(1) as f64;
    let (needed, passed) = match stage.gate {
        Gate::Answered => (None, of_stage().any(|end| end.is_answered)),
        Gate::MoreThan { share: needed, .. } => (Some(needed), share > needed),
        Gate::Open => (None, true),
    };
    let answered =
        (stage.gate == Gate::Answered).then(|| of_stage().filter(|end| end.is_answered).count() as u64);
    StageRecord { name: stage.name.clone(), samples, correct, needed, answered, passed }
}

/// Why the run ends after a stage that did not pass, and what that spares.
fn stop(
    stage: &Stage,
    judged: &StageRecord,
    rest: &[PlannedSample],
    epochs: u32,
    endings: &Endings,
) -> StagedStop {
    let saved = saved(rest, epochs, endings);
    let why = match stage.gate {
        Gate::MoreThan { level, share } => format!(
            "{} of level {level} is right ({} of {}), and level {} begins above {}",
            percent(judged.correct as f64 / judged.samples.max(1) as f64),
            judged.correct,
            judged.samples,
            level + 1,
            percent(share)
        ),
        Gate::Answered | Gate::Open => {
            format!("none of the {} samples of the {} was answered", judged.samples, stage.name)
        }
    };
    let worth = match saved.cost_usd {
        Some(cost) => format!("about {} and {} tokens", money(cost), saved.tokens),
        None => format!("about {} tokens", saved.tokens),
    };
    StagedStop {
        reason: format!("{why}; {} samples were not run, which spared {worth}", saved.samples),
        withheld: rest.iter().map(|sample| sample.task_id.clone()).collect(),
        saved,
    }
}

/// By the samples of the same level that did run, and where there is none, by all.
fn saved(rest: &[PlannedSample], epochs: u32, endings: &Endings) -> Saved {
    let mean = |level: Option<u8>, value: fn(&Ended) -> f64| {
        let of_level = || endings.values().filter(|end| level.is_none_or(|level| end.level == level));
        let count = of_level().count();
        (count > 0).then(|| of_level().map(value).sum::<f64>() / count as f64)
    };
    let sum = |value: fn(&Ended) -> f64| {
        let each = rest
            .iter()
            .map(|sample| mean(Some(sample.level), value).or_else(|| mean(None, value)).unwrap_or_default());
        f64::from(epochs) * each.sum::<f64>()
    };
    let has_costs = endings.values().any(|end| end.cost_usd.is_some());
    Saved {
        samples: rest.len() as u64 * u64::from(epochs),
        cost_usd: has_costs.then(|| sum(|end| end.cost_usd.unwrap_or_default())),
        tokens: sum(|end| end.tokens as f64).round() as u64,
        seconds: sum(|end| end.seconds),
    }
}

#[cfg(test)]
#[path = "staged/staged_tests.rs"]
mod tests;
