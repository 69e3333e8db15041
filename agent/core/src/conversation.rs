use crate::message::{Message, Part, ToolCall};

/// The messages of one task, append-only but for compaction, which shortens old tool output.
#[derive(Debug)]
pub(crate) struct Conversation {
    messages: Vec<Message>,
    /// Where the question ends; what stands before is never dropped.
    question_end: usize,
    /// Where the last turn starts; what stands there is never shortened by the first compaction.
    last_turn: usize,
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compaction {
    pub(crate) shortened_results: u32,
    pub(crate) dropped_bytes: u64,
}

/// How hard a compaction presses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Tool output before the last turn.
    OldResults,
    /// All tool output, the last turn's too: for the last call, which must fit.
    AllResults,
    /// Everything but the system prompt, the question and what was said to the model last.
    AllButQuestion,
}

/// Bytes that are left of a shortened tool output: enough to see what the call was about.
const SHORTENED_BYTES: usize = 400;

impl Conversation {
    pub(crate) fn new(messages: Vec<Message>) -> Self {
        let question_end = messages.len();
        Self { messages, question_end, last_turn: question_end }
    }

    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub(crate) fn push_reply(
        &mut self,
        content: Option<String>,
        reasoning: Option<String>,
        tool_calls: Vec<ToolCall>,
    ) {
        self.last_turn = self.messages.len();
        // An empty assistant message is refused by some providers, and says nothing.
        let silent = tool_calls.is_empty() && content.as_deref().unwrap_or("").trim().is_empty();
        if silent {
            return;
        }
        self.messages.push(Message::Assistant { content, reasoning, tool_calls });
    }

    pub(crate) fn push_result(&mut self, call_id: String, content: Vec<Part>) {
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
            Pressure::OldResults => self.last_turn,
            Pressure::AllResults => self.messages.len(),
            Pressure::AllButQuestion => return self.keep_question(),
        };
        let mut done = Compaction { shortened_results: 0, dropped_bytes: 0 };
        for message in &mut self.messages[..end] {
            let Message::Tool { content, .. } = message else { continue };
            let before = bytes(content);
            if before > 2 * SHORTENED_BYTES {
                *content = vec![Part::Text { text: shortened(content) }];
                done.shortened_results += 1;
                done.dropped_bytes += before.saturating_sub(bytes(content)) as u64;
            }
        }
        (done.shortened_results > 0).then_some(done)
    }

    fn keep_question(&mut self) -> Option<Compaction> {
        let before = self.text_bytes();
        let mut later = self.messages.split_off(self.question_end);
        let said = later.pop_if(|message| matches!(message, Message::User { .. }));
        if later.is_empty() {
            self.messages.extend(said);
            return None;
        }
        let results = later.iter().filter(|message| matches!(message, Message::Tool { .. })).count();
        if let (Some(Message::User { content: said }), Some(Message::User { content })) =
            (said, self.messages.last_mut())
        {
            content.extend(said);
        }
        self.last_turn = self.messages.len();
        Some(Compaction {
            shortened_results: u32::try_from(results).unwrap_or(u32::MAX),
            dropped_bytes: before.saturating_sub(self.text_bytes()) as u64,
        })
    }

    /// Bytes of all text, for estimates.
    pub(crate) fn text_bytes(&self) -> usize {
        self.messages
            .iter()
            .map(|message| match message {
                Message::System { content } => content.len(),
                Message::User { content } | Message::Tool { content, .. } => bytes(content),
                Message::Assistant { content, reasoning, tool_calls } => {
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
            Part::Image(image) => image.data.len(),
        })
        .sum()
}

fn shortened(parts: &[Part]) -> String {
    let mut texts = Vec::new();
    for part in parts {
        match part {
            Part::Text { text } => texts.push(text.as_str()),
            Part::Image(_) => texts.push("[image]"),
        }
    }
    let text = texts.join("\n");
    let mut end = SHORTENED_BYTES.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let dropped = text.len() - end;
    format!(
        "{}\n[{dropped} bytes of this earlier output were dropped to make room; run the call again if you need them]",
        &text[..end]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(text: &str) -> Message {
        Message::Tool { call_id: "x".to_owned(), content: vec![Part::Text { text: text.to_owned() }] }
    }

    fn result_bytes(conversation: &Conversation) -> Vec<usize> {
        let sizes = conversation.messages().iter().filter_map(|message| match message {
            Message::Tool { content, .. } => Some(bytes(content)),
            _ => None,
        });
        sizes.collect()
    }

    #[test]
    fn old_output_is_shortened_first_and_the_last_turn_only_under_pressure() {
        let question = Message::User { content: vec![Part::Text { text: "q".repeat(5_000) }] };
        let mut conversation = Conversation::new(vec![question.clone()]);
        for _ in 0..2 {
            conversation.push_reply(Some("thought".repeat(500)), None, Vec::new());
            let Message::Tool { call_id, content } = tool(&"é".repeat(5_000)) else { unreachable!() };
            conversation.push_result(call_id, content);
        }
        let first = conversation.compact(Pressure::OldResults).unwrap();
        assert_eq!(first.shortened_results, 1);
        let sizes = result_bytes(&conversation);
        assert!(sizes[0] < 600 && sizes[1] == 10_000, "{sizes:?}");
        assert_eq!(first.dropped_bytes, 10_000 - sizes[0] as u64);
        assert_eq!(conversation.compact(Pressure::OldResults), None);
        assert_eq!(conversation.compact(Pressure::AllResults).unwrap().shortened_results, 1);
        assert_eq!(conversation.messages()[0], question);
        assert_eq!(conversation.compact(Pressure::AllResults), None);
        conversation.push_user("answer now".to_owned());
        assert_eq!(conversation.compact(Pressure::AllButQuestion).unwrap().shortened_results, 2);
        assert_eq!(conversation.messages().len(), 1);
        let Message::User { content } = &conversation.messages()[0] else { panic!("the question is gone") };
        assert_eq!(content.last(), Some(&Part::Text { text: "answer now".to_owned() }));
    }
}
