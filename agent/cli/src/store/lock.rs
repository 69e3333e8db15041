use std::fs::TryLockError;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

use fs_err::{File, OpenOptions};

use super::StoreError;
use super::format::LOCK_FILE;

/// Held while a process works on a run. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct RunLock {
    _file: std::fs::File,
}

/// Whoever only asks whether it is held, holds it for a moment: some microseconds, once in two seconds.
const PATIENCE: Duration = Duration::from_millis(20);

impl RunLock {
    pub(super) fn acquire(run: &Path) -> Result<Self, StoreError> {
        let path = run.join(LOCK_FILE);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let mut file = file.into_parts().0;
        let mut locked = file.try_lock();
        if matches!(locked, Err(TryLockError::WouldBlock)) {
            std::thread::sleep(PATIENCE);
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Best effort: the text only helps to find the holder.
                file.read_to_string(&mut pid).ok();
                return Err(StoreError::Locked { run: run.to_owned(), pid: pid.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // For people only: a full disk must not keep a run from being looked after.
        file.set_len(0).and_then(|()| file.rewind()).ok();
        writeln!(file, "{}", std::process::id()).ok();
        Ok(Self { _file: file })
    }

    /// Whether a process works on the run. Writes nothing.
    pub(super) fn is_held(run: &Path) -> bool {
        let Ok(file) = File::open(run.join(LOCK_FILE)) else { return false };
        let file = file.into_parts().0;
        // Shared: two who ask do not get in each other's way.
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_holder_is_told_who_the_first_is() {
        let run = tempfile::tempdir().unwrap();
        let first = RunLock::acquire(run.path()).unwrap();
        assert!(RunLock::is_held(run.path()));
        let error = RunLock::acquire(run.path()).unwrap_err();
        assert!(error.to_string().contains(&format!("(pid {})", std::process::id())), "{error}");
        drop(first);
        assert!(!RunLock::is_held(run.path()) && !RunLock::is_held(&run.path().join("none")));
        RunLock::acquire(run.path()).unwrap();
    }
}
