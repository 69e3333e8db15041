use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gaia_agent::tools::oauth::{Login, LoginError, TokenStore, login};
use gaia_agent::tools::{CallFailure, HttpWire, ServerSpec, TransportSpec};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use sha2::Digest;

use crate::http::Counter;
use crate::support::*;

trials![
    a_login_is_stored_and_used,
    a_token_that_is_refused_is_renewed_without_a_word,
    a_login_that_is_over_names_the_command,
    a_person_who_says_no,
    a_forged_callback_changes_nothing,
    nobody_comes_back_from_the_browser,
    a_server_without_logins,
    a_damaged_file_of_tokens_is_an_error_without_its_contents,
];

/// An MCP server and the authorization server that guards it, on one address.
#[derive(Clone, Default)]
struct Guarded {
    state: Arc<Mutex<Granting>>,
}

#[derive(Default)]
struct Granting {
    address: String,
    /// Codes by the challenge and the redirect address that they belong to.
    codes: BTreeMap<String, (String, String)>,
    issued: u32,
    valid: Vec<String>,
    renewals: Vec<String>,
    denies: bool,
}

impl Granting {
    /// A pair of tokens; the old ones are of no more use.
    fn issue(&mut self) -> Value {
        self.issued += 1;
        let (access, refresh) =
            (format!("access-{}-s3cret", self.issued), format!("refresh-{}-s3cret", self.issued));
        self.valid = vec![access.clone()];
        self.renewals = vec![refresh.clone()];
        json!({
            "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600,
            "scope": "tools",
        })
    }
}

async fn guard(State(guarded): State<Guarded>, request: Request, next: Next) -> Response {
    let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
    let (allowed, address) = {
        let state = guarded.state.lock().unwrap();
        (state.valid.contains(&token), state.address.clone())
    };
    if allowed {
        return next.run(request).await;
    }
    let challenge =
        format!("Bearer resource_metadata=\"http://{address}/.well-known/oauth-protected-resource/mcp\"");
    (StatusCode::UNAUTHORIZED, [("www-authenticate", challenge)]).into_response()
}

async fn resource_metadata(State(guarded): State<Guarded>) -> Json<Value> {
    let address = guarded.state.lock().unwrap().address.clone();
    Json(json!({
        "resource": format!("http://{address}/mcp"),
        "authorization_servers": [format!("http://{address}")],
        "scopes_supported": ["tools"],
    }))
}

