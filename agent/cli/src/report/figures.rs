use std::collections::{BTreeMap, HashSet};

use gaia_agent::Status;
use gaia_scorer::statistics::{DropRate, Interval, Proportion, fisher_exact, majority_vote};
use serde::Serialize;

use super::corrected::Corrected;
use super::failures::{FailureCount, Failures};
use super::groups::{Division, Group, LevelGroup, Terms, by_end, by_level, by_need};
use super::observed::{Observed, ToolUse};
use super::rows::{SampleRow, Verdict, lost};
use crate::store::{Expense, RunDirectory, RunRecord, RunTotals, SampleEntry, SampleKey, Saved, StoreError};

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
    /// How the one answer of a sample and epoch came about.
    pub answers: String,
    pub metrics: Vec<Metric>,
    pub totals: RunTotals,
    /// What a run in stages did not run, and so is in none of the figures.
    pub not_run: Option<NotRun>,
    /// Model turns, mean over correct samples.
    pub mean_steps_correct: Option<f64>,
    /// From each level to the next, official score.
    pub drops: Vec<LevelDrop>,
    /// What one right answer took, over all samples, wrong ones too. `None` without a right one.
    pub per_correct: Option<PerCorrect>,
    /// Each level and what it took.
    pub levels: Vec<LevelGroup>,
    /// By what people needed for a sample, where the dataset tells it.
    pub needs: Vec<Division>,
    /// By how the answer came: what answers are worth that were given freely, or at a limit, or not at all.
    pub answering: Vec<Group>,
    pub failures: Failures,
    /// By the time they took, longest first.
    pub tools: Vec<ToolFigures>,
    /// Pages that the agent was shown and that hold a copy of the question.
    pub contaminated: Vec<ContaminatedPage>,
    /// What all of it is made of.
    #[serde(skip)]
    pub samples: Vec<SampleRow>,
}

