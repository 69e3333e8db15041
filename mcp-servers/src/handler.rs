//! Between rmcp and a [`Toolset`]: answers both eras of the protocol, turns a panic into an error, sends
//! progress, and finds out who calls.

// Logging is deprecated in 2026-07-28, and it is how hosts of either era learn what a server did.
#![allow(deprecated)]

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, ErrorCode,
    GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation,
    JsonObject, ListPromptsRequestMethod, ListPromptsResult, ListToolsResult, LoggingLevel,
    LoggingMessageNotificationParam, PaginatedRequestParams, ProgressNotificationParam, Prompt,
    PromptMessage, PromptsCapability, Role, ServerCapabilities, ServerConfig, SetLevelRequestMethod,
    SetLevelRequestParams, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::many::{self, Named};
use crate::toolset::{
    Address, Bearer, Call, Caller, Heartbeat, Log, LogLevel, LogLine, Logging, SessionId, Sharing, Status,
    Toolset, Variables, failure,
};

/// Time between progress notifications: well below the 60 s after which clients give up (the TypeScript SDK's
/// default), and rare enough to cost nothing.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Serves one client on stdio, one session over HTTP, or one request of a client without sessions.
pub struct Handler<T: Toolset> {
    toolset: Arc<T>,
    origin: Origin,
    /// Of the older protocol: what its client last asked for, as a number that grows with severity.
    least_severity: AtomicU8,
}

enum Origin {
    Process,
    Http(SessionId),
}

static NEXT_SESSION: AtomicU64 = AtomicU64::new(1);

impl<T: Toolset> Handler<T> {
    pub fn for_process(toolset: Arc<T>) -> Self {
        Self { toolset, origin: Origin::Process, least_severity: AtomicU8::default() }
    }

    /// rmcp makes one for each session, and for each request of a client without sessions.
    pub fn for_http(toolset: Arc<T>) -> Self {
        let session = SessionId(NEXT_SESSION.fetch_add(1, Ordering::Relaxed));
        Self { toolset, origin: Origin::Http(session), least_severity: AtomicU8::default() }
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> (Caller, Variables) {
        match self.origin {
            Origin::Process => match self.named(context) {
                Some(named) => (Caller::Address(named.address), named.variables),
                None => (Caller::Process, Variables::new()),
            },
            Origin::Http(session) => (Self::remote_caller(session, context), Variables::new()),
        }
    }

    /// On stdio the client is our parent: what it says of itself is believed.
    fn named(&self, context: &RequestContext<RoleServer>) -> Option<Named> {
        match self.toolset.sharing() {
            Sharing::OneState => None,
            Sharing::ByCall => Named::read(context.meta.get(many::KEY)?),
        }
    }

    fn remote_caller(session: SessionId, context: &RequestContext<RoleServer>) -> Caller {
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
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        if self.toolset.logging() == Logging::ToClient {
            capabilities.logging = Some(JsonObject::new());
        }
        if !self.toolset.prompts().is_empty() {
            capabilities.prompts = Some(PromptsCapability::default());
        }
        if matches!(self.origin, Origin::Process) && self.toolset.sharing() == Sharing::ByCall {
            capabilities.experimental = Some([(many::CAPABILITY.to_owned(), JsonObject::new())].into());
        }
        let mut info = ServerConfig::new(capabilities);
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
        let arguments = request.arguments.unwrap_or_default();
        let result = self.work(&context, |call| self.toolset.call(name, arguments, call)).await;
        Ok(result.unwrap_or_else(|| crashed(name)).into())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        match self.toolset.prompts() {
            [] => Err(ErrorData::method_not_found::<ListPromptsRequestMethod>()),
            prompts => Ok(ListPromptsResult::with_all_items(prompts.to_vec())),
        }
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if self.toolset.prompts().is_empty() {
            return Err(ErrorData::method_not_found::<GetPromptRequestMethod>());
        }
        let name = request.name.as_str();
        let prompt = self.toolset.prompts().iter().find(|prompt| prompt.name == name);
        let prompt =
            prompt.ok_or_else(|| ErrorData::invalid_params(format!("Unknown prompt: {name}"), None))?;
        let arguments = request.arguments.unwrap_or_default();
        if let Some(missing) = missing_argument(prompt, &arguments) {
            return Err(ErrorData::invalid_params(format!("`{missing}` is required"), None));
        }
        let text = self.work(&context, |call| self.toolset.prompt(name, arguments, call)).await;
        let text = text.ok_or_else(|| {
            ErrorData::internal_error(format!("internal error: the prompt `{name}` crashed"), None)
        })?;
        let mut result = GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]);
        result.description = prompt.description.clone();
        Ok(result.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let named = match (&self.origin, self.toolset.sharing()) {
            (Origin::Process, Sharing::ByCall) => request.params.as_ref().and_then(Named::read),
            _ => None,
        };
        match (request.method.as_str(), named) {
            (many::BEGIN, Some(named)) => {
                self.toolset.begin(&named.address, &named.variables);
                Ok(CustomResult::new(json!({})))
            }
            // Answered when it is gone, so that whoever made it knows.
            (many::END, Some(named)) => {
                self.toolset.remove(&named.address).await;
                Ok(CustomResult::new(json!({})))
            }
            (many::BEGIN | many::END, None) if matches!(self.origin, Origin::Process) => {
                Err(ErrorData::invalid_params("`id` must be 22 to 128 characters of [A-Za-z0-9_-]", None))
            }
            (method, _) => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None)),
        }
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.toolset.logging() == Logging::Silent {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        self.least_severity.store(severity(request.level), Ordering::Relaxed);
        Ok(())
    }
}