async fn server_metadata(State(guarded): State<Guarded>) -> Json<Value> {
    let address = guarded.state.lock().unwrap().address.clone();
    let at = |path: &str| format!("http://{address}{path}");
    Json(json!({
        "issuer": at(""),
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "registration_endpoint": at("/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    }))
}

async fn register(Json(request): Json<Value>) -> Response {
    assert_eq!(request["token_endpoint_auth_method"], "none");
    let answer = json!({ "client_id": "client-1", "redirect_uris": request["redirect_uris"] });
    (StatusCode::CREATED, Json(answer)).into_response()
}

async fn authorize(
    State(guarded): State<Guarded>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Redirect {
    assert_eq!((query["client_id"].as_str(), query["code_challenge_method"].as_str()), ("client-1", "S256"));
    let (redirect, state) = (&query["redirect_uri"], &query["state"]);
    let mut granting = guarded.state.lock().unwrap();
    assert_eq!(query["resource"], format!("http://{}/mcp", granting.address));
    if granting.denies {
        return Redirect::to(&format!("{redirect}?error=access_denied&error_description=no&state={state}"));
    }
    let code = format!("code-{}", granting.codes.len());
    granting.codes.insert(code.clone(), (query["code_challenge"].clone(), redirect.clone()));
    Redirect::to(&format!("{redirect}?code={code}&state={state}"))
}

async fn token(State(guarded): State<Guarded>, body: String) -> Response {
    let form = reqwest::Url::parse(&format!("http://form/?{body}")).unwrap();
    let form: BTreeMap<String, String> = form.query_pairs().into_owned().collect();
    let mut granting = guarded.state.lock().unwrap();
    let granted = match form["grant_type"].as_str() {
        "authorization_code" => granting.codes.remove(&form["code"]).is_some_and(|(challenge, redirect)| {
            let hash = sha2::Sha256::digest(form["code_verifier"].as_bytes());
            URL_SAFE_NO_PAD.encode(hash) == challenge && form["redirect_uri"] == redirect
        }),
        "refresh_token" => granting.renewals.contains(&form["refresh_token"]),
        _ => false,
    };
    match granted {
        true => Json(granting.issue()).into_response(),
        false => (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" }))).into_response(),
    }
}

async fn guarded() -> (Guarded, SocketAddr) {
    let guarded = Guarded::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    guarded.state.lock().unwrap().address = address.to_string();
    let service = StreamableHttpService::new(
        || Ok(Counter::default()),
        Arc::new(rmcp::transport::streamable_http_server::session::local::LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let mcp = axum::Router::new()
        .nest_service("/mcp", service)
        .layer(axum::middleware::from_fn_with_state(guarded.clone(), guard));
    let router = axum::Router::new()
        .route("/.well-known/oauth-protected-resource/mcp", get(resource_metadata))
        .route("/.well-known/oauth-authorization-server", get(server_metadata))
        .route("/register", post(register))
        .route("/authorize", get(authorize))
        .route("/token", post(token))
        .with_state(guarded.clone())
        .merge(mcp);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (guarded, address)
}

fn remote(address: SocketAddr, store: &TokenStore) -> ServerSpec {
    let transport = TransportSpec::Http {
        url: format!("http://{address}/mcp"),
        headers: BTreeMap::new(),
        bearer_token: None,
        wire: HttpWire::Auto,
        tokens: Some(store.clone()),
    };
    server("remote", transport)
}

fn request(address: SocketAddr) -> Login {
    Login { patience: PATIENCE, ..Login::new("remote", &format!("http://{address}/mcp")) }
}

/// Opens the address as a browser does: by following where it is sent.
fn browse(address: &str) {
    let address = address.to_owned();
    tokio::spawn(async move { reqwest::get(address).await.unwrap() });
}

fn store(folder: &tempfile::TempDir) -> TokenStore {
    TokenStore::new(folder.path().join("deeper/tokens.json"))
}

async fn a_login_is_stored_and_used() {
    let (_, address) = guarded().await;
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let error = start(&[remote(address, &store)]).await.unwrap_err().to_string();
    assert!(
        error.contains("asks for authorization; run `gaia login remote`, or set `bearer_token_env_var`"),
        "{error}"
    );

    let granted = login(&request(address), &store, browse).await.unwrap();
    assert_eq!((granted.scopes, granted.renewable), (vec!["tools".to_owned()], true));
    assert_eq!(granted.expires_in, Some(Duration::from_secs(3600)));
    let mode = |path: &std::path::Path| fs_err::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(store.path()), 0o600);
    assert_eq!(mode(store.path().parent().unwrap()), 0o700);

    let host = start(&[remote(address, &store)]).await.unwrap();
    let output = call(&host, "authorization", json!({})).await;
    assert_eq!(text(&output), "Bearer [redacted: access token]");
    host.close().await;

    let url = format!("http://{address}/mcp");
    assert!(store.has_login(&url).unwrap() && store.forget(&url).unwrap());
    assert!(!store.has_login(&url).unwrap() && !store.forget(&url).unwrap());
}

async fn a_token_that_is_refused_is_renewed_without_a_word() {
    let (guarded, address) = guarded().await;
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    login(&request(address), &store, browse).await.unwrap();
    let host = start(&[remote(address, &store)]).await.unwrap();
    assert_eq!(text(&call(&host, "count", json!({})).await), "1");
    guarded.state.lock().unwrap().valid.clear();
    assert_eq!(text(&call(&host, "count", json!({})).await), "2", "the session goes on");
    assert_eq!(guarded.state.lock().unwrap().issued, 2);
    assert!(fs_err::read_to_string(store.path()).unwrap().contains("refresh-2-s3cret"));
    assert_eq!(text(&call(&host, "authorization", json!({})).await), "Bearer [redacted: access token]");
    host.close().await;
}

async fn a_login_that_is_over_names_the_command() {
    let (guarded, address) = guarded().await;
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    login(&request(address), &store, browse).await.unwrap();
    let host = start(&[remote(address, &store)]).await.unwrap();
    {
        let mut granting = guarded.state.lock().unwrap();
        granting.valid.clear();
        granting.renewals.clear();
    }
    let output = call(&host, "count", json!({})).await;
    assert_eq!(output.failure, Some(CallFailure::Protocol), "{}", text(&output));
    assert!(text(&output).contains("run `gaia login remote`"), "{}", text(&output));
    assert!(!text(&output).contains("s3cret"), "{}", text(&output));
    host.close().await;
    let error = start(&[remote(address, &store)]).await.unwrap_err().to_string();
    assert!(error.contains("run `gaia login remote`") && !error.contains("s3cret"), "{error}");
}

async fn a_person_who_says_no() {
    let (guarded, address) = guarded().await;
    guarded.state.lock().unwrap().denies = true;
    let folder = tempfile::tempdir().unwrap();
    let error = login(&request(address), &store(&folder), browse).await.unwrap_err();
    assert!(matches!(error, LoginError::Denied(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "failed to log in to MCP server `remote`: the authorization server answered `access_denied` (no)"
    );
}

async fn a_forged_callback_changes_nothing() {
    let (_, address) = guarded().await;
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    let show = |shown: &str| {
        let shown = shown.to_owned();
        tokio::spawn(async move {
            let url = reqwest::Url::parse(&shown).unwrap();
            let redirect = url.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1.into_owned();
            for forged in ["?code=evil&state=guessed", "?error=access_denied", "", "/../favicon.ico"] {
                let answer = reqwest::get(format!("{redirect}{forged}")).await.unwrap();
                assert_eq!(answer.status(), 404, "{forged}");
            }
            reqwest::get(shown).await.unwrap();
        });
    };
    login(&request(address), &store, show).await.unwrap();
    assert!(store.has_login(&format!("http://{address}/mcp")).unwrap());
}

async fn nobody_comes_back_from_the_browser() {
    let (_, address) = guarded().await;
    let folder = tempfile::tempdir().unwrap();
    let request = Login { patience: Duration::from_millis(300), ..request(address) };
    let error = login(&request, &store(&folder), |_| {}).await.unwrap_err();
    assert!(matches!(error, LoginError::TimedOut(_)), "{error:?}");
}

async fn a_server_without_logins() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let page = axum::Router::new().fallback(|| async { StatusCode::NOT_FOUND });
    tokio::spawn(async move { axum::serve(listener, page).await.unwrap() });
    let folder = tempfile::tempdir().unwrap();
    let error = login(&request(address), &store(&folder), browse).await.unwrap_err();
    assert!(matches!(error, LoginError::NotOffered(_)), "{error:?}");
    assert!(error.to_string().contains("it publishes no authorization server"), "{error}");
}

async fn a_damaged_file_of_tokens_is_an_error_without_its_contents() {
    let (_, address) = guarded().await;
    let folder = tempfile::tempdir().unwrap();
    let store = TokenStore::new(folder.path().join("tokens.json"));
    fs_err::write(store.path(), r#"{"format": 1, "servers": "access-s3cret"}"#).unwrap();
    let error = start(&[remote(address, &store)]).await.unwrap_err().to_string();
    assert!(error.contains("tokens.json` is damaged; remove it and log in again"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
    fs_err::write(store.path(), r#"{"format": 7, "servers": {}}"#).unwrap();
    assert!(store.has_login("http://x/").unwrap_err().contains("has format 7, this version knows 1"));
}
