use std::sync::Arc;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::endpoint::Endpoint;
use super::quirks::Quirks;
use super::reply::ReplyBuilder;
use super::transport::{self, Transport};
use super::wire;
use super::{ChatModel, ModelError, ModelRequest, ModelSettings, Reply, RetryObserver};

/// A model behind an OpenAI-compatible chat completions endpoint.
pub(super) struct ChatCompletions {
    client: Client<OpenAIConfig>,
    settings: ModelSettings,
    endpoint: Arc<Endpoint>,
    quirks: Quirks,
}

impl ChatCompletions {
    pub(super) fn new(settings: ModelSettings, endpoint: Arc<Endpoint>) -> Result<Self, ModelError> {
        Ok(Self { client: transport::client(&settings)?, settings, endpoint, quirks: Quirks::default() })
    }
}

#[async_trait]
impl ChatModel for ChatCompletions {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        observer: &dyn RetryObserver,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        let transport = Transport::new(&self.client, &self.settings, &self.endpoint);
        let body = || wire::request(&self.settings, &self.quirks, request);
        let mut reply = transport.ask::<ReplyBuilder>(&self.quirks, body, observer, cancel).await?;
        self.settings.restore(request.tools, &mut reply.tool_calls);
        Ok(reply)
    }
}
