//! The official conformance suite, all server scenarios of a revision at once. `README.md` says why each scenario or
//! check that fails does not apply to a server with tools of its own, and no prompts or resources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gaia_tests::machine::program;
use serde_json::Value;

use crate::installed::{node, scripts};
use crate::server::{HttpServer, PATIENCE, Run};

const SUITE: &str = "@modelcontextprotocol/conformance/dist/index.js";

/// Scenarios of which no check may fail.
const PASSING_2025: [&str; 7] = [
    "dns-rebinding-protection",
    "ping",
    "server-initialize",
    "server-session-lifecycle",
    "server-sse-multiple-streams",
    "server-sse-polling",
    "tools-list",
];
const PASSING_2026: [&str; 9] = [
    "dns-rebinding-protection",
    "http-header-validation",
    "input-required-result-ignore-extra-params",
    "input-required-result-missing-input-response",
    "input-required-result-unsupported-methods",
    "input-required-result-validate-input",
    "sep-2164-resource-not-found",
    "server-sse-multiple-streams",
    "tools-list",
];

/// Scenarios that apply in part, with the checks that may fail.
const PARTLY_2026: [(&str, &[&str]); 2] = [
    (
        "caching",
        &[
            "sep-2549-prompts-list-caching-hints",
            "sep-2549-resources-list-caching-hints",
            "sep-2549-resources-templates-list-caching-hints",
        ],
    ),
    (
        "server-stateless",
        &[
            "sep-2575-http-server-no-independent-requests-on-stream",
            "sep-2575-missing-capability-http-400",
            "sep-2575-server-no-log-without-loglevel",
            "sep-2575-server-rejects-undeclared-capability",
        ],
    ),
];

/// The failed checks of each scenario.
async fn run_suite(url: &str, revision: &str) -> BTreeMap<String, BTreeSet<String>> {
    let results = tempfile::tempdir().unwrap();
    let mut command = node(SUITE);
    command
        .args(["server", "--suite", "all", "--spec-version", revision, "--url", url, "--output-dir"])
        .arg(results.path());
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("the suite ends").unwrap();
    let mut failed = BTreeMap::new();
    for entry in fs_err::read_dir(results.path()).unwrap() {
        let folder = entry.unwrap().path();
        failed.insert(scenario(&folder), failed_checks(&folder));
    }
    assert!(!failed.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    failed
}

/// The folder of a scenario's results is named `server-NAME-TIME`.
fn scenario(folder: &Path) -> String {
    let name = folder.file_name().unwrap().to_str().unwrap();
    let name = name.strip_prefix("server-").unwrap();
    let time = "-2026-11-30T04-45-21-652Z".len();
    name[..name.len() - time].to_owned()
}

fn failed_checks(folder: &Path) -> BTreeSet<String> {
    let checks: Vec<Value> =
        serde_json::from_slice(&fs_err::read(folder.join("checks.json")).unwrap()).unwrap();
    assert!(!checks.is_empty(), "{}", folder.display());
    let failed = checks.iter().filter(|check| check["status"] == "FAILURE");
    failed.map(|check| check["id"].as_str().unwrap().to_owned()).collect()
}

async fn check(url: &str, revision: &str, passing: &[&str], partly: &[(&str, &[&str])]) {
    let failed = run_suite(url, revision).await;
    let readme = fs_err::read_to_string(scripts().join("README.md")).unwrap();
    for (name, checks) in partly {
        let expected: BTreeSet<String> = checks.iter().map(|check| (*check).to_owned()).collect();
        assert_eq!(failed[*name], expected, "{name}");
    }
    let passed: Vec<&str> = failed
        .iter()
        .filter(|(_name, checks)| checks.is_empty())
        .map(|(name, _checks)| name.as_str())
        .collect();
    assert_eq!(passed, passing, "scenarios of {revision} that pass; failed: {failed:#?}");
    for name in failed.keys() {
        assert!(readme.contains(&format!("`{name}`")), "README.md says nothing of `{name}`");
    }
}

async fn check_both(command_line: &[String], path_2026: &str) {
    let server = HttpServer::start(command_line).await;
    check(&format!("{}/mcp", server.base), "2025-11-25", &PASSING_2025, &[]).await;
    check(&format!("{}{path_2026}", server.base), "2026-07-28", &PASSING_2026, &PARTLY_2026).await;
    server.stop().await;
}

#[tokio::test]
async fn submit_conforms() {
    check_both(&[program("gaia-mcp-submit").display().to_string()], "/mcp").await;
}

#[tokio::test]
async fn bash_conforms() {
    let run = Run::new();
    check_both(&run.bash(), "/sandbox/8e1f6a52-0c3f-4d0e-9b57-2f3a6c1d7e90/mcp").await;
    run.containers_gone().await;
}
