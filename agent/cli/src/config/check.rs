//! What types cannot say: values that do not go together, and what is missing for the purpose.

use globset::Glob;

use super::layers::Layers;
use super::problem::{Place, Problem, did_you_mean};
use super::settings::{AgentConfig, BudgetConfig, Config, MAX_CONCURRENCY, ModelConfig};
use super::strategy::{ExternalConfig, StrategyConfig, StrategyName};
use super::{Purpose, ScopeConfig, ServerConfig, TransportConfig};
use crate::agent::Agent;
use crate::environment::{FILES_DIR, MANY, QUESTION, RUN_ID, SAMPLE_ID};

/// Finds everything at once, so that one edit can mend it.
pub(super) fn check(config: &Config, purpose: Purpose, layers: &Layers) -> Vec<Problem> {
    let mut check = Check { layers, problems: Vec::new() };
    for (name, server) in config.mcp_servers.iter().filter(|(_, server)| server.enabled) {
        check.server(name, server);
    }
    if purpose == Purpose::Run {
        check.dataset(config);
        if !config.external.is_wanted() {
            check.model(&config.model);
        }
        check.strategy(&config.strategy, &config.agent);
        check.external(&config.external, &config.strategy);
        check.agent(&config.agent, config);
        check.budgets(config);
        let run = &config.run;
        for (name, count) in [
            ("concurrency", Some(run.concurrency)),
            ("sandboxes", run.sandboxes),
            ("model_calls", run.model_calls),
        ] {
            match count {
                Some(0) => check.value(&["run", name], "must be at least 1"),
                Some(count) if count > MAX_CONCURRENCY => {
                    check.value(&["run", name], &format!("must be at most {MAX_CONCURRENCY}"));
                }
                _ => {}
            }
        }
        if config.run.epochs == 0 {
            check.value(&["run", "epochs"], "must be at least 1");
        }
        let staged = config.run.staged;
        for (name, share) in [("level_1", staged.level_1), ("level_2", staged.level_2)] {
            if !(0.0..=1.0).contains(&share) {
                check.value(&["run", "staged", name], "is a share: from 0 to 1, such as 0.6");
            }
        }
    }
    check.problems
}

struct Check<'a> {
    layers: &'a Layers,
    problems: Vec<Problem>,
}

