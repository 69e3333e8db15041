//! A page of two megabytes becomes a tree of thirty for a moment. What the C library's allocator keeps of that, in a pool of
//! its own for each thread, would stay with the server for good.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Settings of glibc's allocator, which it reads when a program starts: one pool for all threads, and memory given back
/// when this much of it lies free at the end. What is asked for in such pieces is a mapping of its own.
const SETTINGS: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "1"), ("MALLOC_TRIM_THRESHOLD_", "131072"), ("MALLOC_MMAP_THRESHOLD_", "131072")];

/// Starts this program once more in its own place with these settings, unless somebody chose some. Where that is not
/// possible it goes on as it is: the settings only save memory.
pub fn set_up() {
    if SETTINGS.iter().any(|(name, _)| std::env::var_os(name).is_some()) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| program.clone().into());
    let error = Command::new(program).arg0(name).args(arguments).envs(SETTINGS).exec();
    tracing::debug!(%error, "the settings of the allocator stay as they are");
}
