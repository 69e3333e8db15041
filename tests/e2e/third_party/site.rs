//! A web site of the test on a loopback port.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

type Answer = dyn Fn(&str, &HeaderMap) -> Option<Response> + Send + Sync;

/// What the handler knows.
#[derive(Clone)]
struct Pages {
    answer: Arc<Answer>,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Answers until it is dropped.
pub(super) struct Site {
    pub(super) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
}

impl Site {
    /// `answer` gets path and query; what it has no answer to is a 404.
    pub(super) async fn start(
        answer: impl Fn(&str, &HeaderMap) -> Option<Response> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let pages = Pages { answer: Arc::new(answer), asked: asked.clone() };
        let router = Router::new().fallback(reply).with_state(pages);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            axum::serve(listener, router)
                .with_graceful_shutdown(async move { stopped.cancelled().await })
                .await
                .unwrap();
        });
        Self { address, asked, stop }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The paths that were asked for, with their queries.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn reply(State(pages): State<Pages>, request: Request) -> Response {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    pages.asked.lock().unwrap().push(path.clone());
    (pages.answer)(&path, request.headers())
        .unwrap_or_else(|| (StatusCode::NOT_FOUND, "there is no such page").into_response())
}

/// A page with a heading and a paragraph.
pub(super) fn page(title: &str, body: &str) -> Response {
    Html(format!(
        "<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1>{body}</body></html>"
    ))
    .into_response()
}

pub(super) fn json(status: StatusCode, body: &serde_json::Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
