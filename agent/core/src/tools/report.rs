use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::redact::Redactor;
use super::{Notice, NoticeSink, ServerSpec};
use crate::event::NoticeLevel;

/// Characters of one notice: a line of a log, not a document.
const NOTICE_CHARS: usize = 2_000;

/// Notices of the server's own making that may come at once, such as the banner and the start-up log of a server.
const BURST_NOTICES: f64 = 100.0;

/// Notices a second after the burst: half an hour of noise then stays under four thousand events.
const STEADY_NOTICES_PER_SECOND: f64 = 2.0;

/// Speaks about one server to the outside: nothing secret leaves, and a noisy server cannot flood the run.
pub(super) struct Reporter {
    server: String,
    redactor: Redactor,
    sink: NoticeSink,
    allowance: Mutex<Allowance>,
}

struct Allowance {
    left: f64,
    since: Instant,
    suppressed: u64,
}

impl Reporter {
    pub(super) fn new(spec: &ServerSpec, sink: NoticeSink) -> Self {
        Self {
            server: spec.name.clone(),
            redactor: Redactor::of(spec),
            sink,
            allowance: Mutex::new(Allowance { left: BURST_NOTICES, since: Instant::now(), suppressed: 0 }),
        }
    }

    /// Says what we observed ourselves; never suppressed.
    pub(super) fn announce(&self, level: NoticeLevel, text: &str) {
        (self.sink)(Notice { server: self.server.clone(), level, text: shorten(&self.redact(text)) });
    }

    /// Passes on what the server said, at a bounded rate.
    pub(super) fn relay(&self, level: NoticeLevel, text: &str) {
        let suppressed = {
            let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let earned = now.duration_since(allowance.since).as_secs_f64() * STEADY_NOTICES_PER_SECOND;
            allowance.left = (allowance.left + earned).min(BURST_NOTICES);
            allowance.since = now;
            if allowance.left < 1.0 {
                allowance.suppressed += 1;
                return;
            }
            allowance.left -= 1.0;
            std::mem::take(&mut allowance.suppressed)
        };
        if suppressed > 0 {
            self.announce(
                NoticeLevel::Warning,
                &format!("{suppressed} lines were not kept: too many at once"),
            );
        }
        self.announce(level, text);
    }

    /// The text without any secret of the server's.
    pub(super) fn redact(&self, text: &str) -> String {
        self.redactor.redact(text).into_owned()
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(NOTICE_CHARS) {
        Some((end, _)) => format!("{}… ({} bytes more)", &text[..end], text.len() - end),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::tools::{CallOrder, HttpWire, Protocol, Scope, TransportSpec};

    fn reporter(transport: TransportSpec) -> (Reporter, Arc<Mutex<Vec<Notice>>>) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let sink = heard.clone();
        let spec = ServerSpec {
            name: "x".to_owned(),
            transport,
            scope: Scope::Sample,
            enabled_tools: None,
            disabled_tools: Vec::new(),
            startup_timeout: Duration::from_secs(1),
            tool_timeout: Duration::from_secs(1),
            required: true,
            protocol: Protocol::Auto,
            call_order: CallOrder::AsDeclared,
            max_concurrent_calls: None,
            redactor: Redactor::default(),
            prefix: None,
        };
        (Reporter::new(&spec, Arc::new(move |notice| sink.lock().unwrap().push(notice))), heard)
    }

    #[test]
    fn secrets_are_hidden() {
        let (reporter, heard) = reporter(TransportSpec::Http {
            url: "https://user:passw0rd@example.invalid/mcp?key=q-secret".to_owned(),
            headers: BTreeMap::from([("Authorization".to_owned(), "Bearer h-secret".to_owned())]),
            bearer_token: Some("b-secret".to_owned()),
            wire: HttpWire::Auto,
            tokens: None,
        });
        reporter.announce(
            NoticeLevel::Error,
            "passw0rd https://user:passw0rd@example.invalid/mcp?key=q-secret h-secret Bearer h-secret b-secret",
        );
        let text = heard.lock().unwrap()[0].text.clone();
        assert!(!text.contains("secret") && !text.contains("passw0rd"), "{text}");
        assert!(text.contains("example.invalid/mcp"), "{text}");
    }

    #[test]
    fn a_flood_is_bounded_and_own_words_are_not() {
        let (reporter, heard) = reporter(TransportSpec::Stdio {
            command: String::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
        });
        for line in 0..10_000 {
            reporter.relay(NoticeLevel::Info, &format!("line {line}"));
        }
        reporter.announce(NoticeLevel::Error, "died");
        let heard = heard.lock().unwrap();
        assert!(heard.len() >= 100 && heard.len() < 200, "{}", heard.len());
        assert_eq!(heard.last().unwrap().text, "died");
    }
}
