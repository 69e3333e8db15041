//! From a config as written to one that can be used: variables expanded, keys looked up.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gaia_agent::tools::oauth::TokenStore;
use gaia_agent::tools::{CallOrder, HttpWire, Redactor, ServerSpec, TransportSpec, is_plain_variable};

use super::check::path as path_of;
use super::dotenv;
use super::expand::{ExpandError, Expanded, Variables, is_variable_name};
use super::layers::Layers;
use super::problem::Problem;
use super::secret::{Secret, Secrets, is_ordinary_variable_name, looks_secret};
use super::settings::{Config, ModelConfig};
use super::source::{SourceKind, SourceText};
use super::{ServerConfig, TransportConfig};
use crate::environment::Environment;

pub(super) struct Resolver<'a> {
    pub(super) variables: Variables<'a>,
    pub(super) layers: &'a Layers,
    pub(super) secrets: Secrets,
    pub(super) problems: Vec<Problem>,
}

/// Whether what a text gives is kept out of outputs.
#[derive(Clone, Copy)]
enum Kept<'a> {
    /// Values of `env` and `headers`, with the name they have there: all that came from variables, and
    /// literals under names that look like secrets.
    Confidential(&'a str),
    /// Arguments and addresses: variables whose names look like secrets.
    Plain,
}

