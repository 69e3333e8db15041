use std::fmt;
use std::time::Duration;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_trait::async_trait;
use futures_util::{Stream, StreamExt};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::classify::{Verdict, failure};
use super::reply::ReplyBuilder;
use super::retry::RetryPolicy;
use super::service::{Delivery, HttpFailure, ModelService, describe};
use super::wire;
use super::{ChatModel, ModelError, ModelRequest, Reply, RetryObserver, SchemaProfile};

/// A model behind an OpenAI-compatible chat completions endpoint.
pub struct ChatCompletions {
    client: Client<OpenAIConfig>,
    settings: ChatSettings,
}

/// How to reach and ask the model.
#[derive(Clone)]
pub struct ChatSettings {
    pub name: String,
    /// Up to and including `/v1`: `/chat/completions` is added.
    pub base_url: String,
    /// Sent as a bearer token; local servers need none.
    pub api_key: Option<String>,
    pub stream: bool,
    /// Left to the provider when `None`.
    pub parallel_tool_calls: Option<bool>,
    /// The field in which earlier thoughts are sent back, for vendors that want them.
    pub reasoning_field: Option<String>,
    /// Sent as they are.
    pub params: Map<String, Value>,
    /// One attempt in all, from the first byte sent to the last received.
    pub request_timeout: Duration,
    /// The longest silence before and inside a stream.
    pub idle_timeout: Duration,
    pub max_retries: u32,
    /// Whose rules the schemas of tools are written for.
    pub schema_profile: SchemaProfile,
}

impl ChatSettings {
    pub(super) fn profile(&self) -> SchemaProfile {
        self.schema_profile.resolve(&self.base_url, &self.name)
    }
}

impl fmt::Debug for ChatSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ChatSettings")
            .field("name", &self.name)
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "[redacted]"))
            .finish_non_exhaustive()
    }
}

impl ChatCompletions {
    pub fn new(settings: ChatSettings) -> Result<Self, ModelError> {
        let client = reqwest::Client::builder()
            .user_agent(concat!("gaia/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| {
                ModelError::Refused(format!("cannot set up the HTTP client: {}", describe(&error)))
            })?;
        // Built field by field: the default of the library reads OPENAI_* and would let a stray variable redirect a run.
        let config = OpenAIConfig::new()
            .with_api_base(settings.base_url.trim_end_matches('/'))
            .with_api_key(settings.api_key.as_deref().unwrap_or("none"))
            .with_org_id("")
            .with_project_id("");
        let delivery = if settings.stream { Delivery::Streamed } else { Delivery::Whole };
        let client =
            Client::build(client.clone(), config).with_http_service(ModelService { client, delivery });
        Ok(Self { client, settings })
    }

    async fn attempt(&self, body: &Value) -> Result<Reply, Verdict> {
        let settings = &self.settings;
        let exchange = async {
            if settings.stream {
                let chat = self.client.chat();
                let opening = chat.create_stream_byot::<_, Value>(body);
                let opened = tokio::time::timeout(settings.idle_timeout, opening).await;
                self.read_stream(opened.map_err(|_| self.silence())?.map_err(verdict)?).await
            } else {
                let whole: Value = self.client.chat().create_byot(body).await.map_err(verdict)?;
                let mut reply = ReplyBuilder::default();
                reply.add(&whole)?;
                reply.finish()
            }
        };
        tokio::time::timeout(settings.request_timeout, exchange).await.unwrap_or_else(|_| {
            Err(Verdict::retry(format!(
                "no whole reply within {} (`model.request_timeout`)",
                seconds(settings.request_timeout)
            )))
        })
    }

    async fn read_stream(
        &self,
        mut stream: impl Stream<Item = Result<Value, OpenAIError>> + Unpin,
    ) -> Result<Reply, Verdict> {
        let mut reply = ReplyBuilder::default();
        loop {
            match tokio::time::timeout(self.settings.idle_timeout, stream.next()).await {
                Err(_) => return Err(self.silence()),
                Ok(None) => return reply.finish(),
                Ok(Some(chunk)) => reply.add(&chunk.map_err(verdict)?)?,
            }
        }
    }

    fn silence(&self) -> Verdict {
        Verdict::retry(format!(
            "the stream was silent for {} (`model.idle_timeout`)",
            seconds(self.settings.idle_timeout)
        ))
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
        let body = wire::request(&self.settings, request.messages, request.tools);
        let policy = RetryPolicy { retries: self.settings.max_retries };
        let mut reply = policy.run(observer, cancel, || self.attempt(&body)).await?;
        let profile = self.settings.profile();
        for call in &mut reply.tool_calls {
            if let Some(tool) = request.tools.iter().find(|tool| tool.name == call.name) {
                call.arguments = profile.restore(tool, std::mem::take(&mut call.arguments));
            }
        }
        Ok(reply)
    }
}

fn verdict(error: OpenAIError) -> Verdict {
    match error {
        OpenAIError::Boxed(error) => match error.downcast_ref::<HttpFailure>() {
            Some(http) => failure(http),
            None => Verdict::retry(error.to_string()),
        },
        OpenAIError::Reqwest(error) => Verdict::retry(describe(&error)),
        OpenAIError::JSONDeserialize(error, body) => {
            let shown: String = body.chars().take(200).collect();
            Verdict::retry(format!("the reply is not JSON ({error}): {shown}"))
        }
        OpenAIError::StreamError(error) => Verdict::retry(error.to_string()),
        other => Verdict::GiveUp(ModelError::Request(other.to_string())),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
