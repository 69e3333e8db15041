use sha2::{Digest, Sha256};

use super::{Dataset, DatasetError};

/// Which samples to run. The default is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Empty: all levels.
    pub levels: Vec<u8>,
    /// Empty: all tasks.
    pub task_ids: Vec<String>,
    /// Shuffle before `limit`; the same seed gives the same order on every machine and in every version.
    pub shuffle_seed: Option<u64>,
    /// The first so many of what is left, in dataset order (or shuffled order).
    pub limit: Option<usize>,
}

/// Spellings further away than this are no likely typing errors.
const MIN_SIMILARITY: f64 = 0.8;

impl Dataset {
    /// Keeps the selected samples. The fingerprint stays that of the whole split. The leaderboard's placeholder is never
    /// selected: there is no question behind it.
    pub fn select(mut self, selection: &Selection) -> Result<Dataset, DatasetError> {
        for task_id in &selection.task_ids {
            if !self.samples.iter().any(|sample| sample.task_id == *task_id) {
                return Err(DatasetError::UnknownTask {
                    task_id: task_id.clone(),
                    split: self.split,
                    nearest: self.nearest_task(task_id),
                });
            }
        }
        let available = self.samples.len();
        let (selected, unselected) = self.samples.into_iter().partition(|sample| {
            !sample.is_placeholder()
                && (selection.levels.is_empty() || selection.levels.contains(&sample.level))
                && (selection.task_ids.is_empty() || selection.task_ids.contains(&sample.task_id))
        });
        (self.samples, self.unselected) = (selected, unselected);
        if let Some(seed) = selection.shuffle_seed {
            // By hash rather than by a generator: independent of the order of the file and of the version of
            // any crate.
            self.samples.sort_by_cached_key(|sample| {
                let mut digest = Sha256::new();
                digest.update(seed.to_be_bytes());
                digest.update(sample.task_id.as_bytes());
                <[u8; 32]>::from(digest.finalize())
            });
        }
        if let Some(limit) = selection.limit {
            self.unselected.extend(self.samples.drain(limit.min(self.samples.len())..));
        }
        if self.samples.is_empty() {
            return Err(DatasetError::NothingSelected { available, choices: choices(selection) });
        }
        Ok(self)
    }

    /// A longer id that starts with the text, else the most similar one.
    fn nearest_task(&self, task_id: &str) -> Option<String> {
        let ids = || self.samples.iter().map(|sample| sample.task_id.as_str());
        let begun = ids().find(|id| !task_id.is_empty() && id.starts_with(task_id));
        let similar = || {
            ids()
                .map(|id| (strsim::normalized_damerau_levenshtein(id, task_id), id))
                .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
                .max_by(|(first, _), (second, _)| first.total_cmp(second))
                .map(|(_, id)| id)
        };
        begun.or_else(similar).map(str::to_owned)
    }
}

fn choices(selection: &Selection) -> String {
    let mut choices = Vec::new();
    if !selection.levels.is_empty() {
        choices.push(format!("levels {:?}", selection.levels));
    }
    if !selection.task_ids.is_empty() {
        choices.push(format!("tasks {:?}", selection.task_ids));
    }
    if let Some(limit) = selection.limit {
        choices.push(format!("limit {limit}"));
    }
    choices.join(", ")
}
