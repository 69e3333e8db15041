use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::fault::FaultRate;
use super::ledger::{CapturedRequest, Ledger, Stats};
use super::respond::{self, Api, ResetConnection};
use super::script::Script;
use super::textual::CallForm;
use super::wire::Dialect;

/// A conversation with several pictures stays well below this.
const BODY_BYTES: usize = 256 * 1024 * 1024;

/// Longer than any test should take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone)]
pub struct Options {
    pub listen: SocketAddr,
    /// Chance is drawn from this, the task, the step and the attempt.
    pub seed: u64,
    pub faults: Vec<FaultRate>,
    /// Before every reply.
    pub latency: Duration,
    /// What `Retry-After` says.
    pub retry_after_secs: u64,
    /// Longer requests, at four bytes a token, are refused as a provider with this window would.
    pub window_tokens: Option<u64>,
    /// Requests beyond so many at the same time are refused with 429, without a time.
    pub max_in_flight: Option<u64>,
    pub api_key: ApiKey,
    pub dialect: Dialect,
    pub call_form: CallForm,
}

/// The key that requests must carry.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum ApiKey {
    /// Any, or none.
    #[default]
    NotChecked,
    Required(String),
}

/// A running server. [`close`](Self::close) ends it and every connection; dropping it does so without waiting.
#[derive(Debug)]
pub struct ScriptedModel {
    /// What to give a client as its base URL: `http://127.0.0.1:PORT/v1`.
    pub base_url: String,
    shared: Arc<Shared>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) script: Script,
    pub(crate) options: Options,
    ledger: Mutex<Ledger>,
    changed: watch::Sender<()>,
}

/// Counts a request until its body has been sent.
pub(crate) struct InFlight(Arc<Shared>);

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            seed: 1,
            faults: Vec::new(),
            latency: Duration::ZERO,
            retry_after_secs: 1,
            window_tokens: None,
            max_in_flight: None,
            api_key: ApiKey::NotChecked,
            dialect: Dialect::OpenAi,
            call_form: CallForm::Native,
        }
    }
}

impl ApiKey {
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        match self {
            Self::NotChecked => true,
            Self::Required(key) => headers
                .get(header::AUTHORIZATION)
                .is_some_and(|value| value.as_bytes() == format!("Bearer {key}").as_bytes()),
        }
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotChecked => "NotChecked",
            Self::Required(_) => "Required(hidden)",
        })
    }
}

impl ScriptedModel {
    /// Binds and begins to serve.
    pub async fn start(script: Script, options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let shared =
            Arc::new(Shared { script, options, ledger: Mutex::default(), changed: watch::Sender::new(()) });
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(accept(listener, router(shared.clone()), stop.clone(), tasks.clone()));
        Ok(Self { base_url: format!("http://{address}/v1"), shared, stop, tasks })
    }

    pub fn stats(&self) -> Stats {
        self.shared.ledger().stats.clone()
    }

    /// The latest 2,000 requests, oldest first.
    pub fn requests(&self) -> Vec<CapturedRequest> {
        self.shared.ledger().captured.iter().cloned().collect()
    }

    /// Requests of one task, oldest first.
    pub fn requests_of(&self, task_id: &str) -> Vec<CapturedRequest> {
        let mut requests = self.requests();
        requests.retain(|request| request.task_id.as_deref() == Some(task_id));
        requests
    }

    /// Waits until the statistics are as wanted; looked at with every request that comes in or ends.
    ///
    /// # Panics
    /// After two minutes, with the statistics: a test that waits for what never comes should say so.
    pub async fn wait_until(&self, wanted: impl Fn(&Stats) -> bool) {
        let mut changes = self.shared.changed.subscribe();
        let met = async {
            while !wanted(&self.stats()) {
                // The sender lives in `self.shared`, so this cannot fail.
                let _ = changes.changed().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, met).await;
        assert!(waited.is_ok(), "not as wanted after {PATIENCE:?}: {:#?}", self.stats());
    }

    pub async fn close(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Shared {
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notify(&self) {
        self.changed.send_replace(());
    }

    pub(crate) fn arrive(self: &Arc<Self>) -> InFlight {
        let mut ledger = self.ledger();
        ledger.stats.in_flight += 1;
        ledger.stats.max_in_flight = ledger.stats.max_in_flight.max(ledger.stats.in_flight);
        InFlight(self.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.ledger().stats.in_flight -= 1;
        self.0.notify();
    }
}

#[derive(Deserialize)]
struct RequestFilter {
    task: Option<String>,
}

fn router(shared: Arc<Shared>) -> Router {
    let completion = |State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes| {
        respond::completion(shared, Api::Chat, headers, body)
    };
    let response = |State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes| {
        respond::completion(shared, Api::Responses, headers, body)
    };
    let requests = |State(shared): State<Arc<Shared>>, Query(filter): Query<RequestFilter>| async move {
        let ledger = shared.ledger();
        let wanted =
            ledger.captured.iter().filter(|request| filter.task.is_none() || request.task_id == filter.task);
        axum::Json(json!(wanted.collect::<Vec<_>>()))
    };
    Router::new()
        .route("/v1/chat/completions", post(completion))
        .route("/v1/responses", post(response))
        .route("/v1/models", get(models))
        .route(
            "/stats",
            get(|State(shared): State<Arc<Shared>>| async move { axum::Json(json!(shared.ledger().stats)) }),
        )
        .route("/requests", get(requests))
        .fallback(|| async {
            (StatusCode::NOT_FOUND, axum::Json(json!({"error": {"message": "no such path"}})))
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(shared)
}

async fn models(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if !shared.options.api_key.admits(&headers) {
        let error = json!({"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}});
        return (StatusCode::UNAUTHORIZED, axum::Json(error)).into_response();
    }
    let model = json!({"id": "scripted", "object": "model", "created": 0, "owned_by": "gaia"});
    axum::Json(json!({"object": "list", "data": [model]})).into_response()
}

async fn accept(listener: TcpListener, router: Router, stop: CancellationToken, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((connection, _)) => {
                let (router, stop) = (router.clone(), stop.clone());
                tasks.spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = serve(connection, router) => {}
                    }
                });
            }
            Err(error) => tracing::warn!(%error, "failed to accept a connection"),
        }
    }
}

/// Serves one connection; by hand, as axum's own server cannot drop one without an answer.
async fn serve(connection: TcpStream, router: Router) {
    let _ = connection.set_nodelay(true);
    let handle = connection.as_fd().try_clone_to_owned();
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
        let router = router.clone();
        async move {
            let response = match router.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            if response.extensions().get::<ResetConnection>().is_some() {
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, "reset by the script"));
            }
            Ok(response)
        }
    });
    let served =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
    if let (Err(error), Ok(handle)) = (served, handle)
        && error.is_user()
    {
        reset(handle);
    }
}

/// Makes the close of a connection a reset (RST), not an orderly end (FIN).
fn reset(handle: OwnedFd) {
    let connection = std::net::TcpStream::from(handle);
    if let Ok(connection) = TcpStream::from_std(connection) {
        let _ = connection.set_zero_linger();
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
