//! The fetch and the search server in tests.

// Logging is deprecated in 2026-07-28, and it is what our servers do.
#![allow(deprecated)]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rmcp::ClientHandler;
use rmcp::RoleClient;
use rmcp::model::{CallToolResult, LoggingMessageNotificationParam};
use rmcp::service::NotificationContext;
use serde_json::{Value, json};

use crate::support::{Client, Era, Process, command, stdio_of};

pub(crate) const FETCH: &str = env!("CARGO_BIN_EXE_gaia-mcp-fetch");
pub(crate) const SEARCH: &str = env!("CARGO_BIN_EXE_gaia-mcp-search");

/// Variables that would change what a server does.
const FOREIGN: [&str; 12] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "GAIA_QUESTION",
    "GAIA_WEB_CACHE",
    "BRAVE_MCP_ENABLED_TOOLS",
    "BRAVE_API_KEY",
];

/// Keeps what a server logs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<Vec<Value>>>);

impl Logs {
    pub(crate) fn all(&self) -> Vec<Value> {
        self.0.lock().unwrap().clone()
    }

    /// The lines that have this member.
    pub(crate) fn with(&self, name: &str) -> Vec<Value> {
        self.all().into_iter().filter_map(|line| line.get(name).cloned()).collect()
    }
}

impl ClientHandler for Logs {
    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.0.lock().unwrap().push(message.data);
    }
}

/// A server and its client.
pub(crate) struct Web {
    pub(crate) client: Client<Logs>,
    pub(crate) logs: Logs,
    server: Process,
}

impl Web {
    pub(crate) async fn start(program: &str, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = command(program, args);
        for name in FOREIGN {
            command.env_remove(name);
        }
        command.envs(environment.iter().copied());
        let logs = Logs::default();
        let (server, client) = stdio_of(command, Era::Legacy, logs.clone()).await;
        Self { client, logs, server }
    }

    /// A fetch server that may reach loopback.
    pub(crate) async fn fetch(args: &[&str]) -> Self {
        Self::start(FETCH, &[&["--allow-private", "127.0.0.0/8"], args].concat(), &[]).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        self.client.try_call(tool, arguments).await.expect("the call is answered with a result")
    }

    /// The most memory that the server itself ever had.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let pid = self.server.child.id().expect("the server runs");
        let status = fs_err::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// The text of a page, up to a length that holds all of it.
    pub(crate) async fn page(&self, url: &str) -> String {
        let result = self.call("fetch", json!({ "url": url, "max_length": 900_000 })).await;
        let text = all_text(&result);
        assert_ne!(result.is_error, Some(true), "{url}: {text}");
        text
    }

    pub(crate) async fn failure(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments.clone()).await;
        assert_eq!(result.is_error, Some(true), "{arguments}: {}", all_text(&result));
        all_text(&result)
    }
}

pub(crate) fn all_text(result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| Some(block.as_text()?.text.as_str()));
    texts.collect::<Vec<_>>().join("\n")
}

/// One of the documents with known answers among the bundled questions.
pub(crate) fn sample_files() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/samples/2023/validation"))
}
