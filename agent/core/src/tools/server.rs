use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Ended};
use super::filter::Filter;
use super::listing::Unusable;
use super::many::State;
use super::open::{OpenError, open};
use super::report::Reporter;
use super::resources::{READ_RESOURCE, read_resource_tool, uri};
use super::{CallFailure, CallOrder, NoticeSink, ProgressSink, ServerSpec, ToolOutput, TransportSpec};
use crate::event::NoticeLevel;
use crate::message::Part;

/// Restarts of one server that one host pays for; what dies a fourth time will die a fifth.
pub(super) const RESTARTS: u32 = 3;

/// Before the first restart; four times as long before each next one (0.25, 1 and 4 seconds).
const FIRST_BACKOFF: Duration = Duration::from_millis(250);

/// Bytes of a dead server's last words that the model is told; the notice has them all.
const LAST_WORDS_BYTES: usize = 1_000;

/// One live MCP server: started, its tools listed, its allow-list checked.
pub struct Server {
    spec: ServerSpec,
    environment: BTreeMap<String, String>,
    reporter: Arc<Reporter>,
    filter: Filter,
    tools: Vec<ServerTool>,
    unusable: Vec<Unusable>,
    /// Whether `read_resource` is ours, and not the server's.
    reads_resources: bool,
    current: Mutex<Arc<Connection>>,
    /// One for each call that may be under way.
    calls: Semaphore,
    /// Held while a new connection is made, so that calls that fail together restart once.
    restart: tokio::sync::Mutex<()>,
    closed: AtomicBool,
}

/// A tool as its server published it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerTool {
    pub name: String,
    pub title: Option<String>,
    pub description: String,
    pub input_schema: Value,
    pub annotations: ToolAnnotations,
}

/// What a server says of a tool. Hints of an untrusted party: good for scheduling, never for safety.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolAnnotations {
    /// Changes nothing; such calls may run side by side.
    pub read_only: bool,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Agreed version of the protocol, such as `2025-11-25`.
    pub protocol_version: String,
    pub name: Option<String>,
    pub version: Option<String>,
}

/// A server that cannot be used; the text is complete, with the server's own stderr, and holds no secret.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StartError {
    /// The entry in the config is at fault: a bad URL, an allow-list entry that matches nothing. The same will
    /// happen to every other task and on every other machine.
    #[error("{message}")]
    Config { server: String, message: String },
    /// This machine has no such program, or it cannot be run.
    #[error("{message}")]
    NoProgram { server: String, message: String },
    /// The server did not start, answer or list its tools.
    #[error("{message}")]
    Failed { server: String, message: String },
}

impl Server {
    /// Spawns or reaches the server, agrees on a protocol and reads the whole list of tools, all within the start
    /// timeout. `environment` goes to the process over everything else (`GAIA_RUN_ID` and the like).
    pub async fn start(
        spec: &ServerSpec,
        environment: &BTreeMap<String, String>,
        notices: NoticeSink,
    ) -> Result<Self, StartError> {
        let reporter = Arc::new(Reporter::new(spec, notices));
        let server = || spec.name.clone();
        let message = |clause: String| {
            format!("failed to start MCP server `{}`: {}", spec.name, reporter.redact(&clause))
        };
        let config = |clause: String| StartError::Config { server: server(), message: message(clause) };
        let filter = Filter::new(spec).map_err(config)?;
        let (connection, listing) =
            open(spec, environment, &reporter, None).await.map_err(|error| match error {
                OpenError::Entry(clause) => match &spec.transport {
                    TransportSpec::Stdio { .. } => {
                        StartError::NoProgram { server: server(), message: message(clause) }
                    }
                    TransportSpec::Http { .. } => config(clause),
                },
                OpenError::Failed(clause) => {
                    StartError::Failed { server: server(), message: message(clause) }
                }
            })?;
        let mut tools = listing.tools;
        for tool in &mut tools {
            reporter.redactor().redact_in_place(&mut tool.description);
            reporter.redactor().redact_value(&mut tool.input_schema);
        }
        let reading =
            if connection.has_resources().await { read_resource_tool(&spec.name, &tools) } else { None };
        let reads_resources = reading.is_some();
        tools.extend(reading);
        if let Err(clause) = filter.check(&tools) {
            connection.close().await;
            return Err(config(clause));
        }
        Ok(Self {
            spec: spec.clone(),
            environment: environment.clone(),
            filter,
            tools,
            unusable: listing.unusable,
            reads_resources,
            current: Mutex::new(Arc::new(connection)),
            calls: Semaphore::new(
                spec.max_concurrent_calls.map_or(Semaphore::MAX_PERMITS, std::num::NonZeroUsize::get),
            ),
            restart: tokio::sync::Mutex::new(()),
            closed: AtomicBool::new(false),
            reporter,
        })
    }

    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub(super) fn prefix(&self) -> &str {
        self.spec.prefix.as_deref().unwrap_or_default()
    }

    pub(super) fn call_order(&self) -> CallOrder {
        self.spec.call_order
    }

    /// The whole list of the server, in its order, before any allow-list; last, where the server has resources,
    /// `read_resource` of the host's own.
    pub fn tools(&self) -> &[ServerTool] {
        &self.tools
    }

    /// Whether one process of it serves many tasks, each with a state of its own: such a server is shared without being
    /// `scope = "run"`.
    pub fn serves_many(&self) -> bool {
        self.connection().serves_many()
    }

    pub(super) async fn begin(&self, state: &State) {
        self.connection().begin(state).await;
    }

