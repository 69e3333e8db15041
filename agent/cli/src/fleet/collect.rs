//! Writes what workers send into the run directory: the same files as in a run on one machine, byte for byte what the
//! worker wrote.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fs_err::OpenOptions;
use gaia_agent::AgentEvent;
use serde::Deserialize;

use super::channel::RunChannel;
use super::wire::{BlockHead, SampleState, is_plain};
use super::{FleetError, parcel};
use crate::dataset::Sample;
use crate::progress::{Progress, SampleProgress};
use crate::scoring::score_answer;
use crate::store::{RunDirectory, SampleKey, SampleResult, write_atomically};

/// Artefacts that lines name are there before the lines are.
const FETCH_LIMIT: Duration = Duration::from_secs(120);

/// The samples that have no outcome yet, and what is known of them.
pub(super) struct Collector {
    channel: RunChannel,
    run: RunDirectory,
    progress: Arc<Progress>,
    open: HashMap<SampleKey, OpenSample>,
    /// The last message of the trajectories that was written, as everything before it was.
    written: u64,
    /// Only what comes next may be written; not known when reading begins.
    next: Option<u64>,
    /// Outcomes by the message that must be written before.
    early: BTreeMap<u64, Vec<SampleResult>>,
}

struct OpenSample {
    sample: Arc<Sample>,
    /// Of the claim that lines were last written for.
    revision: u64,
    claim: Option<Claim>,
    has_been_touched: bool,
}

struct Claim {
    worker: String,
    progress: SampleProgress,
}

/// A line of a trajectory, for the display.
#[derive(Deserialize)]
struct Line {
    branch: Option<String>,
    #[serde(flatten)]
    event: AgentEvent,
}

impl Collector {
    pub(super) fn new(
        channel: RunChannel,
        run: RunDirectory,
        progress: Arc<Progress>,
        samples: impl Iterator<Item = (SampleKey, Arc<Sample>)>,
    ) -> Self {
        let open =
            |(key, sample)| (key, OpenSample { sample, revision: 0, claim: None, has_been_touched: false });
        Self {
            channel,
            run,
            progress,
            open: samples.map(open).collect(),
            written: 0,
            next: None,
            early: BTreeMap::new(),
        }
    }

    /// Samples without an outcome.
    pub(super) fn remaining(&self) -> usize {
        self.open.len()
    }

    /// Workers of the samples that are being worked on.
    pub(super) fn workers_at_work(&self) -> impl Iterator<Item = &str> {
        self.open.values().filter_map(|open| open.claim.as_ref()).map(|claim| claim.worker.as_str())
    }

    /// Takes down where a sample stands. Returns the outcomes that this completes.
    pub(super) async fn state(&mut self, content: &[u8]) -> Result<Vec<SampleResult>, FleetError> {
        let content = parcel::unpack(&self.channel.objects, content, FETCH_LIMIT).await?;
        let state: SampleState =
            serde_json::from_slice(&content).map_err(|error| FleetError::Unreadable(error.to_string()))?;
        let (task_id, epoch) = state.key();
        let key = SampleKey { task_id: task_id.to_owned(), epoch };
        let Some(open) = self.open.get_mut(&key) else { return Ok(Vec::new()) };
        match state {
            SampleState::Claimed { worker, .. } => {
                let progress = self.progress.start(&key, open.sample.level);
                open.claim = Some(Claim { worker, progress });
            }
            SampleState::Released { .. } => open.claim = None,
            SampleState::Committed { events, result, .. } => {
                self.early.entry(events).or_default().push(*result);
                return self.complete();
            }
        }
        Ok(Vec::new())
    }

    /// Everything up to this message was written, by this coordinator or by one before it.
    pub(super) fn has_written(&mut self, sequence: u64) -> Result<Vec<SampleResult>, FleetError> {
        self.written = self.written.max(sequence);
        self.complete()
    }

    /// Reading begins with the first message that nobody acknowledged, whichever that is.
    pub(super) fn begins_to_read(&mut self) {
        self.next = None;
    }

    /// Whether messages before this one are missing.
    pub(super) fn misses(&self, sequence: u64) -> bool {
        self.next.is_some_and(|next| sequence > next)
    }

    /// Whether there are outcomes that wait for their trajectories.
    pub(super) fn waits(&self) -> bool {
        !self.early.is_empty()
    }

