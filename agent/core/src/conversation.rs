use std::collections::HashMap;

use serde_json::Value;

use crate::message::{Message, Part, ToolCall};

/// The messages of one task, append-only but for compaction: tool output is shortened, and old turns give way to a
/// summary.
#[derive(Debug)]
pub(crate) struct Conversation {
    messages: Vec<Message>,
    /// Where the question ends; what stands before is never dropped.
    question_end: usize,
    /// Parts of the question's message that are the question; a summary comes after them.
    question_parts: usize,
    /// The number under which `recall` reads the output of a call, by call id.
    recallable: HashMap<String, u32>,
    /// What the model calls `recall`.
    recall_name: String,
}

/// What a compaction did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Compaction {
    /// Calls whose output was shortened or left out.
    pub(crate) call_ids: Vec<String>,
    pub(crate) dropped_bytes: u64,
}

/// How hard a compaction presses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Tool output before the last so many turns.
    OldResults { whole_turns: usize },
    /// All tool output, the last turn's too: for the last call, which must fit.
    AllResults,
    /// Everything but the system prompt, the question and what was said to the model last.
    AllButQuestion,
}

/// Turns that a summary can replace.
#[derive(Debug)]
pub(crate) struct OldTurns {
    /// The last summary, what was said, called and seen, as far as it is still there.
    pub(crate) transcript: String,
    end: usize,
}

/// Bytes that are left of a shortened tool output: enough to see what the call was about.
const SHORTENED_BYTES: usize = 400;

/// Output up to here is not worth shortening.
pub(crate) const KEPT_WHOLE_BYTES: usize = 2 * SHORTENED_BYTES;

/// Stands for a picture in estimates: about the 1,500 tokens that providers count for one of usual size.
const IMAGE_BYTES: usize = 6_000;

/// Characters of base64 for one byte in estimates of sounds and documents. A page of a PDF is some 30 KB and 1,500
/// tokens, a minute of MP3 some 600 KB and 2,000: what is paid more for counts.
const MEDIA_CHARS_PER_BYTE: usize = 6;

/// Bytes of the arguments of an old call in a transcript: a script says in its first lines what it is about.
const TOLD_ARGUMENTS_BYTES: usize = 600;

impl Conversation {
    pub(crate) fn new(messages: Vec<Message>, recall_name: &str) -> Self {
        let question_parts = match messages.last() {
            Some(Message::User { content }) => content.len(),
            _ => 0,
        };
        Self {
            question_end: messages.len(),
            question_parts,
            messages,
            recallable: HashMap::new(),
            recall_name: recall_name.to_owned(),
        }
    }

    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub(crate) fn push_reply(
        &mut self,
        content: Option<String>,
        reasoning: Option<String>,
        carried: Option<Value>,
        tool_calls: Vec<ToolCall>,
    ) {
        // An empty assistant message is refused by some providers, and says nothing.
        let silent = tool_calls.is_empty() && content.as_deref().unwrap_or("").trim().is_empty();
        if silent {
            return;
        }
        self.messages.push(Message::Assistant { content, reasoning, carried, tool_calls });
    }

    /// `recall_number` when the whole output is kept elsewhere.
    pub(crate) fn push_result(&mut self, call_id: String, content: Vec<Part>, recall_number: Option<u32>) {
        if let Some(number) = recall_number {
            self.recallable.insert(call_id.clone(), number);
        }
        self.messages.push(Message::Tool { call_id, content });
    }

    /// What the loop itself says to the model. Two user messages in a row would break strict chat templates: the
    /// text joins a user message that stands last.
    pub(crate) fn push_user(&mut self, text: String) {
        let part = Part::Text { text };
        match self.messages.last_mut() {
            Some(Message::User { content }) => content.push(part),
            _ => self.messages.push(Message::User { content: vec![part] }),
        }
    }

    /// Shortens tool output; the system prompt, the question and what the model said stay whole. `None` when there
    /// was nothing left to shorten.
    pub(crate) fn compact(&mut self, pressure: Pressure) -> Option<Compaction> {
        let end = match pressure {
            Pressure::OldResults { whole_turns } => self.start_of_last(whole_turns),
            Pressure::AllResults => self.messages.len(),
            Pressure::AllButQuestion => return self.keep_question(),
        };
        let mut done = Compaction::default();
        for message in &mut self.messages[..end] {
            let Message::Tool { call_id, content } = message else { continue };
            let before = bytes(content);
            if before > KEPT_WHOLE_BYTES {
                let way_back = match self.recallable.get(call_id) {
                    Some(number) => format!("call `{}` with call {number} to read it", self.recall_name),
                    None => "run the call again if you need it".to_owned(),
                };
                *content = vec![Part::Text { text: shortened(content, &way_back) }];
                done.call_ids.push(call_id.clone());
                done.dropped_bytes += before.saturating_sub(bytes(content)) as u64;
            }
        }
        (!done.call_ids.is_empty()).then_some(done)
    }

