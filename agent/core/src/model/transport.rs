//! The way of a request to the endpoint and of its reply back, the same for every API.

use std::time::Duration;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use futures_util::{Stream, StreamExt};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::classify::{Verdict, failure};
use super::endpoint::Endpoint;
use super::quirks::Quirks;
use super::retry::RetryPolicy;
use super::service::{Delivery, HttpFailure, ModelService, describe};
use super::{Api, ModelError, ModelSettings, Reply, RetryObserver};
use crate::limits::BYTES_PER_TOKEN;

/// Gathers the pieces of one reply: the one object of a whole reply, or the objects of a stream.
pub(super) trait Gather: Default {
    fn add(&mut self, piece: &Value) -> Result<(), Verdict>;

    /// The reply, once the body or stream has ended.
    fn finish(self) -> Result<Reply, Verdict>;
}

/// Sends requests to one endpoint, in its pace, and again where that may help.
pub(super) struct Transport<'a> {
    client: &'a Client<OpenAIConfig>,
    settings: &'a ModelSettings,
    endpoint: &'a Endpoint,
}

/// The HTTP client for an endpoint.
pub(super) fn client(settings: &ModelSettings) -> Result<Client<OpenAIConfig>, ModelError> {
    let client =
        reqwest::Client::builder().user_agent(concat!("gaia/", env!("CARGO_PKG_VERSION"))).build().map_err(
            |error| ModelError::Refused(format!("cannot set up the HTTP client: {}", describe(&error))),
        )?;
    // Built field by field: the default of the library reads OPENAI_* and would let a stray variable redirect a run.
    let config = OpenAIConfig::new()
        .with_api_base(settings.base_url.trim_end_matches('/'))
        .with_api_key(settings.api_key.as_deref().unwrap_or("none"))
        .with_org_id("")
        .with_project_id("");
    let delivery = if settings.stream { Delivery::Streamed } else { Delivery::Whole };
    Ok(Client::build(client.clone(), config).with_http_service(ModelService { client, delivery }))
}

impl<'a> Transport<'a> {
    pub(super) fn new(
        client: &'a Client<OpenAIConfig>,
        settings: &'a ModelSettings,
        endpoint: &'a Endpoint,
    ) -> Self {
        Self { client, settings, endpoint }
    }

    /// The reply to the request, or why there is none for good. A refusal that teaches something about the endpoint
    /// leads to another request.
    pub(super) async fn ask<G: Gather>(
        &self,
        quirks: &Quirks,
        request: impl Fn() -> Value,
        observer: &dyn RetryObserver,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        loop {
            match self.send::<G>(&request(), observer, cancel).await {
                Err(ModelError::Request(words)) => match quirks.learn(&words) {
                    Some(quirk) => observer.noticed(quirk.describe()),
                    None => return Err(ModelError::Request(words)),
                },
                end => return end,
            }
        }
    }

    async fn send<G: Gather>(
        &self,
        body: &Value,
        observer: &dyn RetryObserver,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        let policy = RetryPolicy { retries: self.settings.max_retries };
        let estimated_tokens = (body.to_string().len() / BYTES_PER_TOKEN) as u64;
        let call = self.endpoint.begin();
        let attempt = || async {
            let arrived = Instant::now();
            let permit = call.admit(estimated_tokens).await.map_err(Verdict::GiveUp)?;
            let queued = arrived.elapsed();
            let result = self.attempt::<G>(body).await.map(|reply| Reply { queued, ..reply });
            permit.settle(&result);
            call.note(&result);
            result
        };
        let result = policy.run(observer, cancel, attempt).await;
        call.ended(result)
    }

    async fn attempt<G: Gather>(&self, body: &Value) -> Result<Reply, Verdict> {
        let settings = self.settings;
        // Whole replies come as a stream of one object: the service sees to that.
        let exchange = async {
            let opening = async {
                match settings.api {
                    Api::Chat => self.client.chat().create_stream_byot::<_, Value>(body).await,
                    Api::Responses => self.client.responses().create_stream_byot::<_, Value>(body).await,
                }
            };
            let patience = if settings.stream { settings.idle_timeout } else { settings.request_timeout };
            let opened = tokio::time::timeout(patience, opening).await;
            self.read_stream::<G>(opened.map_err(|_| self.silence())?.map_err(verdict)?).await
        };
        tokio::time::timeout(settings.request_timeout, exchange).await.unwrap_or_else(|_| {
            Err(Verdict::retry(format!(
                "no whole reply within {} (`model.request_timeout`)",
                seconds(settings.request_timeout)
            )))
        })
    }

    async fn read_stream<G: Gather>(
        &self,
        mut stream: impl Stream<Item = Result<Value, OpenAIError>> + Unpin,
    ) -> Result<Reply, Verdict> {
        let mut reply = G::default();
        loop {
            match tokio::time::timeout(self.settings.idle_timeout, stream.next()).await {
                Err(_) => return Err(self.silence()),
                Ok(None) => return reply.finish(),
                Ok(Some(Err(error))) if is_comment(&error) => {}
                Ok(Some(piece)) => reply.add(&piece.map_err(verdict)?)?,
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

/// A keep-alive that something on the way took for data.
fn is_comment(error: &OpenAIError) -> bool {
    matches!(error, OpenAIError::JSONDeserialize(_, data) if data.trim_start().starts_with(':') || data.trim().is_empty())
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
