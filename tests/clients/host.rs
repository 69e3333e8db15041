//! `gaia host` with clients of others: a shell and the answer tool of a config as one server, which tells the same story
//! as gaia-mcp-bash alone, and a server of others behind it.

use std::process::Stdio;

use gaia_tests::installed::servers;
use gaia_tests::machine::program;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::installed::{Client, python};
use crate::killed::kill_while_it_works;
use crate::server::{HttpServer, PATIENCE, Run};
use crate::story::{Era, check, tell};

/// The host refuses what does not fit a schema before a server sees it, in its own words.
const BAD_ARGUMENT: &str = "the arguments of `bash` were not accepted: ";

/// A folder with a config, and the command line that hosts it.
struct Hosted {
    _folder: tempfile::TempDir,
    command_line: Vec<String>,
}

impl Hosted {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        fs_err::write(&path, config).unwrap();
        let path = path.display().to_string();
        let gaia = program("gaia").display().to_string();
        Self { _folder: folder, command_line: vec![gaia, "--quiet".to_owned(), "host".to_owned(), path] }
    }

    fn bash(run: &Run) -> Self {
        let words = run.bash();
        let (command, args) = words.split_first().unwrap();
        Self::new(&format!(
            "[mcp_servers.bash]\ncommand = {command:?}\nargs = {args:?}\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n"
        ))
    }

    /// For a client that starts it.
    fn target(&self) -> Vec<String> {
        [vec!["--".to_owned()], self.command_line.clone()].concat()
    }

    /// With the line on stderr that says where it listens.
    async fn http(&self) -> HttpServer {
        let spoken: Vec<String> =
            self.command_line.iter().filter(|word| *word != "--quiet").cloned().collect();
        HttpServer::start(&spoken).await
    }
}

fn check_hosted(mut facts: Value, era: Era) {
    let tools = facts["tools"].as_array_mut().unwrap();
    let before = tools.len();
    tools.retain(|tool| tool != "submit");
    assert_eq!(tools.len(), before - 1, "the tools of the second server are there too");
    let said = facts["bad_argument"]["text"].as_str().unwrap().to_owned();
    assert!(said.starts_with(BAD_ARGUMENT), "{said}");
    check(facts, era, "gaia-host", &said);
}

async fn over_stdio(client: Client, era: Era) {
    let run = Run::new();
    let hosted = Hosted::bash(&run);
    let (facts, _log) = tell(client, era, &hosted.target()).await;
    run.containers_gone().await;
    check_hosted(facts, era);
}

async fn over_http(client: Client, era: Era) {
    let run = Run::new();
    let hosted = Hosted::bash(&run);
    let server = hosted.http().await;
    let (facts, complaints) = tell(client, era, &[format!("{}/mcp", server.base)]).await;
    assert_eq!(complaints, "", "{client:?} found something odd");
    // The servers are the host's, whoever comes and goes.
    assert_eq!(run.containers().await, [facts["container"].as_str().unwrap()]);
    server.stop().await;
    run.containers_gone().await;
    check_hosted(facts, era);
}

#[tokio::test]
async fn python_sdk_1_uses_the_host_over_stdio() {
    over_stdio(Client::PythonSdk1, Era::Legacy).await;
}

#[tokio::test]
async fn python_sdk_2_uses_the_host_over_stdio() {
    over_stdio(Client::PythonSdk2, Era::Auto).await;
}

#[tokio::test]
async fn typescript_sdk_2_uses_the_host_over_stdio() {
    over_stdio(Client::TypeScriptSdk2, Era::Auto).await;
}

#[tokio::test]
async fn typescript_sdk_1_uses_the_host_over_http() {
    over_http(Client::TypeScriptSdk1, Era::Legacy).await;
}

#[tokio::test]
async fn python_sdk_2_uses_the_host_over_http() {
    over_http(Client::PythonSdk2, Era::Auto).await;
}

