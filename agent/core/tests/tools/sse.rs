use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use gaia_agent::tools::{CallFailure, HttpWire, Protocol, ServerSpec, TransportSpec};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::*;

trials![
    an_old_server_is_spoken_to,
    auto_falls_back_where_a_post_is_not_taken,
    the_token_and_the_headers_go_with_every_request,
    another_origin_is_not_followed,
    a_stream_that_ends_is_a_server_that_died,
    cancellation_reaches_the_server,
    a_page_that_is_no_stream,
    an_event_over_the_limit_is_an_error_at_once,
];

/// A server of 2024-11-05: GET opens the stream, POSTs go to the address in its first event.
#[derive(Clone, Default)]
struct OldSite {
    sessions: Arc<Mutex<BTreeMap<String, mpsc::UnboundedSender<Event>>>>,
    /// What came with each request: method, `authorization`, `x-team`.
    seen: Arc<Mutex<Vec<String>>>,
    elsewhere: Option<&'static str>,
    token: Option<&'static str>,
}

impl OldSite {
    /// Whether the request may come in.
    fn note(&self, request: &Request) -> bool {
        let header =
            |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("-");
        let authorization = header("authorization");
        let line = format!("{} {authorization} {}", request.method(), header("x-team"));
        self.seen.lock().unwrap().push(line);
        self.token.is_none_or(|token| authorization == format!("Bearer {token}"))
    }
}

async fn open(State(site): State<OldSite>, request: Request) -> Response {
    if !site.note(&request) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let (sender, receiver) = mpsc::unbounded_channel();
    let id = site.sessions.lock().unwrap().len().to_string();
    let address = format!("{}/messages?session={id}", site.elsewhere.unwrap_or_default());
    sender.send(Event::default().event("endpoint").data(address)).unwrap();
    site.sessions.lock().unwrap().insert(id, sender);
    Sse::new(events(receiver)).into_response()
}

fn events(
    receiver: mpsc::UnboundedReceiver<Event>,
) -> impl Stream<Item = Result<Event, std::convert::Infallible>> {
    stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|event| (Ok(event), receiver))
    })
}

async fn take(
    State(site): State<OldSite>,
    Query(query): Query<BTreeMap<String, String>>,
    request: Request,
) -> Response {
    if !site.note(&request) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let session = query["session"].clone();
    let Some(sender) = site.sessions.lock().unwrap().get(&session).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let id = &message["id"];
    let reply = |result: Value| {
        let text = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
        // Nobody reads any more when the host has gone.
        let _ = sender.send(Event::default().event("message").data(text));
    };
    let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => reply(json!({
            "protocolVersion": "2024-11-05",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "old", "version": "1" },
        })),
        "tools/list" => reply(json!({ "tools": [tool("echo"), tool("die"), tool("hang"), tool("big")] })),
        "notifications/cancelled" => site.seen.lock().unwrap().push("cancelled".to_owned()),
        "tools/call" => match message["params"]["name"].as_str().unwrap_or_default() {
            "echo" => {
                let text = message["params"]["arguments"]["text"].as_str().unwrap_or_default();
                reply(json!({ "content": [{ "type": "text", "text": text }] }));
            }
            "big" => reply(json!({ "content": [{ "type": "text", "text": "x".repeat(20_000_000) }] })),
            "die" => drop(site.sessions.lock().unwrap().remove(&session)),
            _ => site.seen.lock().unwrap().push("hanging".to_owned()),
        },
        _ => {}
    }
    (StatusCode::ACCEPTED, "Accepted").into_response()
}

async fn serve(site: OldSite) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // A POST to `/sse` is answered 405.
    let router = axum::Router::new()
        .route("/sse", axum::routing::get(open))
        .route("/messages", axum::routing::post(take))
        .with_state(site);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

fn old(address: SocketAddr, wire: HttpWire) -> ServerSpec {
    server(
        "old",
        TransportSpec::Http {
            url: format!("http://{address}/sse"),
            headers: BTreeMap::from([("X-Team".to_owned(), "evals-s3cret".to_owned())]),
            bearer_token: Some("b-s3cret".to_owned()),
            wire,
            tokens: None,
        },
    )
}

async fn an_old_server_is_spoken_to() {
    let address = serve(OldSite::default()).await;
    let host = start(&[old(address, HttpWire::Sse)]).await.unwrap();
    assert_eq!(names(&host), ["echo", "die", "hang", "big"]);
    assert_eq!(host.servers().next().unwrap().info().unwrap().protocol_version, "2024-11-05");
    let long = "grüß 👋\nzwei\r\n".repeat(100_000);
    for said in ["hi", long.as_str()] {
        assert_eq!(text(&call(&host, "echo", json!({ "text": said })).await), said);
    }
    host.close().await;
}

