//! A server spoken to line by line, so that its results are seen as they are.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use gaia_tests::installed::servers;
use gaia_tests::machine::program;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Python servers take many seconds to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Peer {
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next_id: u64,
    _child: Child,
}

fn command(program: &Path, args: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env_clear().kill_on_drop(true);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", std::env::var_os("HOME").unwrap_or_default());
    command.envs(environment.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

impl Peer {
    pub(crate) async fn ours(name: &str, args: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start(command(&program(name), args, environment)).await
    }

    pub(crate) async fn uvx(args: &[&str]) -> Self {
        Self::start(command(&servers().join("bin/uvx"), args, &[])).await
    }

    /// With the module in front that sends what is meant for Brave to a stand-in.
    pub(crate) async fn npx(package: &str, stand_in: &str) -> Self {
        let preload = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/brave_stand_in.cjs");
        let options = format!("--require {}", preload.display());
        let environment = [
            ("BRAVE_API_KEY", "key"),
            ("BRAVE_STAND_IN", stand_in),
            ("BRAVE_FAST_CLOCK", if package.starts_with("@brave/") { "" } else { "1" }),
            ("NODE_OPTIONS", options.as_str()),
        ];
        Self::start(command(&servers().join("bin/npx"), &["-y", package], &environment)).await
    }

    async fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the server starts");
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut peer = Self { stdin, lines: BufReader::new(stdout).lines(), next_id: 0, _child: child };
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "0" } });
        peer.ask("initialize", hello).await;
        peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        peer
    }

    async fn send(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let reply = async {
            loop {
                let line = self.lines.next_line().await.unwrap().expect("the server goes on");
                let message: Value = serde_json::from_str(&line).unwrap_or_default();
                if message["id"] == id {
                    return message;
                }
            }
        };
        tokio::time::timeout(PATIENCE, reply).await.unwrap_or_else(|_| panic!("no reply to {method} in time"))
    }

    pub(crate) async fn tools(&mut self) -> Vec<Value> {
        self.ask("tools/list", json!({})).await["result"]["tools"].as_array().unwrap().clone()
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Called {
        let reply = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        let result = &reply["result"];
        let blocks = result["content"].as_array().cloned().unwrap_or_default();
        Called {
            is_error: result["isError"] == true || reply.get("error").is_some(),
            texts: blocks.iter().filter_map(|block| block["text"].as_str().map(ToOwned::to_owned)).collect(),
            structured: result["structuredContent"].clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Called {
    pub(crate) is_error: bool,
    pub(crate) texts: Vec<String>,
    pub(crate) structured: Value,
}

impl Called {
    pub(crate) fn text(&self) -> String {
        self.texts.join("\n")
    }
}
