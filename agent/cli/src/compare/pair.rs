use std::collections::BTreeMap;

use gaia_scorer::statistics::{Interval, Summary, mcnemar_exact, paired_bootstrap};
use serde::Serialize;

use super::outcomes::{Outcomes, TaskOutcome};
use crate::comparable;
use crate::page::{points, probability};
use crate::store::RunRecord;

/// A run beside the first one, on the tasks that both were asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    pub first: String,
    pub second: String,
    /// Tasks that both were asked. Everything else here is of these.
    pub common: u64,
    pub only_asked_in_first: u64,
    pub only_asked_in_second: u64,
    pub first_score: f64,
    pub second_score: f64,
    /// Of the second less the first. `None` without a common task.
    pub difference: Option<Lead>,
    pub both_right: u64,
    pub neither_right: u64,
    /// Tasks that the first got right (more often), and the other way round.
    pub won_by_first: Vec<String>,
    pub won_by_second: Vec<String>,
    /// The chance of wins as uneven as these, if both were equally good.
    pub p_value: f64,
    /// The same where several runs are compared with the first.
    pub corrected_p_value: f64,
    pub test: &'static str,
    pub levels: Vec<LevelPair>,
    pub verdict: Verdict,
    /// The verdict in words.
    pub conclusion: String,
    /// Why the comparison may be none.
    pub caveats: Vec<String>,
    /// What the second run was done with, and the first was not.
    pub changes: Vec<comparable::Difference>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lead {
    /// Of shares of right answers.
    pub mean: f64,
    /// 95 %, by a bootstrap over tasks. `None` where that draws from too few of them to say anything.
    pub interval: Option<Interval>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelPair {
    pub level: u8,
    pub num: u64,
    pub first_score: f64,
    pub second_score: f64,
    pub won_by_first: u64,
    pub won_by_second: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    FirstIsBetter,
    SecondIsBetter,
    /// The difference may be chance.
    NotClear,
    /// Whatever the difference is, it is small.
    AboutEqual,
    /// There is nothing that both were asked.
    NothingInCommon,
}

/// Below this probability a difference is not put down to chance.
const SIGNIFICANCE: f64 = 0.05;

/// A difference of less than this is one that nobody would mind.
const SMALL_DIFFERENCE: f64 = 0.02;

/// Below it the bootstrap says little.
const FEW_TASKS: u64 = 20;

/// Below it the bootstrap says nothing: with four tasks it has 35 different draws, and of one it makes certainty.
const TOO_FEW_TASKS: u64 = 5;

/// Of a test at 5 % to find a difference in four cases of five: 1.96 and 0.84 standard errors.
const DETECTABLE_ERRORS: f64 = 2.8;

/// The interval is the same whenever it is computed.
const BOOTSTRAP_SEED: u64 = 20_231_121;

type Side<'a> = (&'a str, &'a Outcomes, &'a RunRecord);

impl Pair {
    pub(super) fn of(first: Side<'_>, second: Side<'_>) -> Self {
        let (first_letter, first_outcomes, first_record) = first;
        let (second_letter, second_outcomes, second_record) = second;
        let common: Vec<(&String, TaskOutcome, TaskOutcome)> = first_outcomes
            .tasks
            .iter()
            .filter_map(|(task, first)| Some((task, *first, *second_outcomes.tasks.get(task)?)))
            .collect();
        let only = |of: &Outcomes| (of.tasks.len() - common.len()) as u64;
        let mean = |share: fn(&(&String, TaskOutcome, TaskOutcome)) -> f64| {
            common.iter().map(share).sum::<f64>() / common.len().max(1) as f64
        };
        let won = |is_won: fn(f64, f64) -> bool| -> Vec<String> {
            let won = common.iter().filter(|(_, first, second)| is_won(first.share(), second.share()));
            won.map(|(task, ..)| (*task).clone()).collect()
        };
        let even = |is_right: bool| {
            let even = common.iter().filter(|(_, first, second)| first.share() == second.share());
            even.filter(|(_, first, _)| (first.right > 0) == is_right).count() as u64
        };
        let (won_by_first, won_by_second) =
            (won(|first, second| first > second), won(|first, second| first < second));
        let shares: Vec<(f64, f64)> =
            common.iter().map(|(_, first, second)| (first.share(), second.share())).collect();
        let p_value = mcnemar_exact(won_by_first.len() as u64, won_by_second.len() as u64);
        let mut pair = Self {
            first: first_letter.to_owned(),
            second: second_letter.to_owned(),
            common: common.len() as u64,
            only_asked_in_first: only(first_outcomes),
            only_asked_in_second: only(second_outcomes),
            first_score: mean(|(_, first, _)| first.share()),
            second_score: mean(|(_, _, second)| second.share()),
            difference: Lead::of(&shares),
            both_right: even(true),
            neither_right: even(false),
            won_by_first,
            won_by_second,
            p_value,
            corrected_p_value: p_value,
            test: match first_record.epochs.max(second_record.epochs) {
                0 | 1 => "McNemar's test, exact",
                _ => "sign test over tasks, exact (McNemar's where a task is asked once)",
            },
            levels: levels(&common),
            verdict: Verdict::NothingInCommon,
            conclusion: String::new(),
            caveats: caveats(first, second, &common),
            changes: comparable::changes(first_record, second_record),
        };
        let gains = Summary::of(shares.iter().map(|(first, second)| second - first));
        pair.judge();
        match pair.difference {
            Some(Lead { interval: None, .. }) => {
                pair.caveats
                    .push(format!("{} tasks are too few for an interval of the difference", pair.common));
            }
            Some(Lead { interval: Some(_), .. }) if pair.common < FEW_TASKS => {
                pair.caveats.push(format!("{} tasks are few: the interval is only a rough one", pair.common));
            }
            _ => {}
        }
        if pair.verdict == Verdict::NotClear
            && let Some(gains) = gains
        {
            pair.caveats.extend(needed(&gains));
        }
        pair
    }

