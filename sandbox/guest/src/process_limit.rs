//! How many more processes the container may have.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The pids cgroup of the container.
pub(crate) struct ProcessLimit {
    files: Option<(File, u64)>,
}

impl ProcessLimit {
    /// cgroup v1 mounts the controller at `pids`, v2 has the files at the root. Without a limit, or where it cannot be
    /// read, nothing is known.
    pub(crate) fn open() -> Self {
        let files = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].iter().find_map(|folder| {
            let limit = read_number(&File::open(format!("{folder}/pids.max")).ok()?)?;
            Some((File::open(format!("{folder}/pids.current")).ok()?, limit))
        });
        Self { files }
    }

    /// Free places, where that is known.
    pub(crate) fn free(&self) -> Option<u64> {
        let (current, limit) = self.files.as_ref()?;
        Some(limit.saturating_sub(read_number(current)?))
    }
}

fn read_number(file: &File) -> Option<u64> {
    let mut buffer = [0; 32];
    let length = file.read_at(&mut buffer, 0).ok()?;
    std::str::from_utf8(&buffer[..length]).ok()?.trim().parse().ok()
}
