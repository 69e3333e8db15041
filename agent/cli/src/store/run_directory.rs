use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use gaia_agent::tools::RecordedTool;

use super::artefact::read_artefact;
use super::atomic_file::{remove_half_written, sync_folder};
use super::format::{ARTEFACTS_FOLDER, LOCK_FILE, RUN_FILE, SAMPLES_FOLDER};
use super::older::of_today;
use super::sample_directory::folder_name;
use super::{
    PlannedSample, RUN_FORMAT_VERSION, RunLock, RunRecord, SampleDirectory, SampleKey, SampleResult,
    StoreError, write_atomically,
};

/// One run on the disk.
#[derive(Debug, Clone)]
pub struct RunDirectory {
    path: PathBuf,
}

/// A sample that was asked for, with its outcome when it has one.
#[derive(Debug, Clone)]
pub struct SampleEntry {
    pub planned: PlannedSample,
    pub epoch: u32,
    pub result: Option<SampleResult>,
}

impl RunDirectory {
    /// Makes the directory of a new run, locked. It appears under its name only when `run.json` is in it.
    pub fn create(runs: &Path, record: &RunRecord) -> Result<(Self, RunLock), StoreError> {
        fs::create_dir_all(runs)?;
        remove_never_made(runs)?;
        let hidden = Self { path: runs.join(format!(".{}", record.id)) };
        fs::create_dir(&hidden.path)?;
        let lock = RunLock::acquire(&hidden.path)?;
        fs::create_dir(hidden.path.join(SAMPLES_FOLDER))?;
        hidden.write_record(record)?;
        let path = runs.join(&record.id);
        fs::rename(&hidden.path, &path)?;
        sync_folder(runs)?;
        Ok((Self { path }, lock))
    }

    pub fn open(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Fails at once when another process works on the run.
    pub fn lock(&self) -> Result<RunLock, StoreError> {
        let lock = RunLock::acquire(&self.path)?;
        remove_half_written(&self.path)?;
        Ok(lock)
    }

    /// Whether a process works on the run at this moment.
    pub fn is_worked_on(&self) -> bool {
        RunLock::is_held(&self.path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn record(&self) -> Result<RunRecord, StoreError> {
        let path = self.path.join(RUN_FILE);
        let damaged =
            |error: serde_json::Error| StoreError::Damaged { path: path.clone(), reason: error.to_string() };
        // The version first: only then is it known which fields there are.
        let value: serde_json::Value = serde_json::from_slice(&fs::read(&path)?).map_err(damaged)?;
        match value.get("format_version").and_then(serde_json::Value::as_u64) {
            Some(found) if found > u64::from(RUN_FORMAT_VERSION) => Err(StoreError::Newer { path, found }),
            Some(found) => serde_json::from_value(of_today(found, value)).map_err(damaged),
            None => Err(StoreError::Damaged { path, reason: "it has no `format_version`".to_owned() }),
        }
    }

    pub fn write_record(&self, record: &RunRecord) -> Result<(), StoreError> {
        let mut text = serde_json::to_vec_pretty(record).map_err(io::Error::from)?;
        text.push(b'\n');
        Ok(write_atomically(&self.path.join(RUN_FILE), &text)?)
    }

    /// The folder of what the samples have in common.
    pub fn artefacts(&self) -> PathBuf {
        self.path.join(ARTEFACTS_FOLDER)
    }

    pub fn sample(&self, key: &SampleKey) -> SampleDirectory {
        let folder = self.path.join(SAMPLES_FOLDER).join(folder_name(&key.task_id));
        SampleDirectory::new(folder.join(key.epoch.to_string()), self.path.join(ARTEFACTS_FOLDER))
    }

    /// A list of tools as they were offered, by the name that the start of a sample has of it.
    pub fn offer(&self, name: &str) -> Result<Vec<RecordedTool>, StoreError> {
        let folder = self.path.join(ARTEFACTS_FOLDER);
        let text = read_artefact(&folder, name)?;
        serde_json::from_slice(&text)
            .map_err(|error| StoreError::Damaged { path: folder.join(name), reason: error.to_string() })
    }

    /// Every requested sample in order, epoch by epoch, read one at a time.
    pub fn entries<'a>(
        &'a self,
        record: &'a RunRecord,
    ) -> impl Iterator<Item = Result<SampleEntry, StoreError>> + 'a {
        (1..=record.epochs).flat_map(move |epoch| {
            record.dataset.samples.iter().map(move |planned| {
                let result = self.sample(&SampleKey { task_id: planned.task_id.clone(), epoch }).result()?;
                Ok(SampleEntry { planned: planned.clone(), epoch, result })
            })
        })
    }
}

/// Long enough for any process to get from the hidden name of a run to its own.
const MAKING_LIMIT: Duration = Duration::from_secs(3600);

/// Removes runs whose maker was killed before there was a `run.json` under their name.
fn remove_never_made(runs: &Path) -> io::Result<()> {
    for entry in fs::read_dir(runs)? {
        let entry = entry?;
        let path = entry.path();
        let is_old = || {
            let age = entry.metadata().and_then(|metadata| metadata.modified()).map(|made| made.elapsed());
            matches!(age, Ok(Ok(age)) if age > MAKING_LIMIT)
        };
        if entry.file_name().to_string_lossy().starts_with('.') && path.join(LOCK_FILE).is_file() && is_old()
        {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_record;

    #[test]
    fn a_new_run_is_whole_and_locked_when_it_appears() {
        let runs = tempfile::tempdir().unwrap();
        let record = test_record(&[("a", 1), ("b", 2)]);
        let (run, lock) = RunDirectory::create(runs.path(), &record).unwrap();
        assert_eq!(run.path(), runs.path().join(&record.id));
        assert_eq!(run.record().unwrap(), record);
        assert!(matches!(RunDirectory::open(run.path()).lock(), Err(StoreError::Locked { .. })));
        drop(lock);
        run.lock().unwrap();
    }

    #[test]
    fn entries_hold_every_requested_sample_of_every_epoch() {
        let runs = tempfile::tempdir().unwrap();
        let mut record = test_record(&[("a", 1), ("../b", 2)]);
        record.epochs = 2;
        let (run, _lock) = RunDirectory::create(runs.path(), &record).unwrap();
        let entries: Vec<_> = run.entries(&record).map(Result::unwrap).collect();
        assert_eq!(entries.len(), 4);
        assert!(entries.iter().all(|entry| entry.result.is_none()));
        let sample = run.sample(&SampleKey { task_id: "../b".into(), epoch: 2 });
        assert!(sample.path().starts_with(run.path()) && !sample.path().to_string_lossy().contains(".."));
    }

    #[test]
    fn a_newer_format_is_refused_by_name_and_a_missing_one_is_damage() {
        let runs = tempfile::tempdir().unwrap();
        let (run, _lock) = RunDirectory::create(runs.path(), &test_record(&[])).unwrap();
        fs::write(run.path().join(RUN_FILE), r#"{"format_version": 99}"#).unwrap();
        let error = run.record().unwrap_err();
        assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
        fs::write(run.path().join(RUN_FILE), "{}").unwrap();
        assert!(matches!(run.record(), Err(StoreError::Damaged { .. })));
    }
}
