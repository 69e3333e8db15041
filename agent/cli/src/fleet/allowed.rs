//! What a worker lets a job decide. A job says what is asked and how; which programs are started, where requests go and
//! which variables are read as keys is the worker's own business, unless it was started to trust the coordinator.

use std::path::PathBuf;

use toml::{Table, Value};

use crate::store::RunRecord;

/// Whose commands a worker starts.
#[derive(Debug, Clone)]
pub enum Commands {
    /// Those of its own configs.
    Own(Vec<OwnConfig>),
    /// Whatever a job names.
    OfCoordinator,
}

/// A config of the worker's own.
#[derive(Debug, Clone)]
pub struct OwnConfig {
    pub path: PathBuf,
    /// Where its relative paths belong.
    pub base: PathBuf,
    /// All layers and defaults, variables unexpanded.
    pub effective: Table,
}

/// Of a server: where things are on this machine, and how patiently it is waited for. The rest decides what the model
/// is offered and must be the same.
const LOCAL_KEYS: [&str; 6] =
    ["cwd", "env_file", "startup_timeout_sec", "tool_timeout_sec", "bearer_token_env_var", "headers"];

/// Where a model is and whose key is sent.
const ENDPOINT_KEYS: [&str; 4] = ["base_url", "api_key_env", "server", "catalog"];

impl Commands {
    /// Puts what is the worker's own into the config of the run.
    ///
    /// # Errors
    /// In words, when none of the worker's configs has what the run needs.
    pub(super) fn permit(&self, record: &mut RunRecord) -> Result<(), String> {
        let Self::Own(configs) = self else { return Ok(()) };
        let mut reasons = Vec::new();
        for config in configs {
            match config.permit(&record.config) {
                Ok(permitted) => {
                    // An agent of others has a label in the place of the model's name, which nobody expands.
                    if wanted_agent(&permitted).is_none() && record.model.contains("${") {
                        return Err(
                            "the name of the model would be read from this worker's variables".to_owned()
                        );
                    }
                    record.config = permitted;
                    record.config_base.clone_from(&config.base);
                    return Ok(());
                }
                Err(reason) => reasons.push(format!("`{}`: {reason}", config.path.display())),
            }
        }
        let reasons = match reasons.is_empty() {
            true => "it has none".to_owned(),
            false => reasons.join("; "),
        };
        Err(format!(
            "no config of this worker allows what the run would start ({reasons}); give it one with --config, or start \
             it with --trust-coordinator"
        ))
    }
}

impl OwnConfig {
    fn permit(&self, job: &Table) -> Result<Table, String> {
        let mut permitted = job.clone();
        // Files of other hosts on this machine, with commands in them. Those that this worker was given are in its
        // `mcp_servers` already.
        permitted.remove("mcp_config");
        let own_servers = table(&self.effective, "mcp_servers");
        let mut servers = Table::new();
        for (name, wanted) in table(job, "mcp_servers").into_iter().flatten() {
            let own = own_servers.and_then(|servers| servers.get(name));
            let Some(own) = own else { return Err(format!("it has no MCP server `{name}`")) };
            if let Some(key) = first_difference(own, wanted) {
                return Err(format!("its MCP server `{name}` differs in `{key}`"));
            }
            servers.insert(name.clone(), own.clone());
        }
        permitted.insert("mcp_servers".to_owned(), Value::Table(servers));
        let agent =
            |config: &Table| table(config, "external").and_then(|external| external.get("agent")).cloned();
        if agent(job) != agent(&self.effective) && agent(job).is_some() {
            return Err("it has no such `external.agent`".to_owned());
        }
        if let Some(external) = self.effective.get("external").filter(|_| agent(job).is_some()) {
            permitted.insert("external".to_owned(), external.clone());
        }
        let has_server =
            |config: &Table| table(config, "model").is_some_and(|model| model.contains_key("server"));
        if has_server(job) && !has_server(&self.effective) {
            return Err("it has no `[model.server]`".to_owned());
        }
        take_endpoint(permitted.get_mut("model"), self.effective.get("model"));
        if let Some(Value::Table(strategy)) = permitted.get_mut("strategy") {
            let own = table(&self.effective, "strategy");
            for (role, settings) in strategy.iter_mut().filter(|(_, settings)| settings.is_table()) {
                let own = own.and_then(|own| own.get(role));
                take_endpoint(Some(settings), own);
                let name = settings.get("name");
                if name.and_then(Value::as_str).is_some_and(|name| name.contains("${"))
                    && name != own.and_then(|own| own.get("name"))
                {
                    return Err(format!(
                        "it does not say which variable `strategy.{role}.name` is read from"
                    ));
                }
            }
        }
        Ok(permitted)
    }
}

fn table<'a>(config: &'a Table, key: &str) -> Option<&'a Table> {
    config.get(key).and_then(Value::as_table)
}

fn wanted_agent(config: &Table) -> Option<&str> {
    table(config, "external")?.get("agent")?.as_str().filter(|agent| *agent != "loop")
}

fn take_endpoint(settings: Option<&mut Value>, own: Option<&Value>) {
    let Some(Value::Table(settings)) = settings else { return };
    for key in ENDPOINT_KEYS {
        match own.and_then(|own| own.get(key)) {
            Some(value) => settings.insert(key.to_owned(), value.clone()),
            None => settings.remove(key),
        };
    }
}

