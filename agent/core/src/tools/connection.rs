use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, ProtocolVersion,
    RequestId,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer,
    PeerRequestOptions, RunningService, ServiceError,
};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::content::{Converted, convert};
use super::handler::{Handler, ProgressWatch};
use super::http::HttpError;
use super::listing::{Listing, list_tools};
use super::process::{Process, describe_exit};
use super::report::Reporter;
use super::stdio::StdioTransport;
use super::{Protocol, ServerSpec, TransportSpec, command, http};

/// A call that reports progress may take this many times the tool timeout, and no longer: progress alone must not
/// hold a sample for ever.
const PROGRESS_CAP: u32 = 5;

/// For a cancel notification to leave; a server that does not read must not hold us.
const CANCEL_PATIENCE: Duration = Duration::from_secs(1);

/// For the process of a broken connection to end by itself, so that its exit code can be told.
const EXIT_PATIENCE: Duration = Duration::from_millis(500);

/// For the last lines of stderr after the end of the process.
const STDERR_PATIENCE: Duration = Duration::from_millis(500);

/// For an HTTP session to be deleted.
const HTTP_CLOSE_PATIENCE: Duration = Duration::from_secs(3);

/// One handshake's worth of a server: replaced as a whole when the server dies.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    service: tokio::sync::Mutex<RunningService<RoleClient, Handler>>,
    process: Option<Process>,
    end_of_input: CancellationToken,
    progress: Arc<ProgressWatch>,
}

/// How a call ended.
pub(super) enum Ended {
    Result(Converted),
    /// The server answered with a protocol error or with no result; the text says what.
    Refused(String),
    /// The connection is of no more use; the text says what happened to the server.
    Lost(String),
    TimedOut(Duration),
    Cancelled,
}

/// Why a connection could not be opened; each a clause after "failed to start MCP server `x`: ".
pub(super) enum OpenError {
    /// The entry in the config is at fault.
    Entry(String),
    Failed(String),
}

enum Attempt {
    Entry(String),
    Failed { reason: String, may_be_modern: bool },
}

impl Connection {
    pub(super) async fn open(
        spec: &ServerSpec,
        environment: &BTreeMap<String, String>,
        reporter: &Arc<Reporter>,
    ) -> Result<(Self, Listing), OpenError> {
        let deadline = Instant::now() + spec.startup_timeout;
        let legacy = ClientLifecycleMode::Initialize;
        let modern =
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
        let open = |mode| Self::open_as(spec, environment, reporter, mode, deadline);
        // rmcp's own automatic mode asks for the modern era first and mistakes a slow start for a legacy server.
        let first = match spec.protocol {
            Protocol::Modern => open(modern.clone()).await,
            Protocol::Legacy | Protocol::Auto => open(legacy).await,
        };
        match first {
            Ok(opened) => Ok(opened),
            Err(Attempt::Failed { reason, may_be_modern: true }) if spec.protocol == Protocol::Auto => {
                open(modern).await.map_err(|second| match second {
                    Attempt::Entry(reason) => OpenError::Entry(reason),
                    Attempt::Failed { reason: second, .. } => {
                        OpenError::Failed(format!("{reason}; and in the modern protocol: {second}"))
                    }
                })
            }
            Err(Attempt::Entry(reason)) => Err(OpenError::Entry(reason)),
            Err(Attempt::Failed { reason, .. }) => Err(OpenError::Failed(reason)),
        }
    }

