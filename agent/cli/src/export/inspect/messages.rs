//! A trajectory as the messages of a chat.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gaia_agent::{AgentEvent, Message, Part};
use serde_json::{Map, Value, json};

use crate::store::SampleDirectory;
use crate::trajectory::{Call, Entry, Note, Noted, Trajectory, Turn};

/// Where the media of a sample are kept.
pub(super) struct Files<'a> {
    sample: &'a SampleDirectory,
}

impl<'a> Files<'a> {
    pub(super) fn new(sample: &'a SampleDirectory) -> Self {
        Self { sample }
    }

    /// The base64 of a part's data, which in a log is the name of a file as a rule.
    fn base64(&self, data: &str) -> Option<String> {
        match data.strip_prefix("file:") {
            Some(name) => Some(STANDARD.encode(self.sample.artefact(name).ok()?)),
            None => Some(data.to_owned()),
        }
    }

    fn part(&self, part: &Part) -> Value {
        if let Part::Text { text } = part {
            return json!({"type": "text", "text": text});
        }
        let (media_type, data) = part.media().unwrap_or_default();
        let Some(data) = self.base64(data) else {
            return json!({"type": "text", "text": format!("[{media_type}, whose file is lost]")});
        };
        let uri = format!("data:{media_type};base64,{data}");
        match part {
            Part::Image(_) => json!({"type": "image", "image": uri, "detail": "auto"}),
            Part::Sound(_) => {
                let format = if media_type == "audio/mpeg" { "mp3" } else { "wav" };
                json!({"type": "audio", "audio": uri, "format": format})
            }
            Part::Document(document) => json!({
                "type": "document", "document": uri, "filename": document.name, "mime_type": media_type,
            }),
            Part::Text { text } => json!({"type": "text", "text": text}),
        }
    }

    /// Plain where it is one text: the form that every reader shows best.
    fn content(&self, parts: &[Part]) -> Value {
        match parts {
            [] => "".into(),
            [Part::Text { text }] => text.as_str().into(),
            parts => parts.iter().map(|part| self.part(part)).collect(),
        }
    }
}

/// What the model was told first.
pub(super) fn input(trajectory: &Trajectory, files: &Files<'_>) -> Vec<Value> {
    trajectory.messages.iter().map(|message| told(message, files)).collect()
}

/// Everything that was said, in order; the roles of a strategy one after the other, each after what it was told.
pub(super) fn messages(trajectory: &Trajectory, model: &str, files: &Files<'_>) -> Vec<Value> {
    let mut messages = input(trajectory, files);
    for entry in &trajectory.entries {
        match entry {
            Entry::Turn(turn) => add_turn(&mut messages, turn, model, files),
            Entry::Note(Note { branch, what: Noted::Event(event), .. }) => match event.as_ref() {
                AgentEvent::Prompted { text, .. } => {
                    messages.push(of_branch(json!({"role": "user", "content": text}), branch.as_deref()));
                }
                AgentEvent::BranchStarted { messages: first, .. } => {
                    let first =
                        first.iter().map(|message| of_branch(told(message, files), branch.as_deref()));
                    messages.extend(first);
                }
                _ => {}
            },
            Entry::Note(_) => {}
        }
    }
    for (index, message) in messages.iter_mut().enumerate() {
        message["id"] = format!("m{index}").into();
    }
    messages
}

fn told(message: &Message, files: &Files<'_>) -> Value {
    match message {
        Message::System { content } => json!({"role": "system", "content": content}),
        Message::User { content } => {
            json!({"role": "user", "source": "input", "content": files.content(content)})
        }
        Message::Assistant { content, .. } => {
            json!({"role": "assistant", "content": content.clone().unwrap_or_default()})
        }
        Message::Tool { call_id, content } => {
            json!({"role": "tool", "tool_call_id": call_id, "content": files.content(content)})
        }
    }
}

fn of_branch(mut message: Value, branch: Option<&str>) -> Value {
    if let Some(branch) = branch {
        message["metadata"] = json!({"branch": branch});
    }
    message
}

fn add_turn(messages: &mut Vec<Value>, turn: &Turn, model: &str, files: &Files<'_>) {
    let Some(message) = assistant(turn, model) else { return };
    messages.push(of_branch(message, turn.branch.as_deref()));
    for call in &turn.calls {
        let Some(result) = &call.result else { continue };
        let mut message = json!({
            "role": "tool", "tool_call_id": call.id, "function": call.tool, "content": files.content(&result.content),
        });
        if result.is_error {
            message["error"] = error(&result.text());
        }
        messages.push(of_branch(message, turn.branch.as_deref()));
    }
}

/// What the model said in a turn; nothing in a request without a reply.
pub(super) fn assistant(turn: &Turn, model: &str) -> Option<Value> {
    if turn.reply.is_none() && turn.calls.is_empty() {
        return None;
    }
    let text = turn.reply.as_ref().and_then(|reply| reply.content.as_deref()).unwrap_or_default();
    let content = match turn.reply.as_ref().and_then(|reply| reply.reasoning.as_deref()) {
        Some(thoughts) => {
            json!([{"type": "reasoning", "reasoning": thoughts}, {"type": "text", "text": text}])
        }
        None => text.into(),
    };
    let mut message = json!({"role": "assistant", "source": "generate", "model": model, "content": content});
    if !turn.calls.is_empty() {
        message["tool_calls"] = turn.calls.iter().map(tool_call).collect();
    }
    Some(message)
}

pub(super) fn error(text: &str) -> Value {
    json!({"type": "unknown", "message": text})
}

pub(super) fn tool_call(call: &Call) -> Value {
    let (arguments, error) = match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(fields)) => (fields, None),
        _ => {
            let raw = Map::from_iter([("raw".to_owned(), Value::from(call.arguments.clone()))]);
            (raw, Some("the arguments are no JSON object"))
        }
    };
    json!({"id": call.id, "function": call.tool, "arguments": arguments, "type": "function", "parse_error": error})
}
