use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use futures_util::future::join_all;
use jsonschema::Validator;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::arguments::compile;
use super::names::{Origin, model_names};
use super::{
    CallFailure, CallOrder, Notice, NoticeSink, ProgressSink, Server, ServerSpec, ServerTool, StartError,
    ToolAnnotations, ToolOutput,
};
use crate::event::NoticeLevel;
use crate::message::{Part, ToolDefinition};

/// The MCP servers of one task, their tools under names a model can use, and calls that always come back.
#[derive(Debug)]
pub struct ToolHost {
    servers: Vec<Held>,
    offered: Vec<OfferedTool>,
    hidden: Vec<HiddenTool>,
}

#[derive(Debug)]
struct Held {
    server: Arc<Server>,
    ownership: Ownership,
    restarts: AtomicU32,
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
    /// Starts the servers of `specs` side by side and adds the `shared` ones, which stay open when the host closes.
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
        Self { servers, offered, hidden }
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

    /// As `call`; what the server says of its progress goes to `progress` as well.
    pub async fn call_watched(
        &self,
        tool: &OfferedTool,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
        progress: Option<ProgressSink>,
    ) -> ToolOutput {
        match self.servers.iter().find(|held| held.server.name() == tool.server) {
            Some(held) => held.server.call(&tool.tool, arguments, cancel, progress, &held.restarts).await,
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

    /// Ends the host's own servers side by side, within five seconds; shared ones stay. Calls that are still made are
    /// errors.
    pub async fn close(&self) {
        let own = self.servers.iter().filter(|held| held.ownership == Ownership::Own);
        join_all(own.map(|held| held.server.close())).await;
    }
}

impl Held {
    fn new(server: Arc<Server>, ownership: Ownership) -> Self {
        Self { server, ownership, restarts: AtomicU32::new(0) }
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
