use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, GetMeta,
    ReadResourceRequest, ReadResourceRequestParams, RequestId, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RunningService, ServiceError};
use serde_json::{Map, Value};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::changes::ToolChanges;
use super::content::{Converted, convert, convert_resource};
use super::explain::{causes, is_cut_stream, unauthorized};
use super::handler::{Handler, ProgressWatch};
use super::http::HttpError;
use super::many::{self, State};
use super::open::Way;
use super::process::{Process, describe_exit};
use super::spill::{SpilledFile, Spills};
use super::{ProgressSink, Scope, ServerSpec};

/// For the lists of resources, which are part of a start.
const RESOURCES_PATIENCE: Duration = Duration::from_secs(5);

/// A call that reports progress may take this many times the tool timeout, and no longer: progress alone must not
/// hold a sample for ever.
const PROGRESS_CAP: u32 = 5;

/// For a cancel notification to leave; a server that does not read must not hold us.
const CANCEL_PATIENCE: Duration = Duration::from_secs(1);

/// For the process of a broken connection to end by itself, so that its exit code can be told.
pub(super) const EXIT_PATIENCE: Duration = Duration::from_millis(500);

/// For the last lines of stderr after the end of the process.
pub(super) const STDERR_PATIENCE: Duration = Duration::from_millis(500);

/// For a server to make an end of one task's state: the removal of a container on an engine that is busy with others.
const STATE_END_PATIENCE: Duration = Duration::from_secs(30);

/// For an HTTP session to be deleted.
const HTTP_CLOSE_PATIENCE: Duration = Duration::from_secs(3);

/// One handshake's worth of a server: replaced as a whole when the server dies.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    service: tokio::sync::Mutex<RunningService<RoleClient, Handler>>,
    process: Option<Process>,
    end_of_input: CancellationToken,
    watching: Watching,
    spec: ServerSpec,
    /// How it was reached.
    pub(super) way: Way,
    /// Hears of changes for as long as the connection lasts.
    watch: std::sync::Mutex<Option<JoinHandle<()>>>,
}

/// What the reader of a connection tells of the calls that are under way.
pub(super) struct Watching {
    pub(super) progress: Arc<ProgressWatch>,
    pub(super) spills: Arc<Spills>,
}

/// How a call ended.
pub(super) enum Ended {
    Result(Converted),
    /// The server answered with a protocol error or with no result; the text says what.
    Refused(String),
    /// The answer was over the limit; what there is of it is on disk.
    TooLarge(String, SpilledFile),
    /// The connection is of no more use; the text says what happened to the server.
    Lost(String),
    TimedOut(Duration),
    Cancelled,
}

impl Connection {
    pub(super) fn new(
        service: RunningService<RoleClient, Handler>,
        process: Option<Process>,
        end_of_input: CancellationToken,
        watching: Watching,
        spec: &ServerSpec,
        way: Way,
    ) -> Self {
        Self {
            peer: service.peer().clone(),
            service: tokio::sync::Mutex::new(service),
            process,
            end_of_input,
            watching,
            spec: spec.clone(),
            way,
            watch: std::sync::Mutex::new(None),
        }
    }

    pub(super) fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    pub(super) fn end_of_input(&self) -> &CancellationToken {
        &self.end_of_input
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// A modern server tells of changes only where one listens.
    pub(super) fn watch(&self, changes: Arc<ToolChanges>) {
        let Some(info) = self.peer.peer_info() else { return };
        let tells = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed) == Some(true);
        if tells && !info.protocol_version.has_initialize() {
            let peer = self.peer.clone();
            let task = tokio::spawn(async move { changes.listen(&peer).await });
            *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        }
    }

