//! Who may send a request at all: Host, Origin and bearer token.
//!
//! rmcp checks Host and Origin for its own endpoint; this covers every path of the server, before any other work.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};

use super::{ServeArgs, ServeError};
use crate::toolset::Bearer;

/// A token that opens a shell to other machines must not be guessable: 96 bits in base64.
const MIN_REMOTE_TOKEN_CHARS: usize = 16;

/// What a request must look like to be served.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
    /// Any of them opens the server; none means that no token is asked for.
    tokens: Vec<Token>,
}

#[derive(Clone)]
struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// Status and text of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) text: &'static str,
}

impl Guard {
    /// Refuses an address that other machines can reach without `--allow-remote` and a token.
    pub(super) fn new(
        address: SocketAddr,
        args: &ServeArgs,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ServeError> {
        let tokens: Vec<Token> = match &args.token_env {
            None => Vec::new(),
            Some(name) => {
                let listed = environment(name).unwrap_or_default();
                let tokens: Vec<Token> =
                    listed.split_whitespace().map(|token| Token(token.to_owned())).collect();
                if tokens.is_empty() {
                    return Err(ServeError::Usage(format!(
                        "the environment variable `{name}` named by --token-env is not set"
                    )));
                }
                tokens
            }
        };
        if !address.ip().is_loopback() {
            if !args.allow_remote {
                return Err(ServeError::Usage(format!(
                    "refused to listen on `{address}`, which other machines can reach; use a loopback address such \
                     as 127.0.0.1:{}, or add --allow-remote and --token-env",
                    address.port()
                )));
            }
            if tokens.is_empty() {
                return Err(ServeError::Usage(
                    "--allow-remote needs --token-env NAME, the variable that holds the bearer token"
                        .to_owned(),
                ));
            }
            if tokens.iter().any(|Token(token)| token.len() < MIN_REMOTE_TOKEN_CHARS) {
                return Err(ServeError::Usage(format!(
                    "a token for --allow-remote must have at least {MIN_REMOTE_TOKEN_CHARS} characters"
                )));
            }
        }
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        if !address.ip().is_unspecified() {
            hosts.push(address.ip().to_string());
        }
        hosts.extend(args.allowed_host.iter().cloned());
        Ok(Self { hosts, origins: args.allowed_origin.clone(), tokens })
    }

    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        if !self.host_is_allowed(uri, headers) {
            return Err(Refusal {
                status: StatusCode::FORBIDDEN,
                text: "Host is not allowed; start the server with --allowed-host NAME to accept it",
            });
        }
        if !self.origin_is_allowed(headers) {
            return Err(Refusal {
                status: StatusCode::FORBIDDEN,
                text: "Origin is not allowed; start the server with --allowed-origin ORIGIN to accept it",
            });
        }
        if !self.token_is_right(headers) {
            return Err(Refusal {
                status: StatusCode::UNAUTHORIZED,
                text: "missing or wrong bearer token in the Authorization header",
            });
        }
        Ok(())
    }

    fn host_is_allowed(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let authority = match headers.get(header::HOST) {
            Some(host) => host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()),
            None => uri.authority().cloned(),
        };
        authority.is_some_and(|authority| {
            self.hosts.iter().any(|allowed| {
                normal_host(allowed) == normal_host(authority.host())
                    || allowed.eq_ignore_ascii_case(authority.as_str())
            })
        })
    }

    fn origin_is_allowed(&self, headers: &HeaderMap) -> bool {
        // Only browsers send it, and each sends exactly one.
        headers.get_all(header::ORIGIN).iter().all(|origin| {
            origin
                .to_str()
                .is_ok_and(|origin| self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)))
        })
    }

    fn token_is_right(&self, headers: &HeaderMap) -> bool {
        if self.tokens.is_empty() {
            return true;
        }
        // Hashes under a key that only this process knows: the time taken says nothing about the token.
        let key = RandomState::new();
        given_token(headers).is_some_and(|given| {
            let hash = key.hash_one(given);
            self.tokens
                .iter()
                .any(|Token(expected)| hash == key.hash_one(expected.as_str()) && given == expected)
        })
    }

    /// The token of a request that [`Guard::check`] let in, when it can name what belongs to its client.
    pub(super) fn bearer(&self, headers: &HeaderMap) -> Option<Bearer> {
        let token = given_token(headers)?;
        if self.tokens.is_empty() { Bearer::unguessable(token) } else { Some(Bearer::verified(token)) }
    }
}

