//! The two sides of a recording as the loop sees them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use gaia_agent::Part;
use gaia_agent::model::{ChatModel, ModelError, ModelRequest, Reply, RetryObserver, fingerprint};
use gaia_agent::tools::{CallFailure, OfferedTool, StandIn, ToolHost, ToolOutput};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::recording::{CallKey, RecordedReply};

/// Says what was said then: to the same request the same, to another the next in line.
pub struct RecordedModel(Mutex<VecDeque<RecordedReply>>);

impl RecordedModel {
    pub fn new(replies: VecDeque<RecordedReply>) -> Self {
        Self(Mutex::new(replies))
    }
}

#[async_trait]
impl ChatModel for RecordedModel {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        _observer: &dyn RetryObserver,
        _cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        let fingerprint = fingerprint(request);
        let mut replies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = replies.iter().position(|reply| reply.request.as_deref() == Some(fingerprint.as_str()));
        match replies.remove(same.unwrap_or(0)) {
            Some(recorded) => recorded.reply,
            // The recording ended here by the clock, which no replay waits for.
            None => Err(ModelError::Cancelled),
        }
    }
}

/// Answers a call with the result of the same call then.
pub struct RecordedTools(Mutex<HashMap<CallKey, VecDeque<ToolOutput>>>);

impl RecordedTools {
    pub fn new(results: HashMap<CallKey, VecDeque<ToolOutput>>) -> Self {
        Self(Mutex::new(results))
    }

    pub fn take(&self, tool: &OfferedTool, arguments: &Map<String, Value>) -> Option<ToolOutput> {
        let key = (tool.canonical.clone(), Value::Object(arguments.clone()).to_string());
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        results.get_mut(&key)?.pop_front()
    }
}

#[async_trait]
impl StandIn for RecordedTools {
    async fn answer(
        &self,
        _host: &ToolHost,
        tool: &OfferedTool,
        arguments: &Map<String, Value>,
        _cancel: &CancellationToken,
    ) -> Option<ToolOutput> {
        let recorded = self.take(tool, arguments);
        Some(recorded.unwrap_or_else(|| ToolOutput {
            content: vec![Part::Text {
                text: format!("The recording has no such call of `{}`.", tool.canonical),
            }],
            structured: None,
            is_error: true,
            failure: Some(CallFailure::Protocol),
            whole: None,
            duration: Duration::ZERO,
        }))
    }
}