    pub(super) async fn end(&self, state: &State) {
        self.connection().end(state).await;
    }

    pub fn info(&self) -> Option<ServerInfo> {
        let (protocol_version, server) = self.connection().about()?;
        let (name, version) = server.unzip();
        Some(ServerInfo { protocol_version, name, version })
    }

    /// Ends the server in order and within five seconds; its whole process group is gone afterwards.
    pub async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // A restart under way would put a new process in place of the one that we are about to end.
        let _guard = self.restart.lock().await;
        self.connection().close().await;
    }

    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    pub(super) fn unusable(&self) -> &[Unusable] {
        &self.unusable
    }

    /// Calls a tool and always comes back. A dead server is restarted for the calls that follow, at most `RESTARTS`
    /// times by the caller's count; the call itself is never repeated, since it may have had effects.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        state: Option<&State>,
        cancel: &CancellationToken,
        progress: Option<ProgressSink>,
        restarts: &AtomicU32,
    ) -> ToolOutput {
        // The time of a call does not run before its turn; that of the task does.
        let turn = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            turn = self.calls.acquire() => turn.ok(),
        };
        let start = Instant::now();
        let server = self.name();
        let connection = self.connection();
        let (ended, reached) = if turn.is_none() {
            (Ended::Cancelled, Reached::No)
        } else if connection.is_alive() {
            let ended = match self.reads_resources && tool == READ_RESOURCE {
                true => connection.read_resource(uri(&arguments), cancel).await,
                false => connection.call(tool, arguments, state, cancel, progress).await,
            };
            (ended, Reached::Perhaps)
        } else {
            (Ended::Lost(connection.last_words().await), Reached::No)
        };
        let failed = |failure: CallFailure, text: String| ToolOutput {
            content: vec![Part::Text { text: self.reporter.redact(&text) }],
            structured: None,
            is_error: true,
            failure: Some(failure),
            whole: None,
            duration: start.elapsed(),
        };
        match ended {
            Ended::Result(result) => {
                let mut output = ToolOutput {
                    content: result.content,
                    structured: result.structured,
                    is_error: result.is_error,
                    failure: None,
                    whole: None,
                    duration: start.elapsed(),
                };
                self.reporter.redactor().redact_output(&mut output);
                output
            }
            Ended::Refused(text) => failed(
                CallFailure::Protocol,
                format!("The call of `{tool}` on server `{server}` failed: {text}"),
            ),
            Ended::TooLarge(text, whole) => {
                let text = format!("The call of `{tool}` on server `{server}` failed: {text}");
                ToolOutput { whole: Some(whole), ..failed(CallFailure::Protocol, text) }
            }
            Ended::TimedOut(after) => failed(
                CallFailure::Timeout,
                format!(
                    "`{tool}` on server `{server}` gave no result within {:.1} s and was told to stop. It may have had \
                     effects. Try something that takes less time.",
                    after.as_secs_f64()
                ),
            ),
            Ended::Cancelled => failed(
                CallFailure::Cancelled,
                format!("The call of `{tool}` on server `{server}` was cancelled."),
            ),
            Ended::Lost(words) => {
                self.reporter.announce(NoticeLevel::Error, &format!("died: {words}"));
                let revived = tokio::select! {
                    biased;
                    () = cancel.cancelled() => Err("the task was cancelled".to_owned()),
                    revived = self.revive(&connection, restarts) => revived,
                };
                let died = match reached {
                    Reached::Perhaps => {
                        "died during this call, which was not repeated since it may have had effects"
                    }
                    Reached::No => "had died before this call, which was not made",
                };
                let now = match revived {
                    Ok(()) => "It was restarted: whatever state it held (sessions, working folder, running programs) is \
                               lost, and it can be used again."
                        .to_owned(),
                    Err(reason) => format!("It was not restarted: {reason}. Go on without it."),
                };
                let words = super::bound(&words, LAST_WORDS_BYTES, None).text;
                failed(CallFailure::Died, format!("Server `{server}` {died}. {now}\n\nThe server {words}"))
            }
        }
    }

    fn connection(&self) -> Arc<Connection> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a new connection in place of `dead`; does nothing when another call has done so already.
    async fn revive(&self, dead: &Arc<Connection>, restarts: &AtomicU32) -> Result<(), String> {
        let _guard = self.restart.lock().await;
        if !Arc::ptr_eq(&self.connection(), dead) {
            return Ok(());
        }
        if self.closed.load(Ordering::SeqCst) {
            return Err("it has been closed".to_owned());
        }
        let before = restarts.fetch_add(1, Ordering::SeqCst);
        if before >= RESTARTS {
            return Err(format!("it has been restarted {RESTARTS} times already"));
        }
        // What is left of the old one must not stand in the way of the new one.
        dead.close().await;
        tokio::time::sleep(FIRST_BACKOFF * 4_u32.pow(before)).await;
        match open(&self.spec, &self.environment, &self.reporter, Some(dead.way)).await {
            Ok((connection, _)) => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(connection);
                self.reporter.announce(
                    NoticeLevel::Warning,
                    &format!("restarted ({} of at most {RESTARTS} times)", before + 1),
                );
                Ok(())
            }
            Err(OpenError::Entry(reason) | OpenError::Failed(reason)) => {
                self.reporter.announce(NoticeLevel::Error, &format!("failed to restart: {reason}"));
                Err(format!("a new start failed: {reason}"))
            }
        }
    }
}

/// Whether a call may have had effects.
#[derive(Clone, Copy)]
enum Reached {
    Perhaps,
    No,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("spec", &self.spec)
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}
