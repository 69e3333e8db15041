//! What is sent between coordinator and workers. Both are of one version: a worker of another is refused before it
//! reads more than [`Offer::program_version`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::dataset::{check_file_name, check_task_id};
use crate::store::{RunRecord, SampleResult};

/// A run that wants workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Offer {
    pub(super) program_version: String,
    /// Without its lists of samples.
    pub(super) record: RunRecord,
    pub(super) rules: ClaimRules,
}

/// When a sample is taken from a worker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClaimRules {
    /// A worker that gives no sign of life for so long loses its samples.
    pub timeout_ms: u64,
    /// A sample that was begun so often without an end is an error.
    pub max_begun: u32,
}

/// Only the version, which every version can read.
#[derive(Debug, Deserialize)]
pub(super) struct OfferVersion {
    pub(super) program_version: String,
}

/// One sample that is to be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) task_id: String,
    pub(super) epoch: u32,
    pub(super) level: u8,
    pub(super) question: String,
    pub(super) attachment: Option<JobAttachment>,
    /// Attempts that stand in the trajectory already.
    pub(super) attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobAttachment {
    /// As the agent sees it.
    pub(super) name: String,
    /// Its name in the object store.
    pub(super) object: String,
}

/// Each is a line that the worker writes ahead. More than any sample was ever begun.
const MAX_ATTEMPTS: u32 = 10_000;

impl Job {
    /// What comes over the network becomes folders and files here: none may lead anywhere else.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        check_task_id(&self.task_id)?;
        if self.attempts > MAX_ATTEMPTS {
            return Err(format!("{} attempts are more than {MAX_ATTEMPTS}", self.attempts));
        }
        let Some(attachment) = &self.attachment else { return Ok(()) };
        check_file_name(&attachment.name)?;
        match is_plain(&attachment.object) && !attachment.name.is_empty() {
            true => Ok(()),
            false => Err("the attachment is not named by a plain name".to_owned()),
        }
    }
}

/// Whether a name that came over the network leads nowhere else.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/')
}

/// Where a sample stands; absent before it is first begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum SampleState {
    Claimed {
        task_id: String,
        epoch: u32,
        worker: String,
        /// This time included.
        begun: u32,
    },
    /// Handed back.
    Released { task_id: String, epoch: u32, begun: u32 },
    Committed {
        worker: String,
        /// Sequence of the last message of the trajectory: the outcome counts when everything up to it is written.
        events: u64,
        result: Box<SampleResult>,
    },
}

impl SampleState {
    /// Task and epoch.
    pub(super) fn key(&self) -> (&str, u32) {
        match self {
            Self::Claimed { task_id, epoch, .. } | Self::Released { task_id, epoch, .. } => (task_id, *epoch),
            Self::Committed { result, .. } => (&result.task_id, result.epoch),
        }
    }
}

/// Precedes the lines of a trajectory in a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BlockHead {
    pub(super) task_id: String,
    pub(super) epoch: u32,
    /// Of the claim under which the lines were written: later claims have larger ones.
    pub(super) revision: u64,
    pub(super) worker: String,
    /// Artefacts that are in the object store, which the lines may name.
    pub(super) files: Vec<String>,
    /// The same of the run's common ones.
    pub(super) common: Vec<String>,
}

impl BlockHead {
    /// The object that holds an artefact of the sample. Whoever puts an object of a name that is there takes the content
    /// of the first away, under the hands of who reads it: so each has names of its own.
    pub(super) fn object_of_file(&self, name: &str) -> String {
        format!("{}.{name}", self.revision)
    }

    /// The object that holds a common artefact.
    pub(super) fn object_of_common(&self, name: &str) -> String {
        format!("{}.{name}", self.worker)
    }
}

/// A worker, as it says itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerState {
    pub id: String,
    pub host: String,
    pub version: String,
    /// Places for samples.
    pub concurrency: usize,
    pub running: Vec<RunningSample>,
    /// Outcomes since it started.
    pub committed: u64,
    /// Runs that it does not work on, and why.
    pub refused: BTreeMap<String, Refusal>,
    pub is_draining: bool,
    #[serde(with = "time::serde::rfc3339")]
    pub started: OffsetDateTime,
    /// When it said so.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

/// Why a worker does not work on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "reason", rename_all = "snake_case")]
pub enum Refusal {
    /// Something is not there, or differs, on this worker.
    Unable(String),
    /// The model's provider takes nothing more, which other workers would find out too.
    Paused(String),
}

impl Refusal {
    pub fn reason(&self) -> &str {
        match self {
            Self::Unable(reason) | Self::Paused(reason) => reason,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunningSample {
    pub run: String,
    pub task_id: String,
    pub epoch: u32,
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
}

/// The key of a sample's state. Ids of tasks may hold what keys may not.
pub(super) fn state_key(task_id: &str, epoch: u32) -> String {
    let digest = Sha256::digest(task_id.as_bytes());
    let hash: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{epoch}.{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_names_a_file_elsewhere_is_refused() {
        let job = |task: &str, attempts: u32, name: &str, object: &str| Job {
            task_id: task.to_owned(),
            epoch: 1,
            level: 1,
            question: "q".to_owned(),
            attachment: Some(JobAttachment { name: name.to_owned(), object: object.to_owned() }),
            attempts,
        };
        job("t", 3, "a b.xlsx", "0a1b.attachment").check().unwrap();
        let hostile = [
            job("../t", 0, "a", "o"),
            job("..", 0, "a", "o"),
            job("/etc", 0, "a", "o"),
            job("t", u32::MAX, "a", "o"),
            job("t", 0, "", "o"),
            job("t", 0, "..", "o"),
            job("t", 0, "../../.ssh/authorized_keys", "o"),
            job("t", 0, "/etc/cron.d/job", "o"),
            job("t", 0, "a", ""),
            job("t", 0, "a", "/etc/shadow"),
            job("t", 0, "a", "../../../etc/shadow"),
        ];
        for job in hostile {
            assert!(job.check().is_err(), "{job:?}");
        }
    }

    #[test]
    fn keys_are_plain_whatever_the_task_is_called() {
        let key = state_key("a b/ü>*", 3);
        assert!(key.starts_with("3.") && key.len() == 34, "{key}");
        assert!(key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'));
        assert_ne!(key, state_key("a b/ü>", 3));
        assert_ne!(key, state_key("a b/ü>*", 2));
    }
}