#[tokio::test]
async fn typescript_sdk_2_uses_the_host_over_http() {
    over_http(Client::TypeScriptSdk2, Era::Auto).await;
}

#[tokio::test]
async fn nothing_is_left_of_a_client_of_the_host_that_is_killed() {
    let run = Run::new();
    let hosted = Hosted::bash(&run);
    kill_while_it_works(Client::PythonSdk2, Era::Auto, &hosted.target(), &run).await;
    run.containers_gone().await;
}

/// Images, structured results, progress and a bounded text through the host, from a server of others.
#[tokio::test]
async fn results_of_every_kind_come_through_the_host() {
    let everything = servers().join("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let config = format!(
        "[agent]\nresult_bytes = 2000\n[mcp_servers.everything]\ncommand = {:?}\nargs = [{everything:?}]\n\
         enabled_tools = [\"get-*\", \"echo\", \"trigger-*\"]\ndisabled_tools = [\"get-env\"]\n",
        servers().join("node")
    );
    let hosted = Hosted::new(&config);
    for era in ["legacy", "auto"] {
        let mut command = python("through_host.py");
        command.arg(era).args(&hosted.command_line);
        let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let said: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
        let tools = said["tools"].as_object().unwrap();
        assert!(tools.contains_key("get-sum") && !tools.contains_key("get-env"), "{tools:#?}");
        assert!(!tools.contains_key("toggle-simulated-logging"), "{tools:#?}");
        assert_eq!(tools["get-sum"]["required"], json!(["a", "b"]));
        assert_eq!(said["image"], json!(["text", "image", "image/png", true]), "{said:#}");
        assert_eq!(said["structured"]["conditions"], "Cloudy", "{said:#}");
        let long = said["long"].as_str().unwrap();
        assert!(long.len() <= 2000 && long.contains("bytes left out"), "{} bytes: {long}", long.len());
        // The server's own; the last one may lose the race against the result.
        let progress = said["progress"].as_array().unwrap();
        assert!(
            progress.len() >= 3 && progress[..3] == [json!([1.0, 4.0]), json!([2.0, 4.0]), json!([3.0, 4.0])],
            "{said:#}"
        );
        assert_eq!(said["slow"], "Long running operation completed. Duration: 1 seconds, Steps: 4.");
    }
}

/// Loopback only, a token when one is named, no strange Host and no web page.
#[tokio::test]
async fn the_host_asks_who_is_there() {
    let hosted = Hosted::new("[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n");
    let start = |args: &[&str]| {
        let mut command = tokio::process::Command::new(&hosted.command_line[0]);
        command.args(hosted.command_line[1..].iter().filter(|word| *word != "--quiet")).args(args);
        command.env("HOST_TOKEN", "token-of-the-test-1").stdin(Stdio::null()).kill_on_drop(true);
        command
    };
    let output = start(&["--http", "0.0.0.0:0"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--allow-remote"), "{output:?}");

    let mut child = start(&["--http", "127.0.0.1:0", "--token-env", "HOST_TOKEN"]);
    let mut child = child.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
    let url = line.rsplit(' ').next().unwrap().to_owned();
    assert!(line.contains("submit; listening on http://127.0.0.1:"), "{line}");

    let client = reqwest::Client::new();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25",
        "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let post = |headers: &[(&str, &str)]| {
        let mut request =
            client.post(&url).header("accept", "application/json, text/event-stream").json(&body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        async move { request.send().await.unwrap().status().as_u16() }
    };
    let token = ("authorization", "Bearer token-of-the-test-1");
    assert_eq!(post(&[]).await, 401);
    assert_eq!(post(&[("authorization", "Bearer token-of-the-test-2")]).await, 401);
    assert_eq!(post(&[token]).await, 200);
    assert_eq!(post(&[token, ("host", "evil.example")]).await, 403);
    assert_eq!(post(&[token, ("origin", "https://evil.example")]).await, 403);
    child.kill().await.unwrap();
}
