//! `gaia login`: a server that wants OAuth, an authorization server, and a browser that follows redirects.

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::gaia::Desk;

const TOKEN: &str = "access-token-4c1d9e70b2";

/// The MCP server and its authorization server in one.
#[derive(Clone)]
struct Site {
    base: String,
    challenge: Arc<Mutex<Option<String>>>,
}

async fn start() -> Site {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let site = Site { base, challenge: Arc::default() };
    let router = Router::new()
        .route("/.well-known/oauth-protected-resource", get(resource))
        .route("/.well-known/oauth-protected-resource/mcp", get(resource))
        .route("/.well-known/oauth-authorization-server", get(metadata))
        .route("/register", post(register))
        .route("/authorize", get(authorize))
        .route("/token", post(token))
        .route("/mcp", post(mcp).delete(|| async { StatusCode::OK }))
        .with_state(site.clone());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    site
}

async fn resource(State(site): State<Site>) -> Json<Value> {
    Json(
        json!({ "resource": format!("{}/mcp", site.base), "authorization_servers": [site.base], "scopes_supported": ["tides"] }),
    )
}

async fn metadata(State(Site { base, .. }): State<Site>) -> Json<Value> {
    Json(json!({
        "issuer": base, "authorization_endpoint": format!("{base}/authorize"), "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"), "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"], "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"]
    }))
}

async fn register(Json(wanted): Json<Value>) -> Response {
    let mut client = wanted;
    client["client_id"] = json!("client-1");
    (StatusCode::CREATED, Json(client)).into_response()
}

async fn authorize(State(site): State<Site>, Query(asked): Query<Vec<(String, String)>>) -> Redirect {
    let value = |name: &str| asked.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    *site.challenge.lock().unwrap() = value("code_challenge");
    let redirect = value("redirect_uri").unwrap();
    Redirect::temporary(&format!("{redirect}?code=code-1&state={}", value("state").unwrap()))
}

async fn token(State(site): State<Site>, Form(asked): Form<Vec<(String, String)>>) -> Response {
    let has = |name: &str, value: &str| asked.iter().any(|pair| pair.0 == name && pair.1 == value);
    let verified =
        asked.iter().any(|(name, _)| name == "code_verifier") && site.challenge.lock().unwrap().is_some();
    if !has("code", "code-1") || !verified {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" }))).into_response();
    }
    Json(json!({ "access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600, "scope": "tides" }))
        .into_response()
}

async fn mcp(State(site): State<Site>, headers: HeaderMap, Json(request): Json<Value>) -> Response {
    if headers.get(header::AUTHORIZATION).is_none_or(|value| value != &format!("Bearer {TOKEN}")) {
        let challenge =
            format!("Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"", site.base);
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let id = &request["id"];
    let result = match request["method"].as_str() {
        Some("initialize") => json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "tides", "version": "1" } }),
        Some("tools/list") => json!({ "tools": [{ "name": "tide", "inputSchema": { "type": "object" } }] }),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": "high water 14:35" }] }),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
}

#[tokio::test]
async fn a_login_is_given_once_and_used_until_it_is_forgotten() {
    let site = start().await;
    let desk = Desk::new();
    let state = desk.path().join("state");
    let desk = desk.with_variable("XDG_STATE_HOME", state.to_str().unwrap());
    desk.write("c.toml", &format!("[mcp_servers.tides]\nurl = \"{}/mcp\"\nprotocol = 2025\n", site.base));

    let ended = desk.gaia(&["tools", "c.toml"]).await;
    assert_eq!(ended.code, 4, "{ended:#?}");
    assert!(ended.stderr.contains("gaia login"), "{ended:#?}");

    let mut child = desk.command(&["login", "tides", "c.toml"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some(address) = line.trim().strip_prefix("http") {
            // The browser.
            let page = reqwest::get(format!("http{address}")).await.unwrap();
            assert!(page.status().is_success(), "{page:?}");
        }
        said.push_str(&line);
    }
    assert!(child.wait().await.unwrap().success(), "{said}");
    assert!(said.contains("logged in to `tides` (tides)") && !said.contains(TOKEN), "{said}");
    let file = state.join("gaia/logins.json");
    assert_eq!(fs_err::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    let ended = desk.gaia(&["-vv", "call", "c.toml", "tide", "{}"]).await;
    assert_eq!((ended.code, ended.stdout.trim()), (0, "high water 14:35"), "{ended:#?}");
    assert!(!ended.stderr.contains(TOKEN), "{ended:#?}");

    let ended = desk.gaia(&["login", "tides", "c.toml", "--forget"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert_eq!(desk.gaia(&["tools", "c.toml"]).await.code, 4);
}

#[tokio::test]
async fn a_login_that_cannot_be_is_explained() {
    let desk = Desk::new();
    desk.write("c.toml", "[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n");
    let ended = desk.gaia(&["login", "submit", "c.toml"]).await;
    assert!(ended.code == 2 && ended.stderr.contains("is a program"), "{ended:#?}");
    let ended = desk.gaia(&["login", "sumbit", "c.toml"]).await;
    assert!(ended.code == 2 && ended.stderr.contains("it has submit"), "{ended:#?}");
}
