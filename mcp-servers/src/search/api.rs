//! Requests to the interfaces of search engines.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use super::limiter::Limiter;
use crate::toolset::{Log, LogLevel};
use crate::web::record::{self, Purpose};
use crate::web::retry::{self, Verdict};

/// An engine answers within a second or two, or not at all.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A page of results has some hundred kilobytes.
const MAX_REPLY_BYTES: usize = 8 * 1024 * 1024;
/// Of an error's body, what is shown.
const MAX_ERROR_CHARS: usize = 2_000;

/// The way to one engine.
#[derive(Debug)]
pub(super) struct Api {
    http: reqwest::Client,
    limiter: Limiter,
}

/// A reply that is none. The texts are the official server's where it has one.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum ApiError {
    #[error("{status} {phrase}\n{body}{advice}")]
    Status {
        status: u16,
        phrase: String,
        body: String,
        advice: String,
        /// As it came.
        raw: String,
    },
    #[error("fetch failed: {0}")]
    Network(String),
    #[error("the search engine's reply is not JSON: {0}")]
    NotJson(String),
}

/// One request.
pub(super) enum Send<'a> {
    Get(&'a [(String, String)]),
    Post(&'a Value),
}

impl Api {
    pub(super) fn new(limiter: Limiter) -> Result<Self, String> {
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| format!("failed to set up the HTTP client: {error}"))?;
        Ok(Self { http, limiter })
    }

    /// Obeys the engine's limits, and tries again when it is asked to.
    pub(super) async fn send(
        &self,
        base: &Url,
        path: &str,
        send: &Send<'_>,
        headers: &HeaderMap,
        log: &Log,
    ) -> Result<Value, ApiError> {
        let mut url = base.clone();
        url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
        if let Send::Get(query) = send
            && !query.is_empty()
        {
            url.query_pairs_mut().extend_pairs(*query);
        }
        let mut attempt = 1;
        loop {
            self.limiter.wait().await;
            let start = Instant::now();
            let request = match send {
                Send::Get(_) => self.http.get(url.clone()),
                Send::Post(body) => self.http.post(url.clone()).json(body),
            };
            let replied = read(request.headers(headers.clone())).await;
            let (level, line) = match &replied {
                Ok(reply) => (
                    LogLevel::Info,
                    record::replied(
                        Purpose::Search,
                        &url,
                        reply.status.as_u16(),
                        reply.body.len(),
                        start.elapsed(),
                        "network",
                    ),
                ),
                Err(error) => (
                    LogLevel::Warning,
                    record::failed(Purpose::Search, &url, start.elapsed(), &error.to_string()),
                ),
            };
            log.write(level, line);
            let reply = replied?;
            self.limiter.learn(&reply.headers);
            match retry::judge(reply.status, &reply.headers, attempt, SystemTime::now()) {
                Verdict::RetryAfter(wait) if !self.limiter.is_spent() => {
                    tokio::time::sleep(wait).await;
                    attempt += 1;
                }
                Verdict::Take if reply.status.is_success() => {
                    return serde_json::from_slice(&reply.body)
                        .map_err(|error| ApiError::NotJson(error.to_string()));
                }
                _ => return Err(refused(&reply, self.limiter.is_spent())),
            }
        }
    }
}

struct Reply {
    status: http::StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

async fn read(request: reqwest::RequestBuilder) -> Result<Reply, ApiError> {
    let mut response = request.send().await.map_err(|error| ApiError::Network(cause(&error)))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| ApiError::Network(cause(&error)))? {
        if body.len() + chunk.len() > MAX_REPLY_BYTES {
            return Err(ApiError::Network(format!("the reply has more than {MAX_REPLY_BYTES} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Reply { status, headers, body })
}

/// The innermost cause: outer layers repeat the address, and an address may hold a key.
fn cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", TIMEOUT.as_secs());
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

fn refused(reply: &Reply, is_spent: bool) -> ApiError {
    let text = String::from_utf8_lossy(&reply.body);
    let body = match serde_json::from_str::<Value>(&text) {
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_default(),
        Err(_) => text.chars().take(MAX_ERROR_CHARS).collect(),
    };
    let advice = match reply.status.as_u16() {
        401 | 403 => "\nThe engine does not take this server's key; another engine, or none, is left.",
        429 if is_spent => {
            "\nThe plan's requests are used up until its period ends; use other means than this search."
        }
        429 => "\nThe plan's rate is reached, also after waiting; search less often.",
        _ => "",
    };
    ApiError::Status {
        status: reply.status.as_u16(),
        phrase: reply.status.canonical_reason().unwrap_or_default().to_owned(),
        body,
        advice: advice.to_owned(),
        raw: text.chars().take(MAX_ERROR_CHARS).collect(),
    }
}
