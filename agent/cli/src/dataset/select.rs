use super::{Dataset, DatasetError};

/// Which samples to run. The default is all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Empty: all levels.
    pub levels: Vec<u8>,
    /// Empty: all tasks.
    pub task_ids: Vec<String>,
    /// Shuffle before `limit`; the same seed gives the same order on every machine.
    pub shuffle_seed: Option<u64>,
    /// The first so many of what is left, in dataset order (or shuffled order).
    pub limit: Option<usize>,
}

impl Dataset {
    /// Keeps the selected samples. The fingerprint stays that of the whole split.
    pub fn select(self, _selection: &Selection) -> Result<Dataset, DatasetError> {
        todo!()
    }
}