    async fn open_as(
        spec: &ServerSpec,
        environment: &BTreeMap<String, String>,
        reporter: &Arc<Reporter>,
        mode: ClientLifecycleMode,
        deadline: Instant,
    ) -> Result<(Self, Listing), Attempt> {
        let progress = Arc::new(ProgressWatch::default());
        let listed = Arc::new(OnceLock::new());
        let handler = Handler {
            reporter: reporter.clone(),
            progress: progress.clone(),
            listed: listed.clone(),
            listing_again: AtomicBool::new(false),
        };
        let end_of_input = CancellationToken::new();
        let (process, served) = match &spec.transport {
            TransportSpec::Stdio { command, args, env, cwd } => {
                let program = command::find(command, env).map_err(Attempt::Entry)?;
                let environment = command::environment(env, environment);
                let (process, pipes) =
                    Process::spawn(&program, args, &environment, cwd.as_deref(), reporter.clone()).map_err(
                        |error| {
                            let folder = cwd
                                .as_ref()
                                .map(|cwd| format!(" in `{}`", cwd.display()))
                                .unwrap_or_default();
                            Attempt::Entry(format!("cannot run `{}`{folder}: {error}", program.display()))
                        },
                    )?;
                let transport = StdioTransport::new(pipes, end_of_input.clone(), reporter.clone());
                (Some(process), timeout_at(deadline, handler.serve_with_lifecycle(transport, mode)).await)
            }
            TransportSpec::Http { url, headers, bearer_token } => {
                let transport =
                    http::transport(url, headers, bearer_token.as_deref()).map_err(Attempt::Entry)?;
                (None, timeout_at(deadline, handler.serve_with_lifecycle(transport, mode)).await)
            }
        };
        let patience = spec.startup_timeout.as_secs_f64();
        let service = match served {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => {
                let may_be_modern = may_be_modern(&error);
                let doing = match error {
                    ClientInitializeError::ConnectionClosed(_)
                    | ClientInitializeError::TransportError { .. } => Doing::Its,
                    _ => Doing::Ours,
                };
                let reason = describe_start(&error, &spec.transport);
                let reason = obituary(process, &end_of_input, reason, doing).await;
                return Err(Attempt::Failed { reason, may_be_modern });
            }
            Err(_) => {
                let reason =
                    format!("no answer to its first request within {patience} s (`startup_timeout_sec`)");
                let reason = obituary(process, &end_of_input, reason, Doing::Ours).await;
                return Err(Attempt::Failed { reason, may_be_modern: false });
            }
        };
        let peer = service.peer().clone();
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let connection =
            Self { peer, service: tokio::sync::Mutex::new(service), process, end_of_input, progress };
        let reason = match timeout_at(deadline, list_tools(&connection.peer)).await {
            Ok(Ok(listing)) => {
                let names: BTreeSet<String> = listing.tools.iter().map(|tool| tool.name.clone()).collect();
                // Only this line sets it.
                let _ = listed.set(names);
                return Ok((connection, listing));
            }
            Ok(Err(reason)) => reason,
            Err(_) => format!("no complete list of tools within {patience} s (`startup_timeout_sec`)"),
        };
        let doing = if connection.is_alive() { Doing::Ours } else { Doing::Its };
        let Self { service, process, end_of_input, .. } = connection;
        let reason = obituary(process, &end_of_input, reason, doing).await;
        let _ = service.into_inner().close_with_timeout(HTTP_CLOSE_PATIENCE).await;
        Err(Attempt::Failed { reason, may_be_modern: false })
    }

    /// Era, name and version as the server told them.
    pub(super) fn about(&self) -> Option<(String, Option<(String, String)>)> {
        let info = self.peer.peer_info()?;
        let server = info.server_info.as_ref().map(|server| (server.name.clone(), server.version.clone()));
        Some((info.protocol_version.to_string(), server))
    }

