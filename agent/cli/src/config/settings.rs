use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::server::ServerConfig;
use super::staged::StagedConfig;
use super::strategy::{ExternalConfig, StrategyConfig};
use super::values;

/// A run as the user describes it. Every key has a default, so that layers can be put on top of each other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Config {
    /// Which questions.
    pub dataset: DatasetConfig,
    /// Who answers them.
    pub model: ModelConfig,
    /// How the loop behaves for one question.
    pub agent: AgentConfig,
    /// Whether one run of the loop works on a sample, or several together.
    #[serde(skip_serializing_if = "StrategyConfig::is_default")]
    pub strategy: StrategyConfig,
    /// An agent other than the loop.
    #[serde(skip_serializing_if = "ExternalConfig::is_default")]
    pub external: ExternalConfig,
    /// How the questions are worked through.
    pub run: RunConfig,
    /// Files in the formats of other hosts whose servers are added: JSON with `mcpServers` (Claude Desktop, Claude Code,
    /// Cursor) or `servers` (VS Code), Codex's TOML, EvalScope's list. In a config file, relative to that file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mcp_config: Vec<String>,
    /// The tools: one table for each MCP server.
    pub mcp_servers: BTreeMap<String, ServerConfig>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct DatasetConfig {
    /// Folder of a GAIA snapshot: its root, its `2023` folder or the folder of the split. In a config file,
    /// relative to that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Takes the snapshot that `gaia dataset pull` brought from this hub. A `path` comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<Hub>,
    pub split: Split,
    /// Levels to run; empty means all. `1`, `"1"` and `"2023_level1"` are the same.
    #[serde(deserialize_with = "values::levels")]
    #[schemars(schema_with = "values::levels_schema")]
    pub levels: Vec<u8>,
    /// The first so many samples of what is left after all other choices, in dataset order (or in shuffled
    /// order when `shuffle_seed` is set).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only these task ids; empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<String>,
    /// Shuffles before `limit` is applied; the same seed gives the same order everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shuffle_seed: Option<u64>,
    /// JSON lines with truths that are known to be wrong: `task_id`, `answers` (each of them is right), `note`, `source`.
    /// They make a second score, which is labelled as not official. In a config file, relative to that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrections: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Hub {
    Modelscope,
    Huggingface,
}

impl Hub {
    pub fn as_str(self) -> &'static str {
        match self {
            Hub::Modelscope => "modelscope",
            Hub::Huggingface => "huggingface",
        }
    }
}

impl std::fmt::Display for Hub {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A part of the dataset. The truths of `test` are hidden.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    #[default]
    Validation,
    Test,
}

impl Split {
    /// The name of its folder in a snapshot.
    pub fn as_str(self) -> &'static str {
        match self {
            Split::Validation => "validation",
            Split::Test => "test",
        }
    }
}

