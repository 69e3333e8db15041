//! A conversation as the chat completions API wants it.

use serde_json::{Map, Value, json};

use super::quirks::{Quirk, Quirks};
use super::reply::{CARRIED_CALLS, CARRIED_FIELDS};
use super::{ModelRequest, ModelSettings};
use crate::message::{Message, Part, Sound, ToolCall, ToolDefinition};

/// One request body. The settings' `params` are the user's; they replace nothing the loop depends on.
pub(super) fn request(settings: &ModelSettings, quirks: &Quirks, request: ModelRequest<'_>) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(settings.name));
    for (key, value) in &settings.params {
        body.insert(key.clone(), value.clone());
    }
    let thoughts = match settings.reasoning_field() {
        _ if quirks.has(Quirk::WantsThoughts) => Thoughts::Always("reasoning_content"),
        Some(field) => Thoughts::WhereThereAre(field),
        None => Thoughts::Never,
    };
    body.insert("messages".to_owned(), Value::Array(wire_messages(request.messages, thoughts)));
    if request.tools.is_empty() {
        // An empty list is refused by several providers, and so is a choice without anything to choose.
        for key in ["tools", "tool_choice", "parallel_tool_calls"] {
            body.remove(key);
        }
    } else {
        body.insert("tools".to_owned(), request.tools.iter().map(|tool| offer(settings, tool)).collect());
        if let Some(parallel) = settings.parallel_tool_calls {
            body.insert("parallel_tool_calls".to_owned(), json!(parallel));
        }
    }
    body.insert("stream".to_owned(), json!(settings.stream));
    if settings.stream && !quirks.has(Quirk::NoStreamOptions) {
        body.entry("stream_options").or_insert_with(|| json!({"include_usage": true}));
    }
    Value::Object(body)
}

/// In which field of a turn its thoughts are sent back.
#[derive(Debug, Clone, Copy)]
enum Thoughts<'a> {
    Never,
    WhereThereAre(&'a str),
    /// Empty for a turn without.
    Always(&'a str),
}

fn offer(settings: &ModelSettings, definition: &ToolDefinition) -> Value {
    let adapted = settings.profile().adapt(definition);
    let mut function = json!({
        "name": definition.name,
        "description": adapted.description,
        "parameters": adapted.parameters,
    });
    if adapted.strict {
        function["strict"] = json!(true);
    }
    json!({ "type": "function", "function": function })
}

fn wire_messages(messages: &[Message], thoughts: Thoughts<'_>) -> Vec<Value> {
    let mut out = Vec::with_capacity(messages.len());
    // Tool messages take text only, and each must directly follow the calls: pictures wait for the last of them.
    let mut media: Vec<(&str, &Part)> = Vec::new();
    for message in messages {
        if !matches!(message, Message::Tool { .. }) {
            flush_media(&mut out, &mut media);
        }
        match message {
            Message::System { content } => out.push(json!({"role": "system", "content": content})),
            Message::User { content } => out.push(json!({"role": "user", "content": user_content(content)})),
            Message::Assistant { content, reasoning, carried, tool_calls } => {
                let mut wire = Map::new();
                wire.insert("role".to_owned(), json!("assistant"));
                // `content: null` beside tool calls is the documented form, yet strict servers want text.
                wire.insert("content".to_owned(), json!(content.as_deref().unwrap_or("")));
                match (thoughts, reasoning) {
                    (Thoughts::WhereThereAre(field) | Thoughts::Always(field), Some(reasoning)) => {
                        wire.insert(field.to_owned(), json!(reasoning));
                    }
                    (Thoughts::Always(field), None) => {
                        wire.insert(field.to_owned(), json!(""));
                    }
                    _ => {}
                }
                let carried = carried.as_ref().unwrap_or(&Value::Null);
                if let Some(fields) = carried[CARRIED_FIELDS].as_object() {
                    wire.extend(fields.clone());
                }
                if !tool_calls.is_empty() {
                    let calls = tool_calls.iter().enumerate();
                    let calls = calls.map(|(at, call)| said(call, &carried[CARRIED_CALLS][at]));
                    wire.insert("tool_calls".to_owned(), calls.collect());
                }
                out.push(Value::Object(wire));
            }
            Message::Tool { call_id, content } => {
                let mut texts = Vec::new();
                for part in content {
                    match part {
                        Part::Text { text } => texts.push(text.as_str()),
                        other => media.push((call_id, other)),
                    }
                }
                out.push(json!({"role": "tool", "tool_call_id": call_id, "content": texts.join("\n")}));
            }
        }
    }
    flush_media(&mut out, &mut media);
    out
}

/// A call that the model made earlier.
fn said(call: &ToolCall, extra: &Value) -> Value {
    let mut wire = json!({
        "id": call.id,
        "type": "function",
        "function": {"name": valid_name(&call.name), "arguments": valid_arguments(&call.arguments)},
    });
    if let (Some(wire), Some(extra)) = (wire.as_object_mut(), extra.as_object()) {
        wire.extend(extra.clone());
    }
    wire
}

/// A name that no tool has may be anything, and providers refuse a conversation with a name that no tool could have.
pub(super) fn valid_name(name: &str) -> String {
    /// As OpenAI and its kin have it.
    const NAME_CHARS: usize = 64;
    let allowed = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let valid: String = name
        .chars()
        .take(NAME_CHARS)
        .map(|character| if allowed(character) { character } else { '_' })
        .collect();
    if valid.is_empty() { "unnamed".to_owned() } else { valid }
}

/// Providers parse the arguments of earlier turns again and refuse the whole conversation over one bad string.
/// The model has been told what was wrong with it; what is sent back only has to be valid.
pub(super) fn valid_arguments(arguments: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(_) => arguments.to_owned(),
        Err(_) if arguments.trim().is_empty() => "{}".to_owned(),
        Err(_) => json!({"invalid_arguments": arguments}).to_string(),
    }
}

