//! Who may look. The pages hold what a benchmark must not make public, and any page of the web can send a browser to
//! 127.0.0.1: Host and Origin are checked, as `gaia host` has them checked.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::args::ViewArguments;
use crate::environment::Environment;

/// As for `gaia host`: 96 bits in base64.
const MIN_TOKEN_CHARS: usize = 16;

/// What a request must look like to be answered.
pub struct Visitors {
    address: SocketAddr,
    hosts: Vec<String>,
    token: Option<String>,
}

impl fmt::Debug for Visitors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Visitors").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The command line does not go together; the text says how to put it right.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct VisitorsError(String);

impl Visitors {
    /// Refuses an address that other machines can reach without a token.
    pub fn new(
        address: SocketAddr,
        arguments: &ViewArguments,
        environment: &Environment,
    ) -> Result<Self, VisitorsError> {
        let token = match &arguments.token_env {
            None => None,
            Some(name) => match environment.get(name).map(str::trim).filter(|token| !token.is_empty()) {
                Some(token) => Some(token.to_owned()),
                None => {
                    return Err(VisitorsError(format!(
                        "environment variable `{name}`, which --token-env names, is not set"
                    )));
                }
            },
        };
        if !address.ip().is_loopback() && token.is_none() {
            return Err(VisitorsError(format!(
                "refused to listen on `{address}`, which other machines can reach; use a loopback address such as \
                 127.0.0.1:{}, or add --token-env NAME, the variable that holds a token",
                address.port()
            )));
        }
        if token.as_ref().is_some_and(|token| token.len() < MIN_TOKEN_CHARS) {
            return Err(VisitorsError(format!("the token must have at least {MIN_TOKEN_CHARS} characters")));
        }
        Ok(Self { address, hosts: arguments.allowed_host.clone(), token })
    }

    /// The port that a listener really has.
    pub fn bound(self, address: SocketAddr) -> Self {
        Self { address, ..self }
    }

    /// A name can be made to lead here by whoever owns it; an address cannot.
    fn host_is_right(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        match name.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || !self.address.ip().is_loopback(),
            Err(_) => {
                name.eq_ignore_ascii_case("localhost")
                    || self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
            }
        }
    }

    fn cookie(&self) -> String {
        // Browsers do not keep the cookies of two ports apart.
        format!("gaia-view-{}", self.address.port())
    }

    fn is_token(&self, given: &str) -> bool {
        // Hashes: the time taken says nothing about the token.
        self.token.as_ref().is_none_or(|token| Sha256::digest(token) == Sha256::digest(given))
    }

    fn token_is_right(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        let name = self.cookie();
        let cookie = text(header::COOKIE).and_then(|cookies| {
            let cookies = cookies.split(';').filter_map(|cookie| cookie.trim().split_once('='));
            cookies.into_iter().find_map(|(key, value)| (key == name).then_some(value))
        });
        self.token.is_none() || bearer.or(cookie).is_some_and(|given| self.is_token(given))
    }
}

/// Lets a request through, or says why not.
pub(super) async fn admit(State(visitors): State<Arc<Visitors>>, request: Request, next: Next) -> Response {
    match refusal(&visitors, request.method(), request.uri(), request.headers()) {
        Some(refused) => refused,
        None => next.run(request).await,
    }
}