impl std::fmt::Display for Split {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct ModelConfig {
    /// As the endpoint knows it. Required for a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Root of an OpenAI-compatible API, with `/v1` where the endpoint has it. Variables are expanded.
    /// Default: `https://api.openai.com/v1`. Not together with `[model.server]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// NAME of the environment variable that holds the key, never the key. Absent: no key is sent, as local
    /// servers want it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    pub api: Api,
    /// Read replies as they are written. Off for endpoints that stream badly.
    pub stream: bool,
    /// How the model calls tools: `"native"` in the API's own field (calls that the server leaves in the text, in a form
    /// that models are trained on, are read from there, and the trajectory says so), `"native-only"` without the latter,
    /// `"text"` by blocks in the text, for models and servers without tool calls.
    pub tool_calls: ToolCallsConfig,
    /// Whether the model may ask for several tools in one turn; absent, the provider decides. Some refuse the
    /// parameter itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// The field in which the model's earlier thoughts are sent back, such as `"reasoning_content"`; `""` sends none.
    /// Absent, they are sent where the endpoint is known to want them, or says so. Chat only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_field: Option<String>,
    /// Whose rules the schemas of tools are written for: `"auto"` goes by endpoint and model, `"published"` leaves
    /// them as the servers published them, `"strict"` is for endpoints that refuse schemas and are none of the others.
    pub schema_profile: SchemaProfileConfig,
    /// The model's window in tokens; by default what the catalogs of models say, or what the provider's error says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Media types that the model takes in a message, as prefixes: `["image/"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<String>,
    /// Longest wait for one whole reply, such as `"10m"`.
    #[serde(with = "values::duration")]
    #[schemars(with = "String")]
    pub request_timeout: Duration,
    /// Longest silence inside a streamed reply, such as `"180s"`.
    #[serde(with = "values::duration")]
    #[schemars(with = "String")]
    pub idle_timeout: Duration,
    /// How often one request is tried again after a fault that may pass.
    pub max_retries: u32,
    /// Requests under way at the same time, of all samples together; absent, as many as the endpoint turns out to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_concurrent_requests: Option<u32>,
    /// What the provider allows, of all samples together; requests beyond it wait. Absent, its 429 is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub requests_per_minute: Option<u32>,
    /// Input and output together, estimated before a request and corrected by its reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens_per_minute: Option<u64>,
    /// A scripted model: every output says that the score is a rehearsal.
    pub rehearsal: bool,
    /// TOML files with windows and prices of models, looked up before gaia's own list. Relative to the config file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub catalog: Vec<PathBuf>,
    /// By default what the catalogs of models say for this endpoint; without a price money is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceConfig>,
    /// A model server of this run's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ModelServerConfig>,
    /// Sent as they are with every request: `temperature`, `top_p`, `reasoning_effort`, vendor fields.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub params: serde_json::Map<String, serde_json::Value>,
}

/// The endpoint of a config that names none.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            name: None,
            base_url: None,
            api_key_env: None,
            api: Api::Chat,
            stream: true,
            tool_calls: ToolCallsConfig::Native,
            parallel_tool_calls: None,
            reasoning_field: None,
            schema_profile: SchemaProfileConfig::Auto,
            context_window: None,
            accepts: Vec::new(),
            // Reasoning models have been seen to think for several minutes before the first token.
            request_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(180),
            // With backoff capped at a minute, about ten minutes: longer than the usual rate-limit window.
            max_retries: 10,
            max_concurrent_requests: None,
            requests_per_minute: None,
            tokens_per_minute: None,
            rehearsal: false,
            catalog: Vec::new(),
            price: None,
            server: None,
            params: serde_json::Map::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// `POST {base_url}/chat/completions`.
    #[default]
    Chat,
    /// `POST {base_url}/responses`, stateless: nothing is stored at the provider, thoughts come back encrypted.
    Responses,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolCallsConfig {
    #[default]
    Native,
    NativeOnly,
    Text,
}

impl From<ToolCallsConfig> for gaia_agent::model::ToolCalls {
    fn from(form: ToolCallsConfig) -> Self {
        match form {
            ToolCallsConfig::Native => Self::Native,
            ToolCallsConfig::NativeOnly => Self::NativeOnly,
            ToolCallsConfig::Text => Self::Text,
        }
    }
}

impl From<Api> for gaia_agent::model::Api {
    fn from(api: Api) -> Self {
        match api {
            Api::Chat => Self::Chat,
            Api::Responses => Self::Responses,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchemaProfileConfig {
    #[default]
    Auto,
    Published,
    Openai,
    /// OpenAI's strict mode: the model is held to the schema.
    OpenaiStrict,
    Anthropic,
    Gemini,
    /// Kimi.
    Moonshot,
    Strict,
}

impl From<SchemaProfileConfig> for gaia_agent::model::SchemaProfile {
    fn from(profile: SchemaProfileConfig) -> Self {
        match profile {
            SchemaProfileConfig::Auto => Self::Auto,
            SchemaProfileConfig::Published => Self::Published,
            SchemaProfileConfig::Openai => Self::Openai,
            SchemaProfileConfig::OpenaiStrict => Self::OpenaiStrict,
            SchemaProfileConfig::Anthropic => Self::Anthropic,
            SchemaProfileConfig::Gemini => Self::Gemini,
            SchemaProfileConfig::Moonshot => Self::Moonshot,
            SchemaProfileConfig::Strict => Self::Strict,
        }
    }
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PriceConfig {
    pub input: f64,
    /// Input tokens that the provider had cached; as dear as `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<f64>,
    pub output: f64,
    /// Output tokens that the model spent on thinking; as dear as `output` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<f64>,
}

/// A program that `gaia` starts before the run and ends with it. It prints one JSON line with its `base_url`
/// to stdout when it is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ModelServerConfig {
    /// Looked up beside the running program, then on PATH. Variables are expanded.
    pub command: String,
    /// Variables are expanded.
    #[serde(default)]
    pub args: Vec<String>,
    /// Seconds until it must be ready.
    #[serde(default = "ModelServerConfig::default_ready_timeout", with = "values::seconds")]
    #[schemars(with = "f64", range(min = 0))]
    pub ready_timeout_sec: Duration,
}

impl ModelServerConfig {
    fn default_ready_timeout() -> Duration {
        Duration::from_secs(60)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct AgentConfig {
    /// Model turns for one sample, before the last call that asks for the answer.
    #[schemars(range(min = 1))]
    pub max_steps: u32,
    /// `server/tool`: a successful call of it ends the sample.
    pub answer_tool: String,
    /// Wall time for one sample, such as `"30m"`.
    #[serde(with = "values::duration")]
    #[schemars(with = "String")]
    pub sample_timeout: Duration,
    /// Bytes of one tool result that the model sees.
    #[schemars(range(min = 256))]
    pub result_bytes: usize,
    /// Limits for one sample.
    pub budget: BudgetConfig,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            max_steps: 50,
            answer_tool: "submit/submit".to_owned(),
            sample_timeout: Duration::from_secs(30 * 60),
            result_bytes: gaia_agent::tools::DEFAULT_RESULT_BYTES,
            budget: BudgetConfig::default(),
        }
    }
}

/// Absent keys are no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct BudgetConfig {
    /// Input and output tokens together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// US dollars; needs `[model.price]` or a `model.catalog`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Samples, requests or sets of servers at the same time. GAIA has 466 questions; each of so many more takes several of
/// the files that a process may have open.
pub const MAX_CONCURRENCY: usize = 4_096;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct RunConfig {
    /// Samples worked on at the same time.
    #[schemars(range(min = 1, max = MAX_CONCURRENCY))]
    pub concurrency: usize,
    /// Times that every sample is run.
    #[schemars(range(min = 1))]
    pub epochs: u32,
    /// An errored sample counts as wrong and stays in the denominator, and the run goes on. `false`: the
    /// first error ends the run.
    pub ignore_errors: bool,
    /// Folder that holds all runs. Relative to the working folder by default; in a config file, to that file.
    pub out: PathBuf,
    /// Sets of servers of samples at the same time, and so containers: of those that run, of those that are made ready
    /// for the next samples, and of those that are taken down. The default is `concurrency` and two more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_CONCURRENCY))]
    pub sandboxes: Option<usize>,
    /// Model requests at the same time, for endpoints that take fewer than there are samples. By default no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_CONCURRENCY))]
    pub model_calls: Option<usize>,
    /// Limits for the whole run.
    pub budget: RunBudgetConfig,
    /// From what is cheap to what is dear.
    #[serde(skip_serializing_if = "StagedConfig::is_default")]
    pub staged: StagedConfig,
}

/// Absent keys are no limit. Samples that run when one is reached end with an answer; no other starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct RunBudgetConfig {
    /// Input and output tokens together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// US dollars; needs `[model.price]` or a `model.catalog`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Wall time of all sessions together, such as `"12h"`: no sample starts after it, and those that run are finished.
    #[serde(skip_serializing_if = "Option::is_none", with = "values::optional_duration")]
    #[schemars(with = "Option<String>")]
    pub time: Option<Duration>,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            concurrency: 5,
            epochs: 1,
            ignore_errors: true,
            out: PathBuf::from("runs"),
            sandboxes: None,
            model_calls: None,
            budget: RunBudgetConfig::default(),
            staged: StagedConfig::default(),
        }
    }
}
