//! A web of our own on loopback: pages, redirects, slow and hostile replies, and a count of what was asked for.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// One request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// As in the request line: a path, or a whole address when we are the proxy.
    pub(crate) target: String,
    pub(crate) headers: HashMap<String, String>,
}

/// What is sent back.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Whole {
        status: u16,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// These bytes as they are, and then silence on an open connection.
    ThenSilence(Vec<u8>),
    /// These bytes, and then the others again and again.
    Endless(Vec<u8>, Vec<u8>),
}

pub(crate) fn page(content_type: &str, body: impl Into<Vec<u8>>) -> Reply {
    with_headers(200, &[("Content-Type", content_type)], body)
}

pub(crate) fn html(body: &str) -> Reply {
    page("text/html; charset=utf-8", body)
}

pub(crate) fn status(status: u16) -> Reply {
    with_headers(status, &[("Content-Type", "text/plain")], "status")
}

pub(crate) fn redirect(to: &str) -> Reply {
    with_headers(302, &[("Location", to)], "")
}

pub(crate) fn with_headers(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Reply {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Reply::Whole { status, headers, body: body.into() }
}

type Answer = Arc<dyn Fn(&Asked) -> Reply + Send + Sync>;

pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: JoinHandle<()>,
}

impl Site {
    pub(crate) async fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (asked.clone(), Arc::new(answer) as Answer);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, seen.clone(), answer.clone()));
            }
        });
        Self { address, asked, serving }
    }

    /// Paths without a page are 404, also robots.txt.
    pub(crate) async fn of(pages: &[(&str, Reply)]) -> Self {
        let pages: HashMap<String, Reply> =
            pages.iter().map(|(path, reply)| ((*path).to_owned(), reply.clone())).collect();
        Self::start(move |asked| pages.get(&asked.target).cloned().unwrap_or_else(|| status(404))).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn targets(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.target).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<Asked>>>, answer: Answer) {
    let mut buffer = Vec::new();
    loop {
        let Some(end) = find(&buffer, b"\r\n\r\n") else {
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(count) => buffer.extend_from_slice(&chunk[..count]),
            }
            continue;
        };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        let mut lines = head.lines();
        let target = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
        let headers: HashMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
            .collect();
        let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if buffer.len() < end + 4 + length {
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(count) => buffer.extend_from_slice(&chunk[..count]),
            }
            continue;
        }
        buffer.drain(..end + 4 + length);
        let asked = Asked { target, headers };
        let reply = answer(&asked);
        seen.lock().unwrap().push(asked);
        let sent = match reply {
            Reply::Whole { status, headers, body } => {
                let mut bytes = format!("HTTP/1.1 {status} {}\r\n", phrase(status)).into_bytes();
                for (name, value) in &headers {
                    bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
                }
                let declares = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
                if !declares {
                    bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
                }
                bytes.extend_from_slice(b"\r\n");
                if status != 304 {
                    bytes.extend_from_slice(&body);
                }
                stream.write_all(&bytes).await
            }
            Reply::ThenSilence(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
                // Ends when the client has had enough.
                while matches!(stream.read(&mut [0; 64]).await, Ok(count) if count > 0) {}
                return;
            }
            Reply::Endless(first, again) => {
                let mut sent = stream.write_all(&first).await;
                while sent.is_ok() {
                    sent = stream.write_all(&again).await;
                }
                sent
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        302 => "Found",
        304 => "Not Modified",
        403 => "Forbidden",
        404 => "Not Found",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
