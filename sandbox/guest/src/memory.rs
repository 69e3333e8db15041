//! How often the kernel has killed a process of this container for want of memory.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The memory cgroup's `oom_kill` counter.
pub(crate) struct KillCounter {
    file: Option<File>,
}

impl KillCounter {
    /// cgroup v2 has the counter in `memory.events`, v1 (since Linux 4.13) in `memory.oom_control`. Where neither can
    /// be read the count stays 0.
    pub(crate) fn open() -> Self {
        let paths = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];
        Self { file: paths.iter().find_map(|path| File::open(path).ok()) }
    }

    pub(crate) fn read(&self) -> u64 {
        let mut buffer = [0; 512];
        let Some(length) = self.file.as_ref().and_then(|file| file.read_at(&mut buffer, 0).ok()) else {
            return 0;
        };
        String::from_utf8_lossy(&buffer[..length])
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "))
            .and_then(|count| count.trim().parse().ok())
            .unwrap_or(0)
    }
}
