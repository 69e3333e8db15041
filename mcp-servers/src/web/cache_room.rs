//! Keeps the folder of kept pages from growing without end, whoever else writes to it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// One page may take this part of the whole: a single large file must not drive out all others.
const LARGEST_SHARE: u64 = 8;
/// After having written this part of the whole, a server counts again what is there …
const COUNTED_SHARE: u64 = 32;
/// … and after this time in any case, as others write, too. Counting ten thousand files takes some milliseconds.
const COUNTED_FOR: Duration = Duration::from_secs(10);
/// Of what was begun and never finished, by a server that was killed. No download lasts as long.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);
/// How `tempfile` begins the names of what is not finished.
const UNFINISHED: &str = ".tmp";
/// A name of a kept page is a hash.
const NAME_CHARS: usize = 64;

/// The room that kept pages have.
#[derive(Debug)]
pub(super) struct Room {
    folder: PathBuf,
    max_bytes: u64,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    /// `None` before the first time.
    at: Option<Instant>,
    written_since_bytes: u64,
}

struct File {
    path: PathBuf,
    bytes: u64,
    written: SystemTime,
}

impl Room {
    pub(super) fn new(folder: &Path, max_bytes: u64) -> Self {
        Self { folder: folder.to_owned(), max_bytes, counted: Mutex::default() }
    }

    pub(super) fn has_place_for(&self, bytes: u64) -> bool {
        bytes <= self.max_bytes / LARGEST_SHARE
    }

    /// To be said after each file that was written. Makes room when there is too little: the oldest files go first. A
    /// file that another server reads meanwhile is read to its end, and one that it removes meanwhile is gone all the
    /// same, so no server waits for another.
    pub(super) fn taken(&self, bytes: u64) -> io::Result<()> {
        {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            counted.written_since_bytes += bytes;
            let is_recent = counted.at.is_some_and(|at| at.elapsed() < COUNTED_FOR);
            if is_recent && counted.written_since_bytes < self.max_bytes / COUNTED_SHARE {
                return Ok(());
            }
            *counted = Counted { at: Some(Instant::now()), written_since_bytes: 0 };
        }
        self.make_room()
    }

    fn make_room(&self) -> io::Result<()> {
        let mut files = self.files()?;
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        // What is written until the next count has its place, too.
        let wanted = self.max_bytes - self.max_bytes / COUNTED_SHARE;
        if total <= wanted {
            return Ok(());
        }
        files.sort_by(|one, other| (one.written, &one.path).cmp(&(other.written, &other.path)));
        for file in files {
            if total <= wanted {
                break;
            }
            // Gone already, or not ours to remove: in neither case is there more to do.
            if fs_err::remove_file(&file.path).is_ok() {
                tracing::debug!(path = %file.path.display(), "a kept page made room");
            }
            total -= file.bytes;
        }
        Ok(())
    }

    /// What servers wrote here; files of others in the folder are none of our business.
    fn files(&self) -> io::Result<Vec<File>> {
        let mut files = Vec::new();
        for entry in fs_err::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_page = name.len() == NAME_CHARS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            // Removed since the folder was read.
            let Ok(about) = entry.metadata() else { continue };
            let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let is_abandoned = || written.elapsed().is_ok_and(|age| age > ABANDONED_AFTER);
            if about.is_file() && (is_page || (name.starts_with(UNFINISHED) && is_abandoned())) {
                files.push(File { path: entry.path(), bytes: about.len(), written });
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;

    use super::*;

    fn write(folder: &Path, name: &str, bytes: usize, age: Duration) -> PathBuf {
        let path = folder.join(name);
        fs_err::write(&path, vec![b'x'; bytes]).unwrap();
        let times = FileTimes::new().set_modified(SystemTime::now() - age);
        std::fs::File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
        path
    }

    fn name(number: u64) -> String {
        format!("{number:064x}")
    }

    fn total(folder: &Path) -> u64 {
        fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn the_oldest_go_first_and_foreign_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let seconds = Duration::from_secs;
        let foreign = write(folder.path(), "notes.txt", 5_000, seconds(9_000));
        let abandoned = write(folder.path(), ".tmpabc", 100, seconds(8_000));
        let begun = write(folder.path(), ".tmpdef", 100, seconds(5));
        for number in 0..10 {
            // Names and ages run against each other.
            write(folder.path(), &name(number), 300, seconds(100 + number));
        }
        // 3,100 bytes of ours; room for 1,600, of which a thirty-second stays free: five files.
        Room::new(folder.path(), 1_600).taken(300).unwrap();
        assert!(foreign.is_file() && begun.is_file() && !abandoned.is_file());
        let kept: Vec<u64> = (0..10).filter(|number| folder.path().join(name(*number)).is_file()).collect();
        assert_eq!(kept, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_server_counts_again_when_it_has_written_much() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::new(folder.path(), 3_200);
        let old = |number| write(folder.path(), &name(number), 500, Duration::from_secs(60));
        room.taken(1).unwrap();
        // Another server fills the folder meanwhile.
        (0..10).for_each(|number| drop(old(number)));
        room.taken(98).unwrap();
        assert_eq!(total(folder.path()), 5_000);
        room.taken(2).unwrap();
        assert_eq!(total(folder.path()), 3_000);
        assert!(room.has_place_for(400) && !room.has_place_for(401));
    }
}