fn given_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Without brackets, and with one spelling for each IPv6 address.
fn normal_host(host: &str) -> String {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().map_or_else(|_| bare.to_ascii_lowercase(), |ip| ip.to_string())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn args() -> ServeArgs {
        ServeArgs {
            stdio: false,
            http: None,
            allow_remote: false,
            token_env: None,
            allowed_host: Vec::new(),
            allowed_origin: Vec::new(),
        }
    }

    fn guard(args: &ServeArgs) -> Guard {
        let token = |name: &str| (name == "TOKEN").then(|| "0123456789abcdef".to_owned());
        Guard::new("127.0.0.1:8000".parse().unwrap(), args, token).unwrap()
    }

    fn check(guard: &Guard, headers: &[(&'static str, &'static str)]) -> Result<(), StatusCode> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect();
        guard.check(&Uri::from_static("/mcp"), &headers).map_err(|refusal| refusal.status)
    }

    #[test]
    fn only_known_hosts_are_served() {
        let guard = guard(&ServeArgs { allowed_host: vec!["sandbox.example".to_owned()], ..args() });
        for host in ["localhost", "127.0.0.1:8000", "[::1]:1", "[0:0::1]", "Sandbox.Example:80"] {
            assert_eq!(check(&guard, &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "10.0.0.1", ""] {
            assert_eq!(check(&guard, &[("host", host)]), Err(StatusCode::FORBIDDEN), "{host}");
        }
        assert_eq!(check(&guard, &[]), Err(StatusCode::FORBIDDEN));
    }

    #[test]
    fn a_web_page_is_refused_unless_its_origin_is_allowed() {
        let host = ("host", "localhost");
        let closed = guard(&args());
        assert_eq!(check(&closed, &[host]), Ok(()));
        for origin in ["https://evil.example", "null", "http://localhost:8000"] {
            assert_eq!(check(&closed, &[host, ("origin", origin)]), Err(StatusCode::FORBIDDEN), "{origin}");
        }
        let open = guard(&ServeArgs { allowed_origin: vec!["https://app.example".to_owned()], ..args() });
        assert_eq!(check(&open, &[host, ("origin", "https://app.example")]), Ok(()));
        assert_eq!(check(&open, &[host, ("origin", "https://app.example.evil")]), Err(StatusCode::FORBIDDEN));
    }

    #[test]
    fn the_token_must_match() {
        let host = ("host", "localhost");
        let guard = guard(&ServeArgs { token_env: Some("TOKEN".to_owned()), ..args() });
        assert_eq!(check(&guard, &[host, ("authorization", "Bearer 0123456789abcdef")]), Ok(()));
        assert_eq!(check(&guard, &[host, ("authorization", "bearer 0123456789abcdef")]), Ok(()));
        for wrong in
            ["Bearer 0123456789abcdeX", "Bearer 0123456789abcde", "0123456789abcdef", "Bearer", "Bearer "]
        {
            assert_eq!(
                check(&guard, &[host, ("authorization", wrong)]),
                Err(StatusCode::UNAUTHORIZED),
                "{wrong}"
            );
        }
        assert_eq!(check(&guard, &[host]), Err(StatusCode::UNAUTHORIZED));
    }

    #[test]
    fn each_listed_token_opens_and_names_its_own() {
        let list = |name: &str| (name == "TOKEN").then(|| " first-token\nsecond-token ".to_owned());
        let args = ServeArgs { token_env: Some("TOKEN".to_owned()), ..args() };
        let guard = Guard::new("127.0.0.1:8000".parse().unwrap(), &args, list).unwrap();
        let bearer = |token: &'static str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(token))]);
            guard.bearer(&headers)
        };
        for token in ["Bearer first-token", "Bearer second-token"] {
            assert_eq!(check(&guard, &[("host", "localhost"), ("authorization", token)]), Ok(()));
        }
        for token in ["Bearer first-token second-token", "Bearer first", "Bearer "] {
            let answer = check(&guard, &[("host", "localhost"), ("authorization", token)]);
            assert_eq!(answer, Err(StatusCode::UNAUTHORIZED), "{token}");
        }
        assert!(bearer("Bearer first-token").is_some());
        assert_eq!(bearer("Bearer first-token"), bearer("bearer first-token"));
        assert_ne!(bearer("Bearer first-token"), bearer("Bearer second-token"));
    }

    #[test]
    fn without_a_list_only_an_unguessable_token_names_something() {
        let guard = guard(&args());
        let bearer = |token: &'static str| {
            guard.bearer(&HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(token))]))
        };
        assert!(bearer("Bearer 0b7f2d5e-6f0f-4a58-9a38-5a1c5ad8b9a1").is_some());
        assert!(bearer("Bearer guessable").is_none());
        assert!(bearer("Basic 0b7f2d5e-6f0f-4a58-9a38-5a1c5ad8b9a1").is_none());
        assert!(guard.bearer(&HeaderMap::new()).is_none());
    }

    #[test]
    fn a_reachable_address_needs_consent_and_a_token() {
        let bind = |args: &ServeArgs, token: &str| {
            Guard::new("0.0.0.0:8000".parse().unwrap(), args, |_| Some(token.to_owned()))
                .map(drop)
                .map_err(|error| error.to_string())
        };
        let refused = bind(&args(), "0123456789abcdef").unwrap_err();
        assert!(refused.contains("--allow-remote"), "{refused}");
        let consent = ServeArgs { allow_remote: true, ..args() };
        assert!(bind(&consent, "0123456789abcdef").unwrap_err().contains("--token-env"));
        let complete = ServeArgs { token_env: Some("TOKEN".to_owned()), ..consent };
        assert!(bind(&complete, "short").unwrap_err().contains("16 characters"));
        assert!(bind(&complete, " ").unwrap_err().contains("`TOKEN`"));
        assert_eq!(bind(&complete, "0123456789abcdef"), Ok(()));
    }

    #[test]
    fn the_token_is_not_printed() {
        let guard = guard(&ServeArgs { token_env: Some("TOKEN".to_owned()), ..args() });
        assert!(!format!("{guard:?}").contains("0123456789abcdef"));
    }
}
