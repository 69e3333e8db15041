//! Sends the trajectory of a sample on while it is written. What is read is the file: nothing is lost when the server is
//! away for a while, and nothing piles up in memory.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::message::PublishMessage;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::channel::RunChannel;
use super::retry::persist;
use super::wire::BlockHead;
use super::{FleetError, parcel};
use crate::store::{RunDirectory, SampleKey};

/// Between two looks at the file: what a person who watches takes for at once.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Of lines in one message.
const BLOCK_BYTES: u64 = 4 * 1024 * 1024;

/// While a sample runs nothing is given up; its end waits for so long.
const OUTAGE_LIMIT: Duration = Duration::from_secs(3600);

/// Follows one sample until it is told that it ended.
#[derive(Debug)]
pub(super) struct Forwarder {
    ended: CancellationToken,
    /// Ends with whoever waits for it.
    task: AbortOnDropHandle<Result<u64, FleetError>>,
}

/// What a forwarder follows.
pub(super) struct Followed {
    pub(super) channel: Arc<RunChannel>,
    pub(super) run: RunDirectory,
    pub(super) key: SampleKey,
    /// Of the claim.
    pub(super) revision: u64,
    pub(super) worker: String,
    /// What is in the file from before.
    pub(super) offset: u64,
    /// Common artefacts that are known to be in the object store. Held while one is put: of two who put it at once the
    /// second would take the content of the first away.
    pub(super) common: Arc<Mutex<BTreeSet<String>>>,
}

impl Forwarder {
    pub(super) fn start(followed: Followed) -> Self {
        let ended = CancellationToken::new();
        let token = ended.clone();
        let task = tokio::spawn(async move {
            let mut following = Following { followed, sent: BTreeSet::new(), last: 0 };
            following.until(&token).await?;
            Ok(following.last)
        });
        Self { ended, task: AbortOnDropHandle::new(task) }
    }

    /// Sends the rest. Returns the sequence of the last message, 0 when there was none.
    pub(super) async fn finish(self) -> Result<u64, FleetError> {
        self.ended.cancel();
        self.task.await.map_err(|error| FleetError::from(io::Error::other(error)))?
    }
}

struct Following {
    followed: Followed,
    /// Artefacts of the sample that are in the object store.
    sent: BTreeSet<String>,
    last: u64,
}

impl Following {
    async fn until(&mut self, ended: &CancellationToken) -> Result<(), FleetError> {
        loop {
            // Looked at first: what was written before the end is then sent before the return.
            let is_last = ended.is_cancelled();
            while self.send_block().await? {}
            if is_last {
                return Ok(());
            }
            tokio::select! {
                () = ended.cancelled() => {}
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
    }

    /// Whether there was something to send.
    async fn send_block(&mut self) -> Result<bool, FleetError> {
        let Followed { channel, run, key, revision, worker, offset, common } = &self.followed;
        let sample = run.sample(key);
        let Some(lines) = whole_lines(&sample.events_path(), *offset).await? else { return Ok(false) };
        let mut head = BlockHead {
            task_id: key.task_id.clone(),
            epoch: key.epoch,
            revision: *revision,
            worker: worker.clone(),
            files: Vec::new(),
            common: Vec::new(),
        };
        for (name, path) in artefacts(&sample.artefacts()).await? {
            if self.sent.contains(&name) {
                continue;
            }
            let content = tokio::fs::read(path).await?;
            parcel::put(&channel.objects, &head.object_of_file(&name), &content, OUTAGE_LIMIT).await?;
            head.files.push(name);
        }
        for (name, path) in artefacts(&run.artefacts()).await? {
            let mut known = common.lock().await;
            if !known.contains(&name) {
                let content = tokio::fs::read(path).await?;
                parcel::put(&channel.objects, &head.object_of_common(&name), &content, OUTAGE_LIMIT).await?;
                known.insert(name.clone());
            }
            // Named each time: whichever block is lost, the next one brings it.
            head.common.push(name);
        }
        let mut block = serde_json::to_vec(&head).map_err(io::Error::from)?;
        block.push(b'\n');
        block.extend_from_slice(&lines);
        let payload = parcel::pack(&channel.objects, &block, OUTAGE_LIMIT).await?;
        // Tried again without knowing whether it came through: the server drops the second.
        let id = format!("{}/{}/{revision}/{offset}", key.task_id, key.epoch);
        let ack = persist("sending a trajectory", OUTAGE_LIMIT, || async {
            let message = PublishMessage::build().payload(payload.clone()).message_id(&id);
            channel.link.context.send_publish(channel.events_subject(), message).await?.await
        })
        .await?;
        self.last = ack.sequence;
        self.sent.extend(head.files);
        self.followed.offset += lines.len() as u64;
        Ok(true)
    }
}

/// The lines from `offset` on that are whole, at least one.
async fn whole_lines(path: &Path, offset: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = match tokio::fs::File::open(path).await {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    file.seek(io::SeekFrom::Start(offset)).await?;
    let mut lines = Vec::new();
    let mut limit = BLOCK_BYTES;
    loop {
        let read = (&mut file).take(limit).read_to_end(&mut lines).await?;
        if let Some(end) = lines.iter().rposition(|byte| *byte == b'\n') {
            lines.truncate(end + 1);
            return Ok(Some(lines));
        }
        if read == 0 {
            return Ok(None);
        }
        // One line that is longer than a block.
        limit *= 2;
    }
}

/// Names and paths; what is being written has a leading dot.
async fn artefacts(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut entries = match tokio::fs::read_dir(folder).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    while let Some(entry) = entries.next_entry().await? {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_whole_lines_are_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        assert_eq!(whole_lines(&path, 0).await.unwrap(), None);
        fs_err::write(&path, "{1}\n{2}\n{to").unwrap();
        assert_eq!(whole_lines(&path, 0).await.unwrap().unwrap(), b"{1}\n{2}\n");
        assert_eq!(whole_lines(&path, 4).await.unwrap().unwrap(), b"{2}\n");
        assert_eq!(whole_lines(&path, 8).await.unwrap(), None);
        let long = format!("{}\n", "x".repeat(BLOCK_BYTES as usize * 3));
        fs_err::write(&path, format!("{long}y\nz")).unwrap();
        assert_eq!(whole_lines(&path, 0).await.unwrap().unwrap(), format!("{long}y\n").into_bytes());
    }
}