fn flush_media(out: &mut Vec<Value>, media: &mut Vec<(&str, &Part)>) {
    if media.is_empty() {
        return;
    }
    let mut content = Vec::with_capacity(media.len() * 2);
    for (call_id, part) in media.drain(..) {
        content.push(json!({"type": "text", "text": origin(call_id, part)}));
        content.push(wire_part(part));
    }
    out.push(json!({"role": "user", "content": content}));
}

/// Which call a part came from that stands in a message of its own.
pub(super) fn origin(call_id: &str, part: &Part) -> String {
    let what = match part {
        Part::Sound(_) => "Sound",
        Part::Document(_) => "Document",
        _ => "Image",
    };
    format!("{what} from tool call {call_id}:")
}

/// Plain text where that is all there is: some servers take no list.
fn user_content(parts: &[Part]) -> Value {
    match parts.iter().map(Part::text).collect::<Option<Vec<&str>>>() {
        Some(texts) => json!(texts.join("\n\n")),
        None => parts.iter().map(wire_part).collect(),
    }
}

fn wire_part(part: &Part) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Image(image) => {
            json!({"type": "image_url", "image_url": {"url": data_url(&image.media_type, &image.data)}})
        }
        Part::Sound(sound) => sound_part(sound),
        Part::Document(document) => {
            let data = data_url(&document.media_type, &document.data);
            json!({"type": "file", "file": {"filename": document.name, "file_data": data}})
        }
    }
}

/// The same in both APIs.
pub(super) fn sound_part(sound: &Sound) -> Value {
    let format = if sound.media_type == "audio/wav" { "wav" } else { "mp3" };
    json!({"type": "input_audio", "input_audio": {"data": sound.data, "format": format}})
}

