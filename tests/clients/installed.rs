//! The clients that `.ci/clients` installed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use sha2::{Digest, Sha256};
use tokio::process::Command;

/// What `.ci/clients` names its folder after, in its order.
const PINS: [&str; 5] =
    ["node-files.txt", "package-lock.json", "package.json", "python-1.txt", "python-2.txt"];

pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// Fails the test when the clients of the pinned versions are not there.
fn folder() -> PathBuf {
    let mut hash = Sha256::new();
    for name in PINS {
        hash.update(fs_err::read(scripts().join("pins").join(name)).unwrap());
    }
    let hash: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME")
        .or_else(|| Some(set("HOME")?.join(".cache")))
        .unwrap_or_else(|| PathBuf::from("/root/.cache"));
    let folder = cache.join("gaia-tests").join(format!("clients-{hash}"));
    assert!(
        folder.join("complete").is_file(),
        "the MCP clients are not installed in `{}`; run `.ci/setup clients`",
        folder.display()
    );
    folder
}

/// A client program that tells the story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    PythonSdk1,
    PythonSdk2,
    FastMcp,
    TypeScriptSdk1,
    TypeScriptSdk2,
}

impl Client {
    /// The program without its arguments. It dies with the test.
    pub(crate) fn command(self) -> Command {
        let (program, script) = match self {
            Self::PythonSdk1 => ("python-1/bin/python", "mcp_1.py"),
            Self::PythonSdk2 => ("python-2/bin/python", "mcp_2.py"),
            Self::FastMcp => ("python-2/bin/python", "fast_mcp.py"),
            Self::TypeScriptSdk1 => ("node", "sdk_1.cjs"),
            Self::TypeScriptSdk2 => ("node", "client_2.cjs"),
        };
        let mut command = program_of(&folder().join(program));
        command.arg(scripts().join(script));
        command
    }
}

/// Node with a script of an npm package.
pub(crate) fn node(script: &str) -> Command {
    let mut command = program_of(&folder().join("node"));
    command.arg(folder().join("npm/node_modules").join(script));
    command
}

fn program_of(path: &Path) -> Command {
    let mut command = Command::new(path);
    command
        .env("NODE_PATH", folder().join("npm/node_modules"))
        // Nothing is written beside the scripts.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    for name in ["GAIA_RUN_ID", "GAIA_SAMPLE_ID", "GAIA_FILES_DIR", "GAIA_LOG"] {
        command.env_remove(name);
    }
    command
}