/// The rest of a run that ended after a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NotRun {
    pub reason: String,
    /// Samples of each level.
    pub levels: BTreeMap<u8, u64>,
    pub saved: Saved,
    /// Share of right answers among all that was selected, if the rest counts as wrong.
    pub score_of_all: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelDrop {
    pub from: u8,
    pub to: u8,
    #[serde(flatten)]
    pub rate: DropRate,
    /// Where the harder level scored better: the chance of that if both were equally hard (Fisher, one-sided).
    pub chance: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PerCorrect {
    pub cost_usd: Option<f64>,
    pub tokens: f64,
    /// Of samples one after the other.
    pub seconds: f64,
}

/// One tool over all samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolFigures {
    pub tool: String,
    pub calls: u64,
    pub errors: u64,
    pub seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContaminatedPage {
    pub task_id: String,
    pub epoch: u32,
    pub url: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    pub name: String,
    /// What is scored: a single answer of each sample, or several in one of the ways there are. Two metrics are only
    /// comparable when they agree in it.
    pub of: String,
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

/// The metrics, official first. An exact match of HelloAgents is a partial one too.
const METRICS: [&str; 3] = ["official", "quasi-exact (HelloAgents)", "partial (HelloAgents)"];

impl Figures {
    /// Reads the results and trajectories one at a time.
    pub fn of_run(run: &RunDirectory, record: &RunRecord) -> Result<Self, StoreError> {
        let withheld = record.withheld();
        let mut count = Count::default();
        let mut corrected = Corrected::of_run(record);
        let mut failures = FailureCount::default();
        let mut tools: BTreeMap<String, ToolUse> = BTreeMap::new();
        let mut contaminated = Vec::new();
        let mut samples = Vec::new();
        for entry in run.entries(record) {
            let entry = entry?;
            let key = SampleKey { task_id: entry.planned.task_id.clone(), epoch: entry.epoch };
            let observed = Observed::of_sample(run, &key);
            count.totals.lose(lost(&entry, &observed));
            if is_withheld(&entry, &withheld) {
                count.withhold(&entry);
                continue;
            }
            count.add(&entry);
            if let Some(corrected) = &mut corrected {
                corrected.add(&entry);
            }
            let failure = failures.add(&entry, &observed);
            samples.push(SampleRow::new(&entry, &observed, failure));
            for (tool, used) in observed.tools {
                let sum = tools.entry(tool).or_default();
                sum.calls += used.calls;
                sum.errors += used.errors;
                sum.seconds += used.seconds;
            }
            contaminated.extend(observed.contaminated_pages.into_iter().map(|url| ContaminatedPage {
                task_id: key.task_id.clone(),
                epoch: key.epoch,
                url,
            }));
        }
        let mut tools: Vec<ToolFigures> = tools
            .into_iter()
            .map(|(tool, ToolUse { calls, errors, seconds })| ToolFigures { tool, calls, errors, seconds })
            .collect();
        tools.sort_by(|first, second| second.seconds.total_cmp(&first.seconds));
        let terms = Terms { has_truth: record.dataset.has_truth, epochs: record.epochs };
        let mut figures = count.figures(record);
        figures.metrics.extend(corrected.map(|corrected| corrected.metric(record)));
        Ok(Self {
            levels: by_level(&samples, terms),
            needs: by_need(&samples, &record.dataset, terms),
            answering: by_end(&samples, terms),
            failures: failures.failures(),
            tools,
            contaminated,
            samples,
            ..figures
        })
    }
}

/// Not run because a stage before it was not good enough.
pub(crate) fn is_withheld(entry: &SampleEntry, withheld: &HashSet<&str>) -> bool {
    entry.result.is_none() && withheld.contains(entry.planned.task_id.as_str())
}

#[derive(Default)]
struct Count {
    totals: RunTotals,
    not_run: BTreeMap<u8, u64>,
    steps_correct: u64,
    /// Samples asked for, and correct ones by metric.
    levels: BTreeMap<u8, (u64, [u64; 3])>,
    /// What there is of all epochs of each task, with its level.
    tasks: BTreeMap<String, (u8, Vec<Attempt>)>,
}

/// One epoch of a task that has an outcome.
struct Attempt {
    answer: Option<String>,
    correct: [bool; 3],
}

impl Count {
    fn withhold(&mut self, entry: &SampleEntry) {
        self.totals.withheld += 1;
        *self.not_run.entry(entry.planned.level).or_default() += 1;
    }

    fn add(&mut self, entry: &SampleEntry) {
        if let Some(result) = &entry.result {
            self.totals.spend(Expense::of_result(result));
        }
        let (requested, correct) = self.levels.entry(entry.planned.level).or_default();
        *requested += 1;
        self.totals.requested += 1;
        let (_, attempts) = self
            .tasks
            .entry(entry.planned.task_id.clone())
            .or_insert_with(|| (entry.planned.level, Vec::new()));
        let Some(result) = &entry.result else {
            self.totals.missing += 1;
            return;
        };
        match result.status {
            Status::Answered => self.totals.answered += 1,
            Status::NoAnswer => self.totals.no_answer += 1,
            Status::Error => self.totals.error += 1,
        }
        self.totals.sample_seconds += result.timing.wall;
        let mut attempt = Attempt { answer: result.answer.clone(), correct: [false; 3] };
        if let Some(score) = &result.score {
            let Verdict { official, quasi, partial } =
                Verdict::of(result.answer.as_deref(), score.correct, &score.truth);
            attempt.correct = [official, quasi, partial];
            if score.correct {
                self.totals.correct += 1;
                self.steps_correct += u64::from(result.steps);
            }
            for (sum, correct) in correct.iter_mut().zip(attempt.correct) {
                *sum += u64::from(correct);
            }
        }
        attempts.push(attempt);
    }

    fn figures(self, record: &RunRecord) -> Figures {
        let metrics = METRICS.iter().enumerate().flat_map(|(index, name)| {
            let mut metrics = vec![self.of_answers(record, index, name)];
            if record.epochs > 1 {
                metrics.extend(Joint::ALL.map(|joint| self.of_tasks(record, index, name, joint)));
            }
            metrics
        });
        Figures {
            run: record.id.clone(),
            model: record.model.clone(),
            rehearsal: record.rehearsal,
            dataset: record.dataset.name.clone(),
            split: record.dataset.split.clone(),
            epochs: record.epochs,
            answers: record.strategy.label(),
            metrics: metrics.collect(),
            mean_steps_correct: (self.totals.correct > 0)
                .then(|| self.steps_correct as f64 / self.totals.correct as f64),
            drops: self.drops(record),
            not_run: self.not_run(record),
            per_correct: self.per_correct(),
            levels: Vec::new(),
            needs: Vec::new(),
            answering: Vec::new(),
            failures: Failures::default(),
            tools: Vec::new(),
            contaminated: Vec::new(),
            samples: Vec::new(),
            totals: self.totals,
        }
    }

    fn drops(&self, record: &RunRecord) -> Vec<LevelDrop> {
        if !record.dataset.has_truth {
            return Vec::new();
        }
        let levels: Vec<(u8, Proportion)> = self
            .levels
            .iter()
            .map(|(level, (num, [official, ..]))| {
                (*level, Proportion { successes: *official, failures: num - official })
            })
            .collect();
        levels
            .windows(2)
            .filter_map(|pair| {
                let ((from, easier), (to, harder)) = (pair[0], pair[1]);
                let rate = DropRate::between(easier, harder)?;
                let chance = (rate.absolute < 0.0).then(|| fisher_exact(easier, harder));
                Some(LevelDrop { from, to, rate, chance })
            })
            .collect()
    }

    fn not_run(&self, record: &RunRecord) -> Option<NotRun> {
        let stopped = record.staged.as_ref().and_then(|staged| staged.stopped.as_ref())?;
        let all = (self.totals.requested + self.totals.withheld) as f64;
        Some(NotRun {
            reason: stopped.reason.clone(),
            levels: self.not_run.clone(),
            saved: stopped.saved,
            score_of_all: record.dataset.has_truth.then(|| self.totals.correct as f64 / all),
        })
    }

    fn per_correct(&self) -> Option<PerCorrect> {
        let correct = (self.totals.correct > 0).then_some(self.totals.correct as f64)?;
        Some(PerCorrect {
            cost_usd: self.totals.cost_usd.map(|cost| cost / correct),
            tokens: self.totals.usage.total() as f64 / correct,
            seconds: self.totals.sample_seconds / correct,
        })
    }

    /// Every answer counts by itself.
    fn of_answers(&self, record: &RunRecord, index: usize, name: &str) -> Metric {
        let counts = self.levels.iter().map(|(level, (num, correct))| (*level, *num, correct[index]));
        let of = match record.epochs {
            1 => record.strategy.label(),
            epochs => format!("mean of {epochs} epochs, each a {}", record.strategy.label()),
        };
        metric(record, name, of, counts, record.epochs)
    }

    /// All epochs of a task count once.
    fn of_tasks(&self, record: &RunRecord, index: usize, name: &str, joint: Joint) -> Metric {
        let mut levels: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
        for (level, attempts) in self.tasks.values() {
            let (num, correct) = levels.entry(*level).or_default();
            *num += 1;
            *correct += u64::from(joint.is_right(attempts, index, record.epochs));
        }
        let counts = levels.iter().map(|(level, (num, correct))| (*level, *num, *correct));
        metric(record, name, joint.label(record.epochs), counts, 1)
    }
}

/// How several epochs of a task make one verdict.
#[derive(Clone, Copy)]
enum Joint {
    Any,
    All,
    Majority,
}

impl Joint {
    const ALL: [Self; 3] = [Self::Any, Self::All, Self::Majority];

    fn label(self, epochs: u32) -> String {
        match self {
            Self::Any => format!("pass@{epochs}"),
            Self::All => format!("pass^{epochs}"),
            Self::Majority => format!("majority vote of {epochs} epochs"),
        }
    }

    /// An epoch without an outcome is a wrong one.
    fn is_right(self, attempts: &[Attempt], index: usize, epochs: u32) -> bool {
        let mut verdicts = attempts.iter().map(|attempt| attempt.correct[index]);
        match self {
            Self::Any => verdicts.any(|correct| correct),
            Self::All => attempts.len() == epochs as usize && verdicts.all(|correct| correct),
            Self::Majority => {
                let answers: Vec<_> = attempts.iter().map(|attempt| attempt.answer.as_deref()).collect();
                majority_vote(&answers).is_some_and(|chosen| attempts[chosen].correct[index])
            }
        }
    }
}

/// One row for each level and one for all, out of what was asked for and what was right.
pub(super) fn metric(
    record: &RunRecord,
    name: &str,
    of: String,
    counts: impl Iterator<Item = (u8, u64, u64)>,
    answers_of_a_task: u32,
) -> Metric {
    let known = record.dataset.has_truth;
    let subset = |name: String, num: u64, correct: u64| {
        let proportion = Proportion { successes: correct, failures: num - correct };
        Subset {
            name,
            num,
            correct: known.then_some(correct),
            score: proportion.share().filter(|_| known),
            interval: proportion.clustered_wilson_interval(answers_of_a_task).filter(|_| known),
        }
    };
    let mut subsets = Vec::new();
    let (mut all, mut all_correct) = (0, 0);
    for (level, num, correct) in counts {
        subsets.push(subset(format!("level {level}"), num, correct));
        all += num;
        all_correct += correct;
    }
    subsets.push(subset("overall".to_owned(), all, all_correct));
    Metric { name: name.to_owned(), of, subsets }
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
        let drops: Vec<_> =
            figures.drops.iter().map(|drop| (drop.from, drop.to, drop.rate.relative.unwrap())).collect();
        assert_eq!(drops.len(), 2);
        assert!((drops[0].2 - 1.0 / 3.0).abs() < 1e-12 && (drops[1].2 - 0.625).abs() < 1e-12, "{drops:?}");
        let per_correct = figures.per_correct.unwrap();
        // Nine samples have 1,100 tokens and 2.5 seconds each.
        assert!((per_correct.tokens - 9.0 * 1100.0 / 6.0).abs() < 1e-9);
        assert!((per_correct.seconds - 9.0 * 2.5 / 6.0).abs() < 1e-9);
        let totals = &figures.totals;
        assert_eq!((totals.answered, totals.no_answer, totals.error, totals.missing), (7, 1, 1, 1));
    }

    #[test]
    fn several_epochs_are_told_apart_from_single_answers() {
        use Ending::{Correct, Missing, Wrong};
        // Three epochs of three tasks: always right, right by majority, right once with an epoch missing.
        let epochs = [[Correct, Correct, Correct], [Wrong, Correct, Correct], [Wrong, Missing, Correct]];
        let mut count = Count::default();
        for (task, endings) in epochs.iter().enumerate() {
            for ending in endings {
                count.add(&entry(&format!("task-{task}"), 1, *ending));
            }
        }
        let mut record = record_of(&[(1, Correct); 3]);
        record.epochs = 3;
        record.strategy = crate::store::Method::Vote { runs: 5 };
        let figures = count.figures(&record);
        let shown: Vec<_> = figures
            .metrics
            .iter()
            .filter(|metric| metric.name == "official")
            .map(|metric| (metric.of.as_str(), metric.subsets[0].num, metric.subsets[0].correct.unwrap()))
            .collect();
        assert_eq!(
            shown,
            [
                ("mean of 3 epochs, each a vote of 5 runs", 9, 6),
                ("pass@3", 3, 3),
                ("pass^3", 3, 1),
                ("majority vote of 3 epochs", 3, 2),
            ]
        );
        assert_eq!(figures.answers, "vote of 5 runs");
    }

    #[test]
    fn what_a_stage_withheld_is_named_and_in_no_denominator() {
        let runs = tempfile::tempdir().unwrap();
        let endings = [(1, Ending::Correct), (1, Ending::Wrong), (2, Ending::Missing), (3, Ending::Missing)];
        let (run, mut record, _lock) = crate::report::test_run::stored_run(runs.path(), &endings);
        record.staged = Some(crate::store::StagedRecord {
            stages: Vec::new(),
            stopped: Some(crate::store::StagedStop {
                reason: "enough".to_owned(),
                // The first one has an outcome all the same, of an earlier session.
                withheld: ["task-0", "task-2"].map(str::to_owned).to_vec(),
                saved: Saved::default(),
            }),
        });
        let figures = Figures::of_run(&run, &record).unwrap();
        let overall = figures.metrics[0].subsets.last().unwrap();
        assert_eq!((overall.num, overall.correct), (3, Some(1)), "what is missing otherwise stays in it");
        let totals = &figures.totals;
        assert_eq!((totals.requested, totals.missing, totals.withheld, figures.samples.len()), (3, 1, 1, 3));
        let not_run = figures.not_run.unwrap();
        assert_eq!((not_run.levels, not_run.score_of_all), (BTreeMap::from([(2, 1)]), Some(0.25)));
    }

    #[test]
    fn a_harder_level_that_scores_better_is_told_with_its_likelihood() {
        let endings = [
            (1, Ending::Wrong),
            (1, Ending::Wrong),
            (2, Ending::Correct),
            (2, Ending::Correct),
            (3, Ending::Wrong),
        ];
        let figures = figures(&endings);
        let chances: Vec<_> = figures.drops.iter().map(|drop| drop.chance).collect();
        // One of the six ways to have two right among four.
        assert!((chances[0].unwrap() - 1.0 / 6.0).abs() < 1e-12 && chances[1].is_none(), "{chances:?}");
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