impl<T: Toolset> Handler<T> {
    /// Runs what a request asks for, with progress and log messages beside it. `None` when it panicked.
    async fn work<R, F: Future<Output = R>>(
        &self,
        context: &RequestContext<RoleServer>,
        start: impl FnOnce(Call) -> F,
    ) -> Option<R> {
        let status = Status::default();
        let heartbeat = match context.meta.get_progress_token() {
            Some(_) => Heartbeat::Sent,
            None => Heartbeat::Silent,
        };
        let (log, mut lines) = match self.log_threshold(context) {
            Some(_) => Log::channel(),
            None => (Log::default(), tokio::sync::mpsc::unbounded_channel().1),
        };
        let (caller, variables) = self.caller(context);
        let call =
            Call { caller, variables, cancel: context.ct.clone(), status: status.clone(), heartbeat, log };
        // Also what panics before its first await.
        let work = AssertUnwindSafe(async move { start(call).await }).catch_unwind();
        let mut work = std::pin::pin!(work);
        let mut progress = std::pin::pin!(send_progress(context, &status));
        let result = loop {
            tokio::select! {
                biased;
                Some(line) = lines.recv() => self.send_log(context, line).await,
                result = &mut work => break result,
                never = &mut progress => match never {},
            }
        };
        // What was written last; a client that reads in order has all lines before the result.
        while let Ok(line) = lines.try_recv() {
            self.send_log(context, line).await;
        }
        result.ok()
    }

    /// The least severity that the client wants to hear of. Clients of 2026-07-28 ask for it in each request.
    fn log_threshold(&self, context: &RequestContext<RoleServer>) -> Option<u8> {
        if self.toolset.logging() == Logging::Silent {
            return None;
        }
        if context.meta.protocol_version().is_some() {
            return context.meta.log_level().map(severity);
        }
        Some(self.least_severity.load(Ordering::Relaxed))
    }

    async fn send_log(&self, context: &RequestContext<RoleServer>, line: LogLine) {
        let level = match line.level {
            LogLevel::Info => LoggingLevel::Info,
            LogLevel::Warning => LoggingLevel::Warning,
        };
        if self.log_threshold(context).is_none_or(|least| severity(level) < least) {
            return;
        }
        let message =
            LoggingMessageNotificationParam::new(level, line.data).with_logger(self.toolset.identity().name);
        if let Err(error) = context.peer.notify_logging_message(message).await {
            tracing::debug!(%error, "a log message was not sent");
        }
    }
}

/// Zero is the least severe.
fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

fn missing_argument<'a>(prompt: &'a Prompt, given: &JsonObject) -> Option<&'a str> {
    let declared = prompt.arguments.as_deref().unwrap_or_default();
    let missing =
        declared.iter().find(|known| known.required == Some(true) && !given.contains_key(&known.name));
    missing.map(|known| known.name.as_str())
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
