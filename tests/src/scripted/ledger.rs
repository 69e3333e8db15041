use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::Value;

use super::fault::Fault;

/// What the server has seen and done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Requests for a completion, good or bad.
    pub requests: u64,
    /// Requests that got the reply of the script.
    pub ok: u64,
    pub streamed: u64,
    /// Injected faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// Requests that broke the protocol, each with the reason.
    pub violations: Vec<String>,
    /// Requests without the right key.
    pub unauthorized: u64,
    /// Requests that did not fit the window.
    pub overflows: u64,
    /// Requests beyond those that may be under way at the same time.
    pub crowded_out: u64,
    /// Requests whose question is in no script.
    pub unknown: u64,
    /// Requests beyond the last turn of a script.
    pub past_end: u64,
    pub in_flight: u64,
    pub max_in_flight: u64,
    pub tasks: BTreeMap<String, TaskStats>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TaskStats {
    /// How often each turn was served, by step; more than 1 is work done twice.
    pub turns: BTreeMap<usize, u64>,
    /// Replies to requests without tools.
    pub forced: u64,
}

/// A request as it came in.
#[derive(Debug, Clone, Serialize)]
pub struct CapturedRequest {
    /// `None` when the question is in no script.
    pub task_id: Option<String>,
    pub step: usize,
    /// Header names in lower case; without `authorization`.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
    /// The fault that was played, if any.
    pub fault: Option<Fault>,
    /// What the request did wrong, if anything.
    pub violation: Option<String>,
}

/// Requests kept for [`ScriptedModel::requests`](super::ScriptedModel::requests); later ones push out the oldest, so
/// that a long run with pictures does not fill the memory.
pub(crate) const CAPTURED_REQUESTS: usize = 2_000;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) stats: Stats,
    pub(crate) captured: std::collections::VecDeque<CapturedRequest>,
    attempts: HashMap<(String, usize), u32>,
}

impl Ledger {
    /// Counts an attempt at a turn, from 1.
    pub(crate) fn attempt(&mut self, task_id: &str, step: usize) -> u32 {
        let attempts = self.attempts.entry((task_id.to_owned(), step)).or_default();
        *attempts += 1;
        *attempts
    }

    pub(crate) fn capture(&mut self, request: CapturedRequest) {
        if self.captured.len() == CAPTURED_REQUESTS {
            self.captured.pop_front();
        }
        self.captured.push_back(request);
    }
}
