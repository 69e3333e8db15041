//! A conversation as the chat completions API wants it.

use serde_json::{Map, Value, json};

use super::chat::ChatSettings;
use crate::message::{Image, Message, Part, ToolDefinition};

/// One request body. The settings' `params` are the user's; they replace nothing the loop depends on.
pub(super) fn request(settings: &ChatSettings, messages: &[Message], tools: &[ToolDefinition]) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(settings.name));
    for (key, value) in &settings.params {
        body.insert(key.clone(), value.clone());
    }
    let reasoning_field = settings.reasoning_field.as_deref();
    body.insert("messages".to_owned(), Value::Array(wire_messages(messages, reasoning_field)));
    if tools.is_empty() {
        // An empty list is refused by several providers, and so is a choice without anything to choose.
        for key in ["tools", "tool_choice", "parallel_tool_calls"] {
            body.remove(key);
        }
    } else {
        body.insert("tools".to_owned(), tools.iter().map(|tool| offer(settings, tool)).collect());
        if let Some(parallel) = settings.parallel_tool_calls {
            body.insert("parallel_tool_calls".to_owned(), json!(parallel));
        }
    }
    body.insert("stream".to_owned(), json!(settings.stream));
    if settings.stream {
        body.entry("stream_options").or_insert_with(|| json!({"include_usage": true}));
    }
    Value::Object(body)
}

fn offer(settings: &ChatSettings, definition: &ToolDefinition) -> Value {
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

fn wire_messages(messages: &[Message], reasoning_field: Option<&str>) -> Vec<Value> {
    let mut out = Vec::with_capacity(messages.len());
    // Tool messages take text only, and each must directly follow the calls: pictures wait for the last of them.
    let mut pictures: Vec<(&str, &Image)> = Vec::new();
    for message in messages {
        if !matches!(message, Message::Tool { .. }) {
            flush_pictures(&mut out, &mut pictures);
        }
        match message {
            Message::System { content } => out.push(json!({"role": "system", "content": content})),
            Message::User { content } => out.push(json!({"role": "user", "content": user_content(content)})),
            Message::Assistant { content, reasoning, tool_calls } => {
                let mut wire = Map::new();
                wire.insert("role".to_owned(), json!("assistant"));
                // `content: null` beside tool calls is the documented form, yet strict servers want text.
                wire.insert("content".to_owned(), json!(content.as_deref().unwrap_or("")));
                if let (Some(field), Some(reasoning)) = (reasoning_field, reasoning) {
                    wire.insert(field.to_owned(), json!(reasoning));
                }
                if !tool_calls.is_empty() {
                    let calls = tool_calls.iter().map(|call| {
                        json!({
                            "id": call.id,
                            "type": "function",
                            "function": {"name": call.name, "arguments": valid_arguments(&call.arguments)},
                        })
                    });
                    wire.insert("tool_calls".to_owned(), calls.collect());
                }
                out.push(Value::Object(wire));
            }
            Message::Tool { call_id, content } => {
                let mut texts = Vec::new();
                for part in content {
                    match part {
                        Part::Text { text } => texts.push(text.as_str()),
                        Part::Image(image) => pictures.push((call_id, image)),
                    }
                }
                out.push(json!({"role": "tool", "tool_call_id": call_id, "content": texts.join("\n")}));
            }
        }
    }
    flush_pictures(&mut out, &mut pictures);
    out
}

/// Providers parse the arguments of earlier turns again and refuse the whole conversation over one bad string.
/// The model has been told what was wrong with it; what is sent back only has to be valid.
fn valid_arguments(arguments: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(_) => arguments.to_owned(),
        Err(_) if arguments.trim().is_empty() => "{}".to_owned(),
        Err(_) => json!({"invalid_arguments": arguments}).to_string(),
    }
}

fn flush_pictures(out: &mut Vec<Value>, pictures: &mut Vec<(&str, &Image)>) {
    if pictures.is_empty() {
        return;
    }
    let mut content = Vec::with_capacity(pictures.len() * 2);
    for (call_id, image) in pictures.drain(..) {
        content.push(json!({"type": "text", "text": format!("Image from tool call {call_id}:")}));
        content.push(picture(image));
    }
    out.push(json!({"role": "user", "content": content}));
}

/// Plain text where that is all there is: some servers take no list.
fn user_content(parts: &[Part]) -> Value {
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::Image(_) => None,
        })
        .collect();
    if let Some(texts) = texts {
        return json!(texts.join("\n\n"));
    }
    parts
        .iter()
        .map(|part| match part {
            Part::Text { text } => json!({"type": "text", "text": text}),
            Part::Image(image) => picture(image),
        })
        .collect()
}

fn picture(image: &Image) -> Value {
    json!({"type": "image_url", "image_url": {"url": format!("data:{};base64,{}", image.media_type, image.data)}})
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::message::ToolCall;
    use crate::model::SchemaProfile;

    fn text(text: &str) -> Part {
        Part::Text { text: text.to_owned() }
    }

    fn body(messages: &[Message], params: Value) -> Value {
        let Value::Object(params) = params else { panic!("params are an object") };
        let settings = ChatSettings {
            name: "m".to_owned(),
            base_url: String::new(),
            api_key: None,
            stream: true,
            parallel_tool_calls: Some(true),
            reasoning_field: Some("reasoning_content".to_owned()),
            params,
            request_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            max_retries: 0,
            schema_profile: SchemaProfile::Auto,
        };
        request(&settings, messages, &[])
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
                {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}},
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