async fn auto_falls_back_where_a_post_is_not_taken() {
    let address = serve(OldSite::default()).await;
    for protocol in [Protocol::Auto, Protocol::Legacy] {
        let mut spec = old(address, HttpWire::Auto);
        spec.protocol = protocol;
        let host = start(&[spec]).await.unwrap();
        assert_eq!(text(&call(&host, "echo", json!({ "text": "hi" })).await), "hi");
        host.close().await;
    }
    let mut spec = old(address, HttpWire::Auto);
    spec.protocol = Protocol::Modern;
    let error = start(&[spec]).await.unwrap_err().to_string();
    assert!(error.contains("405"), "{error}");
}

async fn the_token_and_the_headers_go_with_every_request() {
    let site = OldSite { token: Some("b-s3cret"), ..OldSite::default() };
    let address = serve(site.clone()).await;
    let host = start(&[old(address, HttpWire::Sse)]).await.unwrap();
    assert_eq!(text(&call(&host, "echo", json!({ "text": "hi" })).await), "hi");
    host.close().await;
    let seen = site.seen.lock().unwrap().clone();
    assert!(seen.len() >= 4 && seen.iter().any(|line| line.starts_with("GET")), "{seen:?}");
    assert!(seen.iter().all(|line| line.ends_with(" Bearer b-s3cret evals-s3cret")), "{seen:?}");

    let mut stranger = old(address, HttpWire::Sse);
    if let TransportSpec::Http { bearer_token, .. } = &mut stranger.transport {
        *bearer_token = None;
    }
    let error = start(&[stranger]).await.unwrap_err().to_string();
    assert!(error.contains("asks for authorization; run `gaia login old`"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
}

async fn another_origin_is_not_followed() {
    let address = serve(OldSite { elsewhere: Some("http://127.0.0.2:1"), ..OldSite::default() }).await;
    let error = start(&[old(address, HttpWire::Sse)]).await.unwrap_err().to_string();
    assert!(error.contains("names another origin, which is not followed"), "{error}");
}

async fn a_stream_that_ends_is_a_server_that_died() {
    let address = serve(OldSite::default()).await;
    let notices = Notices::default();
    let host = start_with(&[old(address, HttpWire::Sse)], &notices, None).await.unwrap();
    let output = call(&host, "die", json!({})).await;
    assert_eq!(output.failure, Some(CallFailure::Died), "{}", text(&output));
    assert!(text(&output).contains("It was restarted"), "{}", text(&output));
    assert_eq!(text(&call(&host, "echo", json!({ "text": "again" })).await), "again");
    host.close().await;
}

async fn cancellation_reaches_the_server() {
    let site = OldSite::default();
    let address = serve(site.clone()).await;
    let mut spec = old(address, HttpWire::Sse);
    spec.tool_timeout = Duration::from_millis(500);
    let host = start(&[spec]).await.unwrap();
    assert_eq!(call(&host, "hang", json!({})).await.failure, Some(CallFailure::Timeout));
    assert_eq!(text(&call(&host, "echo", json!({ "text": "hi" })).await), "hi");
    host.close().await;
    assert!(site.seen.lock().unwrap().iter().any(|line| line == "cancelled"));
}

async fn a_page_that_is_no_stream() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let page = axum::Router::new().fallback(|| async { "<html>hello</html>" });
    tokio::spawn(async move { axum::serve(listener, page).await.unwrap() });
    let error = start(&[old(address, HttpWire::Sse)]).await.unwrap_err().to_string();
    assert!(error.contains("Unexpected content type"), "{error}");
}

async fn an_event_over_the_limit_is_an_error_at_once() {
    let address = serve(OldSite::default()).await;
    let host = start(&[old(address, HttpWire::Sse)]).await.unwrap();
    let output = call(&host, "big", json!({})).await;
    assert_eq!(output.failure, Some(CallFailure::Protocol), "{} bytes", text(&output).len());
    assert!(text(&output).contains("over the limit of 16777216; ask for less"), "{}", text(&output));
    let mut kept = Vec::new();
    output.whole.unwrap().copy_to(&mut kept).unwrap();
    assert!(kept.len() > 20_000_000, "{}", kept.len());
    assert_eq!(text(&call(&host, "echo", json!({ "text": "hi" })).await), "hi");
    host.close().await;
}
