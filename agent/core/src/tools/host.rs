use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use futures_util::future::join_all;
use jsonschema::Validator;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::arguments::compile;
use super::many::State;
use super::names::{Origin, model_names};
use super::{
    CallFailure, CallOrder, Notice, NoticeSink, ProgressSink, Server, ServerSpec, ServerTool, StandIn,
    StartError, ToolAnnotations, ToolOutput,
};
use crate::event::NoticeLevel;
use crate::message::{Part, ToolDefinition};

/// The MCP servers of one task, their tools under names a model can use, and calls that always come back.
pub struct ToolHost {
    pub(super) servers: Vec<Held>,
    pub(super) offered: Vec<OfferedTool>,
    pub(super) hidden: Vec<HiddenTool>,
    pub(super) stand_in: Option<Arc<dyn StandIn>>,
}

#[derive(Debug)]
pub(super) struct Held {
    server: Arc<Server>,
    ownership: Ownership,
    restarts: AtomicU32,
    /// Of the task, in a shared server that keeps one for each.
    state: Option<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    Own,
    Shared,
}

/// A tool that the model is offered.
#[derive(Debug, Clone)]
pub struct OfferedTool {
    /// What the model calls it: the bare name where it is unique, else `server__tool`.
    pub model_name: String,
    pub server: String,
    /// The server's own name for it.
    pub tool: String,
    /// `server/tool`, as in configs and events.
    pub canonical: String,
    pub description: String,
    /// As published.
    pub input_schema: Value,
    pub annotations: ToolAnnotations,
    /// Whether it may run beside other such calls of the same turn, or only in its turn.
    pub side_by_side: bool,
    pub(super) validator: Arc<Validator>,
}

/// A tool that the model is not offered, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenTool {
    pub server: String,
    /// `*` when it is the whole server.
    pub tool: String,
    /// Such as ``in `disabled_tools` ``.
    pub reason: String,
}

impl ToolHost {
    /// Starts the servers of `specs` side by side and adds the `shared` ones, which stay open when the host closes;
    /// those of them that keep tasks apart are told of this one, with its `environment`.
    /// `answer_tool` is a canonical name; that tool keeps its bare name against every other.
    ///
    /// When a required server does not start, the others are closed again and its error comes back; one that is not
    /// required is missed with a notice.
    pub async fn start(
        specs: &[ServerSpec],
        shared: &[Arc<Server>],
        environment: &BTreeMap<String, String>,
        notices: NoticeSink,
        answer_tool: Option<&str>,
    ) -> Result<Self, StartError> {
        let mut names = BTreeSet::new();
        for name in
            specs.iter().map(|spec| spec.name.as_str()).chain(shared.iter().map(|server| server.name()))
        {
            if !names.insert(name) {
                let message = format!("two MCP servers are called `{name}`; rename one of them");
                return Err(StartError::Config { server: name.to_owned(), message });
            }
        }
        let started =
            join_all(specs.iter().map(|spec| Server::start(spec, environment, notices.clone()))).await;
        let mut servers: Vec<Held> =
            shared.iter().map(|server| Held::new(server.clone(), Ownership::Shared)).collect();
        for held in servers.iter_mut().filter(|held| held.server.serves_many()) {
            let state = State::new(environment);
            held.server.begin(&state).await;
            held.state = Some(state);
        }
        let mut hidden = Vec::new();
        let mut fatal = None;
        for (spec, started) in specs.iter().zip(started) {
            match started {
                Ok(server) => servers.push(Held::new(Arc::new(server), Ownership::Own)),
                // A mistake in the config is one whether the server is required or not.
                Err(error) if spec.required || matches!(error, StartError::Config { .. }) => {
                    fatal.get_or_insert(error);
                }
                Err(error) => {
                    let server = spec.name.clone();
                    notices(Notice {
                        server: server.clone(),
                        level: NoticeLevel::Warning,
                        text: error.to_string(),
                    });
                    hidden.push(HiddenTool { server, tool: "*".to_owned(), reason: error.to_string() });
                }
            }
        }
        let host = Self::new(servers, hidden, answer_tool);
        match fatal {
            None => Ok(host),
            Some(error) => {
                host.close().await;
                Err(error)
            }
        }
    }

    fn new(servers: Vec<Held>, mut hidden: Vec<HiddenTool>, answer_tool: Option<&str>) -> Self {
        let mut chosen = Vec::new();
        for server in servers.iter().map(|held| held.server.as_ref()) {
            hidden.extend(server.unusable().iter().map(|unusable| unusable.of(server.name())));
            for tool in server.tools() {
                let checked = match server.filter().hides(&tool.name) {
                    Some(reason) => Err(reason),
                    None => compile(&tool.input_schema),
                };
                match checked {
                    Ok(validator) => chosen.push((server, tool, validator)),
                    Err(reason) => hidden.push(HiddenTool {
                        server: server.name().to_owned(),
                        tool: tool.name.clone(),
                        reason,
                    }),
                }
            }
        }
        let origins: Vec<Origin<'_>> = chosen
            .iter()
            .map(|(server, tool, _)| Origin {
                server: server.name(),
                tool: &tool.name,
                prefix: server.prefix(),
            })
            .collect();
        let names = model_names(&origins, answer_tool);
        let offered = chosen
            .into_iter()
            .zip(names)
            .map(|((server, tool, validator), model_name)| {
                let mut offered = OfferedTool::new(model_name, server.name(), tool, validator);
                offered.side_by_side |= server.call_order() == CallOrder::SideBySide;
                offered
            })
            .collect();
        Self { servers, offered, hidden, stand_in: None }
    }

