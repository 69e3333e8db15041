//! What the tests need of the machine: the programs of the workspace, and an image for containers.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program of the workspace, beside the folder of the test that runs.
///
/// # Panics
/// When it is not built: then no test can mean anything.
pub fn program(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let path = own.parent().and_then(Path::parent).unwrap_or(Path::new("")).join(name);
    assert!(
        path.is_file(),
        "`{}` is not built; run `cargo build --workspace --bins` before the tests",
        path.display()
    );
    path
}

/// The image that tests start containers from: the environment's, the one recorded in `.env`, or the stock one.
pub fn sandbox_image() -> String {
    let recorded = || {
        let file = fs_err::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.env")).ok()?;
        let line = file.lines().find_map(|line| line.strip_prefix("GAIA_SANDBOX_IMAGE="))?;
        Some(line.trim_matches('"').to_owned())
    };
    ["GAIA_TEST_IMAGE", "GAIA_SANDBOX_IMAGE"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok())
        .or_else(recorded)
        .unwrap_or_else(|| "python:3.11".to_owned())
}

/// What a process has used since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Processor time, of all its threads.
    pub cpu: Duration,
    /// The most memory that it had (`VmHWM`).
    pub peak_kilobytes: u64,
}

/// What a process has used so far; `None` when it is gone.
pub fn used(pid: u32) -> Option<Used> {
    /// Linux counts in these for everyone, whatever its own clock is.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    let cpu = Duration::from_secs_f64((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND);
    let status = fs_err::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(Used { cpu, peak_kilobytes: peak.trim().trim_end_matches(" kB").parse().ok()? })
}
