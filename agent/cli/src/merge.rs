//! Parts of one run that were worked on apart, put together into one run.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use time::OffsetDateTime;

use crate::comparable::{Difference, Today, differences};
use crate::store::{
    PlannedSample, RunDirectory, RunLock, RunRecord, SampleKey, ShardRecord, StoreError, new_run_id,
};

/// A part and what is known of it.
#[derive(Debug)]
pub struct Part {
    pub run: RunDirectory,
    pub record: RunRecord,
    pub shard: ShardRecord,
}

/// Why parts do not make a run.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error("run `{0}` is no part of a run: it was not begun with --shard")]
    NotAPart(String),
    #[error("run `{other}` is no part of the same run as `{first}`:{}", listed(differences))]
    Differ { first: String, other: String, differences: Vec<String> },
    /// The same sample ended in two ways.
    #[error("task `{task_id}`, epoch {epoch}, has one outcome in `{first}` and another in `{other}`")]
    Twice { task_id: String, epoch: u32, first: String, other: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<io::Error> for MergeError {
    fn from(error: io::Error) -> Self {
        Self::Store(error.into())
    }
}

fn listed(differences: &[String]) -> String {
    differences.iter().map(|difference| format!("\n  {difference}")).collect()
}

impl Part {
    pub fn open(run: RunDirectory, record: RunRecord) -> Result<Self, MergeError> {
        match record.shard.clone() {
            Some(shard) => Ok(Self { run, record, shard }),
            None => Err(MergeError::NotAPart(record.id)),
        }
    }
}

/// Writes the run that the parts make into the folder of runs. Parts that are missing leave samples without an outcome.
///
/// # Errors
/// Before anything is written when the parts do not fit together.
pub fn merge(parts: &[Part], runs: &Path) -> Result<(RunDirectory, RunRecord, RunLock), MergeError> {
    let [first, others @ ..] = parts else {
        return Err(StoreError::NotFound("no part is named".to_owned()).into());
    };
    for other in others {
        let differences = what_differs(first, other);
        if !differences.is_empty() {
            let (first, other) = (first.record.id.clone(), other.record.id.clone());
            return Err(MergeError::Differ { first, other, differences });
        }
    }
    let sources = sources(parts)?;
    let record = merged_record(first, parts);
    let (run, lock) = RunDirectory::create(runs, &record)?;
    for (key, part) in sources {
        copy_folder(part.run.sample(&key).path(), run.sample(&key).path())?;
    }
    for part in parts {
        copy_folder(&part.run.artefacts(), &run.artefacts())?;
    }
    Ok((run, record, lock))
}

/// Everything that makes the results of the two incomparable, or the two parts of different wholes.
fn what_differs(first: &Part, other: &Part) -> Vec<String> {
    let (left, right) = (&first.record, &other.record);
    let mut found = Vec::new();
    let mut note = |what: &str, before: String, now: String| {
        if before != now {
            found.push(Difference { what: what.to_owned(), before, now });
        }
    };
    note("gaia", left.program_version.clone(), right.program_version.clone());
    note("parts", first.shard.count.to_string(), other.shard.count.to_string());
    note("split", left.dataset.split.clone(), right.dataset.split.clone());
    note("fingerprint of the dataset", left.dataset.fingerprint.clone(), right.dataset.fingerprint.clone());
    note("selected samples", selection(&first.shard.of), selection(&other.shard.of));
    note("epochs", left.epochs.to_string(), right.epochs.to_string());
    note("strategy", left.strategy.label(), right.strategy.label());
    let no_images = BTreeMap::new();
    let today = Today {
        config: &right.config,
        model: &right.model,
        prompt: Some(right.prompt.as_deref().unwrap_or_default()),
        tools: Some(&right.tools),
        images: right.sessions.first().map_or(&no_images, |session| &session.images),
    };
    found.extend(differences(left, &today));
    found.iter().map(Difference::to_string).collect()
}

/// Short, and another one for another list.
fn selection(of: &[PlannedSample]) -> String {
    let mut ids = String::new();
    for planned in of {
        ids.push_str(&planned.task_id);
        ids.push('\n');
    }
    format!("{} with fingerprint {}", of.len(), crate::prompt::fingerprint(&ids))
}

/// Where each sample is taken from: where it has an outcome, else where it was begun.
fn sources(parts: &[Part]) -> Result<BTreeMap<SampleKey, &Part>, MergeError> {
    let mut ended: BTreeMap<SampleKey, &Part> = BTreeMap::new();
    let mut begun: BTreeMap<SampleKey, &Part> = BTreeMap::new();
    for part in parts {
        for entry in part.run.entries(&part.record) {
            let entry = entry?;
            let key = SampleKey { task_id: entry.planned.task_id, epoch: entry.epoch };
            let Some(result) = entry.result else {
                if part.run.sample(&key).path().is_dir() {
                    begun.insert(key, part);
                }
                continue;
            };
            match ended.get(&key) {
                // The same part named twice, or copied.
                Some(known) if known.run.sample(&key).result()?.as_ref() == Some(&result) => {}
                Some(known) => {
                    return Err(MergeError::Twice {
                        task_id: key.task_id,
                        epoch: key.epoch,
                        first: known.record.id.clone(),
                        other: part.record.id.clone(),
                    });
                }
                None => {
                    ended.insert(key, part);
                }
            }
        }
    }
    for (key, part) in begun {
        ended.entry(key).or_insert(part);
    }
    Ok(ended)
}

fn merged_record(first: &Part, parts: &[Part]) -> RunRecord {
    let mut record = first.record.clone();
    let of: BTreeSet<&str> = first.shard.of.iter().map(|planned| planned.task_id.as_str()).collect();
    record.dataset.samples.clone_from(&first.shard.of);
    if let Some(unselected) = &mut record.dataset.unselected {
        unselected.retain(|planned| !of.contains(planned.task_id.as_str()));
    }
    if let Some(needs) = &mut record.dataset.needs {
        needs.extend(parts.iter().flat_map(|part| part.record.dataset.needs.clone().unwrap_or_default()));
    }
    record.started = parts.iter().map(|part| part.record.started).min().unwrap_or(record.started);
    let ends: Option<Vec<OffsetDateTime>> = parts.iter().map(|part| part.record.ended).collect();
    record.ended = ends.and_then(|ends| ends.into_iter().max());
    let mut seen = BTreeSet::new();
    let distinct = parts.iter().filter(|part| seen.insert(part.record.id.as_str()));
    record.sessions = distinct.flat_map(|part| part.record.sessions.iter().cloned()).collect();
    record.sessions.sort_by_key(|session| session.started);
    // Made now, and so the last one; when the work began is told by its sessions.
    record.id = new_run_id(OffsetDateTime::now_utc());
    record.shard = None;
    record.totals = None;
    record
}

/// Files that are there already are the same: artefacts are named after their content.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if !entry.file_name().to_string_lossy().starts_with('.') && !target.exists() {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
