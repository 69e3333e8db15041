use std::path::{Path, PathBuf};

use crate::config::Split;
use crate::dataset::error::DatasetError;

/// The folder that GAIA keeps the splits in.
pub(super) const YEAR: &str = "2023";

/// Entries of a folder that an error names at most.
const MAX_NAMED_ENTRIES: usize = 12;

/// Where the parts of a split lie.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// What `file_path` is relative to, and the boundary that no attachment may leave.
    pub(super) root: PathBuf,
    pub(super) split_dir: PathBuf,
    pub(super) metadata: Metadata,
}

/// The files that hold the rows.
#[derive(Debug)]
pub(super) struct Metadata {
    /// `metadata.parquet`, or one file for each level with that level.
    pub(super) parquet: Vec<(PathBuf, Option<u8>)>,
    pub(super) jsonl: Option<PathBuf>,
}

impl Metadata {
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.parquet.iter().map(|(path, _)| path.clone()).chain(self.jsonl.clone()).collect()
    }
}

/// Takes the snapshot's root, its `2023` folder or the split's own folder.
pub(super) fn locate(root: &Path, split: Split) -> Result<Snapshot, DatasetError> {
    let candidates = [
        (root.join(YEAR).join(split.as_str()), root.to_owned()),
        (root.join(split.as_str()), parent_if_named(root, YEAR)),
        (root.to_owned(), split_root(root, split)),
    ];
    for (split_dir, snapshot_root) in &candidates {
        // A folder named after the other split is never taken for this one.
        let other = match split {
            Split::Validation => Split::Test,
            Split::Test => Split::Validation,
        };
        if split_dir == root && is_named(root, other.as_str()) {
            continue;
        }
        if let Some(metadata) = metadata_in(split_dir)? {
            return Ok(Snapshot { root: snapshot_root.clone(), split_dir: split_dir.clone(), metadata });
        }
    }
    Err(DatasetError::NoMetadata {
        root: root.to_owned(),
        split,
        looked_for: candidates
            .iter()
            .flat_map(|(dir, _)| [dir.join("metadata.parquet"), dir.join("metadata.jsonl")])
            .collect(),
        present: entries(root),
    })
}

fn metadata_in(dir: &Path) -> Result<Option<Metadata>, DatasetError> {
    let jsonl = Some(dir.join("metadata.jsonl")).filter(|path| path.is_file());
    let whole = dir.join("metadata.parquet");
    if whole.is_file() {
        return Ok(Some(Metadata { parquet: vec![(whole, None)], jsonl }));
    }
    let by_level: Vec<(PathBuf, Option<u8>)> =
        (1..=3).map(|level| (dir.join(format!("metadata.level{level}.parquet")), Some(level))).collect();
    let (there, missing): (Vec<_>, Vec<_>) = by_level.into_iter().partition(|(path, _)| path.is_file());
    match (there.as_slice(), missing.as_slice(), &jsonl) {
        ([], _, None) => Ok(None),
        (_, [], _) => Ok(Some(Metadata { parquet: there, jsonl })),
        (_, _, Some(_)) => Ok(Some(Metadata { parquet: Vec::new(), jsonl })),
        (_, [(path, _), ..], None) => Err(DatasetError::BadFile {
            file: path.clone(),
            message: "not there, although the files of other levels are".to_owned(),
        }),
    }
}

/// The last name, also of paths such as `.` or `x/..`.
fn is_named(path: &Path, name: &str) -> bool {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).file_name().is_some_and(|last| last == name)
}

fn parent_if_named(path: &Path, name: &str) -> PathBuf {
    if is_named(path, name) { path.join("..") } else { path.to_owned() }
}

fn split_root(split_dir: &Path, split: Split) -> PathBuf {
    if !is_named(split_dir, split.as_str()) {
        return split_dir.to_owned();
    }
    if is_named(&split_dir.join(".."), YEAR) { split_dir.join("../..") } else { split_dir.to_owned() }
}

/// `None` when there is no such folder.
fn entries(dir: &Path) -> Option<Vec<String>> {
    let mut names: Vec<String> = fs_err::read_dir(dir)
        .ok()?
        .filter_map(|entry| Some(format!("`{}`", entry.ok()?.file_name().to_string_lossy())))
        .collect();
    names.sort();
    if names.len() > MAX_NAMED_ENTRIES {
        let more = names.len() - MAX_NAMED_ENTRIES;
        names.truncate(MAX_NAMED_ENTRIES);
        names.push(format!("and {more} more"));
    }
    Some(names)
}
