//! The run directory: what a run was, what each sample did, how each sample ended.
//!
//! Events are appended as they come; everything else is written beside its place and renamed. A
//! `result.json` is the commit mark of a sample: its presence means that the sample is done.
//!
//! What is put on the disk at once (fsync), and why:
//! - `run.json` and `result.json`, the file before its rename and the folder after it: after a power cut there is the
//!   old or the new one, and a sample that was reported as done is done.
//! - The folders above a new sample's, for the same reason.
//! - `events.jsonl` when an attempt ends, before the commit: an outcome has its trajectory. Not with every event: a
//!   process that is killed loses nothing that it wrote, and a power cut costs turns of samples that have no outcome,
//!   which run again.
//! - Artefacts before their rename: a name that is the hash of a content always has that content.

mod artefact;
mod atomic_file;
mod event_log;
mod find;
mod format;
mod lock;
mod older;
mod run_directory;
mod run_id;
mod sample_directory;

use std::path::PathBuf;

pub use artefact::{artefact_name, picture_name};
pub use event_log::{EventLog, LineTap};
pub use find::{find_run, run_ids};
pub use format::{
    Change, DatasetRecord, Expense, HostFacts, Method, PlannedSample, RUN_FORMAT_VERSION, RunRecord,
    RunTotals, SampleKey, SampleResult, SampleScore, SampleTiming, Saved, Session, ShardRecord, StageRecord,
    StagedRecord, StagedStop,
};
pub use lock::RunLock;
pub use run_directory::{RunDirectory, SampleEntry};
pub use run_id::new_run_id;
pub use sample_directory::SampleDirectory;

pub(crate) use atomic_file::write_atomically;
pub(crate) use format::{CONTROL_SOCKET, RUN_FILE};

/// Where runs are kept when nobody says otherwise, relative to the working folder.
pub const DEFAULT_RUNS_FOLDER: &str = "runs";

/// What a command can do about it decides the variant.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The name matches no run or several: the user must say which.
    #[error("{0}")]
    NotFound(String),
    /// Another process works on the run.
    #[error("the run `{}` is in use by another process{}", run.display(), pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Locked { run: PathBuf, pid: Option<u32> },
    /// Written by a newer program.
    #[error(
        "failed to read `{}`: its format version is {found}, this program knows versions up to {}; use the gaia that wrote it",
        path.display(), RUN_FORMAT_VERSION
    )]
    Newer { path: PathBuf, found: u64 },
    /// Not what this program writes.
    #[error("failed to read `{}`: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// The disk refused. The text names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

#[cfg(test)]
mod size_tests;

/// A record for tests.
#[cfg(test)]
pub(crate) fn test_record(samples: &[(&str, u8)]) -> RunRecord {
    RunRecord {
        format_version: RUN_FORMAT_VERSION,
        id: "20250301T101112Z-abcde".to_owned(),
        program_version: "0.1.0".to_owned(),
        rehearsal: false,
        model: "some-model".to_owned(),
        strategy: Method::React,
        started: time::macros::datetime!(2025-03-01 10:11:12 UTC),
        ended: None,
        config: toml::Table::new(),
        config_path: None,
        config_base: PathBuf::from("."),
        dataset: DatasetRecord {
            name: "samples".to_owned(),
            path: PathBuf::from("samples"),
            split: "validation".to_owned(),
            fingerprint: "sha256:0".to_owned(),
            has_truth: true,
            samples: samples
                .iter()
                .map(|(task_id, level)| PlannedSample { task_id: (*task_id).to_owned(), level: *level })
                .collect(),
            unselected: Some(Vec::new()),
            needs: None,
            corrections: None,
        },
        epochs: 1,
        shard: None,
        prompt: None,
        tools: vec!["bash/bash".to_owned(), "submit/submit".to_owned()],
        host: HostFacts {
            os: "linux".to_owned(),
            architecture: "x86_64".to_owned(),
            cpus: 2,
            docker_version: None,
        },
        sessions: Vec::new(),
        totals: None,
        staged: None,
    }
}

/// An outcome for tests.
#[cfg(test)]
pub(crate) fn test_result() -> SampleResult {
    SampleResult {
        task_id: "a".into(),
        epoch: 1,
        level: 2,
        status: gaia_agent::Status::Answered,
        answer: Some("42".into()),
        raw_answer: Some("FINAL ANSWER: 42".into()),
        steps: 3,
        tool_calls: 2,
        usage: gaia_agent::Usage::default(),
        cost_usd: None,
        timing: SampleTiming::default(),
        score: None,
        error: None,
    }
}
