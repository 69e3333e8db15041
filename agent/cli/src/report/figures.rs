use std::collections::BTreeMap;

use gaia_agent::Status;
use gaia_scorer::quasi;
use gaia_scorer::statistics::{Interval, Proportion};
use serde::Serialize;

use crate::store::{RunDirectory, RunRecord, RunTotals, SampleEntry, StoreError};

/// The figures of a run. The denominator of each is every sample that was asked for: errors and missing ones count
/// as wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    pub run: String,
    pub model: String,
    /// The model was scripted: no figure here says anything about a model.
    pub rehearsal: bool,
    pub dataset: String,
    pub split: String,
    pub epochs: u32,
    pub metrics: Vec<Metric>,
    pub totals: RunTotals,
    /// Model turns, mean over correct samples.
    pub mean_steps_correct: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    pub name: String,
    /// Each level, then all.
    pub subsets: Vec<Subset>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Subset {
    pub name: String,
    /// Samples asked for.
    pub num: u64,
    /// `None` when the truths are hidden.
    pub correct: Option<u64>,
    pub score: Option<f64>,
    /// 95 %, Wilson.
    pub interval: Option<Interval>,
}

/// The two metrics, official first.
const METRICS: [&str; 2] = ["official", "quasi-exact (HelloAgents)"];

impl Figures {
    /// Reads the results one at a time.
    pub fn of_run(run: &RunDirectory, record: &RunRecord) -> Result<Self, StoreError> {
        let mut count = Count::default();
        for entry in run.entries(record) {
            count.add(&entry?);
        }
        Ok(count.figures(record))
    }
}

#[derive(Default)]
struct Count {
    totals: RunTotals,
    steps_correct: u64,
    /// Samples asked for, and correct ones by metric.
    levels: BTreeMap<u8, (u64, [u64; 2])>,
}

impl Count {
    fn add(&mut self, entry: &SampleEntry) {
        let (requested, correct) = self.levels.entry(entry.planned.level).or_default();
        *requested += 1;
        self.totals.requested += 1;
        let Some(result) = &entry.result else {
            self.totals.missing += 1;
            return;
        };
        match result.status {
            Status::Answered => self.totals.answered += 1,
            Status::NoAnswer => self.totals.no_answer += 1,
            Status::Error => self.totals.error += 1,
        }
        self.totals.usage += result.usage;
        if let Some(cost) = result.cost_usd {
            *self.totals.cost_usd.get_or_insert(0.0) += cost;
        }
        self.totals.sample_seconds += result.timing.wall;
        if let Some(score) = &result.score {
            if score.correct {
                self.totals.correct += 1;
                self.steps_correct += u64::from(result.steps);
                correct[0] += 1;
            }
            correct[1] += u64::from(quasi::score(result.answer.as_deref(), &score.truth).exact);
        }
    }

    fn figures(self, record: &RunRecord) -> Figures {
        let subset = |name: String, num: u64, correct: u64| {
            let proportion = Proportion { successes: correct, failures: num - correct };
            let known = record.dataset.has_truth;
            Subset {
                name,
                num,
                correct: known.then_some(correct),
                score: proportion.share().filter(|_| known),
                interval: proportion.clustered_wilson_interval(record.epochs).filter(|_| known),
            }
        };
        let metrics = METRICS.iter().enumerate().map(|(index, name)| {
            let mut subsets: Vec<_> = self
                .levels
                .iter()
                .map(|(level, (num, correct))| subset(format!("level {level}"), *num, correct[index]))
                .collect();
            let correct = self.levels.values().map(|(_, correct)| correct[index]).sum();
            subsets.push(subset("overall".to_owned(), self.totals.requested, correct));
            let name = match record.epochs {
                1 => (*name).to_owned(),
                epochs => format!("{name}, mean of {epochs} epochs"),
            };
            Metric { name, subsets }
        });
        Figures {
            run: record.id.clone(),
            model: record.model.clone(),
            rehearsal: record.rehearsal,
            dataset: record.dataset.name.clone(),
            split: record.dataset.split.clone(),
            epochs: record.epochs,
            metrics: metrics.collect(),
            mean_steps_correct: (self.totals.correct > 0)
                .then(|| self.steps_correct as f64 / self.totals.correct as f64),
            totals: self.totals,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::report::test_run::{Ending, entry, record_of};

    fn figures(endings: &[(u8, Ending)]) -> Figures {
        let mut count = Count::default();
        for (level, ending) in endings {
            count.add(&entry("task", *level, *ending));
        }
        count.figures(&record_of(endings))
    }

    #[test]
    fn the_worked_example_of_helloagents() {
        use Ending::{Correct, Error, Missing, NoAnswer, Wrong};
        let endings: Vec<_> = [
            (1, [Correct; 3].as_slice()),
            (2, &[Correct, Correct, Wrong]),
            (3, &[Correct, Error, NoAnswer, Missing]),
        ]
        .into_iter()
        .flat_map(|(level, endings)| endings.iter().map(move |ending| (level, *ending)))
        .collect();
        let figures = figures(&endings);
        let official = &figures.metrics[0];
        let shown: Vec<_> = official
            .subsets
            .iter()
            .map(|subset| (subset.name.as_str(), subset.num, subset.correct))
            .collect();
        assert_eq!(
            shown,
            [
                ("level 1", 3, Some(3)),
                ("level 2", 3, Some(2)),
                ("level 3", 4, Some(1)),
                ("overall", 10, Some(6))
            ]
        );
        assert_eq!(official.subsets[3].score, Some(0.6));
        let totals = &figures.totals;
        assert_eq!((totals.answered, totals.no_answer, totals.error, totals.missing), (7, 1, 1, 1));
    }

    #[test]
    fn hidden_truths_give_no_score_at_all() {
        let endings = [(1, Ending::Unscored)];
        let mut record = record_of(&endings);
        record.dataset.has_truth = false;
        let mut count = Count::default();
        count.add(&entry("task", 1, Ending::Unscored));
        let overall = count.figures(&record).metrics[0].subsets[1].clone();
        assert_eq!((overall.num, overall.correct, overall.score), (1, None, None));
        assert!(overall.interval.is_none());
    }

    proptest! {
        /// Whatever happens to the samples, each is in the denominator once, and overall is the sum of the levels.
        #[test]
        fn nothing_leaves_the_denominator(endings in prop::collection::vec((1..=3u8, any::<Ending>()), 0..60)) {
            let figures = figures(&endings);
            let totals = &figures.totals;
            prop_assert_eq!(totals.requested, endings.len() as u64);
            prop_assert_eq!(totals.answered + totals.no_answer + totals.error + totals.missing, totals.requested);
            for metric in &figures.metrics {
                let (overall, levels) = metric.subsets.split_last().unwrap();
                prop_assert_eq!(overall.num, endings.len() as u64);
                prop_assert_eq!(levels.iter().map(|subset| subset.num).sum::<u64>(), overall.num);
                prop_assert_eq!(levels.iter().map(|subset| subset.correct.unwrap()).sum::<u64>(), overall.correct.unwrap());
                if let (Some(score), Some(interval)) = (overall.score, overall.interval) {
                    prop_assert!(interval.low <= score && score <= interval.high);
                }
            }
        }
    }
}