    /// What the figures say.
    pub(super) fn judge(&mut self) {
        let Some(Lead { mean, interval }) = self.difference else {
            self.verdict = Verdict::NothingInCommon;
            self.conclusion = format!("{} and {} were asked nothing in common.", self.first, self.second);
            return;
        };
        let is_small = interval
            .is_some_and(|interval| interval.low > -SMALL_DIFFERENCE && interval.high < SMALL_DIFFERENCE);
        self.verdict = match self.corrected_p_value < SIGNIFICANCE {
            true if mean > 0.0 => Verdict::SecondIsBetter,
            true if mean < 0.0 => Verdict::FirstIsBetter,
            _ if is_small => Verdict::AboutEqual,
            _ => Verdict::NotClear,
        };
        let (ahead, behind, lead) = match mean < 0.0 {
            true => {
                let interval = interval.map(|Interval { low, high }| Interval { low: -high, high: -low });
                (&self.first, &self.second, Lead { mean: -mean, interval })
            }
            false => (&self.second, &self.first, Lead { mean, interval }),
        };
        let sureness = match lead.interval {
            Some(Interval { low, high }) => format!("95 %: {} to {}", points(low), points(high)),
            None => "too few for an interval".to_owned(),
        };
        let figures = format!("{} points on {} tasks ({sureness})", points(lead.mean), self.common);
        let chance = probability(self.corrected_p_value);
        self.conclusion = match self.verdict {
            Verdict::FirstIsBetter | Verdict::SecondIsBetter => format!(
                "{ahead} is better than {behind}: {figures}. If both were equally good, wins as uneven as these would be seen \
                 with a probability of {chance}."
            ),
            Verdict::AboutEqual => format!("{ahead} and {behind} are about equally good: {figures}."),
            _ if mean == 0.0 => format!("Neither is ahead: {figures}."),
            _ => format!(
                "It is not clear whether {ahead} is better than {behind}: {figures}. If both were equally good, wins as uneven \
                 as these would be seen with a probability of {chance}, so it may well be chance."
            ),
        };
    }
}

impl Lead {
    /// By the shares of each task that the first and the second got right.
    fn of(shares: &[(f64, f64)]) -> Option<Self> {
        let difference = paired_bootstrap(shares, BOOTSTRAP_SEED)?;
        let (count, Interval { low, high }) = (shares.len() as u64, difference.interval);
        // Draws of what is all the same are all the same: of few tasks that is no certainty.
        let is_degenerate = count < TOO_FEW_TASKS || (count < FEW_TASKS && low == high);
        Some(Self { mean: difference.mean, interval: Some(difference.interval).filter(|_| !is_degenerate) })
    }
}

fn levels(common: &[(&String, TaskOutcome, TaskOutcome)]) -> Vec<LevelPair> {
    let mut levels: BTreeMap<u8, (LevelPair, f64, f64)> = BTreeMap::new();
    for (_, first, second) in common {
        let (first_share, second_share) = (first.share(), second.share());
        let (level, first_sum, second_sum) = levels.entry(first.level).or_insert_with(|| {
            let level = LevelPair {
                level: first.level,
                num: 0,
                first_score: 0.0,
                second_score: 0.0,
                won_by_first: 0,
                won_by_second: 0,
            };
            (level, 0.0, 0.0)
        });
        level.num += 1;
        level.won_by_first += u64::from(first_share > second_share);
        level.won_by_second += u64::from(first_share < second_share);
        *first_sum += first_share;
        *second_sum += second_share;
    }
    levels
        .into_values()
        .map(|(level, first, second)| LevelPair {
            first_score: first / level.num as f64,
            second_score: second / level.num as f64,
            ..level
        })
        .collect()
}

