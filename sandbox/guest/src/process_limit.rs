//! How many more processes the container may have.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How long a refusal counts: bash waits up to 16 seconds before it tries once more.
const REFUSAL_MEMORY: Duration = Duration::from_secs(30);

/// The pids cgroup of the container.
pub(crate) struct ProcessLimit {
    files: Option<Files>,
    /// Starts refused up to the last look, and when that was seen to have grown.
    refused: u64,
    refused_at: Option<Instant>,
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
        Self { files, refused: 0, refused_at: None }
    }

    /// Free places, where that is known.
    pub(crate) fn free(&self) -> Option<u64> {
        let files = self.files.as_ref()?;
        let current: u64 = read_text(&files.current)?.trim().parse().ok()?;
        Some(files.limit.saturating_sub(current))
    }

    /// Looks whether something has run into the limit. To be called at the begin and at the end of every command.
    pub(crate) fn look(&mut self) {
        let refused = self.refusals();
        if refused > self.refused {
            self.refused = refused;
            self.refused_at = Some(Instant::now());
        }
    }

    /// Whether something ran into the limit a moment ago. If it still runs it is a fork bomb, whose processes come and go,
    /// and which waits seconds after each refusal as bash does: there may be room now and none a moment later.
    pub(crate) fn was_reached_lately(&self) -> bool {
        self.refused_at.is_some_and(|at| at.elapsed() < REFUSAL_MEMORY)
    }

    /// Forgets what the last look saw, when nothing is left of what ran into the limit.
    pub(crate) fn forget(&mut self) {
        self.refused_at = None;
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
