//! Everything a run needs, checked and started before its directory exists: the model endpoint, every server, the
//! answer tool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gaia_agent::model::catalog::{Catalog, Known};
use gaia_agent::model::{
    ChatModel, Endpoint, EndpointLimits, ModelError, ModelRequest, ModelSettings, Reply, RetryObserver,
    connect,
};
use gaia_agent::strategy::Role;
use gaia_agent::tools::{Notice, NoticeSink, Scope, Server, ServerSpec, StartError, ToolHost};
use gaia_agent::{AgentSettings, Budget, settings::Price};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::config::{DEFAULT_BASE_URL, Loaded, ModelConfig, Secret};
use crate::console::Console;
use crate::environment::{FILES_DIR, MANY, RUN_ID, SAMPLE_ID};
use crate::exit_code::{CommandError, CommandResult};
use crate::model_limit::LimitedModel;
use crate::model_server::ModelServer;
use crate::prompt::system_prompt;
use crate::sample::staged_prefix;

/// `GAIA_SAMPLE_ID` of the servers that are started only to see whether they start.
const PREFLIGHT_SAMPLE: &str = "preflight";

/// Long enough for any endpoint that is worth a run; any HTTP answer will do.
const REACH_TIMEOUT: Duration = Duration::from_secs(15);

/// What is up and running when samples may start.
pub struct Ready {
    pub model: Arc<dyn ChatModel>,
    /// Empty when no model of ours is asked.
    pub base_url: String,
    pub settings: AgentSettings,
    /// The strategy's other role, when it has a model of its own.
    pub role: Option<Role>,
    /// Who works instead of the loop.
    pub agent: Option<Agent>,
    /// Servers that are started anew for each sample; they did start once.
    pub sample_servers: Vec<ServerSpec>,
    pub shared_servers: Vec<Arc<Server>>,
    /// Canonical names of the tools that the model is offered.
    pub tools: Vec<String>,
    /// The folder that the environment of `shared_servers` names.
    _files: TempDir,
    model_server: Option<ModelServer>,
}

/// Who works instead of the loop, if the config wants it.
pub(crate) fn chosen_agent(loaded: &Loaded) -> CommandResult<Option<Agent>> {
    let agent = loaded.config.external.agent.as_deref().filter(|_| loaded.config.external.is_wanted());
    agent.map(Agent::read).transpose().map_err(CommandError::usage)
}