/// What speaks against the comparison.
fn caveats(first: Side<'_>, second: Side<'_>, common: &[(&String, TaskOutcome, TaskOutcome)]) -> Vec<String> {
    let ((first_letter, first_outcomes, first_record), (second_letter, second_outcomes, second_record)) =
        (first, second);
    let mut caveats = Vec::new();
    let only = |outcomes: &Outcomes| outcomes.tasks.len() - common.len();
    if only(first_outcomes) + only(second_outcomes) > 0 {
        caveats.push(format!(
            "the runs were not asked the same: {} tasks only in {first_letter} and {} only in {second_letter} are left out, so \
             the scores here are not those of the whole runs",
            only(first_outcomes),
            only(second_outcomes)
        ));
    }
    for (letter, record) in [(first_letter, first_record), (second_letter, second_record)] {
        if record.rehearsal {
            caveats.push(format!("{letter} is a rehearsal: its score says nothing about any model"));
        }
    }
    if first_record.dataset.fingerprint != second_record.dataset.fingerprint {
        caveats.push("the datasets differ: tasks of the same id may be other questions".to_owned());
    }
    if first_record.strategy != second_record.strategy {
        caveats.push(format!(
            "answers came about differently: {} in {first_letter}, {} in {second_letter}",
            first_record.strategy.label(),
            second_record.strategy.label()
        ));
    }
    if first_record.epochs != second_record.epochs {
        caveats.push(format!(
            "tasks were asked {} times in {first_letter} and {} times in {second_letter}",
            first_record.epochs, second_record.epochs
        ));
    }
    for (letter, outcomes) in [(first_letter, first_outcomes), (second_letter, second_outcomes)] {
        if outcomes.missing() > 0 {
            caveats.push(format!(
                "{} samples of {letter} have no outcome yet and count as wrong (`gaia resume` finishes them)",
                outcomes.missing()
            ));
        }
    }
    caveats
}

