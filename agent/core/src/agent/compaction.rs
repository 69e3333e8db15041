//! Room in the window: old output shortened first, then old turns summarised.

use std::fmt::Write as _;
use std::sync::PoisonError;

use tokio_util::sync::CancellationToken;

use super::Run;
use crate::conversation::{Compaction, Pressure};
use crate::event::AgentEvent;
use crate::message::{Message, Part};
use crate::model::ModelError;
use crate::tools::bound;

/// Turns whose output stays whole as long as there is room: what a model works on right now.
const WHOLE_TURNS: usize = 3;

/// Bytes of a summary: about 2,000 tokens, a sixteenth of the smallest window that is of use.
const SUMMARY_BYTES: usize = 8 * 1024;

/// The share of the window that the turns to be summarised may fill in the request for a summary.
const TRANSCRIPT_SHARE: f64 = 0.5;

/// Bytes of a transcript for a window that nobody knows: it has just been said to be too small for more.
const UNKNOWN_WINDOW_TRANSCRIPT_BYTES: usize = 32 * 1024;

impl Run<'_> {
    /// Makes room before the next call when a known window is nearly full, and then enough of it that it is not
    /// needed again soon.
    pub(super) async fn make_room(&mut self, step: u32, cancel: &CancellationToken) {
        if !self.window.is_full(self.conversation.text_bytes()) {
            return;
        }
        for whole_turns in [WHOLE_TURNS, 1] {
            self.compact(step, Pressure::OldResults { whole_turns });
            if self.window.is_roomy(self.conversation.text_bytes()) {
                return;
            }
        }
        if self.window.is_full(self.conversation.text_bytes()) || self.has_grown_old() {
            self.summarise(step, cancel).await;
        }
        if self.window.is_full(self.conversation.text_bytes()) {
            self.compact(step, Pressure::AllResults);
        }
    }

    /// Whether the old turns alone, output shortened, fill a good part of the window: the last turn may be large and
    /// will be shortened when it is old, but this can only be cured by a summary.
    fn has_grown_old(&self) -> bool {
        let old = self.conversation.old_turns(1).map_or(0, |old| old.transcript.len());
        self.window.bytes_of(TRANSCRIPT_SHARE / 2.0).is_some_and(|bytes| old > bytes)
    }

    /// Shortens or drops, and tells. Whether there was anything to do.
    pub(super) fn compact(&mut self, step: u32, pressure: Pressure) -> bool {
        let Some(done) = self.conversation.compact(pressure) else { return false };
        self.tell_compaction(step, done, None);
        true
    }

    /// Puts a summary of the model's own in the place of all turns but the last. Without one, what is left of the
    /// transcript must do. Whether there was anything to summarise.
    pub(super) async fn summarise(&mut self, step: u32, cancel: &CancellationToken) -> bool {
        let Some(old) = self.conversation.old_turns(1) else { return false };
        let room = self.window.bytes_of(TRANSCRIPT_SHARE).unwrap_or(UNKNOWN_WINDOW_TRANSCRIPT_BYTES);
        let transcript = bound(&old.transcript, room, None).text;
        let request = self.summary_request(&transcript);
        let summary = match self.ask_for(step, &request, &[], cancel).await {
            Ok(reply) => reply.content.filter(|text| !text.trim().is_empty()),
            // The next call of the model meets the same fault, and decides.
            Err(ModelError::Cancelled) => return false,
            Err(_) => None,
        };
        let summary = bound(summary.as_deref().unwrap_or(&transcript), SUMMARY_BYTES, None).text;
        let number = self.summary_number();
        let mut text =
            String::from("[Earlier turns were dropped to make room. In their place, a summary of them:]\n");
        text.push_str(summary.trim());
        let archive = self.archive.get_mut().unwrap_or_else(PoisonError::into_inner);
        if archive.keep(number, "dropped turns", &old.transcript).is_ok() {
            let _ = write!(text, "\n[call `{}` with call {number} for more of them", self.recall_name);
            text.push_str(", or with the number of a call for its whole output]");
        }
        let done = self.conversation.replace(&old, text);
        self.tell_compaction(step, done, Some(summary));
        true
    }

    /// A conversation of its own with the old turns as text: nothing in it has to match the protocol of tool calls.
    fn summary_request(&self, transcript: &str) -> Vec<Message> {
        let question = self.conversation.messages().iter().find_map(|message| match message {
            Message::User { content } => content.first(),
            _ => None,
        });
        let mut text = String::from("A task was given to you:\n");
        if let Some(Part::Text { text: question }) = question {
            text.push_str(question);
        }
        text.push_str("\n\nThis is what you did so far:\n");
        text.push_str(transcript);
        text.push_str(
            "\n\nThe conversation no longer fits into your context window. Write notes to go on with, as short as they \
             can be: every fact found so far with its source (numbers, names, paths, URLs, numbers of calls), what was \
             tried and failed, what is left to do. Reply with the notes and nothing else.",
        );
        let system = "You keep the notes of a long task.".to_owned();
        vec![Message::System { content: system }, Message::User { content: vec![Part::Text { text }] }]
    }

    /// Above all numbers that calls can have.
    fn summary_number(&mut self) -> u32 {
        self.summaries += 1;
        1_000_000 + self.summaries
    }

    fn tell_compaction(&self, step: u32, done: Compaction, summary: Option<String>) {
        self.sink.emit(AgentEvent::Compacted {
            step,
            shortened_results: u32::try_from(done.call_ids.len()).unwrap_or(u32::MAX),
            dropped_bytes: done.dropped_bytes,
            call_ids: done.call_ids,
            summary,
        });
    }
}