impl Ready {
    /// Checks and starts everything. On failure nothing is left running.
    pub async fn prepare(loaded: &Loaded, run_id: &str, console: &Console) -> CommandResult<Self> {
        let model_config = &loaded.config.model;
        let agent = chosen_agent(loaded)?;
        let model_server = match &model_config.server {
            Some(config) if agent.is_none() => {
                let started = ModelServer::start(config, &loaded.base, &loaded.environment).await;
                Some(started.map_err(CommandError::environment)?)
            }
            _ => None,
        };
        let base_url = match (&model_server, &model_config.base_url) {
            _ if agent.is_some() => String::new(),
            (Some(server), _) => server.base_url().to_owned(),
            (None, Some(url)) => url.clone(),
            (None, None) => DEFAULT_BASE_URL.to_owned(),
        };
        let mut shared_servers = Vec::new();
        let prepared = async {
            start_shared(loaded, run_id, console, &mut shared_servers).await?;
            let mut sample_servers: Vec<ServerSpec> =
                loaded.servers.iter().filter(|server| server.scope == Scope::Sample).cloned().collect();
            let mut offer = try_servers(loaded, run_id, &sample_servers, &shared_servers, console).await?;
            // Each of them is a process for all samples, with a state for each.
            sample_servers.retain(|spec| offer.of_many.iter().all(|server| server.name() != spec.name));
            shared_servers.append(&mut offer.of_many);
            if agent.is_some() {
                let nobody = Role {
                    model: Arc::new(NoModel),
                    settings: agent_settings(loaded, model_config, "", Known::default(), &offer.answer_tool),
                };
                return Ok((nobody, None, sample_servers, offer));
            }
            let key = loaded.api_key.as_ref();
            let endpoint = endpoint_of(model_config);
            let worker = role_at(loaded, model_config, key, &base_url, endpoint.clone(), &offer.answer_tool)?;
            reach(&base_url).await?;
            let role = match &loaded.role {
                Some(role) => {
                    let own_url = role.config.base_url.as_deref();
                    let url = own_url.unwrap_or(&base_url);
                    if own_url.is_some_and(|own| own != base_url) {
                        reach(url).await?;
                    }
                    let role_key = role.api_key.as_ref();
                    let is_same = url == base_url
                        && role_key.map(Secret::expose) == key.map(Secret::expose)
                        && limits_of(&role.config) == limits_of(model_config);
                    let endpoint = if is_same { endpoint } else { endpoint_of(&role.config) };
                    Some(role_at(loaded, &role.config, role_key, url, endpoint, &offer.answer_tool)?)
                }
                None => None,
            };
            Ok((worker, role, sample_servers, offer))
        }
        .await;
        match prepared {
            Ok((worker, role, sample_servers, offer)) => Ok(Self {
                model: worker.model,
                base_url,
                settings: worker.settings,
                role,
                agent,
                sample_servers,
                shared_servers,
                tools: offer.tools,
                _files: offer.files,
                model_server,
            }),
            Err(error) => {
                close(&shared_servers, model_server).await;
                Err(error)
            }
        }
    }

    /// From now on at most so many are under way at a time.
    pub fn limit_model_calls(&mut self, calls: usize) {
        let permits = Arc::new(Semaphore::new(calls));
        self.model = Arc::new(LimitedModel::new(self.model.clone(), permits.clone()));
        if let Some(role) = &mut self.role {
            role.model = Arc::new(LimitedModel::new(role.model.clone(), permits));
        }
    }

    pub async fn close(self) {
        close(&self.shared_servers, self.model_server).await;
    }
}

async fn close(shared_servers: &[Arc<Server>], model_server: Option<ModelServer>) {
    futures_util::future::join_all(shared_servers.iter().map(|server| server.close())).await;
    if let Some(server) = model_server {
        server.close().await;
    }
}

/// Any HTTP answer will do: not every endpoint has a list of models, and the key is checked by the first request.
async fn reach(base_url: &str) -> CommandResult<()> {
    let url = format!("{}/models", base_url.trim_end_matches('/'));
    let client = reqwest::Client::builder().timeout(REACH_TIMEOUT).build()?;
    match client.get(&url).send().await {
        Ok(_) => Ok(()),
        Err(error) => {
            let error = anyhow::Error::from(error.without_url())
                .context(format!("failed to reach the model endpoint `{base_url}`"));
            Err(CommandError::environment(error)
                .with_hint("check `model.base_url` (or --base-url) and the network"))
        }
    }
}

/// A model of the config, and the settings of the loop for it.
fn role_at(
    loaded: &Loaded,
    config: &ModelConfig,
    api_key: Option<&Secret>,
    base_url: &str,
    endpoint: Arc<Endpoint>,
    answer_tool: &str,
) -> CommandResult<Role> {
    let model = model_at(config, api_key, base_url, endpoint)?;
    let known = known_model(loaded, config, base_url)?;
    Ok(Role { model, settings: agent_settings(loaded, config, base_url, known, answer_tool) })
}

/// One for all models at the same address with the same key and the same limits: what one of them learns holds for the
/// others.
pub(crate) fn endpoint_of(config: &ModelConfig) -> Arc<Endpoint> {
    Arc::new(Endpoint::new(limits_of(config)))
}

fn limits_of(config: &ModelConfig) -> EndpointLimits {
    EndpointLimits {
        requests_per_minute: config.requests_per_minute,
        tokens_per_minute: config.tokens_per_minute,
        concurrent_requests: config.max_concurrent_requests,
    }
}