/// How many tasks would tell, for a difference that is not clear.
fn needed(gains: &Summary) -> Option<String> {
    let detectable = DETECTABLE_ERRORS * gains.standard_deviation / (gains.count as f64).sqrt();
    if detectable <= 0.0 || detectable >= 1.0 {
        return None;
    }
    let tasks = (DETECTABLE_ERRORS * gains.standard_deviation / gains.mean).powi(2).ceil();
    let tasks = match gains.mean != 0.0 && tasks < 1e6 {
        true => format!("; one of the size seen here would take about {tasks:.0} tasks"),
        false => String::new(),
    };
    Some(format!(
        "with so many tasks only a difference of about {} points or more is likely to be told from chance{tasks}",
        points(detectable).trim_start_matches('+')
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_record;

    fn outcomes(tasks: &[(&str, u8, u32, u32)]) -> Outcomes {
        let tasks = tasks.iter().map(|(task, level, asked, right)| {
            ((*task).to_owned(), TaskOutcome { level: *level, asked: *asked, right: *right })
        });
        Outcomes::of_tasks(tasks)
    }

    fn pair(first: &Outcomes, second: &Outcomes) -> Pair {
        let record = test_record(&[]);
        Pair::of(("A", first, &record), ("B", second, &record))
    }

    /// `only_first` tasks that the first won, and so on.
    fn contingency(only_first: usize, only_second: usize, both: usize, neither: usize) -> Pair {
        let kinds = [(1, 0, only_first), (0, 1, only_second), (1, 1, both), (0, 0, neither)];
        let right: Vec<(u32, u32)> = kinds
            .into_iter()
            .flat_map(|(first, second, count)| std::iter::repeat_n((first, second), count))
            .collect();
        let side = |pick: fn(&(u32, u32)) -> u32| {
            Outcomes::of_tasks(right.iter().enumerate().map(|(index, right)| {
                let level = u8::try_from(index % 3 + 1).unwrap();
                (format!("t{index:03}"), TaskOutcome { level, asked: 1, right: pick(right) })
            }))
        };
        pair(&side(|right| right.0), &side(|right| right.1))
    }

    #[test]
    fn five_wins_to_none_are_not_enough_and_six_are() {
        let five = contingency(0, 5, 20, 20);
        assert!(five.verdict == Verdict::NotClear && (five.p_value - 0.0625).abs() < 1e-12);
        assert!(
            five.conclusion.contains("not clear whether B is better than A: +11.1 points on 45 tasks"),
            "{five:?}"
        );
        assert!(five.caveats.iter().any(|caveat| caveat.contains("told from chance")), "{:?}", five.caveats);
        let six = contingency(0, 6, 20, 20);
        assert!(six.verdict == Verdict::SecondIsBetter && (six.p_value - 0.03125).abs() < 1e-12);
        assert!(
            six.conclusion.starts_with("B is better than A: +13.0 points on 46 tasks"),
            "{}",
            six.conclusion
        );
        let other = contingency(6, 0, 20, 20);
        assert_eq!(other.verdict, Verdict::FirstIsBetter);
        assert!(other.conclusion.starts_with("A is better than B: +13.0 points"), "{}", other.conclusion);
        assert_eq!((six.both_right, six.neither_right, six.won_by_second.len()), (20, 20, 6));
    }

    #[test]
    fn the_same_outcomes_are_about_equal() {
        let same = contingency(0, 0, 10, 20);
        assert_eq!((same.verdict, same.p_value), (Verdict::AboutEqual, 1.0));
        let even = contingency(4, 4, 10, 10);
        assert!(
            even.verdict == Verdict::NotClear && even.conclusion.starts_with("Neither is ahead"),
            "{even:?}"
        );
    }

    #[test]
    fn few_tasks_have_no_interval_and_are_not_called_equal() {
        // All drawn alike: the width of 0 would be certainty.
        for few in [contingency(0, 0, 1, 2), contingency(0, 3, 0, 0), contingency(0, 0, 5, 10)] {
            assert_eq!(few.difference.unwrap().interval, None, "{few:?}");
            assert!(
                few.verdict == Verdict::NotClear && few.conclusion.contains("too few for an interval"),
                "{few:?}"
            );
            assert!(few.caveats.iter().any(|caveat| caveat.contains("too few for an interval")), "{few:?}");
        }
        let some = contingency(1, 3, 1, 1);
        let interval = some.difference.unwrap().interval.unwrap();
        assert!(
            interval.low < interval.high && some.caveats.iter().any(|caveat| caveat.contains("rough one"))
        );
    }

    #[test]
    fn only_what_both_were_asked_counts_and_it_is_said() {
        let first = outcomes(&[("a", 1, 1, 1), ("b", 2, 1, 0), ("c", 3, 1, 1)]);
        let second = outcomes(&[("b", 2, 1, 1), ("c", 3, 1, 1), ("d", 3, 1, 1), ("e", 1, 1, 0)]);
        let pair = pair(&first, &second);
        assert_eq!((pair.common, pair.only_asked_in_first, pair.only_asked_in_second), (2, 1, 2));
        assert_eq!((pair.first_score, pair.second_score), (0.5, 1.0));
        assert_eq!((pair.won_by_first.len(), pair.won_by_second), (0, vec!["b".to_owned()]));
        assert!(pair.caveats[0].contains("1 tasks only in A and 2 only in B"), "{:?}", pair.caveats);
        assert!(pair.caveats.iter().any(|caveat| caveat.contains("2 tasks are too few for an interval")));
        let level = &pair.levels[0];
        assert_eq!((level.level, level.num, level.won_by_second, level.second_score), (2, 1, 1, 1.0));
        let nothing = super::tests::pair(&outcomes(&[("x", 1, 1, 1)]), &second);
        assert_eq!(nothing.verdict, Verdict::NothingInCommon);
        assert!(nothing.conclusion.contains("nothing in common") && nothing.difference.is_none());
    }

    #[test]
    fn several_epochs_are_shares_and_a_task_is_won_by_the_greater() {
        let first = outcomes(&[("a", 1, 3, 1), ("b", 1, 3, 3), ("c", 1, 3, 0)]);
        let second = outcomes(&[("a", 1, 3, 2), ("b", 1, 3, 3), ("c", 1, 3, 0)]);
        let pair = pair(&first, &second);
        assert_eq!(
            (pair.won_by_second.as_slice(), pair.both_right, pair.neither_right),
            (&["a".to_owned()][..], 1, 1)
        );
        assert!((pair.difference.unwrap().mean - 1.0 / 9.0).abs() < 1e-12);
    }

    #[test]
    fn what_speaks_against_a_comparison_is_told() {
        let outcomes = outcomes(&[("a", 1, 1, 1)]);
        let first = test_record(&[]);
        let mut second = test_record(&[]);
        second.rehearsal = true;
        second.dataset.fingerprint = "sha256:1".to_owned();
        second.strategy = crate::store::Method::Vote { runs: 3 };
        second.epochs = 2;
        let pair = Pair::of(("A", &outcomes, &first), ("B", &outcomes, &second));
        let caveats = pair.caveats.join("\n");
        for part in ["B is a rehearsal", "datasets differ", "vote of 3 runs in B", "2 times in B"] {
            assert!(caveats.contains(part), "{part}: {caveats}");
        }
        assert!(
            pair.changes.iter().any(|change| change.what == "fingerprint of the dataset"),
            "{:?}",
            pair.changes
        );
    }
}
