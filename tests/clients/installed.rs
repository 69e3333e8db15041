//! The clients that `.ci/clients` installed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use gaia_tests::installed::clients as folder;
use tokio::process::Command;

pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
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

/// Python with the SDK 2 and a script of this folder.
pub(crate) fn python(script: &str) -> Command {
    let mut command = program_of(&folder().join("python-2/bin/python"));
    command.arg(scripts().join(script));
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
