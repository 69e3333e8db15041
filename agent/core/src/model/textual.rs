//! Tool calls as text: for models and servers without tool calls of their own, and for servers that leave the calls of
//! their models in the text.
//!
//! The protocol for models without native calls. Tools are described in the system prompt. A call is a block on lines
//! of its own:
//!
//! ```text
//! <tool_call>
//! {"name": "bash", "arguments": {"command": "ls"}}
//! </tool_call>
//! ```
//!
//! Several blocks are several calls, in order. A block in a code fence or in a sentence is talked about and not made,
//! unless the fence is the whole reply. A block that cannot be read is a call all the same, and its result says what is
//! wrong with it. What a model writes behind its calls as if it had their results is dropped. Results come back in one
//! user message, each as `<tool_response name="bash">…</tool_response>`.

mod block;
mod native;
mod render;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::reply::with_unique_ids;
use super::{ChatModel, ModelError, ModelRequest, Reply, RetryObserver};
use crate::message::ToolDefinition;

/// How tool calls get from the model to the loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolCalls {
    /// In the API's own field. Calls that a server leaves in the text, in a form that models are trained on, are read
    /// from there, and the trajectory says so.
    #[default]
    Native,
    /// In the API's own field and nowhere else.
    NativeOnly,
    /// In the text, by the protocol of this module.
    Text,
}

/// A call as it stands in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    /// Empty when the block names no tool.
    name: String,
    /// JSON, or what stands in its place.
    arguments: String,
}

/// Reads calls out of the text of another model's replies.
pub(super) struct Textual {
    pub(super) inner: Arc<dyn ChatModel>,
    pub(super) tool_calls: ToolCalls,
}

#[async_trait]
impl ChatModel for Textual {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        observer: &dyn RetryObserver,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        match self.tool_calls {
            ToolCalls::NativeOnly => self.inner.reply(request, observer, cancel).await,
            ToolCalls::Native => {
                let reply = self.inner.reply(request, observer, cancel).await?;
                Ok(rescued(reply, request.tools, observer))
            }
            ToolCalls::Text => {
                let messages = render::messages(request.messages, request.tools);
                let asked = ModelRequest { messages: &messages, tools: &[] };
                let reply = self.inner.reply(asked, observer, cancel).await?;
                Ok(read(reply, request.tools, observer))
            }
        }
    }
}

/// A reply of the textual protocol. Without tools nothing can be called: the blocks are no answer either.
fn read(mut reply: Reply, tools: &[ToolDefinition], observer: &dyn RetryObserver) -> Reply {
    let Some(content) = reply.content.take() else { return reply };
    let found = block::find(&content);
    if found.calls.is_empty() {
        return rescued(Reply { content: Some(content), ..reply }, tools, observer);
    }
    if found.is_cut {
        observer.noticed(
            "the model went on as if it had the results of its calls: what it wrote there was dropped",
        );
        // It holds what was dropped.
        reply.carried = None;
    }
    reply.content = Some(found.prose).filter(|prose| !prose.is_empty());
    if !tools.is_empty() {
        reply.tool_calls = numbered(found.calls);
    }
    reply
}

/// A reply whose calls a server left in the text. All of it must make sense, and every tool exist: what is only talked
/// about must not be done.
fn rescued(mut reply: Reply, tools: &[ToolDefinition], observer: &dyn RetryObserver) -> Reply {
    let Some(content) = reply.content.as_deref().filter(|_| reply.tool_calls.is_empty()) else {
        return reply;
    };
    let Some((format, prose, calls)) = native::find(content) else { return reply };
    let is_whole = |call: &Written| {
        tools.iter().any(|tool| tool.name == call.name)
            && serde_json::from_str::<Value>(&call.arguments).is_ok_and(|arguments| arguments.is_object())
    };
    if !calls.iter().all(is_whole) {
        return reply;
    }
    observer.noticed(&format!(
        "the endpoint left {} tool call(s) in the text, in the form of {format}: read from there",
        calls.len()
    ));
    reply.content = Some(prose).filter(|prose| !prose.is_empty());
    reply.tool_calls = numbered(calls);
    reply
}

fn numbered(calls: Vec<Written>) -> Vec<crate::message::ToolCall> {
    with_unique_ids(calls.into_iter().map(|call| (String::new(), call.name, call.arguments)))
}
