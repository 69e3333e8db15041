//! Between rmcp and a [`Toolset`]: answers both eras of the protocol, turns a panic into an error, sends
//! progress, and finds out who calls.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::toolset::{Address, Bearer, Call, Caller, Heartbeat, SessionId, Status, Toolset, failure};

/// Time between progress notifications: well below the 60 s after which clients give up (the TypeScript SDK's
/// default), and rare enough to cost nothing.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Serves one client on stdio, one session over HTTP, or one request of a client without sessions.
pub struct Handler<T: Toolset> {
    toolset: Arc<T>,
    origin: Origin,
}

enum Origin {
    Process,
    Http(SessionId),
}

static NEXT_SESSION: AtomicU64 = AtomicU64::new(1);

impl<T: Toolset> Handler<T> {
    pub fn for_process(toolset: Arc<T>) -> Self {
        Self { toolset, origin: Origin::Process }
    }

    /// rmcp makes one for each session, and for each request of a client without sessions.
    pub fn for_http(toolset: Arc<T>) -> Self {
        let session = SessionId(NEXT_SESSION.fetch_add(1, Ordering::Relaxed));
        Self { toolset, origin: Origin::Http(session) }
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Caller {
        let Origin::Http(session) = self.origin else {
            return Caller::Process;
        };
        let parts = context.extensions.get::<http::request::Parts>();
        if let Some(address) = parts.and_then(|parts| parts.extensions.get::<Address>()) {
            return Caller::Address(address.clone());
        }
        // Only 2026-07-28 puts the version into each request, and only it has no sessions.
        if context.meta.protocol_version().is_none() {
            return Caller::Session(session);
        }
        let bearer = parts.and_then(|parts| parts.extensions.get::<Bearer>());
        bearer.map_or(Caller::Anonymous, |bearer| Caller::Bearer(bearer.clone()))
    }
}

impl<T: Toolset> Drop for Handler<T> {
    fn drop(&mut self) {
        if let Origin::Http(session) = self.origin {
            self.toolset.session_ended(session);
        }
    }
}

impl<T: Toolset> ServerHandler for Handler<T> {
    fn get_info(&self) -> ServerConfig {
        let identity = self.toolset.identity();
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info =
            Implementation::new(identity.name, env!("CARGO_PKG_VERSION")).with_title(identity.title);
        info.with_instructions(identity.instructions)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.toolset.tools().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.toolset.tools().iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.as_ref();
        if self.get_tool(name).is_none() {
            let known: Vec<&str> = self.toolset.tools().iter().map(|tool| tool.name.as_ref()).collect();
            let text = format!("unknown tool `{name}`; this server has: {}", known.join(", "));
            return Err(ErrorData::invalid_params(text, None));
        }
        let status = Status::default();
        let heartbeat = match context.meta.get_progress_token() {
            Some(_) => Heartbeat::Sent,
            None => Heartbeat::Silent,
        };
        let call = Call {
            caller: self.caller(&context),
            cancel: context.ct.clone(),
            status: status.clone(),
            heartbeat,
        };
        let arguments = request.arguments.unwrap_or_default();
        let work = AssertUnwindSafe(self.toolset.call(name, arguments, call)).catch_unwind();
        let result = tokio::select! {
            biased;
            result = work => result,
            never = send_progress(&context, &status) => match never {},
        };
        Ok(result.unwrap_or_else(|_panic| crashed(name)).into())
    }
}

/// The panic's text went to stderr through the panic hook; the model gets what it can act on.
fn crashed(tool: &str) -> CallToolResult {
    failure(format!("internal error: the tool `{tool}` crashed; the server goes on, so try another way"))
}

/// Sends a heartbeat for as long as it is polled, when the client asked for progress.
async fn send_progress(context: &RequestContext<RoleServer>, status: &Status) -> std::convert::Infallible {
    let Some(token) = context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    let started = Instant::now();
    let mut ticks = interval_at(started + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let seconds = started.elapsed().as_secs();
        let message = match status.get() {
            Some(status) => format!("running for {seconds} s: {status}"),
            None => format!("running for {seconds} s"),
        };
        let progress = ProgressNotificationParam::new(token.clone(), started.elapsed().as_secs_f64())
            .with_message(message);
        if let Err(error) = context.peer.notify_progress(progress).await {
            tracing::debug!(%error, "progress was not sent");
        }
    }
}

#[cfg(test)]
#[path = "handler_tests.rs"]
mod tests;
