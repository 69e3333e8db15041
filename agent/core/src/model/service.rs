use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use bytes::{Buf, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde::de::IgnoredAny;

/// Bytes of an error body that are read: enough for any provider's words, and a proxy's page stays out of memory.
const ERROR_BODY_BYTES: usize = 64 * 1024;

/// Bytes of a whole (not streamed) reply; the largest real ones are some hundred KiB.
const REPLY_BODY_BYTES: usize = 64 * 1024 * 1024;

/// The one way to the network for model calls. It keeps what async-openai drops: the status, Retry-After and the
/// body of a failure. It retries nothing: a reply can also fail after its status, so the retry stands above.
#[derive(Clone)]
pub(super) struct ModelService {
    pub(super) client: reqwest::Client,
    pub(super) delivery: Delivery,
}

/// How replies were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Streamed,
    Whole,
}

/// A request that got no usable reply.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum HttpFailure {
    #[error("HTTP {status}: {body}")]
    Status { status: u16, retry_after: Option<Duration>, body: String },
    /// A web page with a good status: a proxy's, or the address is not that of an API.
    #[error("HTTP {status}, a web page: {body}")]
    Page { status: u16, body: String },
    /// Nothing was sent: refused, not resolved.
    #[error("{0}")]
    Unreachable(String),
    /// No reply: reset, timed out.
    #[error("{0}")]
    Transport(String),
}

impl From<HttpFailure> for OpenAIError {
    fn from(failure: HttpFailure) -> Self {
        OpenAIError::Boxed(Box::new(failure))
    }
}

impl tower::Service<HttpRequestFactory> for ModelService {
    type Response = reqwest::Response;
    type Error = HttpFailure;
    type Future = BoxFuture<'static, Result<reqwest::Response, HttpFailure>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, factory: HttpRequestFactory) -> Self::Future {
        let client = self.client.clone();
        let delivery = self.delivery;
        Box::pin(async move {
            let request = factory.build().await.map_err(|error| HttpFailure::Transport(error.to_string()))?;
            let response = client.execute(request).await.map_err(|error| match error.is_connect() {
                true => HttpFailure::Unreachable(describe(&error)),
                false => HttpFailure::Transport(describe(&error)),
            })?;
            let status = response.status();
            let content_type = header(response.headers(), CONTENT_TYPE.as_str()).unwrap_or("").to_owned();
            if !status.is_success() {
                let retry_after = retry_after(response.headers(), SystemTime::now());
                let body = read(response, ERROR_BODY_BYTES).await.unwrap_or_default();
                return Err(HttpFailure::Status { status: status.as_u16(), retry_after, body });
            }
            if content_type.starts_with("text/html") {
                let body = read(response, ERROR_BODY_BYTES).await.unwrap_or_default();
                return Err(HttpFailure::Page { status: status.as_u16(), body });
            }
            if delivery == Delivery::Streamed && !content_type.starts_with("application/json") {
                return without_mark(response);
            }
            as_stream(response).await
        })
    }
}

/// A body as a stream, so that there is one way to read a reply. Some servers send one object although a stream was
/// asked for, others events although none was, and some append the end of a stream to an object.
async fn as_stream(response: reqwest::Response) -> Result<reqwest::Response, HttpFailure> {
    let body = read(response, REPLY_BODY_BYTES).await.map_err(HttpFailure::Transport)?;
    let text = body.trim_start_matches('\u{feff}').trim();
    let events = if text.starts_with(['{', '[']) {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        let end = match values.next() {
            Some(Ok(_)) => values.byte_offset(),
            // What is wrong with it is told by whoever reads the event.
            _ => text.len(),
        };
        let one_line: String = text[..end].split(['\n', '\r']).collect();
        format!("data: {one_line}\n\ndata: [DONE]\n\n")
    } else if text.is_empty() || text.contains("data:") {
        body
    } else {
        return Err(HttpFailure::Page { status: 200, body });
    };
    http::Response::builder()
        .header(CONTENT_TYPE, "text/event-stream")
        .body(events)
        .map(reqwest::Response::from)
        .map_err(|error| HttpFailure::Transport(error.to_string()))
}

/// A stream may begin with a byte order mark, and the parser behind this panics over one.
fn without_mark(mut response: reqwest::Response) -> Result<reqwest::Response, HttpFailure> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    // Not before somebody reads: the silence before the first byte is for them to count.
    let begun = async move {
        let mut head = BytesMut::new();
        while head.len() < MARK.len() {
            match response.chunk().await? {
                Some(bytes) => head.extend_from_slice(&bytes),
                None => break,
            }
        }
        if head.starts_with(MARK) {
            head.advance(MARK.len());
        }
        Ok::<_, reqwest::Error>(stream::iter([Ok(head.freeze())]).chain(response.bytes_stream()))
    };
    http::Response::builder()
        .header(CONTENT_TYPE, "text/event-stream")
        .body(reqwest::Body::wrap_stream(stream::once(begun).try_flatten()))
        .map(reqwest::Response::from)
        .map_err(|error| HttpFailure::Transport(error.to_string()))
}

async fn read(response: reqwest::Response, limit_bytes: usize) -> Result<String, String> {
    let mut body = BytesMut::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| describe(&error))?;
        let room = limit_bytes.saturating_sub(body.len());
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if room <= chunk.len() {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// `Retry-After` in seconds (whole or not) or as a date, or the `retry-after-ms` that OpenAI sends.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    if let Some(millis) = header(headers, "retry-after-ms").and_then(|value| value.trim().parse::<f64>().ok())
    {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let value = header(headers, RETRY_AFTER.as_str())?.trim();
    match value.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => {
            httpdate::parse_http_date(value).ok().map(|date| date.duration_since(now).unwrap_or_default())
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// reqwest's own text stops at "error sending request"; the cause is what helps. URLs may hold keys: left out.
pub(super) fn describe(error: &reqwest::Error) -> String {
    let mut text = if error.is_timeout() {
        "timed out".to_owned()
    } else if error.is_connect() {
        "could not connect".to_owned()
    } else {
        "connection failed".to_owned()
    };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.source().is_none() {
            text = format!("{text}: {cause}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_every_form() {
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 10:00:00 GMT").unwrap();
        for (name, value, expected) in [
            ("retry-after", "7", Some(7.0)),
            ("retry-after", "0.25", Some(0.25)),
            ("retry-after", "Mon, 30 Nov 2026 10:00:09 GMT", Some(9.0)),
            ("retry-after", "Mon, 30 Nov 2026 09:00:00 GMT", Some(0.0)),
            ("retry-after-ms", "1500", Some(1.5)),
            ("retry-after", "-3", None),
            ("retry-after", "soon", None),
            ("retry-after", "1e300", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(
                retry_after(&headers, now).map(|wait| wait.as_secs_f64()),
                expected,
                "{name}: {value}"
            );
        }
    }
}
