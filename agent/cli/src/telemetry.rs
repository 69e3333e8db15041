//! OpenTelemetry: a run as spans of the GenAI conventions, sent while it works to the collector that
//! `OTEL_EXPORTER_OTLP_ENDPOINT` names, by OTLP over HTTP in JSON. Without that variable nothing of this happens.

pub(crate) mod otlp;
mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use crate::environment::Environment;

pub use spans::SampleSpans;

/// Spans that are sent together at most; what a batch processor of the SDKs takes.
const BATCH_SPANS: usize = 512;

/// Between the first span of a batch and its being sent.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Spans that wait for a collector that is slow; more are dropped and counted, for the run waits for no collector.
const MAX_WAITING_SPANS: usize = 16 * 1024;

/// For one request.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// What is still to be sent when the run ends may take so long.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const DISABLED: &str = "OTEL_SDK_DISABLED";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const CAPTURE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// Whether spans hold what was said, or only that it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Captured,
    LeftOut,
}

/// Where spans go, as the environment says by the variables of the specification.
#[derive(Debug, Clone, PartialEq)]
pub struct Destination {
    url: String,
    headers: HeaderMap,
    service: String,
    content: Content,
}

impl Destination {
    /// `None` when no collector is named.
    ///
    /// # Errors
    /// When a header cannot be sent; its value is not repeated.
    pub fn of(environment: &Environment) -> anyhow::Result<Option<Self>> {
        let is_true = |name: &str| {
            environment.get_filled(name).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
        };
        let url = match (environment.get_filled(TRACES_ENDPOINT), environment.get_filled(ENDPOINT)) {
            _ if is_true(DISABLED) => return Ok(None),
            (Some(url), _) => url.to_owned(),
            (None, Some(url)) => format!("{}/v1/traces", url.trim_end_matches('/')),
            (None, None) => return Ok(None),
        };
        let mut headers = HeaderMap::new();
        for pair in environment.get_filled(HEADERS).unwrap_or_default().split(',') {
            let Some((name, value)) = pair.split_once('=') else { continue };
            let bad = || anyhow::anyhow!("`{HEADERS}` holds a header `{}` that cannot be sent", name.trim());
            let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8()?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::try_from(name.trim()).map_err(|_| bad())?, value);
        }
        let service = environment.get_filled(SERVICE_NAME).unwrap_or("gaia").to_owned();
        let content = if is_true(CAPTURE) { Content::Captured } else { Content::LeftOut };
        Ok(Some(Self { url, headers, service, content }))
    }
}

/// Takes the spans of a run and sends them in batches. No trouble with a collector is one of the run.
#[derive(Debug)]
pub struct Telemetry {
    trace: spans::RunTrace,
    content: Content,
    /// `None` is the end.
    spans: mpsc::Sender<Option<Value>>,
    dropped: AtomicU64,
    sending: Mutex<Option<JoinHandle<()>>>,
}

impl Telemetry {
    /// Of the run of this id, with this model.
    pub fn start(destination: Destination, run: &str, model: &str) -> anyhow::Result<Arc<Self>> {
        let client = reqwest::Client::builder().timeout(SEND_TIMEOUT).build()?;
        let (spans, waiting) = mpsc::channel(MAX_WAITING_SPANS);
        let content = destination.content;
        let sender = Sender { client, destination, has_failed: AtomicBool::new(false) };
        Ok(Arc::new(Self {
            trace: spans::RunTrace::new(run, model),
            content,
            spans,
            dropped: AtomicU64::new(0),
            sending: Mutex::new(Some(tokio::spawn(sender.send_all(waiting)))),
        }))
    }

    fn push(&self, span: Value) {
        if self.spans.try_send(Some(span)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the span of the run and waits a little for what is not sent yet.
    pub async fn close(&self) {
        self.push(self.trace.run_span());
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!("{dropped} spans were not sent: the collector was too slow");
        }
        let Some(mut sending) = self.sending.lock().await.take() else { return };
        let ending = async {
            self.spans.send(None).await.ok();
            (&mut sending).await
        };
        if tokio::time::timeout(CLOSE_LIMIT, ending).await.is_err() {
            sending.abort();
            tracing::warn!("the last spans were not sent: the collector took too long");
        }
    }
}

struct Sender {
    client: reqwest::Client,
    destination: Destination,
    /// Told once.
    has_failed: AtomicBool,
}

impl Sender {
    async fn send_all(self, mut waiting: mpsc::Receiver<Option<Value>>) {
        let mut is_open = true;
        while is_open {
            let Some(Some(first)) = waiting.recv().await else { return };
            let mut batch = vec![first];
            let due = tokio::time::sleep(BATCH_INTERVAL);
            tokio::pin!(due);
            while is_open && batch.len() < BATCH_SPANS {
                tokio::select! {
                    next = waiting.recv() => match next.flatten() {
                        Some(span) => batch.push(span),
                        None => is_open = false,
                    },
                    () = &mut due => break,
                }
            }
            self.send(batch).await;
        }
    }

    /// Once, and once more where the specification says that it may help.
    async fn send(&self, batch: Vec<Value>) {
        let count = batch.len();
        let body = otlp::request(&self.destination.service, batch);
        for is_last in [false, true] {
            let request = self.client.post(&self.destination.url).headers(self.destination.headers.clone());
            let failure = match request.json(&body).send().await {
                Ok(response) if response.status().is_success() => return,
                Ok(response) => {
                    let status = response.status();
                    if is_last || !matches!(status.as_u16(), 429 | 502 | 503 | 504) {
                        format!("it answered {status}")
                    } else {
                        tokio::time::sleep(BATCH_INTERVAL).await;
                        continue;
                    }
                }
                Err(error) if is_last => error.without_url().to_string(),
                Err(_) => {
                    tokio::time::sleep(BATCH_INTERVAL).await;
                    continue;
                }
            };
            if !self.has_failed.swap(true, Ordering::Relaxed) {
                tracing::warn!("{count} spans did not reach the collector of `{ENDPOINT}`: {failure}");
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(variables: &[(&str, &str)]) -> anyhow::Result<Option<Destination>> {
        let pairs = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Destination::of(&pairs.collect())
    }

    #[test]
    fn the_variables_of_the_specification_say_where_to() {
        assert_eq!(destination(&[]).unwrap(), None);
        assert_eq!(destination(&[(ENDPOINT, "http://c:4318"), (DISABLED, "true")]).unwrap(), None);
        let found = destination(&[
            (ENDPOINT, "http://c:4318/"),
            (HEADERS, "x-key=a%20b, authorization=Bearer%20s3cret"),
            (CAPTURE, "TRUE"),
        ]);
        let found = found.unwrap().unwrap();
        assert_eq!((found.url.as_str(), found.service.as_str()), ("http://c:4318/v1/traces", "gaia"));
        assert_eq!(found.headers["x-key"], "a b");
        assert_eq!(found.content, Content::Captured);
        assert!(!format!("{found:?}").contains("s3cret"));
        let own =
            destination(&[(ENDPOINT, "http://c"), (TRACES_ENDPOINT, "http://t/x"), (SERVICE_NAME, "s")]);
        let own = own.unwrap().unwrap();
        assert_eq!(
            (own.url.as_str(), own.service.as_str(), own.content),
            ("http://t/x", "s", Content::LeftOut)
        );
        let error = destination(&[(ENDPOINT, "http://c"), (HEADERS, "a b=s3cret")]).unwrap_err();
        assert!(error.to_string().contains("`a b`") && !error.to_string().contains("s3cret"), "{error}");
    }
}
