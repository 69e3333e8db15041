//! What a model thinks aloud, under the names that vendors have for it.

use serde_json::{Map, Value};

/// Gathers the thoughts of one reply of the chat completions API.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    text: String,
    /// OpenRouter's and MiniMax's form, wanted back as it was.
    details: Vec<Map<String, Value>>,
}

/// Fields of a detail that come in pieces; all others come once.
const PIECEMEAL: [&str; 3] = ["text", "summary", "data"];

impl Thoughts {
    /// Takes what a delta or a message holds of them.
    pub(super) fn add(&mut self, piece: &Value) {
        let details = piece["reasoning_details"].as_array();
        for detail in details.into_iter().flatten().filter_map(Value::as_object) {
            self.add_detail(detail);
        }
        // The same thought under several names is one thought: OpenRouter sends up to three.
        let mut named = ["reasoning_content", "reasoning"].iter().filter_map(|name| piece[*name].as_str());
        let told = details.into_iter().flatten().filter_map(|detail| detail["text"].as_str());
        match named.find(|text| !text.is_empty()) {
            Some(text) => self.text.push_str(text),
            None => self.text.extend(told),
        }
        // Mistral's: parts of the content.
        let parts = piece["content"].as_array().into_iter().flatten();
        for part in parts.filter(|part| part["type"] == "thinking") {
            let inner = part["thinking"].as_array().into_iter().flatten();
            self.text.extend(inner.filter_map(|inner| inner["text"].as_str()));
        }
    }

    fn add_detail(&mut self, piece: &Map<String, Value>) {
        let same = |detail: &&mut Map<String, Value>| {
            ["type", "index", "id"].iter().all(|key| match (detail.get(*key), piece.get(*key)) {
                (Some(known), Some(new)) => known == new || known.is_null() || new.is_null(),
                _ => true,
            })
        };
        // Only the last goes on: what comes after another one is a new one, whatever it is called.
        let Some(detail) = self.details.last_mut().filter(same) else {
            self.details.push(piece.clone());
            return;
        };
        for (key, value) in piece {
            match (detail.get_mut(key), value) {
                (Some(Value::String(known)), Value::String(more)) if PIECEMEAL.contains(&key.as_str()) => {
                    known.push_str(more);
                }
                (Some(known), Value::Null) if !known.is_null() => {}
                _ => {
                    detail.insert(key.clone(), value.clone());
                }
            }
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        (!self.text.is_empty()).then(|| self.text.clone())
    }

    pub(super) fn details(&self) -> Option<&[Map<String, Value>]> {
        (!self.details.is_empty()).then_some(&self.details)
    }
}

/// Thought and word of a text that holds both, as servers without a parser for thoughts send it. The first tag may be
/// missing: it stands at the end of the prompt. A thought that never ends is all there is.
pub(super) fn split(content: &str) -> (Option<String>, String) {
    const OPEN: &str = "<think>";
    const CLOSE: &str = "</think>";
    let begun = content.trim_start().strip_prefix(OPEN);
    let inside = begun.unwrap_or(content);
    let (thought, word) = match inside.split_once(CLOSE) {
        // A tag that was opened in the middle of a text is no thought but talked about.
        Some((thought, _)) if begun.is_none() && thought.contains(OPEN) => return (None, content.to_owned()),
        Some((thought, word)) => (thought, word.trim_start()),
        None if begun.is_some() => (inside, ""),
        None => return (None, content.to_owned()),
    };
    let thought = thought.trim();
    ((!thought.is_empty()).then(|| thought.to_owned()), word.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_thought_is_told_from_the_word() {
        for (content, thought, word) in [
            ("<think>hm</think>\n\nyes", Some("hm"), "yes"),
            ("hm, hm</think>yes", Some("hm, hm"), "yes"),
            ("\n<think>\n\n</think>\n\nyes", None, "yes"),
            ("<think>and on", Some("and on"), ""),
            ("write <think>a</think> around it", None, "write <think>a</think> around it"),
            ("yes", None, "yes"),
            ("", None, ""),
        ] {
            assert_eq!(split(content), (thought.map(str::to_owned), word.to_owned()), "{content:?}");
        }
    }

    #[test]
    fn pieces_of_a_detail_become_one_and_one_thought_is_told_once() {
        let mut thoughts = Thoughts::default();
        for (text, more) in [("Let ", json!({})), ("me", json!({"signature": "abc"}))] {
            let mut detail = json!({"type": "reasoning.text", "text": text, "index": 0, "format": "x"});
            detail.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            thoughts.add(&json!({"reasoning": text, "reasoning_details": [detail]}));
        }
        thoughts
            .add(&json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "e1", "index": 1}]}));
        thoughts
            .add(&json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "e2", "index": 2}]}));
        assert_eq!(thoughts.text().as_deref(), Some("Let me"));
        assert_eq!(
            json!(thoughts.details()),
            json!([
                {"type": "reasoning.text", "text": "Let me", "index": 0, "format": "x", "signature": "abc"},
                {"type": "reasoning.encrypted", "data": "e1", "index": 1},
                {"type": "reasoning.encrypted", "data": "e2", "index": 2},
            ])
        );
    }
}
