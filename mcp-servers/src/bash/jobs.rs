//! Commands that outlive the call that started them, by the number the model knows them by.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gaia_sandbox::{Output, TaskId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ToolError;
use crate::toolset::Status;

/// The jobs of one container, ended ones included.
#[derive(Debug, Default)]
pub(super) struct Jobs(Mutex<BTreeMap<u64, Arc<Job>>>);

#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    /// Byte of its output up to which this client has read.
    cursor: AtomicU64,
}

#[derive(Debug)]
pub(super) enum Work {
    /// Started with `run_in_background`.
    Task(TaskId),
    /// A call of `bash` that was answered before its command ended.
    Call(LongCall),
}

/// A command in the shell itself, whose output comes when it ends.
#[derive(Debug)]
pub(super) struct LongCall {
    pub(super) status: Status,
    pub(super) timeout: Duration,
    /// Ends the command.
    pub(super) cancel: CancellationToken,
    pub(super) ending: watch::Receiver<Option<Ending>>,
}

/// What came of a command: its output, or why there is none.
pub(super) type Ending = Result<Arc<Output>, String>;

impl Jobs {
    /// Numbers count from 1: short to write for a model, and never used twice in a container.
    pub(super) fn add(&self, work: Work) -> u64 {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = jobs.last_key_value().map_or(1, |(last, _job)| last + 1);
        jobs.insert(number, Arc::new(Job { work, cursor: AtomicU64::new(0) }));
        number
    }

    pub(super) fn get(&self, number: u64) -> Result<Arc<Job>, ToolError> {
        let jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(job) = jobs.get(&number) {
            return Ok(Arc::clone(job));
        }
        let known: Vec<String> = jobs.keys().map(u64::to_string).collect();
        let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
        Err(ToolError::Text(format!("no task {number} in this sandbox; the tasks are: {known}")))
    }
}

impl Job {
    pub(super) fn cursor(&self) -> u64 {
        self.cursor.load(Ordering::Relaxed)
    }

    pub(super) fn move_cursor(&self, offset: u64) {
        self.cursor.store(offset, Ordering::Relaxed);
    }
}

impl LongCall {
    /// Returns once the command has ended.
    pub(super) async fn ended(&self) -> Ending {
        let mut ending = self.ending.clone();
        let ended = ending.wait_for(Option::is_some).await;
        ended.ok().and_then(|ended| ended.clone()).unwrap_or_else(|| Err("its result was lost".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_number_is_answered_with_the_known_ones() {
        let jobs = Jobs::default();
        let unknown = |number| jobs.get(number).err().unwrap().to_string();
        assert_eq!(unknown(1), "no task 1 in this sandbox; the tasks are: there is none");
        assert_eq!(jobs.add(Work::Task(TaskId(40))), 1);
        assert_eq!(jobs.add(Work::Task(TaskId(41))), 2);
        assert_eq!(unknown(40), "no task 40 in this sandbox; the tasks are: 1, 2");
        assert!(matches!(jobs.get(2).unwrap().work, Work::Task(TaskId(41))));
    }
}
