use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gaia_agent::tools::{CallFailure, HttpWire, Protocol, ServerSpec, TransportSpec};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::*;

trials![
    both_eras_on_one_endpoint,
    auto_finds_a_server_that_is_modern_only,
    the_token_and_the_headers_are_sent_and_never_shown,
    cancellation_reaches_the_server_in_both_eras,
    an_expired_session_is_told_and_renewed,
    nobody_listens,
    an_endpoint_that_never_answers_is_given_up,
    a_page_that_is_no_server,
    a_server_that_goes_away_during_a_call,
    an_answer_over_the_limit_costs_no_more_than_the_call,
];

/// Counts calls for each session, and can hang.
#[derive(Default)]
pub(crate) struct Counter {
    calls: AtomicU32,
    hanging: Arc<Notify>,
    cancelled: Arc<Notify>,
}

impl ServerHandler for Counter {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let Value::Object(schema) = json!({ "type": "object" }) else { unreachable!() };
        let schema = Arc::new(schema);
        Ok(ListToolsResult::with_all_items(vec![
            Tool::new("count", "counts", schema.clone()),
            Tool::new("hang", "hangs", schema.clone()),
            Tool::new("authorization", "tells the header", schema.clone()),
            Tool::new("big", "tells too much", schema),
        ]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "authorization" {
            let parts = context.extensions.get::<axum::http::request::Parts>();
            let header = parts.and_then(|parts| parts.headers.get("authorization")?.to_str().ok());
            let told = ContentBlock::text(header.unwrap_or("none"));
            return Ok(CallToolResponse::Complete(CallToolResult::success(vec![told])));
        }
        if request.name == "big" {
            let whole = ContentBlock::text("x".repeat(20_000_000));
            return Ok(CallToolResponse::Complete(CallToolResult::success(vec![whole])));
        }
        if request.name == "hang" {
            self.hanging.notify_one();
            context.ct.cancelled().await;
            self.cancelled.notify_one();
        }
        let count = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text(count.to_string())])))
    }
}

struct Site {
    address: SocketAddr,
    sessions: Arc<LocalSessionManager>,
    hanging: Arc<Notify>,
    cancelled: Arc<Notify>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, PartialEq)]
enum Eras {
    Both,
    ModernOnly,
}

#[derive(Clone)]
struct Gate {
    eras: Eras,
    token: Option<&'static str>,
    seen: Arc<Mutex<Vec<String>>>,
}

/// Refuses what the site does not speak, or whom it does not know.
async fn gate(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let header =
        |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if let Some(token) = gate.token
        && header("authorization").as_deref() != Some(&format!("Bearer {token}"))
    {
        let challenge = [("www-authenticate", "Bearer")];
        return (StatusCode::UNAUTHORIZED, challenge).into_response();
    }
    gate.seen.lock().unwrap().extend(header("x-team"));
    let body = to_bytes(body, usize::MAX).await.unwrap();
    if gate.eras == Eras::ModernOnly
        && let Ok(message) = serde_json::from_slice::<Value>(&body)
        && message["method"] == "initialize"
    {
        let error = json!({ "code": -32022, "message": "unsupported protocol version", "data": { "supported": ["2026-07-28"] } });
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
        return (StatusCode::BAD_REQUEST, axum::Json(answer)).into_response();
    }
    next.run(Request::from_parts(parts, Body::from(body))).await
}

async fn site(eras: Eras, token: Option<&'static str>) -> (Site, Arc<Mutex<Vec<String>>>) {
    let sessions = Arc::new(LocalSessionManager::default());
    let (hanging, cancelled) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let make = {
        let (hanging, cancelled) = (hanging.clone(), cancelled.clone());
        move || {
            Ok(Counter { calls: AtomicU32::new(0), hanging: hanging.clone(), cancelled: cancelled.clone() })
        }
    };
    let service = StreamableHttpService::new(make, sessions.clone(), StreamableHttpServerConfig::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let gate_state = Gate { eras, token, seen: seen.clone() };
    let router = axum::Router::new()
        .nest_service("/mcp", service)
        .layer(axum::middleware::from_fn_with_state(gate_state, gate));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (Site { address, sessions, hanging, cancelled, task }, seen)
}

fn remote(address: SocketAddr, protocol: Protocol) -> ServerSpec {
    let transport = TransportSpec::Http {
        url: format!("http://{address}/mcp?key=q-s3cret"),
        headers: BTreeMap::from([("X-Team".to_owned(), "evals-s3cret".to_owned())]),
        bearer_token: Some("b-s3cret".to_owned()),
        wire: HttpWire::Auto,
        tokens: None,
    };
    let mut spec = server("remote", transport);
    spec.protocol = protocol;
    spec
}

async fn both_eras_on_one_endpoint() {
    let (site, _) = site(Eras::Both, None).await;
    let expected = [
        // A session: the handler keeps its count.
        (Protocol::Auto, "2025-11-25", "2"),
        (Protocol::Legacy, "2025-11-25", "2"),
        // No session: each request meets a new handler.
        (Protocol::Modern, "2026-07-28", "1"),
    ];
    for (protocol, version, second_count) in expected {
        let host = start(&[remote(site.address, protocol)]).await.unwrap();
        assert_eq!(names(&host), ["count", "hang", "authorization", "big"]);
        assert_eq!(host.servers().next().unwrap().info().unwrap().protocol_version, version);
        assert_eq!(text(&call(&host, "count", json!({})).await), "1");
        assert_eq!(text(&call(&host, "count", json!({})).await), second_count);
        host.close().await;
        assert_eq!(site.sessions.sessions.read().await.len(), 0, "close deletes the session");
    }
}

async fn auto_finds_a_server_that_is_modern_only() {
    let (site, _) = site(Eras::ModernOnly, None).await;
    let host = start(&[remote(site.address, Protocol::Auto)]).await.unwrap();
    assert_eq!(host.servers().next().unwrap().info().unwrap().protocol_version, "2026-07-28");
    assert_eq!(text(&call(&host, "count", json!({})).await), "1");
    host.close().await;
}

async fn the_token_and_the_headers_are_sent_and_never_shown() {
    let (site, seen) = site(Eras::Both, Some("b-s3cret")).await;
    let notices = Notices::default();
    let spec = remote(site.address, Protocol::Auto);
    let host = start_with(std::slice::from_ref(&spec), &notices, None).await.unwrap();
    assert!(seen.lock().unwrap().iter().all(|header| header == "evals-s3cret"));
    assert!(!format!("{host:?}").contains("s3cret"), "{host:?}");
    host.close().await;

    let mut stranger = spec;
    if let TransportSpec::Http { bearer_token, .. } = &mut stranger.transport {
        *bearer_token = Some("wrong-s3cret".to_owned());
    }
    let error = start_with(&[stranger], &notices, None).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("asks for authorization; it does not take the token that it was given"), "{text}");
    assert!(!format!("{error:?} {:?}", notices.all()).contains("s3cret"), "{text}");
}

