//! What went wrong with a connection, in words for people and for the model.

use rmcp::service::ClientInitializeError;
use serde_json::Value;

use super::http::HttpError;
use super::{ServerSpec, TransportSpec, command};

/// What the way in which a server refused a handshake says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Another way would fare no better.
    Final,
    /// It answered, and not as a server of this era.
    Era,
    /// Its process ended.
    Exit,
    /// Its endpoint does not take a POST: the sign of a server of the time before streamable HTTP, or of a page.
    OldWire,
}

impl Refusal {
    pub(super) fn may_be_the_era(self) -> bool {
        matches!(self, Self::Era | Self::Exit | Self::OldWire)
    }
}

/// Any answer that is a refusal may come from a server of another era: codes differ from SDK to SDK.
pub(super) fn refusal(error: &ClientInitializeError, transport: &TransportSpec) -> Refusal {
    match error {
        ClientInitializeError::JsonRpcError(_)
        | ClientInitializeError::NoCompatibleProtocolVersion { .. } => Refusal::Era,
        ClientInitializeError::ConnectionClosed(_) if matches!(transport, TransportSpec::Stdio { .. }) => {
            Refusal::Exit
        }
        ClientInitializeError::TransportError { error, .. } => {
            match error.error.downcast_ref::<HttpError>() {
                None => Refusal::Exit,
                Some(HttpError::Client(_) | HttpError::Auth(_) | HttpError::TransportChannelClosed) => {
                    Refusal::Final
                }
                Some(error) if asks_for_authorization(error) => Refusal::Final,
                Some(error) => match status(error) {
                    Some(400 | 404 | 405) => Refusal::OldWire,
                    Some(500..) => Refusal::Final,
                    _ => Refusal::Era,
                },
            }
        }
        _ => Refusal::Final,
    }
}

/// The status of an answer over HTTP that was an error, also where rmcp tells it in words only.
fn status(error: &HttpError) -> Option<u16> {
    match error {
        HttpError::HttpStatus(status) => Some(status.status),
        HttpError::UnexpectedServerResponse(text) => text.strip_prefix("HTTP ")?.get(..3)?.parse().ok(),
        _ => None,
    }
}

fn asks_for_authorization(error: &HttpError) -> bool {
    matches!(error, HttpError::AuthRequired(_) | HttpError::InsufficientScope(_))
        || status(error) == Some(401)
}

pub(super) fn describe_start(error: &ClientInitializeError, spec: &ServerSpec) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            match error.error.downcast_ref::<HttpError>() {
                Some(error) => describe_http(error, spec),
                None => "it closed its input or output".to_owned(),
            }
        }
        ClientInitializeError::ConnectionClosed(_) => "it closed its output before it answered".to_owned(),
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused the handshake: {} (MCP error {})", error.message, error.code.0)
        }
        error => format!("the handshake failed: {error}"),
    }
}

pub(super) fn describe_http(error: &HttpError, spec: &ServerSpec) -> String {
    let place = command::describe(&spec.transport);
    match unauthorized(error, spec) {
        Some(way_out) => format!("{place} asks for authorization; {way_out}"),
        None => format!("{place} cannot be used: {}", causes(error)),
    }
}

/// What to do about an answer that says who may not come in.
pub(super) fn unauthorized(error: &HttpError, spec: &ServerSpec) -> Option<String> {
    use rmcp::transport::auth::AuthError;
    let expired =
        matches!(error, HttpError::Auth(AuthError::AuthorizationRequired | AuthError::TokenExpired));
    if !expired && !asks_for_authorization(error) {
        return None;
    }
    let has_token = matches!(&spec.transport, TransportSpec::Http { bearer_token: Some(_), .. });
    Some(match has_token {
        true => {
            "it does not take the token that it was given; set `bearer_token_env_var` or `headers`".to_owned()
        }
        false => format!("run `gaia login {}`, or set `bearer_token_env_var` or `headers`", spec.name),
    })
}

/// rmcp hands a stream that ended early to the caller as an error with this mark.
pub(super) fn is_cut_stream(data: Option<&Value>) -> bool {
    data.is_some_and(|data| data.get("io.modelcontextprotocol/transportClosed").is_some())
}

/// An error and its innermost cause, which is the one that tells (such as "Connection refused").
pub(super) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    // rmcp does not name this one as the source, and its text repeats the URL.
    let (outer, mut innermost): (_, &(dyn std::error::Error + 'static)) = match error
        .downcast_ref::<HttpError>()
    {
        Some(HttpError::Client(request)) if request.is_connect() => ("cannot connect".to_owned(), request),
        Some(HttpError::Client(request)) => ("the request failed".to_owned(), request),
        _ => (error.to_string(), error),
    };
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let inner = innermost.to_string();
    if outer.contains(&inner) { outer } else { format!("{outer}: {inner}") }
}
