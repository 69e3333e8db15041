//! A web that does not change: pages from a folder, served as the proxy of whoever asks for them, and a search
//! interface in Brave's shape over an index of them. Nothing leaves the machine.

use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response, StatusCode, Uri, header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The running web; it ends when this is dropped.
pub struct FrozenWeb {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Folder {
    pages: PathBuf,
    index: Arc<Vec<Value>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FrozenWeb {
    /// Serves `folder/www/HOST/PATH`, and searches `folder/index.jsonl`.
    ///
    /// # Errors
    /// When the index cannot be read or no port is free.
    pub async fn start(folder: &Path) -> anyhow::Result<Self> {
        let index = fs_err::read_to_string(folder.join("index.jsonl"))?;
        let index = index.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let state = Folder { pages: folder.join("www"), index: Arc::new(index), asked: asked.clone() };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let app = Router::new().fallback(answer).with_state(state);
        let serving = tokio::spawn(async move {
            // Ends with the task.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { address, asked, serving })
    }

    /// As a proxy, and as the root of the search interface.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every address that was asked for.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for FrozenWeb {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State(folder): State<Folder>, request: Request<Body>) -> Response<Body> {
    let uri = request.uri();
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = uri.host().or(host).unwrap_or_default().to_owned();
    folder.asked.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{host}{uri}"));
    if uri.path() == "/res/v1/web/search" {
        return reply(
            StatusCode::OK,
            "application/json",
            search(&folder.index, uri).to_string().into_bytes(),
        );
    }
    match page(&folder.pages, &host, uri.path()) {
        Some((kind, body)) => reply(StatusCode::OK, kind, body),
        None => reply(StatusCode::NOT_FOUND, "text/html", b"<h1>Not in the frozen web</h1>".to_vec()),
    }
}

fn reply(status: StatusCode, kind: &str, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    if let Ok(kind) = kind.parse() {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response
}

fn page(pages: &Path, host: &str, path: &str) -> Option<(&'static str, Vec<u8>)> {
    let relative = PathBuf::from(host).join(path.trim_start_matches('/'));
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let file = pages.join(relative);
    let file = if file.is_dir() { file.join("index.html") } else { file };
    let kind = match file.extension().and_then(|extension| extension.to_str()) {
        Some("pdf") => "application/pdf",
        Some("xlsx") => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        _ => "text/html",
    };
    let body = is_plain.then(|| fs_err::read(&file).ok())??;
    Some((kind, body))
}

/// Pages that hold most of the words come first.
fn search(index: &[Value], uri: &Uri) -> Value {
    let query = uri.query().unwrap_or_default();
    let wanted = query.split('&').find_map(|part| part.strip_prefix("q=")).unwrap_or_default().to_lowercase();
    let words: Vec<&str> = wanted.split(['+', '%', ' ']).filter(|word| word.len() > 2).collect();
    let mut found: Vec<(usize, &Value)> = index
        .iter()
        .map(|page| {
            let text = page.to_string().to_lowercase();
            (words.iter().filter(|word| text.contains(*word)).count(), page)
        })
        .filter(|(count, _)| *count > 0)
        .collect();
    found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let results: Vec<Value> = found
        .into_iter()
        .take(10)
        .map(|(_, page)| {
            json!({ "url": page["url"], "title": page["title"], "description": page["description"], "page_age": page["date"] })
        })
        .collect();
    json!({ "type": "search", "web": { "type": "search", "results": results } })
}