fn refusal(visitors: &Visitors, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let forbidden = |reason: &'static str| Some((StatusCode::FORBIDDEN, reason).into_response());
    let Some(host) = text("host").or_else(|| uri.authority().map(|authority| authority.as_str())) else {
        return forbidden("the request names no host");
    };
    if !visitors.host_is_right(host) {
        return forbidden("the Host is not one that this server has; --allowed-host adds one");
    }
    if text("origin").is_some_and(|origin| origin != format!("http://{host}")) {
        return forbidden("requests of other origins are not answered");
    }
    // A page of another site may link here, and may not build anything of ours into itself.
    if text("sec-fetch-site") == Some("cross-site") && text("sec-fetch-dest") != Some("document") {
        return forbidden("requests of other sites are not answered");
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Some((StatusCode::METHOD_NOT_ALLOWED, "this server only shows").into_response());
    }
    if visitors.token_is_right(headers) {
        return None;
    }
    let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let given = pairs.into_iter().find_map(|(name, value)| (name == "token").then_some(value));
    match given.filter(|given| visitors.is_token(given)) {
        // Out of the address, where it would be read over a shoulder and stay in the history.
        Some(token) => {
            let cookie = format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", visitors.cookie());
            let headers = [(header::SET_COOKIE, cookie), (header::LOCATION, uri.path().to_owned())];
            Some((StatusCode::SEE_OTHER, headers).into_response())
        }
        None => {
            let text = "a token is needed: open the address with ?token=… once, or send it as a bearer token";
            Some((StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response())
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn visitors(address: &str, token_env: Option<&str>) -> Result<Visitors, VisitorsError> {
        let environment = Environment::from_iter([("TOKEN".to_owned(), TOKEN.to_owned())]);
        let arguments = ViewArguments { token_env: token_env.map(str::to_owned), ..ViewArguments::default() };
        Visitors::new(address.parse().unwrap(), &arguments, &environment)
    }

    fn status(visitors: &Visitors, uri: &str, headers: &[(&'static str, &str)]) -> Option<u16> {
        let headers = headers.iter().map(|(name, value)| {
            (header::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let headers = headers.collect();
        refusal(visitors, &Method::GET, &uri.parse().unwrap(), &headers)
            .map(|refused| refused.status().as_u16())
    }

    #[test]
    fn a_reachable_address_needs_a_token() {
        let error = visitors("0.0.0.0:80", None).unwrap_err().to_string();
        assert!(error.contains("--token-env") && error.contains("127.0.0.1:80"), "{error}");
        assert!(visitors("0.0.0.0:80", Some("OTHER")).unwrap_err().to_string().contains("`OTHER`"));
        assert!(visitors("0.0.0.0:80", Some("TOKEN")).is_ok() && visitors("127.0.0.1:0", None).is_ok());
    }

    #[test]
    fn other_hosts_and_origins_are_refused() {
        let local = visitors("127.0.0.1:7979", None).unwrap();
        for host in ["localhost:7979", "127.0.0.1:7979", "[::1]:7979"] {
            assert_eq!(status(&local, "/", &[("host", host)]), None, "{host}");
        }
        for host in ["evil.example", "10.0.0.1:7979", "localhost.evil.example", ""] {
            assert_eq!(status(&local, "/", &[("host", host)]), Some(403), "{host}");
        }
        let from = |origin: &str| status(&local, "/", &[("host", "localhost:1"), ("origin", origin)]);
        assert_eq!(from("http://localhost:1"), None);
        assert_eq!(from("http://evil.example"), Some(403));
        assert_eq!(from("null"), Some(403));
        let embedded = [("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "image")];
        assert_eq!(status(&local, "/", &embedded), Some(403));
    }

    #[test]
    fn a_token_opens_once_by_the_address_and_then_by_the_cookie() {
        let remote = visitors("0.0.0.0:7979", Some("TOKEN")).unwrap();
        let host = ("host", "10.0.0.1:7979");
        assert_eq!(status(&remote, "/", &[host]), Some(401));
        assert_eq!(status(&remote, "/?token=wrong", &[host]), Some(401));
        assert_eq!(status(&remote, &format!("/?token={TOKEN}"), &[host]), Some(303));
        let cookie = format!("a=b; gaia-view-7979={TOKEN}");
        assert_eq!(status(&remote, "/", &[host, ("cookie", &cookie)]), None);
        let bearer = format!("Bearer {TOKEN}");
        assert_eq!(status(&remote, "/", &[host, ("authorization", &bearer)]), None);
        assert_eq!(status(&remote, "/", &[("host", "evil.example"), ("cookie", &cookie)]), Some(403));
        assert!(!format!("{remote:?}").contains(TOKEN));
    }
}