/// Stands where no model of ours is asked.
struct NoModel;

#[async_trait]
impl ChatModel for NoModel {
    async fn reply(
        &self,
        _: ModelRequest<'_>,
        _: &dyn RetryObserver,
        _: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        Err(ModelError::Request("an agent that brings its own model asks none of gaia's".to_owned()))
    }
}

pub(crate) fn model_at(
    config: &ModelConfig,
    api_key: Option<&Secret>,
    base_url: &str,
    endpoint: Arc<Endpoint>,
) -> CommandResult<Arc<dyn ChatModel>> {
    let settings = ModelSettings {
        name: config.name.clone().unwrap_or_default(),
        base_url: base_url.to_owned(),
        api_key: api_key.map(|key| key.expose().to_owned()),
        api: config.api.into(),
        tool_calls: config.tool_calls.into(),
        stream: config.stream,
        parallel_tool_calls: config.parallel_tool_calls,
        reasoning_field: config.reasoning_field.clone(),
        params: config.params.clone(),
        request_timeout: config.request_timeout,
        idle_timeout: config.idle_timeout,
        max_retries: config.max_retries,
        schema_profile: config.schema_profile.into(),
    };
    connect(settings, endpoint).map_err(CommandError::environment)
}

/// Starts the servers that all samples share; they stay up.
async fn start_shared(
    loaded: &Loaded,
    run_id: &str,
    console: &Console,
    started: &mut Vec<Arc<Server>>,
) -> CommandResult<()> {
    let environment = BTreeMap::from([(RUN_ID.to_owned(), run_id.to_owned())]);
    for spec in loaded.servers.iter().filter(|server| server.scope == Scope::Run) {
        match Server::start(spec, &environment, log_notices()).await {
            Ok(server) => started.push(Arc::new(server)),
            Err(error) if !spec.required => {
                console.warn(&format!("warning: {error}; the run goes on without it (`required = false`)"));
            }
            Err(error) => return Err(start_error(error)),
        }
    }
    Ok(())
}

/// A mistake in the config is the user's; a program that is not there or fails is the environment's, though the entry
/// names it.
pub(crate) fn start_error(error: StartError) -> CommandError {
    match error {
        StartError::Config { .. } => CommandError::usage(error),
        StartError::NoProgram { .. } | StartError::Failed { .. } => CommandError::environment(error),
    }
}

/// What the model will be offered.
pub(crate) struct Offer {
    tools: Vec<String>,
    /// The name by which the model calls the answer tool.
    answer_tool: String,
    /// Servers that serve many samples; they stay up.
    pub(crate) of_many: Vec<Arc<Server>>,
    files: TempDir,
}

/// Starts the sample's servers once, as a sample without an attachment would, and closes those that are to be started
/// anew for each sample.
pub(crate) async fn try_servers(
    loaded: &Loaded,
    run_id: &str,
    specs: &[ServerSpec],
    shared: &[Arc<Server>],
    console: &Console,
) -> CommandResult<Offer> {
    let files = tempfile::Builder::new().prefix(&staged_prefix(run_id)).tempdir()?;
    let environment = BTreeMap::from([
        (RUN_ID.to_owned(), run_id.to_owned()),
        (SAMPLE_ID.to_owned(), PREFLIGHT_SAMPLE.to_owned()),
        (FILES_DIR.to_owned(), files.path().to_string_lossy().into_owned()),
        (MANY.to_owned(), "true".to_owned()),
    ]);
    let answer_tool = &loaded.config.agent.answer_tool;
    let host = ToolHost::start(specs, shared, &environment, warn_notices(console), Some(answer_tool))
        .await
        .map_err(start_error)?;
    let tools: Vec<String> = host.offered().iter().map(|tool| tool.canonical.clone()).collect();
    let found = host.find(answer_tool).map(|tool| tool.model_name.clone());
    let of_many = host.into_servers_of_many().await;
    match found {
        Some(answer_tool) => Ok(Offer { tools, answer_tool, of_many, files }),
        None => {
            futures_util::future::join_all(of_many.iter().map(|server| server.close())).await;
            let offered = if tools.is_empty() { "none".to_owned() } else { tools.join(", ") };
            Err(CommandError::usage(anyhow::anyhow!(
                "the answer tool `{answer_tool}` is not among the offered tools: {offered}"
            ))
            .with_hint(
                "correct `agent.answer_tool`, or add the server that has it; `gaia tools CONFIG` lists all",
            ))
        }
    }
}

