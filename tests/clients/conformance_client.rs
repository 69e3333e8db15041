//! The official conformance suite with our tool host as the client. `README.md` has the table of what does not apply.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use gaia_tests::machine::program;
use serde_json::Value;

use crate::installed::{node, scripts};
use crate::server::PATIENCE;

const SUITE: &str = "@modelcontextprotocol/conformance/dist/index.js";
/// Scenarios at the same time: each is a Node process of its own.
const SIDE_BY_SIDE: usize = 2;

/// Checks that may fail, and must.
const ELICITATION: [&str; 6] = [
    "client-elicitation-sep1034-boolean-default",
    "client-elicitation-sep1034-enum-default",
    "client-elicitation-sep1034-general",
    "client-elicitation-sep1034-integer-default",
    "client-elicitation-sep1034-number-default",
    "client-elicitation-sep1034-string-default",
];
const REQUEST_STATE: [&str; 3] = [
    "sep-2322-client-jsonrpc-id-different",
    "sep-2322-client-no-state-omitted",
    "sep-2322-client-request-state-echoed",
];
/// What a revision requires of a client, and what was added to it since.
async fn scenarios(revision: &str) -> Vec<String> {
    let output = node(SUITE).args(["list", "--client", "--requirements", revision]).output().await.unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let (_, of_clients) = listed.split_once("Client scenarios").expect("the suite lists client scenarios");
    let (required, unscored) = of_clients.split_once("never scored").unwrap();
    let name = |line: &str| line.trim().strip_prefix("- ").map(str::to_owned);
    let added = unscored.lines().filter(|line| line.contains("json-schema-2020-12-preservation"));
    let added = added.filter_map(|line| name(line.trim_end_matches(" [client]")));
    required.lines().filter_map(name).chain(added).collect()
}

/// The failed checks, and how many passed.
async fn run(scenario: &str, revision: &str) -> (BTreeSet<String>, usize) {
    let results = tempfile::tempdir().unwrap();
    let mut command = node(SUITE);
    command.args(["client", "--scenario", scenario, "--spec-version", revision, "--command"]);
    command.arg(program("gaia-conformance-client")).arg("--output-dir").arg(results.path());
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("the suite ends").unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let folder = fs_err::read_dir(results.path()).unwrap().next().unwrap_or_else(|| panic!("{said}"));
    let mut path = folder.unwrap().path();
    // A scenario with a slash in its name is a folder in a folder.
    while !path.join("checks.json").is_file() {
        path = fs_err::read_dir(&path).unwrap().next().unwrap().unwrap().path();
    }
    let checks: Vec<Value> =
        serde_json::from_slice(&fs_err::read(path.join("checks.json")).unwrap()).unwrap();
    let with = |status: &'static str| checks.iter().filter(move |check| check["status"] == status);
    let failed = with("FAILURE").map(|check| check["id"].as_str().unwrap().to_owned()).collect();
    (failed, with("SUCCESS").count())
}

async fn check(revision: &str, expected: usize) {
    let names = scenarios(revision).await;
    assert_eq!(names.len(), expected, "{names:?}");
    let readme = fs_err::read_to_string(scripts().join("README.md")).unwrap();
    let (_, table) = readme.split_once("as the client of the conformance suite").unwrap();
    let results = futures_util::stream::iter(names)
        .map(|name| async move { (run(&name, revision).await, name) })
        .buffer_unordered(SIDE_BY_SIDE)
        .collect::<Vec<_>>()
        .await;
    for ((failed, passed), name) in results {
        let may_fail: &[&str] = match name.as_str() {
            "elicitation-sep1034-client-defaults" => &ELICITATION,
            "sep-2322-client-request-state" => &REQUEST_STATE,
            "auth/scope-step-up" if revision == "2025-11-25" => &["scope-step-up-escalation"],
            "auth/scope-step-up" => &["scope-step-up-escalation", "sep-2350-scope-union-on-reauth"],
            "auth/authorization-server-migration" => &["sep-2352-reregister-on-as-change"],
            _ => &[],
        };
        let may_fail: BTreeSet<String> = may_fail.iter().map(|id| (*id).to_owned()).collect();
        assert_eq!(failed, may_fail, "{name} at {revision}");
        assert!(passed > 0 || !failed.is_empty(), "{name} at {revision} checked nothing");
        assert_eq!(table.contains(&format!("| `{name}` |")), !failed.is_empty(), "the table and {name}");
    }
}

#[tokio::test]
async fn the_tool_host_conforms_at_2025_11_25() {
    check("2025-11-25", 19).await;
}

#[tokio::test]
async fn the_tool_host_conforms_at_2026_07_28() {
    check("2026-07-28", 33).await;
}