    /// Whether the server has resources that can be read.
    /// Whether there is a resource to read: many frameworks announce resources that nobody has made.
    pub(super) async fn has_resources(&self) -> bool {
        if self.peer.peer_info().is_none_or(|info| info.capabilities.resources.is_none()) {
            return false;
        }
        let lists = async {
            tokio::try_join!(self.peer.list_resources(None), self.peer.list_resource_templates(None))
        };
        match timeout(RESOURCES_PATIENCE, lists).await {
            Ok(Ok((listed, templates))) => {
                !(listed.resources.is_empty() && templates.resource_templates.is_empty())
            }
            // What cannot be listed may be there all the same.
            Ok(Err(_)) | Err(_) => true,
        }
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

    /// Whether one process of it serves many tasks. With `scope = "run"` they are to share its state.
    pub(super) fn serves_many(&self) -> bool {
        self.spec.scope == Scope::Sample
            && self.process.is_some()
            && self.peer.peer_info().is_some_and(|info| many::is_announced(&info.capabilities))
    }

    pub(super) async fn begin(&self, state: &State) {
        // The first call would begin it too: this only saves time. Nothing is told by the answer.
        drop(self.peer.send_cancellable_request(state.begin(), PeerRequestOptions::no_options()).await);
    }

    /// Returns when nothing of the state is left, or the server is gone or takes too long.
    pub(super) async fn end(&self, state: &State) {
        match timeout(STATE_END_PATIENCE, self.peer.send_request(state.end())).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a server was not told of the end of a task"),
            Err(_) => {
                tracing::warn!(
                    "MCP server `{}` did not end a task's state within {} s",
                    self.spec.name,
                    STATE_END_PATIENCE.as_secs()
                );
            }
        }
    }

    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        state: Option<&State>,
        cancel: &CancellationToken,
        progress: Option<ProgressSink>,
    ) -> Ended {
        let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(
            CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments),
        ));
        if let Some(state) = state {
            request.get_meta_mut().0.0.extend(state.meta());
        }
        self.request(request, convert, cancel, progress).await
    }

    pub(super) async fn read_resource(&self, uri: &str, cancel: &CancellationToken) -> Ended {
        let request =
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(ReadResourceRequestParams::new(uri)));
        self.request(request, convert_resource, cancel, None).await
    }

    async fn request(
        &self,
        request: ClientRequest,
        convert: fn(ServerResult) -> Result<Converted, String>,
        cancel: &CancellationToken,
        progress: Option<ProgressSink>,
    ) -> Ended {
        let tool_timeout = self.spec.tool_timeout;
        let start = Instant::now();
        let cap = start + tool_timeout * PROGRESS_CAP;
        // One timer for the whole call: setting one wakes the thread that keeps the time.
        let timer = sleep_until(start + tool_timeout);
        tokio::pin!(timer);
        let sent = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ended::Cancelled,
            sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()) => sent,
            () = &mut timer => return Ended::TimedOut(tool_timeout),
        };
        let mut handle = match sent {
            Ok(handle) => handle,
            Err(error) => return self.failed(error).await,
        };
        // rmcp could keep the time too, but then waits without limit for its cancel notification to leave.
        let advanced = self.watching.progress.watch(handle.progress_token.clone(), progress);
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
                () = advanced.notified() => timer.as_mut().reset((Instant::now() + tool_timeout).min(cap)),
                () = &mut timer => {
                    self.send_cancel(handle.id.clone(), "request timeout").await;
                    break Ended::TimedOut(start.elapsed());
                }
            }
        };
        self.watching.progress.forget(&handle.progress_token);
        match (ended, &handle.id) {
            (Ended::Refused(reason), RequestId::Number(id)) => match self.watching.spills.take(*id) {
                Some(file) => Ended::TooLarge(reason, file),
                None => Ended::Refused(reason),
            },
            (ended, _) => ended,
        }
    }

    /// Ends the server in order and within five seconds; nothing of its process group is left.
    pub(super) async fn close(&self) {
        self.end_watch();
        // Stdin first, while answers are still read: a server that writes to a full pipe could not end.
        self.end_of_input.cancel();
        if let Some(process) = &self.process {
            process.shut_down().await;
        }
        let patience = if self.process.is_some() { CANCEL_PATIENCE } else { HTTP_CLOSE_PATIENCE };
        let _ =
            timeout(patience, async { self.service.lock().await.close_with_timeout(patience).await }).await;
    }

    fn end_watch(&self) {
        if let Some(task) = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
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
                Some(error) if unauthorized(error, &self.spec).is_some() => {
                    let way_out = unauthorized(error, &self.spec).unwrap_or_default();
                    Ended::Refused(format!("the server asks for authorization: {way_out}"))
                }
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

impl Drop for Connection {
    fn drop(&mut self) {
        self.end_watch();
    }
}

pub(super) fn with_stderr(what: String, lines: &[String]) -> String {
    match lines {
        [] => format!("{what}; it wrote nothing to stderr"),
        lines => format!("{what}; its stderr:\n  {}", lines.join("\n  ")),
    }
}
