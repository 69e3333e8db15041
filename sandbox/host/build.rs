//! Builds the guest, a static program for the containers' side, and leaves it where the library embeds it from.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let workspace = here.join("../..");
    let out = PathBuf::from(variable("OUT_DIR"));
    for source in
        ["../guest/Cargo.toml", "../guest/src", "../protocol/Cargo.toml", "../protocol/src", "build.rs"]
    {
        println!("cargo::rerun-if-changed={}", here.join(source).display());
    }

    let target = guest_target();
    let target_dir = out.join("guest");
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .current_dir(&workspace)
        .args([
            "build",
            "--locked",
            "--package",
            "gaia-sandbox-guest",
            "--profile",
            "guest",
            "--target",
            &target,
        ])
        .arg("--target-dir")
        .arg(&target_dir);
    // What cargo says to this build (flags, wrappers such as clippy's, the job server, profile settings) must not reach
    // the other one. What the user says about registries and proxies must.
    let is_ours = |name: &str| {
        let prefixes = [
            "CARGO_BUILD_",
            "CARGO_CFG_",
            "CARGO_ENCODED_",
            "CARGO_FEATURE_",
            "CARGO_MANIFEST_",
            "CARGO_PKG_",
            "CARGO_PROFILE_",
            "CARGO_TARGET_",
            "DEP_",
            "RUSTC",
        ];
        let names =
            ["CARGO_MAKEFLAGS", "CARGO_PRIMARY_PACKAGE", "MAKEFLAGS", "OUT_DIR", "RUSTDOC", "RUSTFLAGS"];
        prefixes.iter().any(|prefix| name.starts_with(prefix)) || names.contains(&name)
    };
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_ours)) {
        cargo.env_remove(name);
    }
    cargo.env("RUSTFLAGS", "-C target-feature=+crt-static");
    let status = cargo.status().unwrap_or_else(|error| panic!("failed to run cargo for the guest: {error}"));
    assert!(status.success(), "failed to build the guest for {target}");

    let program = target_dir.join(&target).join("guest/gaia-sandbox-guest");
    println!("cargo::rustc-env=GAIA_GUEST_PROGRAM={}", program.display());
    println!("cargo::rustc-env=GAIA_GUEST_ARCHITECTURE={}", variable("CARGO_CFG_TARGET_ARCH"));
}

/// musl where its standard library is installed: smaller, and truly static. Else the host's C library, linked in.
fn guest_target() -> String {
    let architecture = variable("CARGO_CFG_TARGET_ARCH");
    let musl = format!("{architecture}-unknown-linux-musl");
    let output = Command::new(variable("RUSTC")).args(["--print", "sysroot"]).output();
    let sysroot =
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if Path::new(&sysroot).join("lib/rustlib").join(&musl).join("lib").is_dir() {
        musl
    } else {
        format!("{architecture}-unknown-linux-gnu")
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
