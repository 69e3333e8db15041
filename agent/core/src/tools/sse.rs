use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::TryStreamExt;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::{RequestBuilder, Response, Url};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{AuthRequiredError, HttpStatusError};
use tokio::io::AsyncBufRead;
use tokio_util::io::StreamReader;

use super::http::{Authorization, Endpoint, HttpError};
use super::inbox::Inbox;
use super::lines::{LINE_BYTES, Line, LineReader};
use super::report::Reporter;
use super::spill::Spills;

/// Events before the one that names the address of the POSTs; it has to be the first.
const EVENTS_BEFORE_ENDPOINT: usize = 10;

/// HTTP+SSE of 2024-11-05, which rmcp leaves out: one stream carries everything that the server says, and every
/// message of ours is a POST to the address that the stream's first event names.
pub(super) struct SseTransport {
    /// `None` after the close.
    events: Option<Events>,
    inbox: Inbox,
    outbox: Arc<Outbox>,
}

struct Outbox {
    client: reqwest::Client,
    address: Url,
    headers: HashMap<HeaderName, HeaderValue>,
    authorization: Authorization,
}

impl SseTransport {
    /// Opens the stream and waits for its first event.
    pub(super) async fn connect(
        endpoint: Endpoint,
        reporter: Arc<Reporter>,
        spills: Arc<Spills>,
    ) -> Result<Self, HttpError> {
        let Endpoint { url, headers, client, authorization } = endpoint;
        let mut outbox = Outbox { client, address: url, headers, authorization };
        let request = outbox.client.get(outbox.address.clone()).header(ACCEPT, "text/event-stream");
        let response = outbox.send(request).await?;
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !content_type.is_some_and(|value| value.starts_with("text/event-stream")) {
            return Err(HttpError::UnexpectedContentType(content_type.map(str::to_owned)));
        }
        let base = response.url().clone();
        let stream = response.bytes_stream().map_err(std::io::Error::other);
        let mut events = Events::new(Box::pin(StreamReader::new(stream)));
        events.lines = events.lines.spilling(reporter.redactor().clone());
        outbox.address = address(&mut events, &base).await?;
        Ok(Self { events: Some(events), inbox: Inbox::new(reporter, spills), outbox: Arc::new(outbox) })
    }
}

/// The address in the `endpoint` event. On another origin it would be given our headers and our token.
async fn address(events: &mut Events, base: &Url) -> Result<Url, HttpError> {
    for _ in 0..EVENTS_BEFORE_ENDPOINT {
        let Some(event) = events.next().await else { break };
        let (name, Line::Whole(data)) = (event.name, event.data) else { continue };
        if name != "endpoint" {
            continue;
        }
        let told = String::from_utf8_lossy(&data).trim().to_owned();
        return match base.join(&told) {
            Ok(address) if address.origin() == base.origin() => Ok(address),
            Ok(_) => Err(HttpError::UnexpectedServerResponse(
                "its `endpoint` event names another origin, which is not followed".into(),
            )),
            Err(error) => Err(HttpError::UnexpectedServerResponse(
                format!("its `endpoint` event names no address: {error}").into(),
            )),
        };
    }
    Err(HttpError::UnexpectedServerResponse("its stream did not begin with an `endpoint` event".into()))
}

impl Transport<RoleClient> for SseTransport {
    type Error = HttpError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let outbox = self.outbox.clone();
        async move {
            let request = outbox
                .client
                .post(outbox.address.clone())
                .header(CONTENT_TYPE, "application/json")
                .body(serde_json::to_vec(&item)?);
            outbox.send(request).await.map(drop)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.inbox.pop() {
                return Some(message);
            }
            tokio::task::coop::consume_budget().await;
            let event = self.events.as_mut()?.next().await?;
            if matches!(event.name.as_str(), "" | "message") {
                self.inbox.take(event.data);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events = None;
        Ok(())
    }
}

impl Outbox {
    async fn send(&self, request: RequestBuilder) -> Result<Response, HttpError> {
        let mut request = request;
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(token) = self.authorization.token().await? {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = request.send().await.map_err(HttpError::Client)?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::UNAUTHORIZED => {
                let challenge =
                    response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
                Err(HttpError::AuthRequired(AuthRequiredError::new(challenge.unwrap_or_default().to_owned())))
            }
            status => Err(HttpError::HttpStatus(HttpStatusError::new(status.as_u16(), None))),
        }
    }
}

struct Event {
    /// Empty where the server named none.
    name: String,
    data: Line,
}

/// Server-sent events of bounded size. `next` may be dropped at any await and called again.
struct Events {
    lines: LineReader<Pin<Box<dyn AsyncBufRead + Send>>>,
    name: String,
    data: Option<Line>,
}

impl Events {
    fn new(stream: Pin<Box<dyn AsyncBufRead + Send>>) -> Self {
        Self { lines: LineReader::new(stream, LINE_BYTES), name: String::new(), data: None }
    }

