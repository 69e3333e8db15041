use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::oauth::TokenStore;
use super::redact::Redactor;

/// One MCP server as configured, variables already expanded.
#[derive(Debug, Clone)]
pub struct ServerSpec {
    /// `[a-zA-Z0-9_-]+`, the key of the table in the config.
    pub name: String,
    pub transport: TransportSpec,
    pub scope: Scope,
    /// In front of the names of its tools as the model sees them.
    pub prefix: Option<String>,
    /// Globs over tool names; `None` allows all.
    pub enabled_tools: Option<Vec<String>>,
    /// Globs over tool names, applied after `enabled_tools`.
    pub disabled_tools: Vec<String>,
    /// For process start, handshake and tool list together.
    pub startup_timeout: Duration,
    /// For one call without a sign of progress.
    pub tool_timeout: Duration,
    /// Calls under way at the same time; the others wait for their turn. `None` bounds nothing.
    pub max_concurrent_calls: Option<NonZeroUsize>,
    /// A run can go on without a server that is not required.
    pub required: bool,
    pub protocol: Protocol,
    pub call_order: CallOrder,
    /// Secrets that reach the server by other ways than those of `transport`, such as its arguments.
    pub redactor: Redactor,
}

/// How to reach a server. Its `Debug` form shows no value that may be a secret.
#[derive(Clone)]
pub enum TransportSpec {
    Stdio {
        command: String,
        args: Vec<String>,
        /// Added to the minimal environment that every child gets.
        env: BTreeMap<String, String>,
        cwd: Option<PathBuf>,
    },
    Http {
        url: String,
        /// Values may be secrets.
        headers: BTreeMap<String, String>,
        /// Sent as `Authorization: Bearer`.
        bearer_token: Option<String>,
        wire: HttpWire,
        /// Where the tokens of `gaia login` are; used when no `bearer_token` is given.
        tokens: Option<TokenStore>,
    },
}

/// Which of the two HTTP transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpWire {
    /// Streamable HTTP; HTTP+SSE when the endpoint does not take its first POST, as the specification says.
    #[default]
    Auto,
    /// HTTP+SSE of 2024-11-05: a stream for all answers, and a POST for each message.
    Sse,
}

/// Whether a variable of this name says where or how, and so is no secret: errors that name a place are of no use
/// with the place hidden. Names that are not known are secrets.
pub fn is_plain_variable(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "DOCKER_HOST",
        "DOCKER_CONTEXT",
        "HOME",
        "LANG",
        "LC_ALL",
        "LOGNAME",
        "PATH",
        "PWD",
        "SHELL",
        "TERM",
        "TZ",
        "USER",
    ];
    const ENDINGS: [&str; 15] = [
        "_DIR", "_ENGINE", "_FILE", "_FORMAT", "_HOME", "_HOST", "_IMAGE", "_LEVEL", "_MODE", "_PATH",
        "_PORT", "_REGION", "_TIMEOUT", "_VERIFY", "_VERSION",
    ];
    NAMES.contains(&name) || ENDINGS.iter().any(|ending| name.ends_with(ending)) || name == "TMPDIR"
}

/// How the calls of one turn run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOrder {
    /// One after the other, but for tools that the server declares read-only.
    AsDeclared,
    /// At the same time: the config vouches that they do not disturb each other.
    SideBySide,
}

/// How long a server lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One process for each task.
    Sample,
    /// One process shared by all tasks of a run.
    Run,
}

/// Which era of the protocol to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Legacy first, modern when the server says that it speaks nothing else.
    Auto,
    /// 2024-11-05 to 2025-11-25: `initialize` and sessions.
    Legacy,
    /// 2026-07-28: `server/discover`, no sessions.
    Modern,
}

impl fmt::Debug for TransportSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Arguments are left out too: people put keys there.
            Self::Stdio { command, args, env, cwd } => formatter
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", &format_args!("[{} hidden]", args.len()))
                .field("env", &env.keys().collect::<Vec<_>>())
                .field("cwd", cwd)
                .finish(),
            Self::Http { url, headers, bearer_token, wire, tokens: _ } => formatter
                .debug_struct("Http")
                .field("url", &without_secrets(url))
                .field("headers", &headers.keys().collect::<Vec<_>>())
                .field("bearer_token", &bearer_token.as_ref().map(|_| "hidden"))
                .field("wire", wire)
                .finish(),
        }
    }
}

/// A URL without what may hold a key: user info, query and fragment.
pub(crate) fn without_secrets(url: &str) -> String {
    let base = url.split(['?', '#']).next().unwrap_or_default();
    match base.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = match rest.find('/') {
                Some(slash) => rest.split_at(slash),
                None => (rest, ""),
            };
            let host = authority.rsplit('@').next().unwrap_or(authority);
            format!("{scheme}://{host}{path}")
        }
        None => base.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let stdio = TransportSpec::Stdio {
            command: "server".to_owned(),
            args: vec!["--key=s3cret".to_owned()],
            env: BTreeMap::from([("KEY".to_owned(), "s3cret".to_owned())]),
            cwd: None,
        };
        let http = TransportSpec::Http {
            url: "https://user:s3cret@example.invalid:1/mcp?key=s3cret#s3cret".to_owned(),
            headers: BTreeMap::from([("X-Key".to_owned(), "s3cret".to_owned())]),
            bearer_token: Some("s3cret".to_owned()),
            wire: HttpWire::Auto,
            tokens: None,
        };
        let text = format!("{stdio:?} {http:#?}");
        assert!(!text.contains("s3cret"), "{text}");
        assert!(text.contains("\"KEY\"") && text.contains("\"X-Key\""), "{text}");
        assert!(text.contains("https://example.invalid:1/mcp"), "{text}");
    }
}