/// Two tables of a server; a program is the same wherever it is.
fn first_difference(own: &Value, wanted: &Value) -> Option<String> {
    let (Value::Table(own), Value::Table(wanted)) = (own, wanted) else { return Some(String::new()) };
    let program = |value: &Value| value.as_str().and_then(|path| path.rsplit('/').next()).map(str::to_owned);
    let keys = own.keys().chain(wanted.keys());
    let differs = |key: &&String| {
        let (left, right) = (own.get(*key), wanted.get(*key));
        match key.as_str() {
            "command" => left.and_then(program) != right.and_then(program),
            key if LOCAL_KEYS.contains(&key) => false,
            _ => left != right,
        }
    };
    keys.into_iter().find(differs).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_record;

    fn own() -> Table {
        toml::toml! {
            [model]
            base_url = "http://own/v1"
            [mcp_servers.bash]
            command = "/opt/gaia/gaia-mcp-bash"
            args = ["--network", "off"]
            startup_timeout_sec = 60
        }
    }

    fn permit(job: Table) -> Result<RunRecord, String> {
        let config = OwnConfig { path: "own.toml".into(), base: "/own".into(), effective: own() };
        let mut record = test_record(&[]);
        record.config = job;
        Commands::Own(vec![config]).permit(&mut record).map(|()| record)
    }

    #[test]
    fn commands_endpoints_and_names_of_keys_are_the_workers_own() {
        let record = permit(toml::toml! {
            [model]
            name = "m"
            base_url = "http://evil/v1"
            api_key_env = "AWS_SECRET_ACCESS_KEY"
            [agent]
            max_steps = 7
            [strategy.verifier]
            base_url = "http://evil/v1"
            [mcp_servers.bash]
            command = "gaia-mcp-bash"
            args = ["--network", "off"]
            startup_timeout_sec = 5
        })
        .unwrap();
        let text = record.config.to_string();
        assert!(!text.contains("evil") && !text.contains("AWS"), "{text}");
        assert!(text.contains("http://own/v1") && text.contains("/opt/gaia/gaia-mcp-bash"), "{text}");
        assert_eq!(record.config["agent"]["max_steps"].as_integer(), Some(7));
        assert_eq!(record.config_base, PathBuf::from("/own"));
    }

    #[test]
    fn a_job_brings_no_files_of_other_hosts_and_reads_no_variable_into_what_is_sent() {
        let record = permit(toml::toml! {
            mcp_config = ["/home/somebody/.claude.json"]
            [model]
            name = "m"
        });
        assert!(!record.unwrap().config.contains_key("mcp_config"));
        let role = permit(toml::toml! {
            [strategy.verifier]
            name = "${DATABASE_URL}"
        });
        assert!(role.unwrap_err().contains("`strategy.verifier.name`"));
        let config = OwnConfig { path: "own.toml".into(), base: "/own".into(), effective: own() };
        let mut record = test_record(&[]);
        record.config = Table::new();
        record.model = "${DATABASE_URL}".to_owned();
        assert!(Commands::Own(vec![config]).permit(&mut record).unwrap_err().contains("variables"));
    }

    #[test]
    fn environment_folder_and_address_of_a_server_are_the_workers_own() {
        let servers = |more: Table| {
            let mut server = toml::toml! {
                command = "/opt/gaia/gaia-mcp-bash"
                args = ["--network", "off"]
            };
            server.extend(more);
            let mut servers = Table::new();
            servers.insert("bash".to_owned(), Value::Table(server));
            let mut job = Table::new();
            job.insert("mcp_servers".to_owned(), Value::Table(servers));
            permit(job)
        };
        for more in [
            toml::toml! { env = { LD_PRELOAD = "/tmp/evil.so" } },
            toml::toml! { env_vars = ["AWS_SECRET_ACCESS_KEY"] },
            toml::toml! { url = "http://evil/${AWS_SECRET_ACCESS_KEY}" },
            toml::toml! { env_http_headers = { X = "AWS_SECRET_ACCESS_KEY" } },
        ] {
            let key = more.keys().next().cloned().unwrap();
            assert!(servers(more).unwrap_err().contains(&format!("differs in `{key}`")), "{key}");
        }
        // Taken from the worker, whatever the job says.
        let taken = servers(toml::toml! {
            cwd = "/root"
            env_file = "/root/.env"
            bearer_token_env_var = "AWS_SECRET_ACCESS_KEY"
            headers = { X = "${AWS_SECRET_ACCESS_KEY}" }
        });
        let text = taken.unwrap().config.to_string();
        assert!(!text.contains("root") && !text.contains("AWS"), "{text}");
    }

    #[test]
    fn what_no_config_has_is_refused_with_what_is_missing() {
        let other = permit(toml::toml! {
            [mcp_servers.rm]
            command = "rm"
        });
        assert!(other.unwrap_err().contains("no MCP server `rm`"));
        let differs = permit(toml::toml! {
            [mcp_servers.bash]
            command = "gaia-mcp-bash"
            args = ["--network", "on"]
        });
        assert!(differs.unwrap_err().contains("differs in `args`"));
        let program = permit(toml::toml! {
            [mcp_servers.bash]
            command = "sh"
            args = ["--network", "off"]
        });
        assert!(program.unwrap_err().contains("differs in `command`"));
        let agent = permit(toml::toml! {
            [external]
            agent = "command:rm -rf /"
        });
        assert!(agent.unwrap_err().contains("external.agent"));
        let server = permit(toml::toml! {
            [model.server]
            command = "sh"
        });
        assert!(server.unwrap_err().contains("[model.server]"));
        let mut record = test_record(&[]);
        assert!(Commands::Own(vec![]).permit(&mut record).unwrap_err().contains("--trust-coordinator"));
        Commands::OfCoordinator.permit(&mut record).unwrap();
    }
}