    /// Writes a block of a trajectory, and the artefacts that it names first. Returns the outcomes that this completes.
    pub(super) async fn block(
        &mut self,
        sequence: u64,
        content: &[u8],
    ) -> Result<Vec<SampleResult>, FleetError> {
        // Delivered again because the first acknowledgement was lost.
        if self.next.is_some_and(|next| sequence < next) {
            return Ok(Vec::new());
        }
        let content = parcel::unpack(&self.channel.objects, content, FETCH_LIMIT).await?;
        let end = content.iter().position(|byte| *byte == b'\n').unwrap_or(content.len());
        let (head, lines) = content.split_at(end);
        let lines = lines.strip_prefix(b"\n").unwrap_or(lines);
        let head: BlockHead =
            serde_json::from_slice(head).map_err(|error| FleetError::Unreadable(error.to_string()))?;
        let key = SampleKey { task_id: head.task_id.clone(), epoch: head.epoch };
        // Of an earlier claim than what stands there: that worker lost the sample and does not know it yet.
        let is_wanted = self.open.get(&key).is_some_and(|open| open.revision <= head.revision);
        if is_wanted {
            self.write(&key, &head, lines).await?;
        }
        self.written = self.written.max(sequence);
        self.next = Some(sequence + 1);
        self.complete()
    }

    async fn write(&mut self, key: &SampleKey, head: &BlockHead, lines: &[u8]) -> Result<(), FleetError> {
        let sample = self.run.sample(key);
        let files = head.files.iter().map(|name| (name, head.object_of_file(name), sample.artefacts()));
        let common = head.common.iter().map(|name| (name, head.object_of_common(name), self.run.artefacts()));
        for (name, object, folder) in files.chain(common).filter(|(name, ..)| is_plain(name)) {
            let path = folder.join(name);
            if !path.is_file() {
                let content = parcel::get(&self.channel.objects, &object, FETCH_LIMIT).await?;
                fs_err::create_dir_all(&folder)?;
                write_atomically(&path, &content)?;
            }
        }
        fs_err::create_dir_all(sample.path())?;
        let Some(open) = self.open.get_mut(key) else { return Ok(()) };
        open.revision = head.revision;
        let may_be_there = !std::mem::replace(&mut open.has_been_touched, true);
        append(&sample.events_path(), lines, may_be_there)?;
        if let Some(claim) = &open.claim {
            for line in lines.split(|byte| *byte == b'\n') {
                match serde_json::from_slice::<Line>(line) {
                    Ok(Line { branch: Some(branch), event }) => {
                        claim.progress.observe_branch(&branch, &event)
                    }
                    Ok(Line { branch: None, event }) => claim.progress.observe(&event),
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Commits the outcomes whose trajectories are whole.
    fn complete(&mut self) -> Result<Vec<SampleResult>, FleetError> {
        let mut completed = Vec::new();
        while let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() <= self.written) {
            for mut result in entry.remove() {
                let key = SampleKey { task_id: result.task_id.clone(), epoch: result.epoch };
                let Some(open) = self.open.remove(&key) else { continue };
                result.score = score_answer(result.answer.as_deref(), open.sample.truth.as_deref());
                let directory = self.run.sample(&key);
                match OpenOptions::new().write(true).open(directory.events_path()) {
                    Ok(file) => file.sync_all()?,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error.into()),
                }
                directory.commit(&result)?;
                self.progress.finish(&result);
                completed.push(result);
            }
        }
        Ok(completed)
    }
}

/// Appends lines. A coordinator that was killed may have written them, or a part of them, and not said so: then they
/// are written once.
fn append(path: &Path, lines: &[u8], may_be_there: bool) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let mut end = file.seek(SeekFrom::End(0))?;
    if may_be_there && end > 0 {
        let mut known = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut known)?;
        let first = lines.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        // Of whole lines; each has its time and is there once.
        let whole = known.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut at = 0;
        end = whole as u64;
        for line in known[..whole].split_inclusive(|byte| *byte == b'\n') {
            if line == first {
                if known[at..whole].starts_with(lines) {
                    return Ok(());
                }
                end = at as u64;
                break;
            }
            at += line.len();
        }
        file.set_len(end)?;
    }
    file.seek(SeekFrom::Start(end))?;
    file.write_all(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_killed_coordinator_wrote_are_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let content = || fs_err::read_to_string(&path).unwrap();
        append(&path, b"{1}\n{2}\n", true).unwrap();
        append(&path, b"{3}\n{4}\n{5}\n", false).unwrap();
        // The whole of it, a part of it, and a part with a torn line.
        append(&path, b"{3}\n{4}\n{5}\n", true).unwrap();
        assert_eq!(content(), "{1}\n{2}\n{3}\n{4}\n{5}\n");
        append(&path, b"{5}\n{6}\n", true).unwrap();
        assert_eq!(content(), "{1}\n{2}\n{3}\n{4}\n{5}\n{6}\n");
        fs_err::write(&path, "{1}\n{2}\n{3").unwrap();
        append(&path, b"{2}\n{3}\n{4}\n", true).unwrap();
        assert_eq!(content(), "{1}\n{2}\n{3}\n{4}\n");
        // What was acknowledged later stays.
        append(&path, b"{2}\n{3}\n", true).unwrap();
        assert_eq!(content(), "{1}\n{2}\n{3}\n{4}\n");
    }

    #[test]
    fn no_name_of_an_artefact_leaves_its_folder() {
        assert!(is_plain("abc.txt.zst"));
        for name in ["", ".hidden", "../x", "a/b"] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
