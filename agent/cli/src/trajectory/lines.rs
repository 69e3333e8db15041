use std::io::{self, BufRead, BufReader, Read};

use gaia_agent::AgentEvent;
use serde::Deserialize;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// No event of ours comes near it: outputs are cut at `agent.result_bytes`, the rest is kept beside the log.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

/// One line of `events.jsonl`.
#[derive(Debug)]
pub(crate) enum EventLine {
    Event {
        time: Option<OffsetDateTime>,
        branch: Option<String>,
        event: Box<AgentEvent>,
    },
    /// JSON with a type that this program does not know, or without fields that it needs.
    Unknown {
        time: Option<OffsetDateTime>,
        branch: Option<String>,
        text: String,
    },
    Unreadable,
}

/// The lines of an event log one at a time. A last line without its end is one that is being written or was torn, and is
/// left out. Bytes that are no UTF-8 become replacement characters.
pub(crate) struct EventLines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> EventLines<R> {
    pub(crate) fn new(log: R) -> Self {
        Self { reader: BufReader::with_capacity(64 * 1024, log), line: Vec::new() }
    }

    fn read(&mut self) -> io::Result<Option<EventLine>> {
        loop {
            self.line.clear();
            (&mut self.reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line)?;
            if self.line.ends_with(b"\n") {
                if self.line.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Some(parse(&String::from_utf8_lossy(&self.line))));
            }
            let is_cut = self.line.len() as u64 == MAX_LINE_BYTES;
            if is_cut && self.reader.skip_until(b'\n')? > 0 {
                return Ok(Some(EventLine::Unreadable));
            }
            return Ok(None);
        }
    }
}

impl<R: Read> Iterator for EventLines<R> {
    type Item = io::Result<EventLine>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

pub(crate) fn parse(text: &str) -> EventLine {
    #[derive(Deserialize)]
    struct Head {
        time: Option<String>,
        branch: Option<String>,
    }
    let Ok(Head { time, branch }) = serde_json::from_str(text) else { return EventLine::Unreadable };
    let time = time.and_then(|time| OffsetDateTime::parse(&time, &Rfc3339).ok());
    match serde_json::from_str(text) {
        Ok(event) => EventLine::Event { time, branch, event: Box::new(event) },
        Err(_) => match serde_json::from_str::<Value>(text) {
            Ok(value) => EventLine::Unknown { time, branch, text: format!("{value:#}") },
            Err(_) => EventLine::Unreadable,
        },
    }
}
