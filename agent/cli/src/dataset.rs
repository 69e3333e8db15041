//! A GAIA snapshot on this machine: its questions, and for each question its own attachment.

mod attachment;
mod corrections;
mod error;
mod fingerprint;
mod locate;
mod metadata;
mod needs;
pub mod pull;
mod row;
mod sample;
mod select;
mod stats;

#[cfg(test)]
#[path = "dataset/dataset_tests.rs"]
mod tests;

use std::path::{Path, PathBuf};

pub use crate::config::Split;
pub use attachment::stage_attachment;
pub use corrections::{Correction, Corrections};
pub use error::{DatasetError, RowProblem};
pub use needs::{Needs, ToolNeed};
#[cfg(feature = "nats")]
pub(crate) use row::{check_file_name, check_task_id};
pub use sample::{Annotator, PLACEHOLDER_TASK_ID, Sample};
pub use select::Selection;
pub use stats::{DatasetStats, LevelStats};

/// The samples of one split, in the order of the metadata.
#[derive(Debug, Clone)]
pub struct Dataset {
    pub samples: Vec<Sample>,
    /// Rows of the split that are not asked: what [`select`](Self::select) left out.
    pub unselected: Vec<Sample>,
    /// Attachments are inside this folder, as far as the snapshot is not a cache of links.
    pub root: PathBuf,
    pub split: Split,
    /// SHA-256 in hex over the rows and the attachments' content: the same for the same content in JSON lines
    /// and in Parquet, in whatever order.
    pub fingerprint: String,
    /// The metadata files that were read.
    pub sources: Vec<PathBuf>,
}

/// Reads the split's metadata and checks every row. `root` is the snapshot, its `2023` folder or the split's.
pub fn load(root: &Path, split: Split) -> Result<Dataset, DatasetError> {
    let snapshot = locate::locate(root, split)?;
    let rows = metadata::read(&snapshot, split)?;
    let mut problems = Vec::new();
    let mut samples: Vec<Sample> = Vec::with_capacity(rows.len());
    let mut hashes = Vec::with_capacity(rows.len());
    for row in rows {
        match attachment::resolve(&snapshot, &row) {
            Ok(attachment) => {
                hashes.push(attachment.as_ref().map(|attachment| attachment.sha256));
                samples.push(row.into_sample(attachment.map(|attachment| attachment.path)));
            }
            Err(message) => problems.push(row.problem(message)),
        }
    }
    if !problems.is_empty() {
        return Err(DatasetError::Rows(problems));
    }
    let fingerprint = fingerprint::fingerprint(&samples, &hashes);
    Ok(Dataset {
        samples,
        unselected: Vec::new(),
        root: snapshot.root,
        split,
        fingerprint,
        sources: snapshot.metadata.files(),
    })
}
