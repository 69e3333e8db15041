//! How a sandbox is set up.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::egress::EgressOptions;
use crate::network::Network;

/// Everything a sandbox is started with.
#[derive(Debug, Clone)]
pub struct SandboxOptions {
    /// Name of an image the engine already has.
    pub image: String,
    /// Reach of the network inside.
    pub network: Network,
    /// What is let out with [`Network::On`] and [`Network::Allow`].
    pub egress: EgressOptions,
    /// A folder shown read-only at `/shared_files`; nothing beside it is visible.
    pub files_dir: Option<PathBuf>,
    /// Bounds on what the container may use.
    pub limits: Limits,
    /// Names by which the container can be found again.
    pub labels: Labels,
    /// Variables added to those of the image and to the defaults (see [`SandboxOptions::DEFAULT_ENVIRONMENT`]).
    pub environment: BTreeMap<String, String>,
    /// Another OCI runtime known to the engine, for example `runsc`.
    pub runtime: Option<String>,
}

impl SandboxOptions {
    /// Variables every sandbox gets: no pager, no colour, no prompt may wait for a terminal that does not exist, and
    /// `pip install` must work on distributions that mark their Python as managed (PEP 668).
    pub const DEFAULT_ENVIRONMENT: [(&str, &str); 11] = [
        ("LANG", "C.UTF-8"),
        ("TERM", "dumb"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("NO_COLOR", "1"),
        ("PYTHONUNBUFFERED", "1"),
        ("PIP_BREAK_SYSTEM_PACKAGES", "1"),
        ("PIP_ROOT_USER_ACTION", "ignore"),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("GIT_TERMINAL_PROMPT", "0"),
    ];

    /// Options with the defaults: no network, no files, default limits.
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            network: Network::Off,
            egress: EgressOptions::default(),
            files_dir: None,
            limits: Limits::default(),
            labels: Labels::default(),
            environment: BTreeMap::new(),
            runtime: None,
        }
    }
}

/// Bounds on what a container may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Memory without swap, in bytes. Data frames of the sizes GAIA has fit; swap would only slow the end down.
    pub memory_bytes: u64,
    /// Processors; capped to what the engine's host has.
    pub cpus: f64,
    /// Processes and threads. Ends a fork bomb; builds and browsers need a few hundred.
    pub processes: u32,
    /// Open files of one process.
    pub open_files: u64,
    /// Size of one file, in bytes: stops one runaway file, not many.
    pub file_bytes: u64,
    /// What all files together may take on the engine's disk, in bytes. Looked at every other second, so it can be
    /// overstepped by what a disk takes in that time; the container that does is ended.
    pub disk_bytes: u64,
    /// Size of `/tmp` (in memory, counts against `memory_bytes`), in bytes.
    pub tmp_bytes: u64,
    /// Size of `/dev/shm`, in bytes. The engine's 64 MiB break multiprocessing and browsers.
    pub shm_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 2 << 30,
            cpus: 2.0,
            processes: 512,
            open_files: 4096,
            file_bytes: 8 << 30,
            disk_bytes: 10 << 30,
            tmp_bytes: 1 << 30,
            shm_bytes: 512 << 20,
        }
    }
}

/// Names by which a container can be found again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// Run the sandbox belongs to.
    pub run: Option<String>,
    /// Sample it belongs to.
    pub sample: Option<String>,
}
