//! What the tests need of the machine: the programs of the workspace, and an image for containers.

use std::path::{Path, PathBuf};

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
