//! Streamable HTTP, both eras of the protocol on one endpoint.

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
use tokio_util::sync::CancellationToken;

use super::handler::Handler;
use super::{Guard, Hosted};
use crate::serving::serve_until;

/// The path of the endpoint.
const PATH: &str = "/mcp";
/// rmcp's idle timer also runs during a call and destroys the session; it must be above the longest call. A lost
/// client's session is gone after this time.
const SESSION_IDLE: Duration = Duration::from_secs(60 * 60);

/// A bound socket and the rules for its requests.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    guard: Guard,
}

struct App {
    service: StreamableHttpService<Handler, LocalSessionManager>,
    guard: Guard,
}

impl Endpoint {
    pub async fn bind(address: SocketAddr, guard: Guard) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, guard })
    }

    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until `stop` is cancelled.
    pub async fn serve(self, served: Arc<dyn Hosted>, stop: &CancellationToken) -> std::io::Result<()> {
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(self.guard.hosts.clone())
            .with_allowed_origins(self.guard.origins.clone())
            .with_cancellation_token(stop.clone())
            .enforce_origin_validation();
        let mut sessions = LocalSessionManager::default();
        let mut session_config = SessionConfig::default();
        session_config.keep_alive = Some(SESSION_IDLE);
        sessions.session_config = session_config;
        let service =
            StreamableHttpService::new(move || Ok(Handler::new(served.clone())), Arc::new(sessions), config);
        let app = Arc::new(App { service, guard: self.guard });
        let router = Router::new().fallback(answer).with_state(app);
        // An answer goes out in several small writes; the last of them must not wait for the client's kernel.
        let listener = self.listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        serve_until(listener, router, stop).await
    }
}

async fn answer(State(app): State<Arc<App>>, request: Request) -> Response {
    if !app.guard.token_is_right(request.headers()) {
        let text = "missing or wrong bearer token in the Authorization header";
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response();
    }
    if request.uri().path() != PATH {
        return (StatusCode::NOT_FOUND, "this is an MCP server; its endpoint is /mcp").into_response();
    }
    let ends_session = request.method() == Method::DELETE;
    let mut response = app.service.handle(request).await.map(Body::new);
    // The Python SDK reports rmcp's 202 as a failure. The session is gone, so nothing is left to accept.
    if ends_session && response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}
