//! Every environment variable that `gaia` knows, and a snapshot of the environment, so that nothing reads it
//! in the middle of the program and tests need not change it.

use std::collections::BTreeMap;

/// A variable that sets a key of the config, above the file and below flags.
#[derive(Debug, Clone, Copy)]
pub struct ConfigVariable {
    pub name: &'static str,
    /// Dotted path of the key.
    pub key: &'static str,
    pub help: &'static str,
}

/// The environment layer of the config. A variable that is set but empty counts as not set.
pub const CONFIG_VARIABLES: &[ConfigVariable] = &[
    ConfigVariable { name: "GAIA_DATASET", key: "dataset.path", help: "folder of a GAIA snapshot" },
    ConfigVariable { name: "GAIA_SPLIT", key: "dataset.split", help: "`validation` or `test`" },
    ConfigVariable { name: "GAIA_LEVELS", key: "dataset.levels", help: "levels with commas between: `1,2`" },
    ConfigVariable { name: "GAIA_LIMIT", key: "dataset.limit", help: "the first so many samples" },
    ConfigVariable { name: "GAIA_MODEL", key: "model.name", help: "name of the model" },
    ConfigVariable { name: "GAIA_BASE_URL", key: "model.base_url", help: "root of an OpenAI-compatible API" },
    ConfigVariable {
        name: "GAIA_API_KEY_ENV",
        key: "model.api_key_env",
        help: "NAME of the variable that holds the API key",
    },
    ConfigVariable { name: "GAIA_MAX_STEPS", key: "agent.max_steps", help: "model turns for one sample" },
    ConfigVariable { name: "GAIA_SAMPLE_TIMEOUT", key: "agent.sample_timeout", help: "such as `30m`" },
    ConfigVariable { name: "GAIA_CONCURRENCY", key: "run.concurrency", help: "samples at the same time" },
    ConfigVariable { name: "GAIA_EPOCHS", key: "run.epochs", help: "times that every sample is run" },
    ConfigVariable { name: "GAIA_OUT", key: "run.out", help: "folder that holds all runs" },
];

/// Read by the presets through `${…}`, not by the config layer: the image of the bash sandbox.
pub const SANDBOX_IMAGE: &str = "GAIA_SANDBOX_IMAGE";

/// A filter for what is logged to stderr, such as `gaia=debug`.
pub const LOG: &str = "GAIA_LOG";

/// Who one is at a nats-server: what must not stand in an argument list.
pub const NATS_USER: &str = "GAIA_NATS_USER";
/// See [`NATS_USER`].
pub const NATS_PASSWORD: &str = "GAIA_NATS_PASSWORD";
/// See [`NATS_USER`].
pub const NATS_TOKEN: &str = "GAIA_NATS_TOKEN";

/// Not read from the environment: `${GAIA_CONFIG_DIR}` in a config is the folder of that config.
pub const CONFIG_DIR: &str = "GAIA_CONFIG_DIR";

/// Given to sample-scoped servers; their values in our own environment mean nothing to us.
pub const RUN_ID: &str = "GAIA_RUN_ID";
/// See [`RUN_ID`].
pub const SAMPLE_ID: &str = "GAIA_SAMPLE_ID";
/// See [`RUN_ID`]: a folder that holds only this sample's own attachment.
pub const FILES_DIR: &str = "GAIA_FILES_DIR";
/// See [`RUN_ID`]: the question, by which our web servers know a page that holds a copy of it.
pub const QUESTION: &str = "GAIA_QUESTION";

/// Given to an agent's program beside those above: its attachment on this machine, or empty.
pub const AGENT_FILE: &str = "GAIA_FILE";
/// See [`AGENT_FILE`]: where its tools are served, as streamable HTTP.
pub const MCP_URL: &str = "GAIA_MCP_URL";
/// See [`AGENT_FILE`]: the bearer token that opens them.
pub const MCP_TOKEN: &str = "GAIA_MCP_TOKEN";
/// See [`AGENT_FILE`]: a JSON file with the two, as Claude Code and others read it.
pub const MCP_CONFIG: &str = "GAIA_MCP_CONFIG";
/// Given, instead of those of a sample, to servers that are to serve many: calls name the sample.
pub const MANY: &str = "GAIA_MANY";

/// A snapshot of environment variables. Names and values that are not UTF-8 are left out.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// The environment of this process as it is now.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Like [`get`](Self::get), but a variable that is empty counts as not set.
    pub fn get_filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// Adds a variable unless it is there already, even if empty.
    pub fn fill(&mut self, name: String, value: String) {
        self.variables.entry(name).or_insert(value);
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self { variables: variables.into_iter().collect() }
    }
}

/// Names only: values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.names()).finish()
    }
}
