//! Chat models. The only module that names async-openai.

pub mod catalog;
mod chat;
mod classify;
mod endpoint;
mod quirks;
mod reply;
mod responses;
mod retry;
mod schema;
mod service;
mod settings;
mod textual;
mod thoughts;
mod transport;
mod usage;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::message::{Message, ToolCall, ToolDefinition};
use crate::outcome::Usage;
pub use endpoint::{Endpoint, EndpointLimits};
pub use schema::SchemaProfile;
pub use settings::{Api, ModelSettings};
pub use textual::ToolCalls;

/// The model that the settings describe. Models at the same endpoint share what is known of it.
pub fn connect(settings: ModelSettings, endpoint: Arc<Endpoint>) -> Result<Arc<dyn ChatModel>, ModelError> {
    let tool_calls = settings.tool_calls;
    let inner: Arc<dyn ChatModel> = match settings.api {
        Api::Chat => Arc::new(chat::ChatCompletions::new(settings, endpoint)?),
        Api::Responses => Arc::new(responses::Responses::new(settings, endpoint)?),
    };
    Ok(Arc::new(textual::Textual { inner, tool_calls }))
}

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

/// Of everything that a request asks, before a provider's habits are put on it: two requests with the same one are the
/// same request.
pub fn fingerprint(request: ModelRequest<'_>) -> String {
    /// What is fed to the hash piece by piece: a conversation with pictures is long.
    struct Hashed(Sha256);

    impl std::io::Write for Hashed {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut hashed = std::io::BufWriter::with_capacity(16 * 1024, Hashed(Sha256::new()));
    // Neither the types nor the writer can fail.
    drop(serde_json::to_writer(&mut hashed, &(request.messages, request.tools)));
    let digest = hashed.into_inner().map(|hashed| hashed.0.finalize()).unwrap_or_default();
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    pub content: Option<String>,
    pub reasoning: Option<String>,
    /// What the provider wants back as it was; see `Message::Assistant`.
    pub carried: Option<Value>,
    pub tool_calls: Vec<ToolCall>,
    /// `stop`, `tool_calls`, `length`, `content_filter`, or what the provider said.
    pub finish_reason: String,
    pub usage: Usage,
    /// The model's name in the reply, which may differ from the one asked for.
    pub model: Option<String>,
    /// The wait for a turn at the endpoint before the request was sent.
    pub queued: Duration,
}

/// Hears what happens on the way to a reply.
pub trait RetryObserver: Send + Sync {
    /// An attempt failed; the next one comes after the wait.
    fn retrying(&self, attempt: u32, reason: &str, wait: Duration);

    /// The request or the reply is not what it was at first; the text says what was done and why.
    fn noticed(&self, _text: &str) {}
}

/// What the loop does next, not what went wrong inside.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ModelError {
    /// Key, model or account refused, or the quota is gone; the same will happen to every other task.
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
