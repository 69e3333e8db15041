use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gaia_agent::tools::{Protocol, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values;

/// One MCP server as written. An entry pasted from another host's config works unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields, transform = super::dialect::add_foreign_keys)]
pub struct ServerConfig {
    /// `false`: as if it were not there.
    #[serde(skip_serializing_if = "is_true")]
    pub enabled: bool,
    /// `"stdio"`, `"http"` (also written `"streamable-http"`) or `"sse"`, the older transport of 2024-11-05. Not needed
    /// for the first two: `command` and `url` say as much.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportConfig>,
    /// Program that speaks MCP on stdio; looked up beside the running program, then on PATH. Variables are
    /// expanded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Variables are expanded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Added to the minimal environment that every server gets. Variables are expanded in the values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Names of variables that the server gets as they are when they are set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_vars: Vec<String>,
    /// File with `NAME=value` lines that are added to `env`, which comes before it. In a config file, relative to that
    /// file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_file: Option<PathBuf>,
    /// Working folder; in a config file, relative to that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Endpoint of a server that speaks streamable HTTP; instead of `command`. Variables are expanded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Sent with every request. Variables are expanded in the values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are those of the variables NAMED here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env_http_headers: BTreeMap<String, String>,
    /// NAME of the variable whose value is sent as `Authorization: Bearer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer_token_env_var: Option<String>,
    /// `"sample"`: one process (or session) for each sample. `"run"`: one that all samples share.
    pub scope: ScopeConfig,
    /// Only tools that match one of these globs; absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_tools: Option<Vec<String>>,
    /// Not the tools that match one of these globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled_tools: Vec<String>,
    /// Seconds until the server must have listed its tools.
    #[serde(with = "values::seconds")]
    #[schemars(with = "f64", range(min = 0))]
    pub startup_timeout_sec: Duration,
    /// Seconds that one call may take.
    #[serde(with = "values::seconds")]
    #[schemars(with = "f64", range(min = 0))]
    pub tool_timeout_sec: Duration,
    /// Calls that all samples of the run have under way at this server at the same time; the others wait. For servers
    /// with `scope = "run"`; absent bounds nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_concurrent_calls: Option<usize>,
    /// `false`: the run goes on without this server and says so.
    pub required: bool,
    /// `true`: calls of one turn run at the same time, also those of tools that the server does not declare
    /// read-only.
    pub supports_parallel_tool_calls: bool,
    /// Era of the protocol; `"auto"` finds out.
    #[serde(deserialize_with = "values::protocol")]
    #[schemars(schema_with = "values::protocol_schema")]
    pub protocol: ProtocolConfig,
    /// In front of the names of its tools as the model sees them, such as `"web_"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            transport: None,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_vars: Vec::new(),
            env_file: None,
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            env_http_headers: BTreeMap::new(),
            bearer_token_env_var: None,
            scope: ScopeConfig::Sample,
            enabled_tools: None,
            disabled_tools: Vec::new(),
            // `npx` and `uvx` download the server on its first start.
            startup_timeout_sec: Duration::from_secs(60),
            // Twice what common clients wait, as benchmark tools do real work.
            tool_timeout_sec: Duration::from_secs(120),
            max_concurrent_calls: None,
            required: true,
            supports_parallel_tool_calls: false,
            protocol: ProtocolConfig::Auto,
            prefix: None,
        }
    }
}

/// For `skip_serializing_if`.
fn is_true(value: &bool) -> bool {
    *value
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TransportConfig {
    Stdio,
    Http,
    Sse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScopeConfig {
    Sample,
    Run,
}

impl From<ScopeConfig> for Scope {
    fn from(scope: ScopeConfig) -> Self {
        match scope {
            ScopeConfig::Sample => Scope::Sample,
            ScopeConfig::Run => Scope::Run,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ProtocolConfig {
    #[serde(rename = "auto")]
    Auto,
    /// 2024-11-05 to 2025-11-25.
    #[serde(rename = "2025")]
    Era2025,
    /// 2026-07-28.
    #[serde(rename = "2026")]
    Era2026,
}

impl From<ProtocolConfig> for Protocol {
    fn from(protocol: ProtocolConfig) -> Self {
        match protocol {
            ProtocolConfig::Auto => Protocol::Auto,
            ProtocolConfig::Era2025 => Protocol::Legacy,
            ProtocolConfig::Era2026 => Protocol::Modern,
        }
    }
}
