//! A part of a run for machines that do not know of each other. The id of a task alone decides which part it is in, so
//! every machine comes to the same parts.

use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::dataset::Dataset;
use crate::environment::Environment;

/// Part `index` of `count`; the first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    pub index: u32,
    pub count: u32,
}

/// A part as the user names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardArgument {
    Named(Shard),
    /// The batch system says which of so many this is.
    OfBatch {
        count: u32,
    },
}

/// Kubernetes numbers the pods of an indexed job from 0.
const KUBERNETES_INDEX: &str = "JOB_COMPLETION_INDEX";

/// Slurm numbers the tasks of an array as the user says; the lowest number is in the other variable.
const SLURM_INDEX: &str = "SLURM_ARRAY_TASK_ID";
const SLURM_FIRST: &str = "SLURM_ARRAY_TASK_MIN";

impl FromStr for ShardArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || "expected I/N, such as 2/4, or N where the batch system numbers its tasks".to_owned();
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
        match text.split_once('/') {
            None => number(text).map(|count| Self::OfBatch { count }).ok_or_else(wanted),
            Some((index, count)) => match (number(index), number(count)) {
                (Some(index), Some(count)) if index <= count => Ok(Self::Named(Shard { index, count })),
                (Some(_), Some(count)) => Err(format!("parts are numbered from 1 to {count}")),
                _ => Err(wanted()),
            },
        }
    }
}

impl ShardArgument {
    /// # Errors
    /// In words: no batch system says which part this is, or it names one that there is not.
    pub fn resolve(self, environment: &Environment) -> Result<Shard, String> {
        let count = match self {
            Self::Named(shard) => return Ok(shard),
            Self::OfBatch { count } => count,
        };
        let number = |name: &str| -> Result<Option<u32>, String> {
            let Some(text) = environment.get_filled(name) else { return Ok(None) };
            text.parse().map(Some).map_err(|_| format!("`{name}` is `{text}`, which is no number"))
        };
        let (variable, place) = match (number(KUBERNETES_INDEX)?, number(SLURM_INDEX)?) {
            (Some(index), _) => (KUBERNETES_INDEX, index),
            (None, Some(index)) => {
                (SLURM_INDEX, index.saturating_sub(number(SLURM_FIRST)?.unwrap_or_default()))
            }
            (None, None) => {
                return Err(format!(
                    "neither `{KUBERNETES_INDEX}` nor `{SLURM_INDEX}` is set; name the part, such as `--shard \
                     1/{count}`"
                ));
            }
        };
        if place >= count {
            return Err(format!("`{variable}` makes this part {} of {count}", place + 1));
        }
        Ok(Shard { index: place + 1, count })
    }
}

impl Shard {
    pub fn holds(self, task_id: &str) -> bool {
        let digest = Sha256::digest(task_id.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        u64::from_be_bytes(first) % u64::from(self.count) == u64::from(self.index - 1)
    }

    /// Leaves the samples of this part selected.
    pub fn of(self, mut dataset: Dataset) -> Dataset {
        let (own, others) =
            std::mem::take(&mut dataset.samples).into_iter().partition(|sample| self.holds(&sample.task_id));
        dataset.samples = own;
        dataset.unselected.extend::<Vec<_>>(others);
        dataset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str, variables: &[(&str, &str)]) -> Result<Shard, String> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        text.parse::<ShardArgument>()?.resolve(&variables.collect())
    }

    #[test]
    fn every_task_is_in_exactly_one_part_and_always_in_the_same() {
        for count in [1, 2, 7, 40] {
            for number in 0..500 {
                let task = format!("task-{number}");
                let holders = (1..=count).filter(|index| Shard { index: *index, count }.holds(&task)).count();
                assert_eq!(holders, 1, "{task} in {count} parts");
            }
        }
        // What machines of another version must agree on.
        let part = |task| (1..=10).find(|index| Shard { index: *index, count: 10 }.holds(task)).unwrap();
        assert_eq!(["a", "b", "c66c6d80-0000"].map(part), [1, 7, 8]);
        let sizes: Vec<_> = (1..=4)
            .map(|index| (0..1000).filter(|n| Shard { index, count: 4 }.holds(&format!("task-{n}"))).count())
            .collect();
        assert!(sizes.iter().all(|size| (200..300).contains(size)), "{sizes:?}");
    }

    #[test]
    fn a_part_is_named_or_numbered_by_the_batch_system() {
        assert_eq!(resolve("2/3", &[]), Ok(Shard { index: 2, count: 3 }));
        assert_eq!(resolve("2/3", &[(KUBERNETES_INDEX, "0")]), Ok(Shard { index: 2, count: 3 }));
        assert_eq!(resolve("3", &[(KUBERNETES_INDEX, "0")]), Ok(Shard { index: 1, count: 3 }));
        assert_eq!(resolve("3", &[(SLURM_INDEX, "2")]), Ok(Shard { index: 3, count: 3 }));
        let from_one = [(SLURM_INDEX, "3"), (SLURM_FIRST, "1")];
        assert_eq!(resolve("3", &from_one), Ok(Shard { index: 3, count: 3 }));
        for (text, variables, word) in [
            ("3", &[][..], "JOB_COMPLETION_INDEX"),
            ("3", &[(KUBERNETES_INDEX, "3")], "part 4 of 3"),
            ("3", &[(SLURM_INDEX, "x")], "no number"),
            ("0/3", &[], "I/N"),
            ("4/3", &[], "from 1 to 3"),
            ("/3", &[], "I/N"),
            ("0", &[], "I/N"),
        ] {
            let error = resolve(text, variables).unwrap_err();
            assert!(error.contains(word), "{text} {variables:?}: {error}");
        }
    }
}
