//! How many more processes the container may have.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The pids cgroup of the container.
pub(crate) struct ProcessLimit {
    files: Option<Files>,
    /// Starts refused up to the beginning of the last command.
    refused: u64,
}

struct Files {
    current: File,
    limit: u64,
    /// Counts the starts that the limit refused.
    events: Option<File>,
}

impl ProcessLimit {
    /// cgroup v1 mounts the controller at `pids`, v2 has the files at the root. Without a limit, or where it cannot be
    /// read, nothing is known.
    pub(crate) fn open() -> Self {
        let files = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].iter().find_map(|folder| {
            let open = |name: &str| File::open(format!("{folder}/{name}")).ok();
            Some(Files {
                limit: read_text(&open("pids.max")?)?.trim().parse().ok()?,
                current: open("pids.current")?,
                events: open("pids.events"),
            })
        });
        Self { files, refused: 0 }
    }

    /// Free places, where that is known.
    pub(crate) fn free(&self) -> Option<u64> {
        let files = self.files.as_ref()?;
        let current: u64 = read_text(&files.current)?.trim().parse().ok()?;
        Some(files.limit.saturating_sub(current))
    }

    /// Notes that a command begins.
    pub(crate) fn note_begin(&mut self) {
        self.refused = self.refusals();
    }

    /// Whether something has run into the limit since the last command began, and still holds most of the places: a fork
    /// bomb in the background, whose processes come and go. There may be room at this moment and none in the next.
    pub(crate) fn is_contended(&self) -> bool {
        let is_half_full = || {
            let limit = self.files.as_ref().map_or(0, |files| files.limit);
            self.free().is_some_and(|free| free < limit / 2)
        };
        self.refusals() > self.refused && is_half_full()
    }

    fn refusals(&self) -> u64 {
        let events = self.files.as_ref().and_then(|files| files.events.as_ref());
        events
            .and_then(read_text)
            .and_then(|text| text.lines().find_map(|line| line.strip_prefix("max ")?.trim().parse().ok()))
            .unwrap_or(0)
    }
}

fn read_text(file: &File) -> Option<String> {
    let mut buffer = [0; 128];
    let length = file.read_at(&mut buffer, 0).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}