pub(super) fn data_url(media_type: &str, data: &str) -> String {
    format!("data:{media_type};base64,{data}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Document, Image};

    fn text(text: &str) -> Part {
        Part::Text { text: text.to_owned() }
    }

    fn body(messages: &[Message], params: Value) -> Value {
        let Value::Object(params) = params else { panic!("params are an object") };
        let mut settings = ModelSettings::new("m", "http://127.0.0.1/v1");
        settings.parallel_tool_calls = Some(true);
        settings.reasoning_field = Some("reasoning_content".to_owned());
        settings.params = params;
        request(&settings, &Quirks::default(), ModelRequest { messages, tools: &[] })
    }

    #[test]
    fn pictures_follow_the_last_tool_message_of_a_turn() {
        let picture = Part::Image(Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() });
        let call =
            |id: &str| ToolCall { id: id.to_owned(), name: "look".to_owned(), arguments: "{}".to_owned() };
        let messages = [
            Message::User { content: vec![text("q")] },
            Message::Assistant {
                content: None,
                reasoning: Some("hm".to_owned()),
                carried: Some(json!({
                    "fields": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "e"}]},
                    "calls": [{}, {"extra_content": {"google": {"thought_signature": "s"}}}],
                })),
                tool_calls: vec![call("a"), call("b")],
            },
            Message::Tool { call_id: "a".to_owned(), content: vec![text("one"), picture] },
            Message::Tool { call_id: "b".to_owned(), content: vec![text("two")] },
        ];
        let sent = body(&messages, json!({}));
        assert_eq!(
            sent["messages"],
            json!([
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": "", "reasoning_content": "hm",
                 "reasoning_details": [{"type": "reasoning.encrypted", "data": "e"}], "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"},
                     "extra_content": {"google": {"thought_signature": "s"}}},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "one"},
                {"role": "tool", "tool_call_id": "b", "content": "two"},
                {"role": "user", "content": [
                    {"type": "text", "text": "Image from tool call a:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ]},
            ])
        );
    }

    #[test]
    fn broken_arguments_are_sent_back_as_valid_json_that_still_shows_them() {
        assert_eq!(valid_arguments(r#"{"a": 1}"#), r#"{"a": 1}"#);
        assert_eq!(valid_arguments(""), "{}");
        assert_eq!(valid_arguments(r#"{"a": "#), r#"{"invalid_arguments":"{\"a\": "}"#);
        assert_eq!(valid_arguments("[1]"), r#"{"invalid_arguments":"[1]"}"#);
    }

    #[test]
    fn sound_and_documents_have_their_own_parts() {
        let sound = Part::Sound(Sound { media_type: "audio/mpeg".to_owned(), data: "AAAA".to_owned() });
        let document = Part::Document(Document {
            name: "a.pdf".to_owned(),
            media_type: "application/pdf".to_owned(),
            data: "AAAA".to_owned(),
        });
        let sent = body(&[Message::User { content: vec![text("q"), sound, document] }], json!({}));
        assert_eq!(
            sent["messages"][0]["content"],
            json!([
                {"type": "text", "text": "q"},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
            ])
        );
    }

    #[test]
    fn a_name_that_no_tool_could_have_is_sent_back_as_one_that_could() {
        assert_eq!(valid_name("bash"), "bash");
        assert_eq!(valid_name("functions.bash"), "functions_bash");
        assert_eq!(valid_name(""), "unnamed");
        assert_eq!(valid_name(&"é".repeat(100)), "_".repeat(64));
    }

    #[test]
    fn without_tools_nothing_about_tools_is_sent() {
        let sent = body(&[], json!({"temperature": 0.5, "tool_choice": "required"}));
        assert_eq!(sent["temperature"], json!(0.5));
        for key in ["tools", "parallel_tool_calls", "tool_choice"] {
            assert!(sent.get(key).is_none(), "{key}");
        }
    }

    #[test]
    fn params_cannot_replace_the_conversation() {
        let sent =
            body(&[Message::System { content: "s".to_owned() }], json!({"messages": [], "stream": false}));
        assert_eq!(sent["messages"], json!([{"role": "system", "content": "s"}]));
        assert_eq!(sent["stream"], json!(true));
    }
}