/// What the catalogs say of the model: those that the config names first, then gaia's own.
pub(crate) fn known_model(loaded: &Loaded, model: &ModelConfig, base_url: &str) -> CommandResult<Known> {
    let mut catalog =
        Catalog::built_in().map_err(|error| anyhow::anyhow!("the built-in catalog: {error}"))?;
    for file in model.catalog.iter().rev() {
        let path = loaded.base.join(file);
        let text = fs_err::read_to_string(&path).map_err(CommandError::usage)?;
        catalog = catalog.with(&text).map_err(|error| {
            let error = anyhow::anyhow!("`{}` is no catalog of models: {error}", path.display());
            CommandError::usage(error)
                .with_hint("`agent/core/src/model/catalog.toml` in the sources shows the form")
        })?;
    }
    let known = catalog.find(model.name.as_deref().unwrap_or_default(), base_url);
    let budgets =
        [("agent", loaded.config.agent.budget.cost_usd), ("run", loaded.config.run.budget.cost_usd)];
    for (section, cost_usd) in budgets {
        if cost_usd.is_some() && model.price.is_none() && known.price.is_none() {
            return Err(CommandError::usage(anyhow::anyhow!(
                "`{section}.budget.cost_usd` needs a price, and no catalog has one for `{}` at `{base_url}`",
                model.name.as_deref().unwrap_or_default()
            ))
            .with_hint("set `[model.price]`, or add the model to a file in `model.catalog`"));
        }
    }
    Ok(known)
}

pub(crate) fn agent_settings(
    loaded: &Loaded,
    model: &ModelConfig,
    base_url: &str,
    known: Known,
    answer_tool_name: &str,
) -> AgentSettings {
    let agent = &loaded.config.agent;
    AgentSettings {
        max_steps: agent.max_steps,
        answer_tool: agent.answer_tool.clone(),
        sample_timeout: agent.sample_timeout,
        budget: Budget {
            tokens: agent.budget.tokens,
            cost_usd: agent.budget.cost_usd,
            price: model
                .price
                .map(|price| Price {
                    input: price.input,
                    cached: price.cached.unwrap_or(price.input),
                    output: price.output,
                    reasoning: price.reasoning.unwrap_or(price.output),
                })
                .or(known.price),
        },
        run_budget: None,
        result_bytes: agent.result_bytes,
        context_window_tokens: model.context_window.or(known.window_tokens),
        accepted_media: model.accepts.clone(),
        image_limits: gaia_agent::ImageLimits::of(base_url, model.name.as_deref().unwrap_or_default()),
        system_prompt: system_prompt(answer_tool_name),
    }
}

/// Notices of servers that belong to no sample go to the log.
pub(crate) fn log_notices() -> NoticeSink {
    Arc::new(|notice: Notice| tracing::info!(server = notice.server, "{}", notice.text))
}

/// Errors that a server reports while it is tried are for the user.
fn warn_notices(console: &Console) -> NoticeSink {
    let console = console.clone();
    Arc::new(move |notice: Notice| match notice.level {
        gaia_agent::event::NoticeLevel::Info => tracing::info!(server = notice.server, "{}", notice.text),
        _ => console.warn(&format!("warning: MCP server `{}`: {}", notice.server, notice.text)),
    })
}
