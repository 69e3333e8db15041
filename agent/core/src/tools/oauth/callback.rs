use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Bytes of a request that are looked at: a code and a state, with the headers of a browser.
const REQUEST_BYTES: usize = 16 * 1024;

/// For one request to arrive; browsers open connections that they never use.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);

/// Where the browser is sent when the person has decided.
pub(super) struct Callback {
    pub(super) listener: TcpListener,
    pub(super) port: u16,
}

impl Callback {
    /// A literal address, since `localhost` may lead to another listener (RFC 8252, 8.3).
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/callback", self.port)
    }

    /// Waits for the redirect that carries `state` and returns its whole address. Requests that do not are answered
    /// and forgotten: any page can send a browser here. The error says why there is no code.
    pub(super) async fn wait(&self, state: &str) -> Result<String, String> {
        loop {
            let Ok((mut stream, _)) = self.listener.accept().await else { continue };
            let target =
                timeout(REQUEST_PATIENCE, target(&mut stream)).await.ok().flatten().unwrap_or_default();
            let Ok(url) = reqwest::Url::parse(&format!("http://127.0.0.1:{}{target}", self.port)) else {
                answer(&mut stream, "400 Bad Request", "This is not a request.").await;
                continue;
            };
            let of = |name: &str| {
                url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
            };
            if url.path() != "/callback" || of("state").as_deref() != Some(state) {
                answer(&mut stream, "404 Not Found", "This page belongs to no login that is under way.")
                    .await;
                continue;
            }
            if let Some(error) = of("error") {
                answer(&mut stream, "200 OK", "The login was refused. You can close this page.").await;
                let detail = of("error_description").map(|text| format!(" ({text})")).unwrap_or_default();
                return Err(format!("the authorization server answered `{error}`{detail}"));
            }
            if of("code").is_some() {
                answer(&mut stream, "200 OK", "The login is complete. You can close this page.").await;
                return Ok(url.into());
            }
            answer(&mut stream, "400 Bad Request", "The code is missing.").await;
        }
    }
}

/// The target of a GET request.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > REQUEST_BYTES || stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
    let head = String::from_utf8(request).ok()?;
    let target = head.strip_prefix("GET ")?.split(' ').next()?;
    target.starts_with('/').then(|| target.to_owned())
}

async fn answer(stream: &mut TcpStream, status: &str, text: &str) {
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    // The code counts, not whether the browser hears of it.
    let _ = timeout(REQUEST_PATIENCE, stream.write_all(answer.as_bytes())).await;
    let _ = stream.shutdown().await;
}
