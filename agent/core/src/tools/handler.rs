// Logging and roots are deprecated in 2026-07-28, and servers of the older era use them.
#![allow(deprecated)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorCode, ErrorData, Implementation, LoggingLevel,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use tokio::sync::Notify;

use super::changes::ToolChanges;
use super::report::Reporter;
use super::{Progress, ProgressSink};
use crate::event::NoticeLevel;

/// Our side of a connection: hears logs, progress and changes, and declines what needs a person or a model.
/// Roots are empty by rmcp's own default. None of these is advertised, and servers ask nevertheless.
pub(super) struct Handler {
    pub(super) reporter: Arc<Reporter>,
    pub(super) progress: Arc<ProgressWatch>,
    pub(super) changes: Arc<ToolChanges>,
}

/// Calls that are under way, by the token their progress carries.
#[derive(Default)]
pub(super) struct ProgressWatch {
    calls: Mutex<HashMap<ProgressToken, Watched>>,
}

struct Watched {
    advanced: Arc<Notify>,
    sink: Option<ProgressSink>,
}

impl ProgressWatch {
    pub(super) fn watch(&self, token: ProgressToken, sink: Option<ProgressSink>) -> Arc<Notify> {
        let advanced = Arc::new(Notify::new());
        let watched = Watched { advanced: advanced.clone(), sink };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(token, watched);
        advanced
    }

    pub(super) fn forget(&self, token: &ProgressToken) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }

    fn advanced(&self, token: &ProgressToken, progress: Progress) {
        if let Some(call) = self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(token) {
            call.advanced.notify_one();
            if let Some(sink) = &call.sink {
                sink(progress);
            }
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("gaia", env!("CARGO_PKG_VERSION")),
        )
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.reporter.relay(NoticeLevel::Warning, "asked for a model's reply (sampling), which was declined");
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "this client does not offer sampling", None))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.reporter
            .relay(NoticeLevel::Warning, "asked a person for input (elicitation), which was declined");
        Ok(ElicitResult::new(ElicitationAction::Decline))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let token = progress.progress_token;
        let message = progress.message.map(|message| self.reporter.redact(&message));
        self.progress.advanced(&token, Progress { done: progress.progress, total: progress.total, message });
    }

    async fn on_logging_message(
        &self,
        log: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let level = match log.level {
            LoggingLevel::Debug | LoggingLevel::Info | LoggingLevel::Notice => NoticeLevel::Info,
            LoggingLevel::Warning => NoticeLevel::Warning,
            _ => NoticeLevel::Error,
        };
        let text = match log.data {
            Value::String(text) => text,
            data => data.to_string(),
        };
        self.reporter.relay(level, &text);
    }

    async fn on_tool_list_changed(&self, context: NotificationContext<RoleClient>) {
        self.changes.tell(&context.peer).await;
    }
}
