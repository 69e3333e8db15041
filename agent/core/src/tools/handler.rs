// Logging and roots are deprecated in 2026-07-28, and servers of the older era use them.
#![allow(deprecated)]

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ErrorCode, ErrorData,
    Implementation, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ProgressToken,
    ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::listing::list_tools;
use super::report::Reporter;
use crate::event::NoticeLevel;

/// For a second list of tools, which nobody waits for.
const LIST_AGAIN_PATIENCE: Duration = Duration::from_secs(30);

/// Our side of a connection: hears logs, progress and changes, and declines what needs a person or a model.
/// Elicitation is declined and roots are empty by rmcp's own defaults; neither is advertised.
pub(super) struct Handler {
    pub(super) reporter: Arc<Reporter>,
    pub(super) progress: Arc<ProgressWatch>,
    /// Names of the list that the model's tools came from.
    pub(super) listed: Arc<OnceLock<BTreeSet<String>>>,
    pub(super) listing_again: AtomicBool,
}

/// Calls that are under way, by the token their progress carries.
#[derive(Default)]
pub(super) struct ProgressWatch {
    calls: Mutex<HashMap<ProgressToken, Arc<Notify>>>,
}

impl ProgressWatch {
    pub(super) fn watch(&self, token: ProgressToken) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(token, notify.clone());
        notify
    }

    pub(super) fn forget(&self, token: &ProgressToken) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }

    fn advanced(&self, token: &ProgressToken) {
        if let Some(call) = self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(token) {
            call.notify_one();
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

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.advanced(&progress.progress_token);
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
        let Some(before) = self.listed.get() else { return };
        if self.listing_again.swap(true, Ordering::Relaxed) {
            return;
        }
        let now = timeout(LIST_AGAIN_PATIENCE, list_tools(&context.peer)).await;
        self.listing_again.store(false, Ordering::Relaxed);
        match now.unwrap_or_else(|_| Err("did not list them again in time".to_owned())) {
            Ok(listing) => {
                let now: BTreeSet<String> = listing.tools.into_iter().map(|tool| tool.name).collect();
                let names = |set: Vec<&String>| {
                    set.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
                };
                let added = names(now.difference(before).collect());
                let removed = names(before.difference(&now).collect());
                let change = match (added.is_empty(), removed.is_empty()) {
                    (true, true) => return,
                    (false, true) => format!("added {added}"),
                    (true, false) => format!("removed {removed}"),
                    (false, false) => format!("added {added} and removed {removed}"),
                };
                self.reporter.relay(
                    NoticeLevel::Warning,
                    &format!("changed its tools: {change}; the model's tools stay as they were offered"),
                );
            }
            Err(error) => {
                self.reporter
                    .relay(NoticeLevel::Warning, &format!("said that its tools changed, but {error}"));
            }
        }
    }
}
