//! The config of a run: layers of TOML, merged, checked and explained.
//!
//! Built-in defaults < file < `GAIA_*` environment < flags and `--set`.

mod check;
mod dialect;
mod document;
mod dotenv;
mod effective;
mod expand;
mod import;
mod layers;
mod load;
mod mask;
mod problem;
mod resolve;
mod schema;
mod secret;
mod server;
mod settings;
mod source;
mod staged;
mod strategy;
mod values;

#[cfg(test)]
#[path = "config/config_tests.rs"]
mod tests;

use std::path::{Path, PathBuf};

pub(crate) use effective::with_defaults;
pub use load::load;
pub use problem::Problem;
pub(crate) use resolve::token_store;
pub use schema::schema;
pub use secret::{REDACTED, Secret, Secrets};
pub use server::{ProtocolConfig, ScopeConfig, ServerConfig, TransportConfig};
pub use settings::{
    AgentConfig, Api, BudgetConfig, Config, DEFAULT_BASE_URL, DatasetConfig, Hub, MAX_CONCURRENCY,
    ModelConfig, ModelServerConfig, PriceConfig, RunBudgetConfig, RunConfig, Split,
};
pub use staged::StagedConfig;

pub use strategy::{ExternalConfig, RoleName, StrategyConfig, StrategyName};

use crate::environment::Environment;

/// Where the layers come from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The config file; `None` takes `gaia.toml` in the working folder when there is one.
    pub file: Option<&'a Path>,
    /// Flags and `--set`; later ones win.
    pub overrides: &'a [Override],
    pub environment: &'a Environment,
    pub working_dir: &'a Path,
    pub purpose: Purpose,
}

/// What the config must be complete for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A run: dataset, model, key and answer tool must be there.
    Run,
    /// `gaia tools`, `gaia call`, `gaia host`: server tables are enough.
    Tools,
}

/// A value from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// As the user typed it, for errors: `--set`, `--model`.
    pub flag: String,
    /// Dotted path: `model.name`.
    pub key: String,
    /// A TOML value; what is not one, or belongs to a key that takes text, is taken as text.
    pub value: String,
}

/// A config that can be used as it is.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Paths are resolved. Variables in `model` are expanded, those in `mcp_servers` are not: use `servers`.
    pub config: Config,
    /// All servers, those of `mcp_config` files included, variables expanded.
    pub servers: Vec<gaia_agent::tools::ServerSpec>,
    /// For `run.json`: all layers and defaults, secrets removed, variables unexpanded.
    pub effective: toml::Table,
    pub file: Option<PathBuf>,
    /// The folder of the config file, or the working folder.
    pub base: PathBuf,
    /// The environment with the `.env` files filled in, for a model server of this run's own.
    pub environment: Environment,
    /// Value of the variable that `model.api_key_env` names.
    pub api_key: Option<Secret>,
    /// The model of the strategy's other role, when it has one of its own.
    pub role: Option<RoleModel>,
    /// What must never be written anywhere.
    pub secrets: Secrets,
    /// For stderr; nothing that stops a run.
    pub warnings: Vec<String>,
}

/// A model that takes part in a strategy beside `[model]`.
#[derive(Debug, Clone)]
pub struct RoleModel {
    pub name: RoleName,
    /// Variables are expanded.
    pub config: ModelConfig,
    pub api_key: Option<Secret>,
}

/// The config cannot be used; exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file (or a `.env`) is there but cannot be read, or was named and is not there.
    #[error("failed to read the config: {error}{hint}")]
    Unreadable {
        /// Empty, or a line of its own.
        hint: String,
        error: std::io::Error,
    },
    /// Everything that was found wrong, each with its place.
    #[error("failed to load the config: {}", problems(.0))]
    Invalid(Vec<Problem>),
}

fn problems(problems: &[Problem]) -> String {
    let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    match texts.as_slice() {
        [only] => only.clone(),
        _ => format!("{} problems\n{}", texts.len(), texts.join("\n")),
    }
}
