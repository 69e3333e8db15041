//! What servers do, replayed byte by byte: `exchanges/index.toml` says what each file is, where it comes from, and
//! what is to be made of it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gaia_agent::model::{
    Api, Endpoint, EndpointLimits, ModelError, ModelRequest, ModelSettings, Reply, RetryObserver, connect,
};
use gaia_agent::{Message, Part, ToolDefinition};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Deserialize)]
struct Index {
    exchange: Vec<Exchange>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exchange {
    file: String,
    server: String,
    shows: String,
    source: String,
    #[serde(default)]
    api: ApiName,
    stream: bool,
    expect: Expected,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ApiName {
    #[default]
    Chat,
    Responses,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    content: Option<String>,
    reasoning: Option<String>,
    calls: Vec<[String; 3]>,
    finish: Option<String>,
    usage: Option<[u64; 4]>,
    carried: Option<String>,
    notices: Vec<String>,
    retry: Option<String>,
    wait: Option<f64>,
    overload: bool,
    refused: Option<String>,
    request: Option<String>,
    content_refused: Option<String>,
    garbled: Option<String>,
    overflow: Option<toml::Value>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exchanges")
}

fn index() -> Vec<Exchange> {
    let text = fs_err::read_to_string(folder().join("index.toml")).unwrap();
    toml::from_str::<Index>(&text).unwrap().exchange
}

/// Answers every request on one port with the same bytes, some at a time.
async fn serve(listener: TcpListener, bytes: Vec<u8>) {
    while let Ok((mut connection, _)) = listener.accept().await {
        connection.set_nodelay(true).unwrap();
        read_request(&mut connection).await;
        // An odd size: it falls into the middle of lines and of characters.
        for piece in bytes.chunks(61) {
            if connection.write_all(piece).await.is_err() {
                break;
            }
        }
        let _ = connection.shutdown().await;
    }
}

async fn read_request(connection: &mut TcpStream) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = connection.read(&mut buffer).await.unwrap();
        request.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&request).to_lowercase();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.split_once("content-length: ").map_or("0", |(_, rest)| rest);
            let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
            if count == 0 || request.len() >= head.len() + 4 + length {
                return;
            }
        }
    }
}

/// Writes down the first failed attempt, and has no patience for a second.
#[derive(Default)]
struct Seen {
    retry: Mutex<Option<(String, Duration)>>,
    notices: Mutex<Vec<String>>,
    enough: CancellationToken,
}

impl RetryObserver for Seen {
    fn retrying(&self, _attempt: u32, reason: &str, wait: Duration) {
        *self.retry.lock().unwrap() = Some((reason.to_owned(), wait));
        self.enough.cancel();
    }

    fn noticed(&self, text: &str) {
        self.notices.lock().unwrap().push(text.to_owned());
    }
}

async fn replay(exchange: &Exchange) -> (Result<Reply, ModelError>, Seen, Arc<Endpoint>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(serve(listener, fs_err::read(folder().join(&exchange.file)).unwrap()));
    let settings = ModelSettings {
        api: match exchange.api {
            ApiName::Chat => Api::Chat,
            ApiName::Responses => Api::Responses,
        },
        stream: exchange.stream,
        request_timeout: Duration::from_secs(30),
        ..ModelSettings::new("m", &format!("http://{address}/v1"))
    };
    let endpoint = Arc::new(Endpoint::new(EndpointLimits::default()));
    let model = connect(settings, endpoint.clone()).unwrap();
    let messages = [Message::User { content: vec![Part::Text { text: "q".to_owned() }] }];
    let tool = |name: &str| ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": {"command": {"type": "string"}}}),
    };
    let tools = [tool("bash"), tool("submit")];
    let seen = Seen::default();
    let request = ModelRequest { messages: &messages, tools: &tools };
    let result = model.reply(request, &seen, &seen.enough).await;
    server.abort();
    (result, seen, endpoint)
}

