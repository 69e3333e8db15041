use std::collections::BTreeMap;

use serde_json::Value;

use super::{NoticeSink, ServerSpec};

/// One live MCP server.
#[derive(Debug)]
pub struct Server {
    tools: Vec<ServerTool>,
}

/// A tool as its server published it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTool {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub input_schema: Value,
    pub annotations: ToolAnnotations,
}

/// What a server says of a tool. Hints of an untrusted party: good for scheduling, never for safety.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolAnnotations {
    /// Changes nothing; such calls may run side by side.
    pub read_only: bool,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// A server that cannot be used; the text is complete, with the server's own stderr.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StartError {
    /// The entry in the config is at fault: command not found, bad URL, an allow-list entry that matches nothing.
    /// The same will happen to every other task.
    #[error("{message}")]
    Config { server: String, message: String },
    /// The server did not start, answer or list its tools.
    #[error("{message}")]
    Failed { server: String, message: String },
}

impl Server {
    pub async fn start(
        spec: &ServerSpec,
        environment: &BTreeMap<String, String>,
        notices: NoticeSink,
    ) -> Result<Self, StartError> {
        let _ = (environment, notices);
        Err(StartError::Failed { server: spec.name.clone(), message: "not written yet".to_owned() })
    }

    /// The whole list of the server, in its order, before any allow-list.
    pub fn tools(&self) -> &[ServerTool] {
        &self.tools
    }

    pub async fn close(&self) {}
}
