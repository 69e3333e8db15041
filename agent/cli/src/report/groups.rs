use std::collections::BTreeMap;

use gaia_scorer::statistics::{Interval, Proportion};
use serde::Serialize;

use super::rows::{End, SampleRow};
use crate::dataset::Needs;
use crate::store::DatasetRecord;

/// Samples that have something in common: how many of them are right, and what they took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    pub name: String,
    /// Samples asked for.
    pub num: u64,
    /// By the official scorer; `None` where the truths are hidden.
    pub correct: Option<u64>,
    pub score: Option<f64>,
    /// 95 %, Wilson; the epochs of a task count as one.
    pub interval: Option<Interval>,
    pub mean_steps: f64,
    /// With those of attempts that have no outcome, as what it cost.
    pub tokens: u64,
    pub cost_usd: Option<f64>,
    /// Of samples one after the other.
    pub seconds: f64,
}

/// One level of GAIA.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelGroup {
    pub level: u8,
    #[serde(flatten)]
    pub group: Group,
}

/// One way to divide the samples into groups, which may overlap.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Division {
    pub name: String,
    pub groups: Vec<Group>,
}

impl Group {
    /// What one right answer of the group cost; `None` without one, or without a price.
    pub fn cost_per_correct(&self) -> Option<f64> {
        Some(self.cost_usd? / self.correct.filter(|correct| *correct > 0)? as f64)
    }

    /// The same in seconds.
    pub fn seconds_per_correct(&self) -> Option<f64> {
        Some(self.seconds / self.correct.filter(|correct| *correct > 0)? as f64)
    }
}

/// How the truths and the epochs of a run bear on its groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) has_truth: bool,
    pub(crate) epochs: u32,
}

/// One group for each level there is.
pub(crate) fn by_level(rows: &[SampleRow], terms: Terms) -> Vec<LevelGroup> {
    (1..=3)
        .flat_map(|level| {
            let of_level = rows.iter().filter(move |row| row.level == level);
            let groups = divide(of_level, terms, |_| vec![(0, format!("level {level}"))]);
            groups.into_iter().map(move |group| LevelGroup { level, group })
        })
        .collect()
}

/// By how the answer came: whether it pays to answer. Freely given answers, those that a limit forced, and those that
/// are none.
pub(crate) fn by_end(rows: &[SampleRow], terms: Terms) -> Vec<Group> {
    let rank = |end| match end {
        End::Answered => 0,
        End::AnsweredAtLimit => 1,
        End::Admitted => 2,
        End::NoAnswer => 3,
        End::Error => 4,
        End::Missing => 5,
    };
    divide(rows, terms, |row| vec![(rank(row.end), row.end.label().to_owned())])
}

/// By what people needed for it, as the annotators of the dataset noted.
pub(crate) fn by_need(rows: &[SampleRow], dataset: &DatasetRecord, terms: Terms) -> Vec<Division> {
    let Some(needs) = &dataset.needs else { return Vec::new() };
    let of = |row: &SampleRow| needs.get(&row.task_id).cloned().unwrap_or_default();
    let tools = divide(rows, terms, |row| {
        let tools = of(row).tools;
        match tools.is_empty() {
            true => vec![(9, "none of these".to_owned())],
            false => tools.iter().map(|tool| (*tool as u32, tool.label().to_owned())).collect(),
        }
    });
    let steps = divide(rows, terms, |row| {
        vec![match of(row) {
            Needs { steps: Some(..=5), .. } => (0, "up to 5 steps".to_owned()),
            Needs { steps: Some(6..=10), .. } => (1, "6 to 10 steps".to_owned()),
            Needs { steps: Some(_), .. } => (2, "more than 10 steps".to_owned()),
            Needs { steps: None, .. } => (3, "not noted".to_owned()),
        }]
    });
    let files = divide(rows, terms, |row| {
        vec![match of(row).attachment {
            None => (0, "no attachment".to_owned()),
            Some(kind) => (1, kind),
        }]
    });
    let divisions = [("what people needed", tools), ("steps that people took", steps), ("attachment", files)];
    divisions
        .into_iter()
        // One group tells nothing that the whole does not.
        .filter(|(_, groups)| groups.len() > 1)
        .map(|(name, groups)| Division { name: name.to_owned(), groups })
        .collect()
}

#[derive(Default)]
struct Sum {
    num: u64,
    correct: u64,
    steps: u64,
    tokens: u64,
    cost_usd: Option<f64>,
    seconds: f64,
}

