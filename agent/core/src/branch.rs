use std::sync::{Mutex, PoisonError};

use crate::event::{AgentEvent, EventSink};
use crate::limits::Spent;
use crate::tools::SpilledFile;

/// Passes the events of a role on under its name; the beginning and the end of a run become those of a branch.
pub(crate) struct BranchSink<'a> {
    whole: &'a dyn EventSink,
    name: &'a str,
    seen: Mutex<Spent>,
}

impl<'a> BranchSink<'a> {
    pub(crate) fn new(whole: &'a dyn EventSink, name: &'a str) -> Self {
        Self { whole, name, seen: Mutex::default() }
    }

    /// What the replies that went by have used: all that is known of a run that crashed.
    pub(crate) fn seen(&self) -> Spent {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for BranchSink<'_> {
    fn emit(&self, event: AgentEvent) {
        let event = match event {
            AgentEvent::Started { tools, messages, .. } => AgentEvent::BranchStarted { tools, messages },
            AgentEvent::Finished { outcome } => AgentEvent::BranchEnded { outcome },
            event => event,
        };
        if let AgentEvent::ModelReply { usage, cost_usd, .. } = &event {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            *seen += Spent::reply(*usage, *cost_usd);
        }
        self.whole.emit_from(self.name, event);
    }

    fn emit_from(&self, branch: &str, event: AgentEvent) {
        self.whole.emit_from(&format!("{}/{branch}", self.name), event);
    }

    fn keep(&self, text: &str) -> Option<String> {
        self.whole.keep(text)
    }

    fn keep_offer(&self, offer: &str) -> Option<String> {
        self.whole.keep_offer(offer)
    }

    fn keep_file(&self, file: &SpilledFile) -> Option<String> {
        self.whole.keep_file(file)
    }
}
