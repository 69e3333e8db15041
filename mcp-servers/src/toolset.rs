//! What a server of ours offers, apart from how it is served.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Prompt, Tool};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The tools of one server. One value serves every client of the process; what belongs to one client is found
/// through [`Call::caller`].
pub trait Toolset: Send + Sync + 'static {
    fn identity(&self) -> Identity;

    /// In a stable order, the same for every client.
    fn tools(&self) -> &[Tool];

    /// Runs a tool that [`Toolset::tools`] lists. A failure the model can act on is a result with `isError`.
    fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        call: Call,
    ) -> impl Future<Output = CallToolResult> + Send;

    /// Prompts for people, in a stable order. A server without any does not speak of prompts at all.
    fn prompts(&self) -> &[Prompt] {
        &[]
    }

    /// The text of a prompt that [`Toolset::prompts`] lists. All arguments that it declares as required are there.
    fn prompt(
        &self,
        _name: &str,
        _arguments: JsonObject,
        _call: Call,
    ) -> impl Future<Output = String> + Send {
        std::future::ready(String::new())
    }

    /// Whether calls write to [`Call::log`].
    fn logging(&self) -> Logging {
        Logging::Silent
    }

    /// Whether `/sandbox/<id>/mcp` is served beside `/mcp`.
    fn addressing(&self) -> Addressing {
        Addressing::Shared
    }

    /// Whether one client on stdio may call for many: it names in each call on whose state the call works.
    fn sharing(&self) -> Sharing {
        Sharing::OneState
    }

    /// A client on stdio says that calls for this state will come, with what a process of its own would have found
    /// in its environment. It must return at once.
    fn begin(&self, _address: &Address, _variables: &Variables) {}

    /// An HTTP session of the older protocol is over: deleted, idle, or the server stops. Called from `Drop`, so
    /// it must return at once.
    fn session_ended(&self, _session: SessionId) {}

    /// `DELETE /sandbox/<id>/mcp`, or a client on stdio is done with one of its states: end what the address holds.
    fn remove(&self, _address: &Address) -> impl Future<Output = Removal> + Send {
        std::future::ready(Removal::Absent)
    }

    /// Ends everything the server owns. Called once, after the last call was cancelled.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// How a server presents itself in `initialize` and `server/discover`.
#[derive(Debug, Clone)]
pub struct Identity {
    pub name: &'static str,
    pub title: &'static str,
    pub instructions: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logging {
    /// Clients are sent no log messages.
    Silent,
    /// Clients are sent what [`Call::log`] is given.
    ToClient,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// One endpoint, `/mcp`.
    Shared,
    /// Also `/sandbox/<id>/mcp`, whose id names the state that a client without a session works on.
    ByUrl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// All calls of a client on stdio work on the same state.
    OneState,
    /// A call may name its state in `_meta`.
    ByCall,
}

/// Of one of the many states that a client on stdio works on: variables such as `GAIA_FILES_DIR`, by name.
pub type Variables = BTreeMap<String, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    Removed,
    Absent,
}

/// One tool call, without its arguments.
#[derive(Debug, Clone)]
pub struct Call {
    pub caller: Caller,
    /// Empty but for a client on stdio that calls for many.
    pub variables: Variables,
    /// Cancelled when the client cancels, disconnects or closes stdin, and when the server stops.
    pub cancel: CancellationToken,
    pub status: Status,
    pub heartbeat: Heartbeat,
    pub log: Log,
}

/// Lines for the client's log, sent before the result of the call.
#[derive(Debug, Clone, Default)]
pub struct Log(Option<mpsc::UnboundedSender<LogLine>>);

#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    pub level: LogLevel,
    pub data: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Info,
    Warning,
}

impl Log {
    /// One whose lines the receiver gets. [`Log::default`] drops them.
    pub fn channel() -> (Self, mpsc::UnboundedReceiver<LogLine>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(Some(sender)), receiver)
    }

    /// Must hold no secret: the line is kept in trajectories.
    pub fn write(&self, level: LogLevel, data: Value) {
        if let Some(sender) = &self.0 {
            // Nobody takes it only when the call is over.
            drop(sender.send(LogLine { level, data }));
        }
    }
}

/// Whether the client hears of a call before its end. One that does not gives up after a minute (the TypeScript SDK's
/// default).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heartbeat {
    /// It asked for progress, and gets it.
    Sent,
    Silent,
}

/// Who calls, as far as state is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The one client on stdio.
    Process,
    /// An HTTP session of the protocol versions up to 2025-11-25.
    Session(SessionId),
    /// A client that named its state, in the URL or, on stdio, in the call.
    Address(Address),
    /// A client of 2026-07-28 that named its state by its bearer token.
    Bearer(Bearer),
    /// A client of 2026-07-28 on the shared URL without a token: nothing ties its requests together.
    Anonymous,
}

/// Number of an HTTP session within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub u64);

/// The `<id>` of `/sandbox/<id>/mcp`, or what stands for it in `_meta`. Knowing it is the right to use what it names, so its text is kept out of
/// logs.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address(String);

/// 128 bits in the densest alphabet allowed: what makes an id unguessable.
pub const MIN_ADDRESS_CHARS: usize = 22;
/// Longer than a UUID or a hex SHA-256, and still a small key.
const MAX_ADDRESS_CHARS: usize = 128;

impl Address {
    /// `None` when the text is not 22 to 128 characters of `[A-Za-z0-9_-]`.
    pub fn parse(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let fits = (MIN_ADDRESS_CHARS..=MAX_ADDRESS_CHARS).contains(&text.len());
        (fits && text.bytes().all(allowed)).then(|| Self(text.to_owned()))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Address(…)")
    }
}

/// The bearer token of a request, as a name. Its text is a secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Bearer(String);

/// A key kept for each client must be small.
const MAX_BEARER_CHARS: usize = 512;

impl Bearer {
    /// A token that the server itself asked for.
    pub fn verified(token: &str) -> Self {
        Self(token.to_owned())
    }

    /// A token that the client made up; `None` when others could guess it.
    pub fn unguessable(token: &str) -> Option<Self> {
        let fits = (MIN_ADDRESS_CHARS..=MAX_BEARER_CHARS).contains(&token.len());
        fits.then(|| Self(token.to_owned()))
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Bearer(…)")
    }
}

/// What a long call is doing, for the progress notifications that the handler sends.
#[derive(Debug, Clone, Default)]
pub struct Status(Arc<Mutex<Option<String>>>);

impl Status {
    pub fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A successful result: text for the model, and the same facts for programs.
pub fn success(text: impl Into<String>, structured: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text.into())]);
    result.structured_content = Some(structured);
    result
}

/// A result that tells the model what went wrong and what to do.
pub fn failure(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_must_be_unguessable_and_plain() {
        assert!(Address::parse("0b7f2d5e-6f0f-4a58-9a38-5a1c5ad8b9a1").is_some());
        assert!(Address::parse("short").is_none());
        assert!(Address::parse(&"a".repeat(MIN_ADDRESS_CHARS - 1)).is_none());
        assert!(Address::parse(&"a".repeat(MAX_ADDRESS_CHARS + 1)).is_none());
        assert!(Address::parse("0b7f2d5e/6f0f/4a58/9a38/5a1c5ad8b9a1").is_none());
    }

    #[test]
    fn an_address_is_not_printed() {
        let address = Address::parse("0b7f2d5e-6f0f-4a58-9a38-5a1c5ad8b9a1").unwrap();
        assert_eq!(format!("{address:?}"), "Address(…)");
    }
}
