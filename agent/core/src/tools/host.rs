use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{CallFailure, NoticeSink, Server, ServerSpec, StartError, ToolAnnotations, ToolOutput};
use crate::message::ToolDefinition;

/// The MCP servers of one task, their tools under names a model can use, and calls that always come back.
#[derive(Debug)]
pub struct ToolHost {
    offered: Vec<OfferedTool>,
    hidden: Vec<HiddenTool>,
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
}

/// A tool that the model is not offered, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenTool {
    pub server: String,
    pub tool: String,
    /// Such as ``in `disabled_tools` ``.
    pub reason: String,
}

impl ToolHost {
    /// Starts the servers of `specs` side by side and adds the `shared` ones, which stay open when the host closes.
    /// `answer_tool` is a canonical name; that tool keeps its bare name against every other.
    pub async fn start(
        specs: &[ServerSpec],
        shared: &[Arc<Server>],
        environment: &BTreeMap<String, String>,
        notices: NoticeSink,
        answer_tool: Option<&str>,
    ) -> Result<Self, StartError> {
        let _ = (specs, shared, environment, notices, answer_tool);
        Ok(Self { offered: Vec::new(), hidden: Vec::new() })
    }

    pub fn offered(&self) -> &[OfferedTool] {
        &self.offered
    }

    pub fn hidden(&self) -> &[HiddenTool] {
        &self.hidden
    }

    /// What a model request carries as its tools, in the order of `offered`.
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        Vec::new()
    }

    /// By the name that the model uses, or by canonical name.
    pub fn find(&self, name: &str) -> Option<&OfferedTool> {
        self.offered
            .iter()
            .find(|tool| tool.model_name == name)
            .or_else(|| self.offered.iter().find(|tool| tool.canonical == name))
    }

    /// Always comes back, at the latest when the tool timeout and its cap for progress are over.
    pub async fn call(
        &self,
        tool: &OfferedTool,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
    ) -> ToolOutput {
        let _ = (tool, arguments, cancel);
        ToolOutput {
            content: Vec::new(),
            structured: None,
            is_error: true,
            failure: Some(CallFailure::Protocol),
            duration: Duration::ZERO,
        }
    }

    pub async fn close(self) {}
}
