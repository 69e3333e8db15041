//! Tools without their servers: what a host offered, written down, and somebody who answers in the servers' place.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::arguments::compile;
use super::{OfferedTool, StartError, ToolAnnotations, ToolHost, ToolOutput};

/// Answers calls in the place of servers, or beside them.
#[async_trait]
pub trait StandIn: Send + Sync {
    /// The answer, or `None` to leave the call to its server. `host` is there to make the call all the same, by
    /// [`ToolHost::call_server`].
    async fn answer(
        &self,
        host: &ToolHost,
        tool: &OfferedTool,
        arguments: &Map<String, Value>,
        cancel: &CancellationToken,
    ) -> Option<ToolOutput>;
}

/// A tool as it was offered, with everything that the loop knows of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedTool {
    pub model_name: String,
    pub server: String,
    pub tool: String,
    pub description: String,
    pub input_schema: Value,
    pub read_only: bool,
    pub side_by_side: bool,
}

impl ToolHost {
    /// Tools that were offered once, without any server: every call goes to `stand_in`.
    pub fn recorded(tools: Vec<RecordedTool>, stand_in: Arc<dyn StandIn>) -> Result<Self, StartError> {
        let offered = tools.into_iter().map(OfferedTool::try_from).collect::<Result<_, _>>()?;
        Ok(Self { servers: Vec::new(), offered, hidden: Vec::new(), stand_in: Some(stand_in) })
    }

    /// From now on `stand_in` is asked before a server is.
    #[must_use]
    pub fn with_stand_in(mut self, stand_in: Arc<dyn StandIn>) -> Self {
        self.stand_in = Some(stand_in);
        self
    }

    /// What is offered, to be kept with a recording.
    pub fn to_record(&self) -> Vec<RecordedTool> {
        self.offered.iter().map(RecordedTool::from).collect()
    }
}

impl From<&OfferedTool> for RecordedTool {
    fn from(tool: &OfferedTool) -> Self {
        Self {
            model_name: tool.model_name.clone(),
            server: tool.server.clone(),
            tool: tool.tool.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            read_only: tool.annotations.read_only,
            side_by_side: tool.side_by_side,
        }
    }
}

impl TryFrom<RecordedTool> for OfferedTool {
    type Error = StartError;

    fn try_from(tool: RecordedTool) -> Result<Self, StartError> {
        let validator = compile(&tool.input_schema).map_err(|reason| StartError::Config {
            server: tool.server.clone(),
            message: format!("the recorded tool `{}/{}` cannot be offered: {reason}", tool.server, tool.tool),
        })?;
        Ok(Self {
            canonical: format!("{}/{}", tool.server, tool.tool),
            model_name: tool.model_name,
            server: tool.server,
            tool: tool.tool,
            description: tool.description,
            input_schema: tool.input_schema,
            annotations: ToolAnnotations { read_only: tool.read_only, ..ToolAnnotations::default() },
            side_by_side: tool.side_by_side,
            validator: Arc::new(validator),
        })
    }
}