    /// `None` at the end of the stream; an event that has not ended by then is dropped, as the standard says.
    async fn next(&mut self) -> Option<Event> {
        loop {
            tokio::task::coop::consume_budget().await;
            match self.lines.next().await? {
                Line::Whole(mut line) => {
                    if line.last() == Some(&b'\r') {
                        line.pop();
                    }
                    if line.is_empty() {
                        let name = std::mem::take(&mut self.name);
                        if let Some(data) = self.data.take() {
                            return Some(Event { name, data });
                        }
                    } else if let Some(data) = field(&line, b"data") {
                        self.append(data);
                    } else if let Some(name) = field(&line, b"event") {
                        self.name = String::from_utf8_lossy(name).into_owned();
                    }
                }
                Line::TooLong { bytes, head, tail, whole } => {
                    let head = field(&head, b"data").unwrap_or(&head).to_vec();
                    self.data = Some(Line::TooLong { bytes, head, tail, whole });
                }
            }
        }
    }

    fn append(&mut self, data: &[u8]) {
        match &mut self.data {
            None => self.data = Some(Line::Whole(data.to_vec())),
            Some(Line::Whole(whole)) if whole.len() + data.len() < LINE_BYTES => {
                whole.push(b'\n');
                whole.extend_from_slice(data);
            }
            Some(Line::Whole(whole)) => {
                let head = whole[..whole.len().min(data.len())].to_vec();
                let bytes = whole.len() + data.len();
                self.data = Some(Line::TooLong { bytes, head, tail: data.to_vec(), whole: None });
            }
            Some(Line::TooLong { bytes, .. }) => *bytes += data.len(),
        }
    }
}

/// The value of `name: value`, where one space after the colon does not count.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn events(text: &'static str) -> Vec<(String, String)> {
        let mut events = Events::new(Box::pin(text.as_bytes()));
        let mut found = Vec::new();
        while let Some(Event { name, data: Line::Whole(data) }) = events.next().await {
            found.push((name, String::from_utf8(data).unwrap()));
        }
        found
    }

    #[tokio::test]
    async fn events_are_read_as_the_standard_says() {
        let check = async |text: &'static str, expected: &[(&str, &str)]| {
            let expected: Vec<_> =
                expected.iter().map(|&(name, data)| (name.to_owned(), data.to_owned())).collect();
            assert_eq!(events(text).await, expected, "{text:?}");
        };
        check("event: endpoint\ndata: /m?s=1\n\n", &[("endpoint", "/m?s=1")]).await;
        check(": ping\n\ndata:{}\r\n\r\nid: 7\nretry: 5\ndata: b\n\n", &[("", "{}"), ("", "b")]).await;
        check("data: a\ndata: b\n\ndata: unfinished", &[("", "a\nb")]).await;
        // A name without data is no event, and does not stick to the next one.
        check("event: x\n\ndata: a\n\n", &[("", "a")]).await;
    }

    #[tokio::test]
    async fn the_address_stays_on_its_origin() {
        let base = Url::parse("http://127.0.0.1:80/base/sse?key=1").unwrap();
        let check = async |told: &str, expected: Result<&str, &str>| {
            let stream = format!("event: endpoint\ndata: {told}\n\n").leak();
            let found = address(&mut Events::new(Box::pin(stream.as_bytes())), &base).await;
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_str(), expected),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        };
        check("/messages?id=2", Ok("http://127.0.0.1/messages?id=2")).await;
        check("messages", Ok("http://127.0.0.1/base/messages")).await;
        check("http://127.0.0.1/m", Ok("http://127.0.0.1/m")).await;
        for elsewhere in
            ["http://127.0.0.2/m", "//example.invalid/m", "https://127.0.0.1/m", "http://127.0.0.1:81/"]
        {
            check(elsewhere, Err("another origin")).await;
        }
    }
}
