//! What `.ci/clients`, `.ci/servers`, `.ci/model` and `.ci/inspect` installed.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The clients of others that drive our servers.
///
/// # Panics
/// When those of the pinned versions are not there.
pub fn clients() -> PathBuf {
    let pins = ["node-files.txt", "package-lock.json", "package.json", "python-1.txt", "python-2.txt"];
    folder("clients", &pins.map(|name| format!("clients/pins/{name}")))
}

/// The servers of others that are plugged into our host. Its folder `bin` has an `npx` and an `uvx` that start them.
///
/// # Panics
/// When those of the pinned versions are not there.
pub fn servers() -> PathBuf {
    let files = ["pins/package-lock.json", "pins/package.json", "pins/python.txt", "bin/npx", "bin/uvx"];
    folder("servers", &files.map(|name| format!("servers/{name}")))
}

/// A small language model, `weights.gguf`, and a server for it: the program `llama-server`, or a module in `python`.
///
/// # Panics
/// When those of the pinned versions are not there.
pub fn model() -> PathBuf {
    let pins = ["fast.txt", "portable.txt", "weights.txt"];
    folder("model", &pins.map(|name| format!("model/pins/{name}")))
}

/// An environment with Inspect; its interpreter is `python/bin/python`.
///
/// # Panics
/// When that of the pinned version is not there.
pub fn inspect() -> PathBuf {
    folder("inspect", &["view/pins/inspect.txt".to_owned()])
}

/// Named after the files in this order, as `.ci/packages.sh` does.
fn folder(name: &str, files: &[String]) -> PathBuf {
    let mut hash = Sha256::new();
    for file in files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        hash.update(fs_err::read(&path).unwrap_or_default());
    }
    let hash: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME")
        .or_else(|| Some(set("HOME")?.join(".cache")))
        .unwrap_or_else(|| PathBuf::from("/root/.cache"));
    let folder = cache.join("gaia-tests").join(format!("{name}-{hash}"));
    assert!(folder.join("complete").is_file(), "`{}` is not there; run `.ci/setup`", folder.display());
    folder
}
