//! Each client tells the same story to gaia-mcp-bash, and its facts are what our documentation promises.

use serde_json::{Value, json};

use crate::installed::Client;
use crate::server::{HttpServer, PATIENCE, Run};

/// What a client asks for, in the words of its SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Auto,
}

impl Era {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Auto => "auto",
        }
    }

    /// What it comes to with our servers.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Auto => "2026-07-28",
        }
    }

    /// Where its client finds a container: a client of 2026-07-28 has no session, so its URL names one.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Legacy => "/mcp",
            Self::Auto => "/sandbox/0b7f2d5e-6f0f-4a58-9a38-5a1c5ad8b9a1/mcp",
        }
    }
}

/// The client's last line on stdout, and its stderr.
pub(crate) async fn tell(client: Client, era: Era, target: &[String]) -> (Value, String) {
    let mut command = client.command();
    command.args(["story", era.word()]).args(target);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("the story ends").unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{client:?} failed: {stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let facts = stdout.lines().last().expect("the client prints its facts");
    (serde_json::from_str(facts).unwrap(), stderr)
}

/// What gaia-mcp-bash says of a number where a text belongs.
const BAD_ARGUMENT: &str = "`command` must be a string, not the number 5; send \"5\" in quotes";

/// Checks everything that a client reported of the server with this name.
pub(crate) fn check(mut facts: Value, era: Era, server: &str, bad_argument: &str) {
    let facts = facts.as_object_mut().unwrap();
    let tools = facts.remove("tools").unwrap();
    let tools: Vec<&str> = tools.as_array().unwrap().iter().map(|tool| tool.as_str().unwrap()).collect();
    for tool in ["bash", "bash_input", "bash_output", "kill_shell", "read_file", "view_image", "write_file"] {
        assert_eq!(tools.iter().filter(|name| **name == tool).count(), 1, "{tool} in {tools:?}");
    }
    let container = facts.remove("container").unwrap();
    assert_eq!(container.as_str().unwrap().len(), 64, "{container}");
    let expected = json!({
        "protocol": era.version(),
        "server": server,
        "exit": { "output": "hi", "exit_code": 3, "is_error": false },
        "state": "1 /tmp",
        "stderr": "out\nerr",
        "timeout": { "timed_out": true, "is_error": false },
        "large": { "total_bytes": 100_000, "truncated": true, "fits_16_kib": true },
        "concurrent": ["0", "1", "2", "3"],
        "after_cancel": "after\n0",
        "bad_argument": {
            "is_error": true,
            "text": bad_argument,
        },
        "unknown_tool": -32602,
    });
    assert_eq!(Value::Object(facts.clone()), expected);
}

async fn over_stdio(client: Client, era: Era) {
    let run = Run::new();
    let target = [vec!["--".to_owned()], run.bash()].concat();
    // Its stderr is the server's too.
    let (facts, _log) = tell(client, era, &target).await;
    run.containers_gone().await;
    check(facts, era, "gaia-mcp-bash", BAD_ARGUMENT);
}

async fn over_http(client: Client, era: Era) {
    let run = Run::new();
    let server = HttpServer::start(&run.bash()).await;
    let url = format!("{}{}", server.base, era.path());
    let (facts, complaints) = tell(client, era, std::slice::from_ref(&url)).await;
    assert_eq!(complaints, "", "{client:?} found something odd");
    if era == Era::Auto {
        // Nothing but this, or the idle timeout, says that a client without a session has gone.
        assert_eq!(run.containers().await, [facts["container"].as_str().unwrap()]);
        let response = reqwest::Client::new().delete(url).send().await.unwrap();
        assert_eq!(response.status(), reqwest::StatusCode::NO_CONTENT);
    }
    run.containers_gone().await;
    server.stop().await;
    check(facts, era, "gaia-mcp-bash", BAD_ARGUMENT);
}

#[tokio::test]
async fn python_sdk_1_over_stdio() {
    over_stdio(Client::PythonSdk1, Era::Legacy).await;
}

#[tokio::test]
async fn python_sdk_1_over_http() {
    over_http(Client::PythonSdk1, Era::Legacy).await;
}

#[tokio::test]
async fn python_sdk_2_over_stdio() {
    over_stdio(Client::PythonSdk2, Era::Auto).await;
}

#[tokio::test]
async fn python_sdk_2_over_stdio_in_the_older_era() {
    over_stdio(Client::PythonSdk2, Era::Legacy).await;
}

#[tokio::test]
async fn python_sdk_2_over_http() {
    over_http(Client::PythonSdk2, Era::Auto).await;
}

#[tokio::test]
async fn python_sdk_2_over_http_in_the_older_era() {
    over_http(Client::PythonSdk2, Era::Legacy).await;
}

#[tokio::test]
async fn fastmcp_over_stdio() {
    over_stdio(Client::FastMcp, Era::Auto).await;
}

#[tokio::test]
async fn fastmcp_over_stdio_in_the_older_era() {
    over_stdio(Client::FastMcp, Era::Legacy).await;
}

#[tokio::test]
async fn fastmcp_over_http() {
    over_http(Client::FastMcp, Era::Auto).await;
}

#[tokio::test]
async fn fastmcp_over_http_in_the_older_era() {
    over_http(Client::FastMcp, Era::Legacy).await;
}

#[tokio::test]
async fn typescript_sdk_1_over_stdio() {
    over_stdio(Client::TypeScriptSdk1, Era::Legacy).await;
}

#[tokio::test]
async fn typescript_sdk_1_over_http() {
    over_http(Client::TypeScriptSdk1, Era::Legacy).await;
}

#[tokio::test]
async fn typescript_sdk_2_over_stdio() {
    over_stdio(Client::TypeScriptSdk2, Era::Auto).await;
}

#[tokio::test]
async fn typescript_sdk_2_over_stdio_in_the_older_era() {
    over_stdio(Client::TypeScriptSdk2, Era::Legacy).await;
}

#[tokio::test]
async fn typescript_sdk_2_over_http() {
    over_http(Client::TypeScriptSdk2, Era::Auto).await;
}

#[tokio::test]
async fn typescript_sdk_2_over_http_in_the_older_era() {
    over_http(Client::TypeScriptSdk2, Era::Legacy).await;
}
