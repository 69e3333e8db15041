//! A GAIA snapshot on this machine: its questions, and for each question its own attachment.

mod sample;
mod select;

use std::path::{Path, PathBuf};

pub use crate::config::Split;
pub use sample::{Annotator, Sample};
pub use select::Selection;

/// The samples of one split, in the order of the metadata.
#[derive(Debug, Clone)]
pub struct Dataset {
    pub samples: Vec<Sample>,
    /// Attachments are inside this folder.
    pub root: PathBuf,
    pub split: Split,
    /// SHA-256 in hex over the rows and the attachments' content: the same for the same content in JSON lines
    /// and in Parquet.
    pub fingerprint: String,
    /// The metadata files that were read.
    pub sources: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    #[error("{0}")]
    Invalid(String),
}

/// Reads the split's metadata and checks every row. `root` is the snapshot, its `2023` folder or the split's.
pub fn load(_root: &Path, _split: Split) -> Result<Dataset, DatasetError> {
    todo!()
}
