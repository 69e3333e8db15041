use std::collections::BTreeMap;

use gaia_scorer::official;

use super::Metric;
use super::figures::metric;
use crate::dataset::Corrections;
use crate::store::{RunRecord, SampleEntry};

/// The name of the metric, wherever it is shown.
pub(super) const CORRECTED: &str = "corrected, not official";

/// The second score of a run whose config names corrections: the official scorer with the truths that they hold.
pub(super) struct Corrected {
    corrections: Corrections,
    /// By level, samples asked for and right ones.
    levels: BTreeMap<u8, (u64, u64)>,
}

impl Corrected {
    /// `None` when the run names none, or when they cannot be read any more: the official score needs them not.
    pub(super) fn of_run(record: &RunRecord) -> Option<Self> {
        let path = record.dataset.corrections.as_ref().filter(|_| record.dataset.has_truth)?;
        let read = Corrections::read(path);
        let corrections = read
            .inspect_err(|error| tracing::warn!("the score with corrections is left out: {error}"))
            .ok()?;
        Some(Self { corrections, levels: BTreeMap::new() })
    }

    pub(super) fn add(&mut self, entry: &SampleEntry) {
        let (num, correct) = self.levels.entry(entry.planned.level).or_default();
        *num += 1;
        let correction = self.corrections.of(&entry.planned.task_id);
        let Some(result) = &entry.result else { return };
        let is_right = match (correction, result.answer.as_deref()) {
            (Some(correction), Some(answer)) => {
                correction.answers.iter().any(|truth| official::score(Some(answer), truth).correct)
            }
            (Some(_), None) => false,
            (None, _) => result.score.as_ref().is_some_and(|score| score.correct),
        };
        *correct += u64::from(is_right);
    }

    pub(super) fn metric(&self, record: &RunRecord) -> Metric {
        let counts = self.levels.iter().map(|(level, (num, correct))| (*level, *num, *correct));
        let of = match record.epochs {
            1 => record.strategy.label(),
            epochs => format!("mean of {epochs} epochs, each a {}", record.strategy.label()),
        };
        metric(record, CORRECTED, of, counts, record.epochs)
    }
}

#[cfg(test)]
mod tests {
    use super::CORRECTED;
    use crate::report::Figures;
    use crate::report::table::{CORRECTED_NOTE, results_table};
    use crate::report::test_run::{Ending, stored_run};

    #[test]
    fn corrections_make_a_second_score_and_leave_the_official_one_alone() {
        let runs = tempfile::tempdir().unwrap();
        let endings = [
            (1, Ending::Correct),
            (1, Ending::Wrong),
            (2, Ending::Wrong),
            (2, Ending::Missing),
            (3, Ending::Correct),
        ];
        let (run, mut record, _lock) = stored_run(runs.path(), &endings);
        let before = Figures::of_run(&run, &record).unwrap();
        let entries: Vec<_> = run.entries(&record).map(Result::unwrap).collect();
        let answer = |place: usize| entries[place].result.as_ref().unwrap().answer.clone().unwrap();
        let task = |place: usize| entries[place].planned.task_id.clone();
        let line = |place: usize, answers: &[&str]| {
            serde_json::json!({ "task_id": task(place), "answers": answers }).to_string()
        };
        // A wrong answer is right after all, a right one is wrong, one that is missing stays so.
        let file = runs.path().join("corrections.jsonl");
        let lines = [line(1, &["x", &answer(1)]), line(4, &["something else"]), line(3, &["y"])];
        fs_err::write(&file, lines.join("\n")).unwrap();
        record.dataset.corrections = Some(file.clone());
        let after = Figures::of_run(&run, &record).unwrap();
        assert_eq!(after.metrics[..before.metrics.len()], before.metrics);
        assert_eq!(after.totals, before.totals);
        let corrected = after.metrics.last().unwrap();
        assert_eq!(corrected.name, CORRECTED);
        let table = results_table(&after);
        assert!(table.contains(&format!("{CORRECTED} ")) && table.contains(CORRECTED_NOTE), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
        assert!(!results_table(&before).contains("corrected"));
        let of_level: Vec<_> =
            corrected.subsets.iter().map(|subset| (subset.num, subset.correct.unwrap())).collect();
        assert_eq!(of_level, [(2, 2), (2, 0), (1, 0), (5, 2)]);

        fs_err::remove_file(file).unwrap();
        assert_eq!(Figures::of_run(&run, &record).unwrap().metrics, before.metrics);
    }
}
