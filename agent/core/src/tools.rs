//! The tool host: the MCP servers of one task, their tools under names a model can use, and calls that always
//! come back. The only module that names rmcp's client.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::message::{Part, ToolDefinition};

/// Bytes of one tool result that a model sees by default: inspect's limit, and within every provider's.
pub const DEFAULT_RESULT_BYTES: usize = 16 * 1024;

/// One MCP server as configured, variables already expanded.
#[derive(Debug, Clone)]
pub struct ServerSpec {
    /// `[a-zA-Z0-9_-]+`, the key of the table in the config.
    pub name: String,
    pub transport: TransportSpec,
    pub scope: Scope,
    /// Globs over tool names; `None` allows all.
    pub enabled_tools: Option<Vec<String>>,
    pub disabled_tools: Vec<String>,
    pub startup_timeout: Duration,
    pub tool_timeout: Duration,
    /// A run can go on without a server that is not required.
    pub required: bool,
    pub protocol: Protocol,
}

#[derive(Debug, Clone)]
pub enum TransportSpec {
    Stdio {
        command: String,
        args: Vec<String>,
        /// Added to the minimal environment that every child gets.
        env: BTreeMap<String, String>,
        cwd: Option<PathBuf>,
    },
    Http {
        url: String,
        /// Values may be secrets.
        headers: BTreeMap<String, String>,
        /// Sent as `Authorization: Bearer`.
        bearer_token: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One process for each task.
    Sample,
    /// One process shared by all tasks of a run.
    Run,
}

/// Which era of the protocol to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Auto,
    /// 2024-11-05 to 2025-11-25: `initialize` and sessions.
    Legacy,
    /// 2026-07-28: `server/discover`, no sessions.
    Modern,
}
