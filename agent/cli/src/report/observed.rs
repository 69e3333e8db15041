use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::store::{Expense, RunDirectory, SampleKey};

/// What a report wants to know of the trajectory of one sample: of its last attempt, but for `spent`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Observed {
    /// By `server/tool`, or by the unknown name the model used.
    pub(crate) tools: BTreeMap<String, ToolUse>,
    /// Name of the limit that ended the loop, as in `stop_reason`.
    pub(crate) limit: Option<String>,
    /// Turns whose output was shortened or summarised.
    pub(crate) compactions: u32,
    /// Servers that died or failed to start again.
    pub(crate) troubled_servers: BTreeSet<String>,
    /// Pages that a web server of ours flagged, because they hold a copy of the question.
    pub(crate) contaminated_pages: BTreeSet<String>,
    /// By all attempts, those that were lost included.
    pub(crate) spent: Expense,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ToolUse {
    pub(crate) calls: u64,
    /// Results that the tool itself called an error.
    pub(crate) errors: u64,
    pub(crate) seconds: f64,
}

impl Observed {
    /// Reads line by line: a trajectory may be long. One that is not there or was cut says what there is to say.
    pub(crate) fn of_sample(run: &RunDirectory, key: &SampleKey) -> Self {
        let mut observed = Self::default();
        let Ok(file) = fs_err::File::open(run.sample(key).events_path()) else { return observed };
        for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
            // One that is no UTF-8 says what it says all the same.
            if let Ok(event) = serde_json::from_str(&String::from_utf8_lossy(&line)) {
                observed.take(&event);
            }
        }
        observed
    }

    fn take(&mut self, event: &Value) {
        let text = |name: &str| event[name].as_str().map(str::to_owned);
        match event["type"].as_str() {
            Some("started") => *self = Self { spent: self.spent, ..Self::default() },
            Some("model_reply") => {
                // A reply whose usage is not to be read told none.
                let usage = serde_json::from_value(event["usage"].clone()).unwrap_or_default();
                self.spent += Expense { usage, cost_usd: event["cost_usd"].as_f64() };
            }
            Some("tool_result") => {
                let used = self.tools.entry(text("tool").unwrap_or_default()).or_default();
                used.calls += 1;
                used.errors += u64::from(event["is_error"] == true);
                used.seconds += event["duration_ms"].as_f64().unwrap_or_default() / 1e3;
            }
            Some("limit_reached") => self.limit = text("reason"),
            Some("compacted") => self.compactions += 1,
            Some("server_notice") => self.take_notice(event),
            _ => {}
        }
    }

    fn take_notice(&mut self, event: &Value) {
        let Some(text) = event["text"].as_str() else { return };
        if event["level"] == "error"
            && let Some(server) = event["server"].as_str()
        {
            self.troubled_servers.insert(server.to_owned());
        }
        if text.contains("contaminated")
            && let Ok(notice) = serde_json::from_str::<Value>(text)
            && let Some(page) = notice["contaminated"]["url"].as_str()
        {
            self.contaminated_pages.insert(page.to_owned());
        }
    }

    /// The tool that answered with an error most often, when at least half of all calls did.
    pub(crate) fn failing_tool(&self) -> Option<&str> {
        let (calls, errors) = self
            .tools
            .values()
            .fold((0, 0), |(calls, errors), used| (calls + used.calls, errors + used.errors));
        let worst = self.tools.iter().max_by_key(|(_, used)| used.errors).map(|(tool, _)| tool.as_str());
        worst.filter(|_| errors > 0 && 2 * errors >= calls)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn observed(events: &[Value]) -> Observed {
        let mut observed = Observed::default();
        events.iter().for_each(|event| observed.take(event));
        observed
    }

    #[test]
    fn only_the_last_attempt_counts() {
        let call = json!({"type": "tool_result", "tool": "bash/bash", "is_error": true, "duration_ms": 1500});
        let fine = json!({"type": "tool_result", "tool": "bash/bash", "is_error": false, "duration_ms": 500});
        let started = json!({"type": "started", "attempt": 1});
        let seen = observed(&[started.clone(), call.clone(), started, call, fine]);
        assert_eq!(seen.tools["bash/bash"], ToolUse { calls: 2, errors: 1, seconds: 2.0 });
        assert_eq!(seen.failing_tool(), Some("bash/bash"));
    }

    #[test]
    fn what_all_attempts_spent_is_counted() {
        let reply = json!({"type": "model_reply", "usage": {"input_tokens": 100, "output_tokens": 10,
            "cached_tokens": 0, "reasoning_tokens": 0}, "cost_usd": 0.5});
        let started = json!({"type": "started", "attempt": 1});
        let seen = observed(&[started.clone(), reply.clone(), started, reply]);
        assert_eq!((seen.spent.usage.total(), seen.spent.cost_usd), (220, Some(1.0)));
    }

    #[test]
    fn limits_losses_troubles_and_copies_are_seen() {
        let seen = observed(&[
            json!({"type": "limit_reached", "step": 3, "reason": "token_limit"}),
            json!({"type": "compacted", "step": 2}),
            json!({"type": "server_notice", "server": "fetch", "level": "error", "text": "it died"}),
            json!({"type": "server_notice", "server": "fetch", "level": "warning",
                "text": "{\"contaminated\": {\"url\": \"http://a.example/\"}}"}),
            json!({"type": "server_notice", "server": "other", "level": "info", "text": "contaminated? no"}),
        ]);
        assert_eq!(seen.limit.as_deref(), Some("token_limit"));
        assert_eq!(seen.compactions, 1);
        assert_eq!(seen.troubled_servers, BTreeSet::from(["fetch".to_owned()]));
        assert_eq!(seen.contaminated_pages, BTreeSet::from(["http://a.example/".to_owned()]));
        assert_eq!(seen.failing_tool(), None);
    }
}
