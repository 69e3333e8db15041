//! Streamable HTTP, both eras of the protocol on one endpoint.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::guard::Guard;
use super::{ServeArgs, ServeError};
use crate::handler::Handler;
use crate::toolset::{Address, Addressing, MIN_ADDRESS_CHARS, Removal, Toolset};

/// A command with its input: well above any real one, and far below what hurts. rmcp answers 413 beyond it.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// rmcp's idle timer also runs during a call, destroys the session and drops the reply. It must be above the longest
/// call (600 s) even when the client takes no progress; a lost client's session is gone after this time.
const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// After the stop, for replies and streams to end.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(700);

const SESSION_HEADER: &str = "mcp-session-id";

/// A bound socket and the rules for its requests.
pub(super) struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    guard: Guard,
}

struct App<T: Toolset> {
    service: StreamableHttpService<Handler<T>, LocalSessionManager>,
    toolset: Arc<T>,
    guard: Guard,
}

impl Endpoint {
    pub(super) async fn bind(address: SocketAddr, args: &ServeArgs) -> Result<Self, ServeError> {
        let guard = Guard::new(address, args, |name| std::env::var(name).ok())?;
        let failed = |error| ServeError::Environment(format!("failed to listen on `{address}`: {error}"));
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, guard })
    }

    /// Serves until `stop` is cancelled. Returns when that was, and how it went.
    pub(super) async fn serve<T: Toolset>(
        self,
        toolset: Arc<T>,
        stop: CancellationToken,
    ) -> (Instant, Result<(), ServeError>) {
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(self.guard.hosts.clone())
            .with_allowed_origins(self.guard.origins.clone())
            .with_max_request_body_bytes(MAX_BODY_BYTES)
            .with_cancellation_token(stop.clone());
        config = config.enforce_origin_validation();
        let mut sessions = LocalSessionManager::default();
        let mut session_config = SessionConfig::default();
        session_config.keep_alive = Some(SESSION_IDLE);
        sessions.session_config = session_config;
        let handlers = Arc::clone(&toolset);
        let service = StreamableHttpService::new(
            move || Ok(Handler::for_http(Arc::clone(&handlers))),
            Arc::new(sessions),
            config,
        );
        let app = Arc::new(App { service, toolset, guard: self.guard });
        let router = Router::new().fallback(answer::<T>).with_state(app);
        tracing::info!("listening on http://{}/mcp", self.address);
        let stopped = stop.clone();
        // An answer goes out in several small writes; the last of them must not wait for the client's kernel.
        let listener = self.listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let server =
            axum::serve(listener, router).with_graceful_shutdown(async move { stopped.cancelled().await });
        let mut served = std::pin::pin!(server.into_future());
        let mut result = None;
        tokio::select! {
            served = &mut served => result = Some(served),
            () = stop.cancelled() => {}
        }
        let end = Instant::now();
        if result.is_none() {
            result = tokio::time::timeout(DRAIN_TIMEOUT, &mut served).await.ok();
        }
        let failed = |error| ServeError::Unexpected(format!("failed to serve HTTP: {error}"));
        (end, result.unwrap_or(Ok(())).map_err(failed))
    }
}

async fn answer<T: Toolset>(State(app): State<Arc<App<T>>>, mut request: Request) -> Response {
    if let Err(refusal) = app.guard.check(request.uri(), request.headers()) {
        tracing::warn!(status = refusal.status.as_u16(), "refused a request: {}", refusal.text);
        let mut response = text(refusal.status, refusal.text);
        if refusal.status == StatusCode::UNAUTHORIZED {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        }
        return response;
    }
    if let Some(bearer) = app.guard.bearer(request.headers()) {
        request.extensions_mut().insert(bearer);
    }
    let path = request.uri().path();
    if path != "/mcp" {
        let id = match app.toolset.addressing() {
            Addressing::Shared => None,
            Addressing::ByUrl => path.strip_prefix("/sandbox/").and_then(|rest| rest.strip_suffix("/mcp")),
        };
        let Some(id) = id else {
            return text(StatusCode::NOT_FOUND, "this is an MCP server; its endpoint is /mcp");
        };
        let Some(address) = Address::parse(id) else {
            return text(
                StatusCode::BAD_REQUEST,
                &format!(
                    "the id in /sandbox/<id>/mcp must be {MIN_ADDRESS_CHARS} to 128 characters of A-Z a-z 0-9 _ -, \
                     and unguessable, such as a random UUID"
                ),
            );
        };
        // With a session the DELETE is rmcp's, and ends the session only.
        if request.method() == Method::DELETE && !request.headers().contains_key(SESSION_HEADER) {
            return match app.toolset.remove(&address).await {
                Removal::Removed => StatusCode::NO_CONTENT.into_response(),
                Removal::Absent => text(StatusCode::NOT_FOUND, "there is nothing at this address"),
            };
        }
        request.extensions_mut().insert(address);
    }
    let ends_session = request.method() == Method::DELETE;
    let mut response = app.service.handle(request).await.map(Body::new);
    // The Python SDK reports rmcp's 202 as a failure. The session is gone, so nothing is left to accept.
    if ends_session && response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}

fn text(status: StatusCode, text: &str) -> Response {
    (status, text.to_owned()).into_response()
}