impl Resolver<'_> {
    pub(super) fn servers(&mut self, config: &Config) -> Vec<ServerSpec> {
        let enabled = config.mcp_servers.iter().filter(|(_, server)| server.enabled);
        enabled.filter_map(|(name, server)| self.server(name, server)).collect()
    }

    fn server(&mut self, name: &str, server: &ServerConfig) -> Option<ServerSpec> {
        let keys = ["mcp_servers", name];
        let transport = if let Some(command) = &server.command {
            let mut env = BTreeMap::new();
            for variable in &server.env_vars {
                if let Some(value) = self.variables.environment.get(variable) {
                    self.keep(variable, value);
                    env.insert(variable.clone(), value.to_owned());
                }
            }
            if let Some(file) = &server.env_file {
                env.extend(self.file(&["mcp_servers", name, "env_file"], file));
            }
            env.extend(self.table(&keys, "env", &server.env));
            TransportSpec::Stdio {
                command: self.text(&["mcp_servers", name, "command"], command, Kept::Plain),
                args: self.list(&["mcp_servers", name, "args"], &server.args),
                env,
                cwd: server.cwd.as_ref().map(|cwd| {
                    PathBuf::from(self.text(
                        &["mcp_servers", name, "cwd"],
                        &cwd.to_string_lossy(),
                        Kept::Plain,
                    ))
                }),
            }
        } else {
            let url = self.url(&["mcp_servers", name, "url"], server.url.as_deref()?);
            let mut headers = self.table(&keys, "headers", &server.headers);
            for (header, variable) in &server.env_http_headers {
                let keys = ["mcp_servers", name, "env_http_headers", header];
                let value = self.secret_variable(&keys, variable);
                headers.extend(value.map(|value| (header.clone(), value.expose().to_owned())));
            }
            let bearer_token = server.bearer_token_env_var.as_deref().and_then(|variable| {
                self.secret_variable(&["mcp_servers", name, "bearer_token_env_var"], variable)
            });
            let bearer_token = bearer_token.map(|token| token.expose().to_owned());
            let wire = match server.transport {
                Some(TransportConfig::Sse) => HttpWire::Sse,
                _ => HttpWire::Auto,
            };
            // A token of the config's own comes before one of `gaia login`.
            let authorized = bearer_token.is_some()
                || headers.keys().any(|header| header.eq_ignore_ascii_case("authorization"));
            let tokens = if authorized { None } else { token_store(self.variables.environment) };
            TransportSpec::Http { url, headers, bearer_token, wire, tokens }
        };
        Some(ServerSpec {
            name: name.to_owned(),
            transport,
            scope: server.scope.into(),
            enabled_tools: server.enabled_tools.clone(),
            disabled_tools: server.disabled_tools.clone(),
            startup_timeout: server.startup_timeout_sec,
            tool_timeout: server.tool_timeout_sec,
            max_concurrent_calls: server.max_concurrent_calls.and_then(NonZeroUsize::new),
            required: server.required,
            protocol: server.protocol.into(),
            call_order: if server.supports_parallel_tool_calls {
                CallOrder::SideBySide
            } else {
                CallOrder::AsDeclared
            },
            redactor: Redactor::default(),
            prefix: server.prefix.clone(),
        })
    }

    /// Expands in place and returns the key. `table` is where the model stands in the config.
    pub(super) fn model(&mut self, table: &[&str], model: &mut ModelConfig) -> Option<Secret> {
        if let Some(base_url) = &mut model.base_url {
            *base_url = self.url(&[table, &["base_url"]].concat(), base_url);
        }
        if let Some(name) = &mut model.name {
            *name = self.text(&[table, &["name"]].concat(), name, Kept::Plain);
        }
        if let Some(server) = &mut model.server {
            server.command = self.text(&["model", "server", "command"], &server.command, Kept::Plain);
            server.args = self.list(&["model", "server", "args"], &server.args);
        }
        let variable = model.api_key_env.clone()?;
        // A rehearsal needs no key and must not be given one.
        if model.rehearsal {
            None
        } else {
            self.secret_variable(&[table, &["api_key_env"]].concat(), &variable)
        }
    }

    /// The variables of an `env_file`.
    fn file(&mut self, keys: &[&str], path: &Path) -> Vec<(String, String)> {
        let path = PathBuf::from(self.text(keys, &path.to_string_lossy(), Kept::Plain));
        let found = match fs_err::read(&path) {
            Ok(bytes) => SourceText::decode(&path, Path::new(""), bytes, SourceKind::Variables)
                .and_then(|source| dotenv::parse(&source)),
            Err(error) => {
                let place = self.layers.value_place(&path_of(keys));
                Err(Problem::new(place, format!("`{}`: {error}", keys.join("."))))
            }
        };
        match found {
            Ok(variables) => {
                variables.iter().for_each(|(name, value)| self.keep(name, value));
                variables
            }
            Err(problem) => {
                self.problems.push(problem);
                Vec::new()
            }
        }
    }

    fn secret_variable(&mut self, keys: &[&str], variable: &str) -> Option<Secret> {
        let Some(value) = self.variables.environment.get_filled(variable) else {
            let place = self.layers.value_place(&path_of(keys));
            if !is_variable_name(variable) && keys.last() == Some(&"api_key_env") {
                // Told already, for it is none whatever is set.
                return None;
            }
            if !is_ordinary_variable_name(variable) {
                // Not repeated: it may well be the key.
                let message = format!(
                    "`{}` must be the NAME of an environment variable, and no variable is called what stands there",
                    keys.join(".")
                );
                let hint = "export the key as a variable, such as `OPENAI_API_KEY`, and name that";
                self.problems.push(Problem::new(place, message).hint(hint));
                return None;
            }
            let message =
                format!("environment variable `{variable}` is not set, which `{}` names", keys.join("."));
            let hint = format!("export it, or put `{variable}=…` into a `.env` beside the config");
            self.problems.push(Problem::new(place, message).hint(hint));
            return None;
        };
        self.secrets.insert(value);
        Some(Secret::new(value))
    }

    fn url(&mut self, keys: &[&str], text: &str) -> String {
        let before = self.problems.len();
        let url = self.text(keys, text, Kept::Plain);
        if let Some((_, rest)) = url.split_once("://")
            && let Some((user, _)) = rest.split(['/', '?', '#']).next().unwrap_or_default().rsplit_once('@')
        {
            self.secrets.insert(user);
            // As HTTP sends it, and a server may repeat it.
            self.secrets.insert(&STANDARD.encode(user));
            self.secrets.insert(user.split_once(':').map_or(user, |(_, password)| password));
        }
        let known =
            ["http://", "https://"].iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme));
        if !known && self.problems.len() == before {
            let place = self.layers.value_place(&path_of(keys));
            let message = format!("`{}` must start with `http://` or `https://`", keys.join("."));
            self.problems.push(Problem::new(place, message));
        }
        url
    }

    fn list(&mut self, keys: &[&str], texts: &[String]) -> Vec<String> {
        let expand = |(index, text): (usize, &String)| {
            let index = index.to_string();
            let keys: Vec<&str> = keys.iter().copied().chain([index.as_str()]).collect();
            self.text(&keys, text, Kept::Plain)
        };
        texts.iter().enumerate().map(expand).collect()
    }

    fn table(
        &mut self,
        keys: &[&str],
        key: &str,
        texts: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let expand = |(name, text): (&String, &String)| {
            let keys: Vec<&str> = keys.iter().copied().chain([key, name.as_str()]).collect();
            (name.clone(), self.text(&keys, text, Kept::Confidential(name)))
        };
        texts.iter().map(expand).collect()
    }

    fn text(&mut self, keys: &[&str], text: &str, kept: Kept<'_>) -> String {
        let Expanded { text, used } = match self.variables.expand(text) {
            Ok(expanded) => expanded,
            Err(error) => {
                self.problems.push(self.problem(keys, &error));
                return text.to_owned();
            }
        };
        for (variable, value) in &used {
            match kept {
                Kept::Confidential(_) => self.keep(variable, value),
                Kept::Plain if looks_secret(variable) => self.secrets.insert(value),
                Kept::Plain => {}
            }
        }
        if let Kept::Confidential(name) = kept
            && looks_secret(name)
        {
            self.secrets.insert(without_scheme(&text));
        }
        text
    }

    fn keep(&mut self, variable: &str, value: &str) {
        if !is_plain_variable(variable) {
            self.secrets.insert(value);
        }
    }

    fn problem(&self, keys: &[&str], error: &ExpandError) -> Problem {
        let place = self.layers.value_place(&path_of(keys)).map(|place| place.narrow(error.reference()));
        let problem = Problem::new(place, format!("`{}`: {error}", keys.join(".")));
        match error {
            ExpandError::NotSet { name, .. } => problem.hint(format!(
                "set it, put `{name}=…` into a `.env` beside the config, or give a default: `${{{name}:-…}}`"
            )),
            ExpandError::Malformed { .. } => problem.hint("write `$${` for a literal `${`"),
        }
    }
}

/// Where the tokens of `gaia login` are; `None` for a user without a home.
pub(crate) fn token_store(environment: &Environment) -> Option<TokenStore> {
    let state = match environment.get_filled("XDG_STATE_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(environment.get_filled("HOME")?).join(".local/state"),
    };
    Some(TokenStore::new(state.join("gaia/logins.json")))
}

/// The credential in a header such as `Bearer abc`.
pub(super) fn without_scheme(value: &str) -> &str {
    let scheme = |prefix: &&str| {
        value.len() > prefix.len()
            && value.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let length =
        ["Bearer ", "Basic ", "Token "].iter().find(|prefix| scheme(prefix)).map_or(0, |prefix| prefix.len());
    value[length..].trim()
}
