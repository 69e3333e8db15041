use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ServerNotification, SubscriptionFilter};
use rmcp::service::Peer;
use tokio::time::timeout;

use super::listing::list_tools;
use super::report::Reporter;
use crate::event::NoticeLevel;

/// For a second list of tools, which nobody waits for.
const LIST_AGAIN_PATIENCE: Duration = Duration::from_secs(30);

/// Tells how the tools of a server change while it runs. What the model is offered stays as it was: a changed list
/// would cost it its prompt cache, and a run its comparability.
pub(super) struct ToolChanges {
    reporter: Arc<Reporter>,
    /// Names of the last list; `None` until the first one is complete.
    known: Mutex<Option<BTreeSet<String>>>,
    listing: AtomicBool,
    changed: AtomicBool,
}

impl ToolChanges {
    pub(super) fn new(reporter: Arc<Reporter>) -> Self {
        Self {
            reporter,
            known: Mutex::new(None),
            listing: AtomicBool::new(false),
            changed: AtomicBool::new(false),
        }
    }

    /// Before this, changes are part of the start.
    pub(super) fn begin_with(&self, names: BTreeSet<String>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(names);
    }

    /// Hears of changes in the era of sessions-less servers, which send them only to who asks.
    pub(super) async fn listen(&self, peer: &Peer<RoleClient>) {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let mut subscription = match peer.listen(filter).await {
            Ok(subscription) => subscription,
            Err(error) => return tracing::debug!(%error, "an MCP server takes no subscription"),
        };
        while let Ok(Some(notification)) = subscription.next().await {
            if matches!(notification, ServerNotification::ToolListChangedNotification(_)) {
                self.tell(peer).await;
            }
        }
    }

    /// Lists the tools again and tells the difference. Changes that come meanwhile are one more list, not one each.
    pub(super) async fn tell(&self, peer: &Peer<RoleClient>) {
        self.changed.store(true, Ordering::SeqCst);
        while self.changed.load(Ordering::SeqCst) && !self.listing.swap(true, Ordering::SeqCst) {
            while self.changed.swap(false, Ordering::SeqCst) {
                self.list_again(peer).await;
            }
            self.listing.store(false, Ordering::SeqCst);
        }
    }

    async fn list_again(&self, peer: &Peer<RoleClient>) {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = known().clone() else { return };
        let listed = timeout(LIST_AGAIN_PATIENCE, list_tools(peer)).await;
        match listed.unwrap_or_else(|_| Err("did not list them again in time".to_owned())) {
            Ok(listing) => {
                let now: BTreeSet<String> = listing.tools.into_iter().map(|tool| tool.name).collect();
                if let Some(change) = difference(&before, &now) {
                    self.reporter.relay(
                        NoticeLevel::Warning,
                        &format!("changed its tools: {change}; the model's tools stay as they were offered"),
                    );
                    *known() = Some(now);
                }
            }
            Err(error) => self
                .reporter
                .relay(NoticeLevel::Warning, &format!("said that its tools changed, but {error}")),
        }
    }
}

fn difference(before: &BTreeSet<String>, now: &BTreeSet<String>) -> Option<String> {
    let names = |set: Vec<&String>| set.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let added = names(now.difference(before).collect());
    let removed = names(before.difference(now).collect());
    match (added.is_empty(), removed.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("added {added}")),
        (true, false) => Some(format!("removed {removed}")),
        (false, false) => Some(format!("added {added} and removed {removed}")),
    }
}