pub(super) fn path(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

impl Check<'_> {
    fn value(&mut self, keys: &[&str], message: &str) {
        let place = self.layers.value_place(&path(keys));
        self.at(place, format!("`{}` {message}", keys.join(".")));
    }

    fn key(&mut self, keys: &[&str], message: impl Into<String>) {
        self.at(self.layers.key_place(&path(keys)), message);
    }

    fn at(&mut self, place: Option<Place>, message: impl Into<String>) {
        self.problems.push(Problem::new(place, message));
    }

    fn missing(&mut self, keys: &[&str], hint: &str) {
        let place = self.layers.key_place(&path(keys));
        self.problems.push(Problem::new(place, format!("`{}` is missing", keys.join("."))).hint(hint));
    }

    fn dataset(&mut self, config: &Config) {
        let dataset = &config.dataset;
        if dataset.path.is_none() && dataset.hub.is_none() {
            self.missing(
                &["dataset", "path"],
                "name the folder of a GAIA snapshot in the config, by `--dataset PATH` or in `GAIA_DATASET`; or name the \
                 hub that `gaia dataset pull` gets one from in `dataset.hub`",
            );
        }
        if dataset.limit == Some(0) {
            self.value(&["dataset", "limit"], "must be at least 1");
        }
    }

    fn model(&mut self, model: &ModelConfig) {
        if model.name.as_ref().is_none_or(|name| name.trim().is_empty()) {
            self.missing(
                &["model", "name"],
                "name the model in the config, by `--model NAME` or in `GAIA_MODEL`",
            );
        }
        if model.server.is_some() && model.base_url.is_some() {
            self.key(
                &["model", "base_url"],
                "`model.base_url` and `[model.server]` exclude each other: the server says its own address",
            );
        }
        if let Some(server) = &model.server
            && server.command.trim().is_empty()
        {
            self.value(&["model", "server", "command"], "is empty");
        }
        if let Some(name) = &model.api_key_env
            && !super::expand::is_variable_name(name)
        {
            // Not repeated: it may well be the key.
            self.key(
                &["model", "api_key_env"],
                "`model.api_key_env` must be the NAME of an environment variable, such as `OPENAI_API_KEY`, \
                 not the key itself",
            );
        }
        for (index, prefix) in model.accepts.iter().enumerate() {
            if !prefix.contains('/') {
                let message = format!("`{prefix}` is not the start of a media type, such as `image/`");
                self.at(self.layers.value_place(&path(&["model", "accepts", &index.to_string()])), message);
            }
        }
        let limits = [
            ("context_window", model.context_window),
            ("max_concurrent_requests", model.max_concurrent_requests.map(u64::from)),
            ("requests_per_minute", model.requests_per_minute.map(u64::from)),
            ("tokens_per_minute", model.tokens_per_minute),
        ];
        for (name, limit) in limits {
            if limit == Some(0) {
                self.value(&["model", name], "must be at least 1");
            }
        }
        if let Some(price) = model.price {
            let prices = [
                ("input", Some(price.input)),
                ("cached", price.cached),
                ("output", Some(price.output)),
                ("reasoning", price.reasoning),
            ];
            for (name, price) in prices {
                if price.is_some_and(|price| !price.is_finite() || price < 0.0) {
                    self.value(&["model", "price", name], "must not be negative");
                }
            }
        }
        for reserved in ["messages", "input", "tools", "stream", "model"] {
            if model.params.contains_key(reserved) {
                let message = format!("`{reserved}` is set by the loop and cannot be a parameter");
                self.key(&["model", "params", reserved], message);
            }
        }
    }

    fn agent(&mut self, agent: &AgentConfig, config: &Config) {
        /// Less cannot hold the line that says how much is missing.
        const MIN_RESULT_BYTES: usize = 256;
        if agent.max_steps == 0 {
            self.value(&["agent", "max_steps"], "must be at least 1");
        }
        if agent.result_bytes < MIN_RESULT_BYTES {
            self.value(&["agent", "result_bytes"], "must be at least 256");
        }
        match agent.answer_tool.split_once('/') {
            Some((server, tool)) if !server.is_empty() && !tool.is_empty() => {
                if !config.mcp_servers.get(server).is_some_and(|server| server.enabled) {
                    let near = did_you_mean(server, config.mcp_servers.keys().map(String::as_str));
                    let place = self.layers.value_place(&path(&["agent", "answer_tool"]));
                    let message = format!(
                        "the answer tool `{}` needs a server `{server}`, which the config does not have{near}",
                        agent.answer_tool
                    );
                    let hint =
                        format!("add `[mcp_servers.{server}]`, or name another tool in `agent.answer_tool`");
                    self.problems.push(Problem::new(place, message).hint(hint));
                }
            }
            _ => self.value(&["agent", "answer_tool"], "must be of the form `server/tool`"),
        }
    }

    fn strategy(&mut self, strategy: &StrategyConfig, agent: &AgentConfig) {
        if strategy.runs == 0 {
            self.value(&["strategy", "runs"], "must be at least 1");
        } else if strategy.name == StrategyName::Vote && agent.max_steps / strategy.runs < 2 {
            let message = format!(
                "= {} needs `agent.max_steps` of at least {}: a turn and a last call for each run",
                strategy.runs,
                strategy.runs.saturating_mul(2)
            );
            self.value(&["strategy", "runs"], &message);
        }
        if strategy.replan_every == 0 {
            self.value(&["strategy", "replan_every"], "must be at least 1");
        }
        if strategy.helper_steps < 2 {
            self.value(&["strategy", "helper_steps"], "must be at least 2: a turn and a last call");
        }
        for (role, table) in strategy.tables() {
            for key in ["server", "rehearsal", "catalog"] {
                if table.is_some_and(|table| table.contains_key(key)) {
                    let message = format!("`{key}` belongs into `[model]`: it counts for all roles");
                    self.key(&["strategy", role.as_str(), key], message);
                }
            }
            let variable = table.and_then(|table| table.get("api_key_env")).and_then(toml::Value::as_str);
            if variable.is_some_and(|name| !super::expand::is_variable_name(name)) {
                // Not repeated: it may well be the key.
                let message = format!(
                    "`strategy.{}.api_key_env` must be the NAME of an environment variable, not the key itself",
                    role.as_str()
                );
                self.key(&["strategy", role.as_str(), "api_key_env"], message);
            }
        }
    }

    fn external(&mut self, external: &ExternalConfig, strategy: &StrategyConfig) {
        for (index, variable) in external.env_vars.iter().enumerate() {
            if !super::expand::is_variable_name(variable) {
                let place = self.layers.value_place(&path(&["external", "env_vars", &index.to_string()]));
                self.at(place, "`external.env_vars` holds NAMES of variables, not values");
            }
        }
        if !external.is_wanted() {
            return;
        }
        if let Err(error) = Agent::read(external.agent.as_deref().unwrap_or_default()) {
            self.value(&["external", "agent"], &error.to_string());
        }
        if strategy.name != StrategyName::React {
            let message = "is for gaia's own loop: an agent of others has its own";
            self.value(&["strategy", "name"], message);
        }
    }

    fn budgets(&mut self, config: &Config) {
        for (section, budget) in [
            ("agent", config.agent.budget),
            ("run", BudgetConfig { tokens: config.run.budget.tokens, cost_usd: config.run.budget.cost_usd }),
        ] {
            if budget.tokens == Some(0) {
                self.value(&[section, "budget", "tokens"], "must be at least 1");
            }
            let Some(cost) = budget.cost_usd else { continue };
            if !cost.is_finite() || cost <= 0.0 {
                self.value(&[section, "budget", "cost_usd"], "must be above 0");
            }
        }
    }

    fn server(&mut self, name: &str, server: &ServerConfig) {
        let keys = ["mcp_servers", name];
        let allowed = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        if name.is_empty() || !name.chars().all(allowed) {
            self.key(&keys, format!("`{name}` is not a server name: use letters, digits, `_` and `-`"));
        }
        let only =
            |key: &str, with: &str| format!("`{key}` of server `{name}` belongs to servers with `{with}`");
        match (&server.command, &server.url) {
            (None, None) => self.key(
                &keys,
                format!("server `{name}` has neither `command` (a program) nor `url` (an endpoint)"),
            ),
            (Some(_), Some(_)) => self.key(
                &["mcp_servers", name, "url"],
                format!("server `{name}` has both `command` and `url`: keep the one that is meant"),
            ),
            (Some(command), None) => {
                if command.trim().is_empty() {
                    self.value(&["mcp_servers", name, "command"], "is empty");
                }
                if server.transport.is_some_and(|transport| transport != TransportConfig::Stdio) {
                    self.value(&["mcp_servers", name, "type"], "belongs to servers with `url`");
                }
                let wrong = [
                    ("headers", !server.headers.is_empty()),
                    ("env_http_headers", !server.env_http_headers.is_empty()),
                    ("bearer_token_env_var", server.bearer_token_env_var.is_some()),
                ];
                for (key, _) in wrong.iter().filter(|(_, there)| *there) {
                    self.key(&["mcp_servers", name, key], only(key, "url"));
                }
            }
            (None, Some(_)) => {
                if server.transport == Some(TransportConfig::Stdio) {
                    self.value(&["mcp_servers", name, "type"], "belongs to servers with `command`");
                }
                let wrong = [
                    ("args", !server.args.is_empty()),
                    ("env", !server.env.is_empty()),
                    ("env_vars", !server.env_vars.is_empty()),
                    ("env_file", server.env_file.is_some()),
                    ("cwd", server.cwd.is_some()),
                ];
                for (key, _) in wrong.iter().filter(|(_, there)| *there) {
                    self.key(&["mcp_servers", name, key], only(key, "command"));
                }
            }
        }
        if let Some(prefix) = &server.prefix
            && !prefix.chars().all(allowed)
        {
            let message = "may hold letters, digits, `_` and `-`, as the names of tools do";
            self.value(&["mcp_servers", name, "prefix"], message);
        }
        match server.max_concurrent_calls {
            Some(0) => self.value(&["mcp_servers", name, "max_concurrent_calls"], "must be at least 1"),
            Some(_) if server.scope == ScopeConfig::Sample => self.value(
                &["mcp_servers", name, "max_concurrent_calls"],
                "bounds a server that all samples share: add `scope = \"run\"`, or bound the samples by `run.concurrency`",
            ),
            _ => {}
        }
        self.variables(name, server);
        self.globs(name, "enabled_tools", server.enabled_tools.as_deref().unwrap_or_default());
        self.globs(name, "disabled_tools", &server.disabled_tools);
        if server.enabled_tools.as_ref().is_some_and(Vec::is_empty) {
            let message = format!(
                "`enabled_tools` of server `{name}` is empty, which leaves no tool: remove the key or the server"
            );
            self.key(&["mcp_servers", name, "enabled_tools"], message);
        }
    }

    fn variables(&mut self, name: &str, server: &ServerConfig) {
        for variable in server.env.keys() {
            if variable.is_empty() || variable.contains(['=', '\0']) {
                let message = format!("`{}` is not the name of a variable", variable.escape_debug());
                self.key(&["mcp_servers", name, "env", variable], message);
            } else if [RUN_ID, SAMPLE_ID, FILES_DIR, QUESTION, MANY].contains(&variable.as_str()) {
                let message =
                    format!("`{variable}` is set by gaia for every sample and cannot be configured");
                self.key(&["mcp_servers", name, "env", variable], message);
            }
        }
        for (index, variable) in server.env_vars.iter().enumerate() {
            if !super::expand::is_variable_name(variable) {
                let place =
                    self.layers.value_place(&path(&["mcp_servers", name, "env_vars", &index.to_string()]));
                self.at(place, "`env_vars` holds NAMES of variables; values belong into `env`");
            }
        }
        if let Some(variable) = &server.bearer_token_env_var
            && !super::expand::is_variable_name(variable)
        {
            let message =
                "`bearer_token_env_var` must be the NAME of an environment variable, not the token itself";
            self.key(&["mcp_servers", name, "bearer_token_env_var"], message);
        }
        for (header, variable) in &server.env_http_headers {
            if !super::expand::is_variable_name(variable) {
                let message = "`env_http_headers` holds NAMES of variables; values belong into `headers`";
                self.key(&["mcp_servers", name, "env_http_headers", header], message);
            }
        }
        for header in server.headers.keys().chain(server.env_http_headers.keys()) {
            let token =
                |character: char| character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character);
            if header.is_empty() || !header.chars().all(token) {
                let message = format!("`{}` is not the name of a header", header.escape_debug());
                self.key(&["mcp_servers", name, "headers", header], message);
            }
        }
    }

    fn globs(&mut self, name: &str, key: &str, globs: &[String]) {
        for (index, glob) in globs.iter().enumerate() {
            if let Err(error) = Glob::new(glob) {
                let place = self.layers.value_place(&path(&["mcp_servers", name, key, &index.to_string()]));
                self.at(place, format!("`{glob}` is not a glob: {}", error.kind()));
            }
        }
    }
}