    /// All turns but the last `whole_turns`; `None` when there are no others.
    pub(crate) fn old_turns(&self, whole_turns: usize) -> Option<OldTurns> {
        let end = self.start_of_last(whole_turns);
        if end <= self.question_end {
            return None;
        }
        let mut transcript = String::new();
        if let Some(Message::User { content }) = self.question_end.checked_sub(1).map(|at| &self.messages[at])
        {
            add_parts(&mut transcript, &content[self.question_parts.min(content.len())..]);
        }
        for message in &self.messages[self.question_end..end] {
            match message {
                Message::System { content } => add_line(&mut transcript, "system", content),
                Message::User { content } => {
                    transcript.push_str("told: ");
                    add_parts(&mut transcript, content);
                }
                Message::Assistant { content, tool_calls, .. } => {
                    if let Some(content) = content {
                        add_line(&mut transcript, "you", content);
                    }
                    for call in tool_calls {
                        let end = call.arguments.floor_char_boundary(TOLD_ARGUMENTS_BYTES);
                        let more = if end < call.arguments.len() { "…" } else { "" };
                        let text = format!("{} {}{more}", call.name, &call.arguments[..end]);
                        add_line(&mut transcript, "you called", &text);
                    }
                }
                Message::Tool { call_id, content } => {
                    match self.recallable.get(call_id) {
                        Some(number) => transcript.push_str(&format!("output (call {number}): ")),
                        None => transcript.push_str("output: "),
                    }
                    add_parts(&mut transcript, content);
                }
            }
        }
        Some(OldTurns { transcript, end })
    }

    /// Puts a summary, which stands behind the question, in the place of old turns and of the summary before.
    pub(crate) fn replace(&mut self, old: &OldTurns, summary: String) -> Compaction {
        let before = self.text_bytes();
        let dropped = self.messages.drain(self.question_end..old.end);
        let call_ids = dropped.filter_map(|message| match message {
            Message::Tool { call_id, .. } => Some(call_id),
            _ => None,
        });
        let call_ids = call_ids.collect();
        if let Some(Message::User { content }) =
            self.question_end.checked_sub(1).map(|at| &mut self.messages[at])
        {
            content.truncate(self.question_parts);
            content.push(Part::Text { text: summary });
        }
        Compaction { call_ids, dropped_bytes: before.saturating_sub(self.text_bytes()) as u64 }
    }

    fn start_of_last(&self, turns: usize) -> usize {
        let replies = self.messages.iter().enumerate().skip(self.question_end).rev();
        let mut starts =
            replies.filter(|(_, message)| matches!(message, Message::Assistant { .. })).map(|(at, _)| at);
        match turns.checked_sub(1) {
            Some(earlier) => starts.nth(earlier).unwrap_or(self.question_end),
            None => self.messages.len(),
        }
    }

    fn keep_question(&mut self) -> Option<Compaction> {
        let before = self.text_bytes();
        let mut later = self.messages.split_off(self.question_end);
        let said = later.pop_if(|message| matches!(message, Message::User { .. }));
        if later.is_empty() {
            self.messages.extend(said);
            return None;
        }
        let call_ids = later.into_iter().filter_map(|message| match message {
            Message::Tool { call_id, .. } => Some(call_id),
            _ => None,
        });
        let call_ids = call_ids.collect();
        if let (Some(Message::User { content: said }), Some(Message::User { content })) =
            (said, self.messages.last_mut())
        {
            content.extend(said);
        }
        Some(Compaction { call_ids, dropped_bytes: before.saturating_sub(self.text_bytes()) as u64 })
    }

    /// Bytes of all text, for estimates.
    pub(crate) fn text_bytes(&self) -> usize {
        self.messages
            .iter()
            .map(|message| match message {
                Message::System { content } => content.len(),
                Message::User { content } | Message::Tool { content, .. } => bytes(content),
                Message::Assistant { content, reasoning, carried: _, tool_calls } => {
                    content.as_ref().map_or(0, String::len)
                        + reasoning.as_ref().map_or(0, String::len)
                        + tool_calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>()
                }
            })
            .sum()
    }
}

fn bytes(parts: &[Part]) -> usize {
    parts
        .iter()
        .map(|part| match part {
            Part::Text { text } => text.len(),
            Part::Image(_) => IMAGE_BYTES,
            Part::Sound(_) | Part::Document(_) => {
                part.media().map_or(0, |(_, data)| data.len() / MEDIA_CHARS_PER_BYTE)
            }
        })
        .sum()
}

fn add_line(transcript: &mut String, speaker: &str, text: &str) {
    transcript.push_str(&format!("{speaker}: {}\n", text.trim()));
}

fn add_parts(transcript: &mut String, parts: &[Part]) {
    transcript.push_str(joined(parts).trim());
    transcript.push('\n');
}

fn joined(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| part.text().unwrap_or(part.placeholder()));
    texts.collect::<Vec<_>>().join("\n")
}

fn shortened(parts: &[Part], way_back: &str) -> String {
    let text = joined(parts);
    let end = text.floor_char_boundary(SHORTENED_BYTES);
    let dropped = text.len() - end;
    format!(
        "{}\n[{dropped} bytes of this earlier output were dropped to make room; {way_back}]",
        &text[..end]
    )
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