/// What is not as expected.
fn differences(expected: &Expected, result: Result<Reply, ModelError>, seen: &Seen) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |what: &str, expected: Value, found: Value| {
        if expected != found {
            wrong.push(format!("{what}: expected {expected}, found {found}"));
        }
    };
    let contains = |text: &str, words: &str| match text.contains(words) {
        true => json!(words),
        false => json!(text),
    };
    match result {
        Ok(reply) => {
            check("finish", json!(expected.finish), json!(reply.finish_reason));
            check("content", json!(expected.content), json!(reply.content));
            check("reasoning", json!(expected.reasoning), json!(reply.reasoning));
            let found: Vec<[String; 3]> = reply
                .tool_calls
                .iter()
                .enumerate()
                .map(|(at, call)| {
                    let any_id =
                        expected.calls.get(at).is_some_and(|call| call[0] == "*") && !call.id.is_empty();
                    let id = if any_id { "*" } else { &call.id };
                    [id.to_owned(), call.name.clone(), call.arguments.clone()]
                })
                .collect();
            check("calls", json!(expected.calls), json!(found));
            let ids: BTreeSet<&str> = reply.tool_calls.iter().map(|call| call.id.as_str()).collect();
            check("ids", json!(reply.tool_calls.len()), json!(ids.len()));
            if let Some(usage) = expected.usage {
                let found = reply.usage;
                let found =
                    [found.input_tokens, found.output_tokens, found.cached_tokens, found.reasoning_tokens];
                check("usage", json!(usage), json!(found));
            }
            // The items of an output are always carried; where it matters the index says which.
            if expected.carried.is_some()
                || reply.carried.as_ref().is_some_and(|it| it.get("output").is_none())
            {
                let wanted =
                    expected.carried.as_deref().map(|text| serde_json::from_str::<Value>(text).unwrap());
                check("carried", json!(wanted), json!(reply.carried));
            }
            let notices = seen.notices.lock().unwrap();
            check("notices", json!(expected.notices.len()), json!(notices.len()));
            for (words, notice) in expected.notices.iter().zip(notices.iter()) {
                check("notice", json!(words), contains(notice, words));
            }
        }
        Err(ModelError::Cancelled) => {
            let (reason, wait) = seen.retry.lock().unwrap().clone().unwrap();
            let words = expected.retry.as_deref().unwrap_or("no retry");
            check("retry", json!(words), contains(&reason, words));
            // Up to half a second of jitter is added to a wait that was asked for.
            let wait = wait.as_secs_f64();
            let fits = expected.wait.is_none_or(|asked| (asked..asked + 0.51).contains(&wait));
            check("wait", json!(true), if fits { json!(true) } else { json!(wait) });
        }
        Err(ModelError::ContextOverflow { window_tokens, .. }) => {
            let wanted = expected.overflow.as_ref().map(|window| json!(window.as_integer()));
            check("overflow", json!(wanted), json!(Some(window_tokens)));
        }
        Err(error) => {
            let (kind, wanted) = match &error {
                ModelError::Refused(_) => ("refused", &expected.refused),
                ModelError::Request(_) => ("request", &expected.request),
                ModelError::ContentRefused(_) => ("content_refused", &expected.content_refused),
                ModelError::Garbled(_) => ("garbled", &expected.garbled),
                _ => ("another error", &None),
            };
            check(kind, json!(wanted), contains(&error.to_string(), wanted.as_deref().unwrap_or("\0")));
        }
    }
    wrong
}

#[tokio::test]
async fn every_exchange_comes_to_what_the_index_says() {
    let mut wrong = Vec::new();
    for exchange in index() {
        let (result, seen, endpoint) = replay(&exchange).await;
        let mut differences = differences(&exchange.expect, result, &seen);
        if endpoint.has_complained() != exchange.expect.overload {
            differences.push(format!("overload: expected {}", exchange.expect.overload));
        }
        let name = &exchange.file;
        wrong.extend(differences.into_iter().map(|what| format!("{name} ({}): {what}", exchange.shows)));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_index_names_every_file_and_where_it_comes_from() {
    let index = index();
    let named: BTreeSet<String> = index.iter().map(|exchange| exchange.file.clone()).collect();
    let there: BTreeSet<String> = fs_err::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".http"))
        .collect();
    assert_eq!(named, there);
    assert_eq!(named.len(), index.len(), "a file is named twice");
    let sourced = index.iter().filter(|exchange| exchange.source.starts_with("https://")).count();
    assert!(sourced >= 90, "{sourced}");
    for exchange in &index {
        let is_sourced = exchange.source.starts_with("https://") || exchange.source.starts_with("a guard: ");
        assert!(is_sourced && !exchange.shows.is_empty() && !exchange.server.is_empty(), "{exchange:?}");
    }
}