    pub fn offered(&self) -> &[OfferedTool] {
        &self.offered
    }

    pub fn hidden(&self) -> &[HiddenTool] {
        &self.hidden
    }

    /// The servers that run, own and shared.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().map(|held| held.server.as_ref())
    }

    /// What a model request carries as its tools, in the order of `offered`.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.offered
            .iter()
            .map(|tool| ToolDefinition {
                name: tool.model_name.clone(),
                description: tool.description.clone(),
                parameters: parameters(&tool.input_schema),
            })
            .collect()
    }

    /// By the name that the model uses, or by canonical name.
    pub fn find(&self, name: &str) -> Option<&OfferedTool> {
        self.offered
            .iter()
            .find(|tool| tool.model_name == name)
            .or_else(|| self.offered.iter().find(|tool| tool.canonical == name))
    }

    /// Always comes back: with the server's result, or with an error in words for the model when the tool timeout
    /// (five times as long for a call that reports progress) is over, the server died, or `cancel` came. In the
    /// last two cases of these the server has been told to stop.
    pub async fn call(
        &self,
        tool: &OfferedTool,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
    ) -> ToolOutput {
        self.call_watched(tool, arguments, cancel, None).await
    }

    /// As `call`, but goes past whoever stands in for the servers.
    pub async fn call_server(
        &self,
        tool: &OfferedTool,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
    ) -> ToolOutput {
        self.call_watched_server(tool, arguments, cancel, None).await
    }

    /// As `call`; what the server says of its progress goes to `progress` as well.
    pub async fn call_watched(
        &self,
        tool: &OfferedTool,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
        progress: Option<ProgressSink>,
    ) -> ToolOutput {
        if let Some(stand_in) = &self.stand_in
            && let Some(output) = stand_in.answer(self, tool, &arguments, cancel).await
        {
            return output;
        }
        self.call_watched_server(tool, arguments, cancel, progress).await
    }

    async fn call_watched_server(
        &self,
        tool: &OfferedTool,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
        progress: Option<ProgressSink>,
    ) -> ToolOutput {
        match self.servers.iter().find(|held| held.server.name() == tool.server) {
            Some(held) => {
                let state = held.state.as_ref();
                held.server.call(&tool.tool, arguments, state, cancel, progress, &held.restarts).await
            }
            None => ToolOutput {
                content: vec![Part::Text { text: format!("There is no server `{}`.", tool.server) }],
                structured: None,
                is_error: true,
                failure: Some(CallFailure::Protocol),
                whole: None,
                duration: Duration::ZERO,
            },
        }
    }

    /// Ends the host's own servers side by side, within five seconds; shared ones stay, and end what they kept for this
    /// task. Calls that are still made are errors.
    pub async fn close(&self) {
        join_all(self.servers.iter().map(Held::close)).await;
    }

    /// Ends the host, and hands on those of its own servers that serve many tasks, for others to share.
    pub async fn into_servers_of_many(self) -> Vec<Arc<Server>> {
        let is_kept = |held: &Held| held.ownership == Ownership::Own && held.server.serves_many();
        let (kept, ended): (Vec<Held>, Vec<Held>) = self.servers.into_iter().partition(is_kept);
        join_all(ended.iter().map(Held::close)).await;
        kept.into_iter().map(|held| held.server).collect()
    }
}

impl fmt::Debug for ToolHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ToolHost")
            .field("servers", &self.servers)
            .field("offered", &self.offered)
            .finish_non_exhaustive()
    }
}

impl Held {
    fn new(server: Arc<Server>, ownership: Ownership) -> Self {
        Self { server, ownership, restarts: AtomicU32::new(0), state: None }
    }

    async fn close(&self) {
        match (self.ownership, &self.state) {
            (Ownership::Own, _) => self.server.close().await,
            (Ownership::Shared, Some(state)) => self.server.end(state).await,
            (Ownership::Shared, None) => {}
        }
    }
}

impl OfferedTool {
    pub(super) fn new(model_name: String, server: &str, tool: &ServerTool, validator: Validator) -> Self {
        Self {
            model_name,
            server: server.to_owned(),
            tool: tool.name.clone(),
            canonical: format!("{server}/{}", tool.name),
            description: match (&tool.title, tool.description.is_empty()) {
                (Some(title), true) => title.clone(),
                _ => tool.description.clone(),
            },
            input_schema: tool.input_schema.clone(),
            annotations: tool.annotations,
            side_by_side: tool.annotations.read_only,
            validator: Arc::new(validator),
        }
    }
}

/// The published schema with the two keywords at its root that providers insist on.
fn parameters(input_schema: &Value) -> Value {
    let mut schema = input_schema.clone();
    if let Value::Object(root) = &mut schema {
        root.entry("type").or_insert_with(|| Value::from("object"));
        root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    schema
}
