//! Who may send a request at all. rmcp checks Host and Origin; the bearer token and the address are checked here.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use axum::http::{HeaderMap, header};

use crate::args::HostArguments;
use crate::environment::Environment;

/// A token that opens every tool to other machines must not be guessable: 96 bits in base64.
const MIN_REMOTE_TOKEN_CHARS: usize = 16;

/// What a request must look like to be served.
#[derive(Debug)]
pub struct Guard {
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
    /// Any of them opens the host; none means that no token is asked for.
    tokens: Vec<Token>,
}

struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// The command line does not go together; the text says how to put it right.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct GuardError(String);

impl Guard {
    /// Refuses an address that other machines can reach without `--allow-remote` and a token.
    pub fn new(
        address: SocketAddr,
        arguments: &HostArguments,
        environment: &Environment,
    ) -> Result<Self, GuardError> {
        let listed = arguments.token_env.as_deref().map(|name| environment.get(name).unwrap_or_default());
        let tokens: Vec<Token> =
            listed.unwrap_or_default().split_whitespace().map(|token| Token(token.to_owned())).collect();
        if let Some(name) = &arguments.token_env
            && tokens.is_empty()
        {
            return Err(GuardError(format!(
                "environment variable `{name}`, which --token-env names, is not set"
            )));
        }
        if !address.ip().is_loopback() {
            if !arguments.allow_remote {
                return Err(GuardError(format!(
                    "refused to listen on `{address}`, which other machines can reach; use a loopback address such as \
                     127.0.0.1:{}, or add --allow-remote and --token-env",
                    address.port()
                )));
            }
            if tokens.is_empty() {
                return Err(GuardError(
                    "--allow-remote needs --token-env NAME, the variable that holds the bearer token"
                        .to_owned(),
                ));
            }
            if tokens.iter().any(|Token(token)| token.len() < MIN_REMOTE_TOKEN_CHARS) {
                return Err(GuardError(format!(
                    "a token for --allow-remote must have at least {MIN_REMOTE_TOKEN_CHARS} characters"
                )));
            }
        }
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        if !address.ip().is_unspecified() {
            hosts.push(address.ip().to_string());
        }
        hosts.extend(arguments.allowed_host.iter().cloned());
        Ok(Self { hosts, origins: arguments.allowed_origin.clone(), tokens })
    }

    /// For an agent of this machine that is handed the token.
    pub fn with_token(token: String) -> Self {
        let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        Self { hosts, origins: Vec::new(), tokens: vec![Token(token)] }
    }

    pub(super) fn token_is_right(&self, headers: &HeaderMap) -> bool {
        if self.tokens.is_empty() {
            return true;
        }
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        // Hashes under a key that only this process knows: the time taken says nothing about the token.
        let key = RandomState::new();
        given.is_some_and(|given| {
            let hash = key.hash_one(given);
            self.tokens.iter().any(|Token(token)| hash == key.hash_one(token.as_str()) && given == token)
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn guard(address: &str, arguments: &HostArguments, token: &str) -> Result<Guard, GuardError> {
        let environment = Environment::from_iter([("TOKEN".to_owned(), token.to_owned())]);
        Guard::new(address.parse().unwrap(), arguments, &environment)
    }

    fn with_token() -> HostArguments {
        HostArguments { token_env: Some("TOKEN".to_owned()), ..HostArguments::default() }
    }

    #[test]
    fn a_reachable_address_needs_consent_and_a_token() {
        let text = |arguments: &HostArguments, token: &str| {
            guard("0.0.0.0:8000", arguments, token).map(drop).map_err(|error| error.to_string())
        };
        let error = text(&HostArguments::default(), "0123456789abcdef").unwrap_err();
        assert!(error.contains("--allow-remote") && error.contains("127.0.0.1:8000"), "{error}");
        let consent = HostArguments { allow_remote: true, ..HostArguments::default() };
        assert!(text(&consent, "0123456789abcdef").unwrap_err().contains("--token-env"));
        let complete = HostArguments { allow_remote: true, ..with_token() };
        assert!(text(&complete, "short").unwrap_err().contains("16 characters"));
        assert!(text(&complete, " ").unwrap_err().contains("`TOKEN`"));
        assert_eq!(text(&complete, "0123456789abcdef"), Ok(()));
        assert!(guard("127.0.0.1:0", &HostArguments::default(), "").is_ok());
    }

    #[test]
    fn each_listed_token_opens_and_nothing_else() {
        let guard = guard("127.0.0.1:0", &with_token(), " first-token\nsecond-token ").unwrap();
        let opens = |value: &'static str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(value))]);
            guard.token_is_right(&headers)
        };
        for right in ["Bearer first-token", "bearer second-token"] {
            assert!(opens(right), "{right}");
        }
        for wrong in [
            "Bearer first-toke",
            "Bearer first-token second-token",
            "first-token",
            "Bearer ",
            "Basic first-token",
        ] {
            assert!(!opens(wrong), "{wrong}");
        }
        assert!(!guard.token_is_right(&HeaderMap::new()));
        assert!(!format!("{guard:?}").contains("first-token"));
    }
}