/// Groups by rank and name.
fn divide<'a>(
    rows: impl IntoIterator<Item = &'a SampleRow>,
    terms: Terms,
    groups_of: impl Fn(&SampleRow) -> Vec<(u32, String)>,
) -> Vec<Group> {
    let mut sums: BTreeMap<(u32, String), Sum> = BTreeMap::new();
    for row in rows {
        for group in groups_of(row) {
            let sum = sums.entry(group).or_default();
            sum.num += 1;
            sum.correct += u64::from(row.is_right());
            sum.steps += u64::from(row.steps);
            sum.tokens += row.spent_tokens();
            sum.seconds += row.timing.wall;
            if let Some(cost) = row.spent_usd() {
                *sum.cost_usd.get_or_insert(0.0) += cost;
            }
        }
    }
    sums.into_iter()
        .map(|((_, name), sum)| {
            let proportion = Proportion { successes: sum.correct, failures: sum.num - sum.correct };
            Group {
                name,
                num: sum.num,
                correct: terms.has_truth.then_some(sum.correct),
                score: proportion.share().filter(|_| terms.has_truth),
                interval: proportion.clustered_wilson_interval(terms.epochs).filter(|_| terms.has_truth),
                mean_steps: sum.steps as f64 / sum.num as f64,
                tokens: sum.tokens,
                cost_usd: sum.cost_usd,
                seconds: sum.seconds,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::ToolNeed;
    use crate::report::observed::Observed;
    use crate::report::test_run::{Ending, entry, record_of};

    const TERMS: Terms = Terms { has_truth: true, epochs: 1 };

    fn rows(endings: &[(u8, Ending)]) -> Vec<SampleRow> {
        let row = |(index, (level, ending)): (usize, &(u8, Ending))| {
            SampleRow::new(&entry(&format!("task-{index}"), *level, *ending), &Observed::default(), None)
        };
        endings.iter().enumerate().map(row).collect()
    }

    fn shown(groups: &[Group]) -> Vec<(&str, u64, u64)> {
        groups.iter().map(|group| (group.name.as_str(), group.num, group.correct.unwrap())).collect()
    }

    #[test]
    fn levels_have_their_right_answers_and_what_each_of_them_cost() {
        let mut rows =
            rows(&[(1, Ending::Correct), (2, Ending::Wrong), (1, Ending::Correct), (2, Ending::Missing)]);
        rows[0].cost_usd = Some(0.5);
        rows[1].cost_usd = Some(0.25);
        let of_levels =
            |terms| by_level(&rows, terms).into_iter().map(|level| level.group).collect::<Vec<_>>();
        let groups = of_levels(TERMS);
        assert_eq!(shown(&groups), [("level 1", 2, 2), ("level 2", 2, 0)]);
        assert_eq!(groups[0].cost_per_correct(), Some(0.25));
        assert_eq!((groups[1].cost_per_correct(), groups[1].seconds_per_correct()), (None, None));
        assert_eq!(groups[0].seconds_per_correct(), Some(2.5));
        assert_eq!((groups[1].mean_steps, groups[1].tokens), (2.0, 1100));
        let hidden = of_levels(Terms { has_truth: false, epochs: 1 });
        assert!(
            hidden
                .iter()
                .all(|group| group.correct.is_none() && group.score.is_none() && group.interval.is_none())
        );
    }

    #[test]
    fn answers_are_told_apart_by_how_they_came() {
        let mut rows = rows(&[
            (1, Ending::Correct),
            (1, Ending::Wrong),
            (1, Ending::NoAnswer),
            (1, Ending::Error),
            (1, Ending::Missing),
            (1, Ending::Correct),
        ]);
        rows[5].end = End::AnsweredAtLimit;
        rows[1].end = End::Admitted;
        assert_eq!(
            shown(&by_end(&rows, TERMS)),
            [
                ("answered", 1, 1),
                ("answered at a limit", 1, 1),
                ("said it is not known", 1, 0),
                ("no answer", 1, 0),
                ("error", 1, 0),
                ("missing", 1, 0),
            ]
        );
    }

    #[test]
    fn a_sample_that_needs_two_tools_is_in_both_groups() {
        let endings = [(1, Ending::Correct), (2, Ending::Wrong), (3, Ending::Correct)];
        let rows = rows(&endings);
        let mut dataset = record_of(&endings).dataset;
        assert_eq!(by_need(&rows, &dataset, TERMS), []);
        let needs = |tools: &[ToolNeed], steps, attachment: Option<&str>| Needs {
            tools: tools.to_vec(),
            steps,
            attachment: attachment.map(str::to_owned),
        };
        dataset.needs = Some(BTreeMap::from([
            ("task-0".to_owned(), needs(&[ToolNeed::Web, ToolNeed::Coding], Some(5), None)),
            ("task-1".to_owned(), needs(&[ToolNeed::Web], Some(11), Some("xlsx"))),
        ]));
        let divisions = by_need(&rows, &dataset, TERMS);
        let found: Vec<_> = divisions.iter().map(|division| shown(&division.groups)).collect();
        assert_eq!(
            found,
            [
                vec![("web", 2, 1), ("coding", 1, 1), ("none of these", 1, 1)],
                vec![("up to 5 steps", 1, 1), ("more than 10 steps", 1, 0), ("not noted", 1, 1)],
                vec![("no attachment", 2, 2), ("xlsx", 1, 0)],
            ]
        );
    }
}
