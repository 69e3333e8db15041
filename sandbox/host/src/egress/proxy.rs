//! HTTP between a program in the sandbox and the host it asks for.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::upstream::{Scheme, UpstreamProxy};
use super::{CONNECT_TIMEOUT, Egress, EgressError, Route};

/// Longest head of a request or an answer. Servers and browsers stop between 8 and 64 KiB.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Buffer in each direction of a connection that is passed through.
const COPY_BYTES: usize = 32 << 10;

/// What holds for one hop only (RFC 9110 section 7.6.1), and what is for a proxy.
const HOP_HEADERS: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

type Body = BoxBody<Bytes, hyper::Error>;
type Answer = Response<Body>;

trait Stream: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

/// A connection that `CONNECT` has opened, and the client's side of it, to come.
struct Passage {
    client: OnUpgrade,
    far: Pin<Box<dyn Stream>>,
}

impl Egress {
    /// Serves one connection of a program until it ends.
    pub(crate) async fn serve(&self, client: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let passage = Arc::new(Mutex::new(None));
        let service = service_fn(async |request| Ok::<_, Infallible>(self.answer(request, &passage).await));
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.options.head_timeout)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(client), service)
            .with_upgrades()
            .await;
        if let Err(error) = served {
            tracing::debug!(%error, "a connection of a sandbox to its proxy broke");
        }
        let opened = passage.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Passage { client, mut far }) = opened
            && let Ok(client) = client.await
        {
            let mut client = TokioIo::new(client);
            // How it ends is for the two to know.
            let _ =
                tokio::io::copy_bidirectional_with_sizes(&mut client, &mut far, COPY_BYTES, COPY_BYTES).await;
        }
    }

    async fn answer(&self, request: Request<Incoming>, passage: &Mutex<Option<Passage>>) -> Answer {
        let target = request.uri().clone();
        let answer = if request.method() == Method::CONNECT {
            self.open_passage(request).await.map(|opened| {
                *passage.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
                Response::new(Empty::new().map_err(|never| match never {}).boxed())
            })
        } else {
            self.forward(request).await
        };
        let host = target.host().unwrap_or_default();
        match answer {
            Ok(answer) => {
                tracing::debug!(host, port = target.port_u16(), "a request of a sandbox was let out");
                answer
            }
            Err(error) => {
                tracing::debug!(host, port = target.port_u16(), %error, "a request of a sandbox was not served");
                error_answer(&error)
            }
        }
    }

    async fn open_passage(&self, request: Request<Incoming>) -> Result<Passage, EgressError> {
        let authority = request.uri().authority().cloned();
        let Some((host, port)) =
            authority.as_ref().and_then(|authority| Some((authority.host(), authority.port_u16()?)))
        else {
            return Err(EgressError::Malformed("CONNECT names a host and a port".to_owned()));
        };
        let far: Pin<Box<dyn Stream>> = match self.decide(Scheme::Other, host, port).await? {
            Route::Direct(addresses) => Box::pin(self.connect(host, &addresses).await?),
            Route::Through(proxy) => self.connect_through(proxy, host, port).await?,
        };
        Ok(Passage { client: hyper::upgrade::on(request), far })
    }

    async fn connect_through(
        &self,
        proxy: &UpstreamProxy,
        host: &str,
        port: u16,
    ) -> Result<Pin<Box<dyn Stream>>, EgressError> {
        let unreachable = |reason: String| EgressError::Unreachable { host: host.to_owned(), port, reason };
        let stream = self.connect_to_proxy(proxy).await?;
        let authority = format!("{host}:{port}");
        let mut request = Request::new(Empty::new().map_err(|never| match never {}).boxed());
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = authority.parse().map_err(|_| unreachable("it has no such name".to_owned()))?;
        if let Ok(value) = HeaderValue::from_str(&authority) {
            request.headers_mut().insert(header::HOST, value);
        }
        authorize(&mut request, proxy);
        let asked = tokio::time::timeout(CONNECT_TIMEOUT, send(stream, request));
        let answer = asked
            .await
            .map_err(|_| unreachable("the proxy of the sandbox's host does not answer".to_owned()))?
            .map_err(|error| unreachable(error.to_string()))?;
        if !answer.status().is_success() {
            return Err(unreachable(format!("the proxy of the sandbox's host says {}", answer.status())));
        }
        let upgraded = hyper::upgrade::on(answer).await.map_err(|error| unreachable(error.to_string()))?;
        Ok(Box::pin(TokioIo::new(upgraded)))
    }

    /// A request for an `http:` address.
    async fn forward(&self, mut request: Request<Incoming>) -> Result<Answer, EgressError> {
        let uri = request.uri().clone();
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            let text = "this is a proxy: ask it with `http_proxy=http://127.0.0.1:3128`";
            return Err(EgressError::Malformed(text.to_owned()));
        };
        if scheme != "http" {
            return Err(EgressError::Malformed(format!("`{scheme}:` addresses are reached by CONNECT")));
        }
        let (host, port) = (authority.host(), authority.port_u16().unwrap_or(80));
        strip_hop_headers(request.headers_mut());
        // What was decided about is the host of the address, so that is what the server is asked for.
        let named = match authority.port_u16() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let named = HeaderValue::from_str(&named)
            .map_err(|_| EgressError::Malformed("the host is not one".to_owned()))?;
        request.headers_mut().insert(header::HOST, named);
        let mut request = request.map(BodyExt::boxed);
        let stream = match self.decide(Scheme::Http, host, port).await? {
            Route::Direct(addresses) => {
                let path = uri.path_and_query().map_or("/", |path| path.as_str());
                *request.uri_mut() = path
                    .parse::<Uri>()
                    .map_err(|_| EgressError::Malformed("the path is not one".to_owned()))?;
                self.connect(host, &addresses).await?
            }
            Route::Through(proxy) => {
                authorize(&mut request, proxy);
                self.connect_to_proxy(proxy).await?
            }
        };
        let mut answer = send(stream, request).await.map_err(|error| EgressError::Unreachable {
            host: host.to_owned(),
            port,
            reason: error.to_string(),
        })?;
        strip_hop_headers(answer.headers_mut());
        Ok(answer.map(BodyExt::boxed))
    }
}

fn authorize(request: &mut Request<Body>, proxy: &UpstreamProxy) {
    if let Some(authorization) = &proxy.authorization {
        request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization.clone());
    }
}

/// Sends a request on a connection of its own, which lasts as long as the answer.
async fn send(stream: TcpStream, request: Request<Body>) -> Result<Response<Incoming>, hyper::Error> {
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await?;
    // Ends when the answer has been read or dropped.
    tokio::spawn(connection.with_upgrades());
    sender.send_request(request).await
}

fn strip_hop_headers(headers: &mut http::HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_HEADERS) {
        headers.remove(name);
    }
}

/// The reason is also in the status line: the only part that most clients show when `CONNECT` fails.
fn error_answer(error: &EgressError) -> Answer {
    let status = match error {
        EgressError::Refused { .. } => StatusCode::FORBIDDEN,
        EgressError::Malformed(_) => StatusCode::BAD_REQUEST,
        EgressError::Unresolved { .. } | EgressError::Unreachable { .. } => StatusCode::BAD_GATEWAY,
    };
    let text = error.to_string();
    let mut answer =
        Response::new(Full::new(Bytes::from(format!("{text}\n"))).map_err(|never| match never {}).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    let line: String = text.chars().filter(|character| !character.is_control()).collect();
    if let Ok(reason) = ReasonPhrase::try_from(line) {
        answer.extensions_mut().insert(reason);
    }
    answer
}