async fn cancellation_reaches_the_server_in_both_eras() {
    let (site, _) = site(Eras::Both, None).await;
    for protocol in [Protocol::Legacy, Protocol::Modern] {
        let host = start(&[remote(site.address, protocol)]).await.unwrap();
        let cancel = CancellationToken::new();
        let trigger = async {
            site.hanging.notified().await;
            cancel.cancel();
        };
        let (output, ()) = tokio::join!(call_with(&host, "hang", json!({}), &cancel), trigger);
        assert_eq!(output.failure, Some(CallFailure::Cancelled));
        tokio::time::timeout(PATIENCE, site.cancelled.notified()).await.expect("the server hears of it");
        host.close().await;
    }
}

async fn an_expired_session_is_told_and_renewed() {
    let (site, _) = site(Eras::Both, None).await;
    let notices = Notices::default();
    let host = start_with(&[remote(site.address, Protocol::Auto)], &notices, None).await.unwrap();
    assert_eq!(text(&call(&host, "count", json!({})).await), "1");
    site.sessions.sessions.write().await.clear();
    let output = call(&host, "count", json!({})).await;
    assert_eq!(output.failure, Some(CallFailure::Died), "{}", text(&output));
    assert!(text(&output).contains("It was restarted"), "{}", text(&output));
    assert_eq!(text(&call(&host, "count", json!({})).await), "1", "a new session counts anew");
    host.close().await;
}

async fn nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = start(&[remote(address, Protocol::Auto)]).await.unwrap_err().to_string();
    assert!(error.contains("failed to start MCP server `remote`") && error.contains("refused"), "{error}");
    assert!(error.contains(&format!("`http://{address}/mcp`")) && !error.contains("s3cret"), "{error}");
}

async fn an_endpoint_that_never_answers_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let silent = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    for wire in [HttpWire::Auto, HttpWire::Sse] {
        let mut spec = remote(address, Protocol::Auto);
        spec.startup_timeout = Duration::from_secs(1);
        if let TransportSpec::Http { wire: of_spec, .. } = &mut spec.transport {
            *of_spec = wire;
        }
        let error = start(&[spec]).await.unwrap_err().to_string();
        assert!(error.contains("within 1 s (`startup_timeout_sec`)"), "{error}");
    }
    silent.abort();
}

async fn a_page_that_is_no_server() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let page = axum::Router::new().fallback(|| async { (StatusCode::NOT_FOUND, "<html>not here</html>") });
    tokio::spawn(async move { axum::serve(listener, page).await.unwrap() });
    let error = start(&[remote(address, Protocol::Auto)]).await.unwrap_err().to_string();
    assert!(error.contains("404") && !error.contains("s3cret"), "{error}");
}

async fn a_server_that_goes_away_during_a_call() {
    let (site, _) = site(Eras::Both, None).await;
    let mut spec = remote(site.address, Protocol::Auto);
    spec.startup_timeout = Duration::from_secs(2);
    let host = start(&[spec]).await.unwrap();
    // A runtime of its own would be needed to cut open connections; ending the sessions ends their streams.
    let leave = async {
        site.hanging.notified().await;
        site.task.abort();
        site.sessions.sessions.write().await.clear();
    };
    let (output, ()) = tokio::join!(call(&host, "hang", json!({})), leave);
    assert_eq!((output.is_error, output.failure), (true, Some(CallFailure::Died)), "{}", text(&output));
    assert!(output.duration < PATIENCE, "{:?}", output.duration);
    host.close().await;
}

async fn an_answer_over_the_limit_costs_no_more_than_the_call() {
    let (site, _) = site(Eras::Both, None).await;
    for protocol in [Protocol::Legacy, Protocol::Modern] {
        let host = start(&[remote(site.address, protocol)]).await.unwrap();
        let output = call(&host, "big", json!({})).await;
        assert!(output.is_error && output.failure.is_some(), "{} bytes", text(&output).len());
        assert!(output.duration < PATIENCE, "{:?}", output.duration);
        assert!(text(&output).len() < 2_000, "{} bytes", text(&output).len());
        assert_eq!(text(&call(&host, "count", json!({})).await), "1");
        host.close().await;
    }
}
