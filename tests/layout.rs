//! The invariants of ARCHITECTURE.md, checked against what cargo knows and what the sources say.

// Helpers of tests are no test functions to clippy, and may fail a test as these do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// Every package of the workspace by name.
fn packages() -> BTreeMap<String, Package> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(root).no_deps().exec().unwrap();
    metadata.packages.into_iter().map(|package| (package.name.to_string(), package)).collect()
}

/// Names that `package` depends on at run time or build time.
fn dependencies(package: &Package) -> BTreeSet<&str> {
    let shipped =
        package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
    shipped.map(|dependency| dependency.name.as_str()).collect()
}

fn users_of(packages: &BTreeMap<String, Package>, name: &str) -> Vec<String> {
    let users = packages.values().filter(|package| dependencies(package).contains(name));
    users.map(|package| package.name.to_string()).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn source_folder(package: &Package) -> PathBuf {
    package.manifest_path.as_std_path().parent().unwrap().join("src")
}

/// Files of a package whose code names `word`, relative to its `src`.
fn files_naming(package: &Package, word: &str) -> Vec<String> {
    let folder = source_folder(package);
    let naming = sources(&folder).into_iter().filter(|path| {
        let code = fs_err::read_to_string(path).unwrap();
        code.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(word))
    });
    naming.map(|path| path.strip_prefix(&folder).unwrap().display().to_string()).collect()
}

#[test]
fn the_workspace_has_the_packages_of_the_map() {
    let expected = [
        "gaia",
        "gaia-agent",
        "gaia-mcp-servers",
        "gaia-sandbox",
        "gaia-sandbox-guest",
        "gaia-sandbox-protocol",
        "gaia-scorer",
        "gaia-tests",
    ];
    assert_eq!(packages().into_keys().collect::<Vec<_>>(), expected);
}

#[test]
fn the_loop_depends_on_no_other_package_of_the_workspace() {
    let packages = packages();
    let used: Vec<&str> = dependencies(&packages["gaia-agent"])
        .into_iter()
        .filter(|name| packages.contains_key(*name))
        .collect();
    assert_eq!(used, Vec::<&str>::new());
}

#[test]
fn the_scorer_is_pure() {
    let packages = packages();
    let scorer = &packages["gaia-scorer"];
    assert_eq!(
        dependencies(scorer),
        BTreeSet::from(["fastrand", "serde", "strsim", "unicode-normalization"])
    );
    for word in ["std::fs", "fs_err", "std::net", "std::process", "std::env", "async fn", "println!"] {
        assert_eq!(files_naming(scorer, word), Vec::<String>::new(), "`{word}` in gaia-scorer");
    }
}

#[test]
fn only_the_sandbox_names_bollard() {
    assert_eq!(users_of(&packages(), "bollard"), ["gaia-sandbox"]);
}

#[test]
fn nothing_depends_on_the_orchestrator_or_on_the_servers() {
    let packages = packages();
    for name in ["gaia", "gaia-mcp-servers", "gaia-tests"] {
        assert_eq!(users_of(&packages, name), Vec::<String>::new(), "users of {name}");
    }
}

#[test]
fn only_the_model_module_names_async_openai_and_only_the_tool_host_names_rmcp() {
    let packages = packages();
    let agent = &packages["gaia-agent"];
    assert_eq!(users_of(&packages, "async-openai"), ["gaia-agent"]);
    assert_eq!(users_of(&packages, "rmcp"), ["gaia", "gaia-agent", "gaia-mcp-servers"]);
    // The serving half, for `gaia host`.
    for file in files_naming(&packages["gaia"], "rmcp::") {
        assert!(file.starts_with("host"), "`rmcp` is named in {file}, outside of `host`");
    }
    for (word, module) in [("async_openai", "model"), ("rmcp", "tools")] {
        for file in files_naming(agent, word) {
            assert!(file.starts_with(module), "`{word}` is named in {file}, outside of `{module}`");
        }
    }
}

#[test]
fn only_the_fleet_names_the_client_of_nats() {
    let packages = packages();
    // The tests have workers that do no work.
    assert_eq!(users_of(&packages, "async-nats"), ["gaia", "gaia-tests"]);
    for file in files_naming(&packages["gaia"], "async_nats") {
        assert!(file.starts_with("fleet"), "`async_nats` is named in {file}, outside of `fleet`");
    }
}

/// The loop sees MCP tools and nothing else.
#[test]
fn the_loop_does_not_know_what_its_tools_do() {
    let packages = packages();
    for word in ["bash", "docker", "Docker", "brave", "gaia-mcp", "container"] {
        for file in files_naming(&packages["gaia-agent"], word) {
            let text = fs_err::read_to_string(source_folder(&packages["gaia-agent"]).join(&file)).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            let named = code.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(word));
            assert!(!named || file.ends_with("_tests.rs"), "`{word}` is named in {file}");
        }
    }
}

#[test]
fn no_source_file_outgrows_one_concept() {
    // 500 lines without tests is the rule; tests stand below `#[cfg(test)]` or in a file of their own.
    let mut too_long = Vec::new();
    for package in packages().values() {
        for path in sources(&source_folder(package)) {
            if path.to_string_lossy().ends_with("_tests.rs") {
                continue;
            }
            let text = fs_err::read_to_string(&path).unwrap();
            let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
            if lines > 500 {
                too_long.push(format!("{} has {lines} lines", path.display()));
            }
        }
    }
    assert!(too_long.is_empty(), "{too_long:#?}");
}

#[test]
fn every_package_takes_the_lints_and_versions_of_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for package in packages().values() {
        let manifest = fs_err::read_to_string(package.manifest_path.as_std_path()).unwrap();
        let table: toml::Table = toml::from_str(&manifest).unwrap();
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, dependency) in table.get(section).and_then(toml::Value::as_table).into_iter().flatten()
            {
                let inherited = dependency.get("workspace").and_then(toml::Value::as_bool) == Some(true);
                assert!(inherited, "{} has a version of its own for `{name}`", package.name);
            }
        }
        // The guest needs system calls; it states its lints itself.
        if package.name.as_str() != "gaia-sandbox-guest" {
            assert!(manifest.contains("[lints]\nworkspace = true"), "{} has other lints", package.name);
        }
    }
    assert!(fs_err::read_to_string(root.join("Cargo.toml")).unwrap().contains("unsafe_code = \"deny\""));
}
