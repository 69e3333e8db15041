use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;

use super::artefact::read_artefact;
use super::atomic_file::{remove_half_written, sync_folder};
use super::event_log::EventLog;
use super::format::{ARTEFACTS_FOLDER, EVENTS_FILE, RESULT_FILE};
use super::{SampleResult, StoreError, write_atomically};
use crate::config::Secrets;

/// `samples/<task_id>/<epoch>`: what one sample did and how it ended.
#[derive(Debug, Clone)]
pub struct SampleDirectory {
    path: PathBuf,
    /// What the samples of the run have in common.
    common: PathBuf,
}

impl SampleDirectory {
    pub(super) fn new(path: PathBuf, common: PathBuf) -> Self {
        Self { path, common }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The trajectory, which is not there before the first attempt.
    pub fn events_path(&self) -> PathBuf {
        self.path.join(EVENTS_FILE)
    }

    /// The folder of the kept artefacts, which need not be there.
    pub fn artefacts(&self) -> PathBuf {
        self.path.join(ARTEFACTS_FOLDER)
    }

    /// The commit mark, which is not there before the outcome.
    pub fn result_path(&self) -> PathBuf {
        self.path.join(RESULT_FILE)
    }

    /// Opens the event log for one more attempt.
    pub fn start_attempt(&self, secrets: Arc<Secrets>) -> Result<EventLog, StoreError> {
        self.create()?;
        for folder in [self.path.clone(), self.path.join(ARTEFACTS_FOLDER)] {
            remove_half_written(&folder)?;
        }
        let (artefacts, common) = (self.path.join(ARTEFACTS_FOLDER), self.common.clone());
        Ok(EventLog::open(&self.events_path(), artefacts, common, secrets)?)
    }

    /// Attempts that the trajectory holds.
    pub fn attempts(&self) -> io::Result<u32> {
        EventLog::attempts_in(&self.events_path())
    }

    /// The content of a kept artefact, by the name that an event has of it.
    pub fn artefact(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        Ok(read_artefact(&self.path.join(ARTEFACTS_FOLDER), name)?)
    }

    /// Makes the folder, and its place in the run last: a commit mark whose folder is lost would be none.
    fn create(&self) -> io::Result<()> {
        if self.path.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.path)?;
        self.path.ancestors().skip(1).take(2).try_for_each(sync_folder)
    }

    /// Commits the outcome. After this the sample is never run again.
    pub fn commit(&self, result: &SampleResult) -> Result<(), StoreError> {
        self.create()?;
        let mut text = serde_json::to_vec_pretty(result).map_err(io::Error::from)?;
        text.push(b'\n');
        Ok(write_atomically(&self.result_path(), &text)?)
    }

    /// The committed outcome, or `None` when the sample has none.
    pub fn result(&self) -> Result<Option<SampleResult>, StoreError> {
        let path = self.result_path();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match serde_json::from_slice(&text) {
            Ok(result) => Ok(Some(result)),
            Err(error) => Err(StoreError::Damaged { path, reason: error.to_string() }),
        }
    }

    /// Takes the commit mark away, so that the sample runs again. The events stay.
    pub fn withdraw(&self) -> Result<(), StoreError> {
        match fs::remove_file(self.result_path()) {
            Ok(()) => Ok(sync_folder(&self.path)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The folder name of a task id: itself when it is plain, else percent-encoded, so that no id leaves the run.
pub(super) fn folder_name(task_id: &str) -> String {
    let mut name = String::with_capacity(task_id.len());
    for (position, byte) in task_id.bytes().enumerate() {
        let plain =
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || (byte == b'.' && position > 0);
        if plain {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::test_result;

    #[test]
    fn a_sample_without_a_result_is_missing_and_a_committed_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let sample = SampleDirectory::new(folder.path().join("a/1"), PathBuf::new());
        assert_eq!(sample.result().unwrap(), None);
        drop(sample.start_attempt(Arc::default()).unwrap());
        assert_eq!(sample.result().unwrap(), None, "events alone are no outcome");
        sample.commit(&test_result()).unwrap();
        assert_eq!(sample.result().unwrap(), Some(test_result()));
        sample.withdraw().unwrap();
        sample.withdraw().unwrap();
        assert_eq!(sample.result().unwrap(), None);
    }

    #[test]
    fn a_damaged_result_is_an_error_and_not_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let sample = SampleDirectory::new(folder.path().to_owned(), PathBuf::new());
        fs::write(folder.path().join(RESULT_FILE), "{").unwrap();
        let error = sample.result().unwrap_err();
        assert!(error.to_string().contains(RESULT_FILE), "{error}");
    }

    #[test]
    fn result_has_exactly_the_documented_fields() {
        let value = serde_json::to_value(test_result()).unwrap();
        let fields: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            fields,
            [
                "task_id",
                "epoch",
                "level",
                "status",
                "answer",
                "raw_answer",
                "steps",
                "tool_calls",
                "usage",
                "cost_usd",
                "timing",
                "score",
                "error"
            ]
        );
    }

    proptest! {
        #[test]
        fn folder_names_stay_in_the_folder_and_differ(first in "\\PC{1,20}", second in "\\PC{1,20}") {
            let name = folder_name(&first);
            prop_assert!(!name.contains('/') && !name.starts_with('.'));
            prop_assert_eq!(first == second, name == folder_name(&second));
        }
    }
}
