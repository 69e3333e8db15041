//! Chat models. The only module that names async-openai.

pub mod catalog;
pub mod chat;
mod classify;
mod reply;
mod retry;
mod schema;
mod service;
mod wire;

use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::message::{Message, ToolCall, ToolDefinition};
use crate::outcome::Usage;
pub use schema::SchemaProfile;

/// A model that answers a conversation with one reply.
#[async_trait]
pub trait ChatModel: Send + Sync {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        observer: &dyn RetryObserver,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError>;
}

#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    pub messages: &'a [Message],
    /// Empty for the last call without tools.
    pub tools: &'a [ToolDefinition],
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub content: Option<String>,
    pub reasoning: Option<String>,
    pub tool_calls: Vec<ToolCall>,
    /// `stop`, `tool_calls`, `length`, `content_filter`, or what the provider said.
    pub finish_reason: String,
    pub usage: Usage,
    /// The model's name in the reply, which may differ from the one asked for.
    pub model: Option<String>,
}

/// Hears of each failed attempt before the wait for the next one.
pub trait RetryObserver: Send + Sync {
    fn retrying(&self, attempt: u32, reason: &str, wait: Duration);
}

/// What the loop does next, not what went wrong inside.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ModelError {
    /// Key, model or account refused; the same will happen to every other task.
    #[error("{0}")]
    Refused(String),
    /// This request was rejected; other tasks may fare better.
    #[error("{0}")]
    Request(String),
    /// The conversation does not fit; compact and ask once more. The window in tokens when the text names it.
    #[error("{message}")]
    ContextOverflow { message: String, window_tokens: Option<u64> },
    /// The provider declined the content.
    #[error("{0}")]
    ContentRefused(String),
    /// The server could not read the model's own words as a tool call, and will not the next time: the same request
    /// leads to the same words. Another one may not.
    #[error("{0}")]
    Garbled(String),
    /// All retries failed.
    #[error("{0}")]
    Unavailable(String),
    #[error("cancelled")]
    Cancelled,
}