    /// Whether a call could still reach the server.
    pub(super) fn is_alive(&self) -> bool {
        !self.peer.is_transport_closed()
    }

    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        tool_timeout: Duration,
        cancel: &CancellationToken,
    ) -> Ended {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(
            CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments),
        ));
        let start = Instant::now();
        let cap = start + tool_timeout * PROGRESS_CAP;
        let sent = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ended::Cancelled,
            sent = timeout(tool_timeout, self.peer.send_cancellable_request(request, PeerRequestOptions::no_options())) => sent,
        };
        let mut handle = match sent {
            Ok(Ok(handle)) => handle,
            Ok(Err(error)) => return self.failed(error).await,
            Err(_) => return Ended::TimedOut(tool_timeout),
        };
        // rmcp could keep the time too, but then waits without limit for its cancel notification to leave.
        let advanced = self.progress.watch(handle.progress_token.clone());
        let mut deadline = start + tool_timeout;
        let ended = loop {
            tokio::select! {
                biased;
                response = &mut handle.rx => break match response {
                    Ok(Ok(result)) => convert(result).map_or_else(Ended::Refused, Ended::Result),
                    Ok(Err(error)) => self.failed(error).await,
                    Err(_) => self.failed(ServiceError::TransportClosed).await,
                },
                () = cancel.cancelled() => {
                    self.send_cancel(handle.id.clone(), "the client gave up").await;
                    break Ended::Cancelled;
                }
                () = advanced.notified() => deadline = (Instant::now() + tool_timeout).min(cap),
                () = sleep_until(deadline) => {
                    self.send_cancel(handle.id.clone(), "request timeout").await;
                    break Ended::TimedOut(start.elapsed());
                }
            }
        };
        self.progress.forget(&handle.progress_token);
        ended
    }

    /// Ends the server in order and within five seconds; nothing of its process group is left.
    pub(super) async fn close(&self) {
        // Stdin first, while answers are still read: a server that writes to a full pipe could not end.
        self.end_of_input.cancel();
        if let Some(process) = &self.process {
            process.shut_down().await;
        }
        let patience = if self.process.is_some() { CANCEL_PATIENCE } else { HTTP_CLOSE_PATIENCE };
        let _ =
            timeout(patience, async { self.service.lock().await.close_with_timeout(patience).await }).await;
    }

    async fn send_cancel(&self, id: RequestId, reason: &str) {
        let notification = CancelledNotificationParam::new(Some(id), Some(reason.to_owned()));
        let _ = timeout(CANCEL_PATIENCE, self.peer.notify_cancelled(notification)).await;
    }

    async fn failed(&self, error: ServiceError) -> Ended {
        match error {
            ServiceError::McpError(error) if is_cut_stream(error.data.as_ref()) => {
                Ended::Lost("closed the connection before its answer was complete".to_owned())
            }
            ServiceError::McpError(error) => {
                Ended::Refused(format!("{} (MCP error {})", error.message, error.code.0))
            }
            ServiceError::TransportClosed => Ended::Lost(self.last_words().await),
            ServiceError::TransportSend(error) => match error.error.downcast_ref::<HttpError>() {
                Some(HttpError::SessionExpired) => Ended::Lost("its session has expired".to_owned()),
                Some(
                    HttpError::Client(_)
                    | HttpError::TransportChannelClosed
                    | HttpError::UnexpectedEndOfStream,
                ) => Ended::Lost(causes(error.error.as_ref())),
                Some(_) => Ended::Refused(causes(error.error.as_ref())),
                None => Ended::Lost(self.last_words().await),
            },
            error => Ended::Refused(error.to_string()),
        }
    }

    /// What is left to say of a connection that broke.
    pub(super) async fn last_words(&self) -> String {
        let Some(process) = &self.process else { return "the connection was closed".to_owned() };
        let what = match process.exited(EXIT_PATIENCE).await {
            Some(status) => describe_exit(status),
            None => "closed its output".to_owned(),
        };
        with_stderr(what, &process.stderr_tail(STDERR_PATIENCE).await)
    }
}

/// Who ended the connection.
#[derive(Clone, Copy)]
enum Doing {
    Ours,
    Its,
}

/// Ends a server that did not start, and tells how it ended.
async fn obituary(
    process: Option<Process>,
    end_of_input: &CancellationToken,
    reason: String,
    doing: Doing,
) -> String {
    let Some(process) = process else { return reason };
    // Its own end explains more than the broken pipe that we saw.
    let status = match doing {
        Doing::Its => process.exited(EXIT_PATIENCE).await,
        Doing::Ours => None,
    };
    end_of_input.cancel();
    process.shut_down().await;
    let what = match status {
        Some(status) => format!("{} before it was ready", describe_exit(status)),
        None => reason,
    };
    with_stderr(what, &process.stderr_tail(STDERR_PATIENCE).await)
}

fn with_stderr(what: String, lines: &[String]) -> String {
    match lines {
        [] => format!("{what}; it wrote nothing to stderr"),
        lines => format!("{what}; its stderr:\n  {}", lines.join("\n  ")),
    }
}

/// Any answer that is a refusal may come from a server that knows no `initialize`: codes differ from SDK to SDK.
fn may_be_modern(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::JsonRpcError(_) => true,
        ClientInitializeError::TransportError { error, .. } => {
            match error.error.downcast_ref::<HttpError>() {
                Some(
                    HttpError::Client(_)
                    | HttpError::AuthRequired(_)
                    | HttpError::InsufficientScope(_)
                    | HttpError::TransportChannelClosed,
                )
                | None => false,
                Some(HttpError::HttpStatus(status)) => status.status < 500,
                Some(_) => true,
            }
        }
        _ => false,
    }
}

fn describe_start(error: &ClientInitializeError, transport: &TransportSpec) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            match error.error.downcast_ref::<HttpError>() {
                Some(HttpError::AuthRequired(_) | HttpError::InsufficientScope(_)) => format!(
                    "{} asks for authorization; set `bearer_token_env_var` or `headers`",
                    command::describe(transport)
                ),
                Some(_) => format!(
                    "{} cannot be used: {}",
                    command::describe(transport),
                    causes(error.error.as_ref())
                ),
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

/// rmcp hands a stream that ended early to the caller as an error with this mark.
fn is_cut_stream(data: Option<&Value>) -> bool {
    data.is_some_and(|data| data.get("io.modelcontextprotocol/transportClosed").is_some())
}

/// An error and its innermost cause, which is the one that tells (such as "Connection refused").
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
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
