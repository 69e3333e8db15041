//! The official conformance suite, all server scenarios of a revision at once. `README.md` says why each scenario or
//! check that fails does not apply to a server with tools and prompts of its own, and no resources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gaia_tests::machine::program;
use serde_json::Value;

use crate::installed::{node, scripts};
use crate::server::{HttpServer, PATIENCE, Run};

const SUITE: &str = "@modelcontextprotocol/conformance/dist/index.js";

/// What a server passes: scenarios of which no check may fail, and those that apply in part, with the checks that may.
struct Expected {
    passing_2025: BTreeSet<&'static str>,
    passing_2026: BTreeSet<&'static str>,
    partly_2026: BTreeMap<&'static str, BTreeSet<&'static str>>,
}

impl Expected {
    /// Of a server with tools of its own and nothing else.
    fn tools_only() -> Self {
        Self {
            passing_2025: BTreeSet::from([
                "dns-rebinding-protection",
                "ping",
                "server-initialize",
                "server-session-lifecycle",
                "server-sse-multiple-streams",
                "server-sse-polling",
                "tools-list",
            ]),
            passing_2026: BTreeSet::from([
                "dns-rebinding-protection",
                "http-header-validation",
                "input-required-result-ignore-extra-params",
                "input-required-result-missing-input-response",
                "input-required-result-unsupported-methods",
                "input-required-result-validate-input",
                "sep-2164-resource-not-found",
                "server-sse-multiple-streams",
                "tools-list",
            ]),
            partly_2026: BTreeMap::from([
                (
                    "caching",
                    BTreeSet::from([
                        "sep-2549-prompts-list-caching-hints",
                        "sep-2549-resources-list-caching-hints",
                        "sep-2549-resources-templates-list-caching-hints",
                    ]),
                ),
                (
                    "server-stateless",
                    BTreeSet::from([
                        "sep-2575-http-server-no-independent-requests-on-stream",
                        "sep-2575-missing-capability-http-400",
                        "sep-2575-server-no-log-without-loglevel",
                        "sep-2575-server-rejects-undeclared-capability",
                    ]),
                ),
            ]),
        }
    }

    fn with_logging(mut self) -> Self {
        self.passing_2025.insert("logging-set-level");
        self
    }

    fn with_prompts(mut self) -> Self {
        self.passing_2025.insert("prompts-list");
        self.passing_2026.insert("prompts-list");
        self.partly_2026
            .entry("caching")
            .and_modify(|checks| assert!(checks.remove("sep-2549-prompts-list-caching-hints")));
        self
    }
}

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

/// Nothing else fails, and nothing else passes.
fn compare(
    failed: &BTreeMap<String, BTreeSet<String>>,
    passing: &BTreeSet<&str>,
    partly: &BTreeMap<&str, BTreeSet<&str>>,
) {
    for (name, checks) in partly {
        let failed: BTreeSet<&str> = failed[*name].iter().map(String::as_str).collect();
        assert_eq!(failed, *checks, "{name}");
    }
    let passed = failed.iter().filter(|(_name, checks)| checks.is_empty());
    let passed: BTreeSet<&str> = passed.map(|(name, _checks)| name.as_str()).collect();
    assert_eq!(passed, *passing, "scenarios that pass; failed: {failed:#?}");
    let readme = fs_err::read_to_string(scripts().join("README.md")).unwrap();
    for name in failed.keys() {
        assert!(readme.contains(&format!("`{name}`")), "README.md says nothing of `{name}`");
    }
}

async fn check_both(command_line: &[String], path_2026: &str, expected: &Expected) {
    let server = HttpServer::start(command_line).await;
    let failed = run_suite(&format!("{}/mcp", server.base), "2025-11-25").await;
    compare(&failed, &expected.passing_2025, &BTreeMap::new());
    let failed = run_suite(&format!("{}{path_2026}", server.base), "2026-07-28").await;
    compare(&failed, &expected.passing_2026, &expected.partly_2026);
    server.stop().await;
}

#[tokio::test]
async fn submit_conforms() {
    let command_line = [program("gaia-mcp-submit").display().to_string()];
    check_both(&command_line, "/mcp", &Expected::tools_only()).await;
}

#[tokio::test]
async fn fetch_conforms() {
    let command_line = [program("gaia-mcp-fetch").display().to_string()];
    check_both(&command_line, "/mcp", &Expected::tools_only().with_logging().with_prompts()).await;
}

#[tokio::test]
async fn search_conforms() {
    let index = tempfile::NamedTempFile::new().unwrap();
    let index = index.path().display().to_string();
    let program = program("gaia-mcp-search").display().to_string();
    let command_line = [&program, "--engine", "fixture", "--fixture", &index].map(ToOwned::to_owned);
    check_both(&command_line, "/mcp", &Expected::tools_only().with_logging()).await;
}

#[tokio::test]
async fn bash_conforms() {
    let run = Run::new();
    let path_2026 = "/sandbox/8e1f6a52-0c3f-4d0e-9b57-2f3a6c1d7e90/mcp";
    check_both(&run.bash(), path_2026, &Expected::tools_only()).await;
    run.containers_gone().await;
}
