//! A GAIA snapshot from a hub into a folder of this machine: resumable, verified, whole or not at all.

mod checksum;
mod download;
mod hub;

#[cfg(test)]
#[path = "pull/pull_tests.rs"]
mod tests;

use std::path::{Component, Path, PathBuf};

use futures_util::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::Split;
use super::locate::YEAR;
use crate::config::Hub;
use crate::environment::Environment;
use crate::store::write_atomically;
use checksum::Checksum;
use download::Downloader;
pub use hub::Site;

/// Files at the same time: enough to hide the latency of a hundred small files, few enough not to be throttled.
const FILES_AT_ONCE: usize = 4;

/// Written last into the folder of a snapshot: its presence says that every file was there and verified.
const MARK: &str = ".gaia-pull.json";

/// The format of the mark.
const MARK_VERSION: u32 = 1;

/// What a finished pull has brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pulled {
    pub version: u32,
    pub hub: Hub,
    pub revision: String,
    pub splits: Vec<Split>,
    pub files: usize,
    pub bytes: u64,
}

/// What is told on the way.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    Listed {
        files: usize,
        bytes: u64,
    },
    /// So many more bytes are here; negative when a file has to begin anew.
    Bytes(i64),
    Finished(&'a str),
    /// A request failed and is repeated after a pause.
    Waiting {
        what: &'a str,
        seconds: u64,
    },
}

/// Why there is no snapshot. What was downloaded stays for the next try.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error("failed to pull the dataset: {site} wants to know who asks (401){}", in_its_words(.said))]
    NeedsToken { site: String, said: String },
    #[error("failed to pull the dataset: {site} does not let this account read it (403){}", in_its_words(.said))]
    NotAllowed { site: String, said: String },
    #[error("failed to pull the dataset: {site} has no `{what}` (404){}", in_its_words(.said))]
    NotFound { site: String, what: String, said: String },
    #[error("failed to pull the dataset: `{what}` from {site}: {reason}")]
    Transfer { site: String, what: String, reason: String },
    #[error("failed to pull the dataset: `{path}` is not what {site} lists: {difference}")]
    Damaged { site: String, path: String, difference: String },
    #[error("failed to pull the dataset: the list of files from {site} {reason}")]
    BadList { site: String, reason: String },
    #[error("failed to pull the dataset: {0}")]
    Write(#[from] std::io::Error),
}

fn in_its_words(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl PullError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NeedsToken { .. } => Some(
                "Hugging Face gives GAIA only to accounts that accepted its terms: accept them at \
                 https://huggingface.co/datasets/gaia-benchmark/GAIA, make a read token at \
                 https://huggingface.co/settings/tokens and export it as HF_TOKEN; or take `--hub modelscope`, which \
                 needs none"
                    .to_owned(),
            ),
            Self::NotAllowed { .. } => Some(
                "the token is known but its account has not accepted the terms: open \
                 https://huggingface.co/datasets/gaia-benchmark/GAIA with that account and accept them (access is \
                 given at once); or take `--hub modelscope`"
                    .to_owned(),
            ),
            Self::NotFound { .. } => {
                Some("check --revision and --endpoint; without them the known good ones are taken".to_owned())
            }
            Self::Transfer { .. } | Self::Damaged { .. } => {
                Some("run the same command again: what is already here is not downloaded twice".to_owned())
            }
            Self::BadList { .. } | Self::Write(_) => None,
        }
    }
}

/// A file of the snapshot as its hub lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// Relative to the snapshot's root, with `/`.
    path: String,
    bytes: u64,
    checksum: Option<Checksum>,
}

/// Where a snapshot of this hub and revision is kept: `$XDG_CACHE_HOME/gaia/datasets/HUB/REVISION`.
pub fn cache_folder(environment: &Environment, hub: Hub, revision: &str) -> Option<PathBuf> {
    let cache = environment
        .get_filled("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(environment.get_filled("HOME")?).join(".cache")))?;
    // A revision may be a branch with a slash in it.
    Some(cache.join("gaia/datasets").join(hub.as_str()).join(revision.replace('/', "%2F")))
}

/// What an earlier pull into this folder has finished.
pub fn pulled(folder: &Path) -> Option<Pulled> {
    let mark: Pulled = serde_json::from_slice(&fs_err::read(folder.join(MARK)).ok()?).ok()?;
    (mark.version == MARK_VERSION).then_some(mark)
}

/// The snapshot of a hub's usual revision, when that split of it was pulled.
pub fn pulled_folder(environment: &Environment, hub: Hub, split: Split) -> Option<PathBuf> {
    let folder = cache_folder(environment, hub, Site::usual_revision(hub))?;
    pulled(&folder)?.splits.contains(&split).then_some(folder)
}

/// Brings the splits of a snapshot into `folder`. Files that are there and whole are not asked for again.
pub async fn pull(
    site: &Site,
    splits: &[Split],
    folder: &Path,
    tell: &(dyn Fn(Step<'_>) + Sync),
) -> Result<Pulled, PullError> {
    let downloader = Downloader::new(site, tell)?;
    let entries = wanted(site, hub::list(site, &downloader).await?, splits)?;
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    tell(Step::Listed { files: entries.len(), bytes });
    fs_err::create_dir_all(folder)?;
    futures_util::stream::iter(&entries)
        .map(|entry| downloader.fetch(entry, folder))
        .buffer_unordered(FILES_AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    let mut splits = splits.to_vec();
    // What an earlier pull brought is still there.
    splits.extend(pulled(folder).into_iter().flat_map(|earlier| earlier.splits));
    splits.sort_by_key(|split| split.as_str());
    splits.dedup();
    let pulled = Pulled {
        version: MARK_VERSION,
        hub: site.hub,
        revision: site.revision.clone(),
        splits,
        files: entries.len(),
        bytes,
    };
    let mark = serde_json::to_vec_pretty(&pulled).map_err(std::io::Error::other)?;
    write_atomically(&folder.join(MARK), &mark)?;
    Ok(pulled)
}

/// The files of the splits. A list that would write outside of the folder is refused as a whole.
fn wanted(site: &Site, entries: Vec<Entry>, splits: &[Split]) -> Result<Vec<Entry>, PullError> {
    let bad = |reason: String| PullError::BadList { site: site.to_string(), reason };
    if let Some(entry) = entries.iter().find(|entry| !is_inside(&entry.path)) {
        return Err(bad(format!("holds the path `{}`", entry.path.escape_debug())));
    }
    let mut kept = Vec::new();
    for split in splits {
        let folder = format!("{YEAR}/{split}/");
        let of_split: Vec<Entry> =
            entries.iter().filter(|entry| entry.path.starts_with(&folder)).cloned().collect();
        if !of_split.iter().any(|entry| entry.path[folder.len()..].starts_with("metadata.")) {
            return Err(bad(format!("holds no metadata of the {split} split (`{folder}metadata.parquet`)")));
        }
        kept.extend(of_split);
    }
    Ok(kept)
}

fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(['\\', '\0'])
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}
