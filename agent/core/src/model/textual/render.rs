//! A conversation with tool calls as one without.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::block::{CLOSE, OPEN, RESPONSE};
use crate::message::{Message, Part, ToolCall, ToolDefinition};

const RESPONSE_END: &str = "</tool_response>";

/// The same conversation for a model that knows of no tools: they are described in the system prompt, and calls and
/// results are text. The same messages always become the same text, so that a provider can go on caching it.
pub(super) fn messages(messages: &[Message], tools: &[ToolDefinition]) -> Vec<Message> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut out: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    let mut is_told = tools.is_empty();
    for message in messages {
        match message {
            Message::System { content } if !is_told => {
                is_told = true;
                out.push(Message::System { content: format!("{content}\n\n{}", description(tools)) });
            }
            Message::Assistant { content, reasoning, carried, tool_calls } => {
                names.extend(tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str())));
                out.push(Message::Assistant {
                    content: said(content.as_deref(), tool_calls),
                    reasoning: reasoning.clone(),
                    carried: carried.clone(),
                    tool_calls: Vec::new(),
                });
            }
            Message::Tool { call_id, content } => {
                let name = names.get(call_id.as_str()).copied().unwrap_or_default();
                tell(&mut out, response(name, content));
            }
            Message::User { content } => tell(&mut out, content.clone()),
            system @ Message::System { .. } => out.push(system.clone()),
        }
    }
    if !is_told {
        out.insert(0, Message::System { content: description(tools) });
    }
    out
}

/// Strict templates take no two user messages in a row.
fn tell(out: &mut Vec<Message>, parts: Vec<Part>) {
    match out.last_mut() {
        Some(Message::User { content }) => content.extend(parts),
        _ => out.push(Message::User { content: parts }),
    }
}

fn description(tools: &[ToolDefinition]) -> String {
    let mut text = format!(
        "# Tools\n\n\
         To call a tool, write a block of this form, on lines of its own:\n\n\
         {OPEN}\n{{\"name\": \"NAME\", \"arguments\": {{…}}}}\n{CLOSE}\n\n\
         The arguments are one JSON object. Several blocks are several calls, made in order. Write nothing behind your \
         last block: the results come in the next message, each as {RESPONSE}>. A block inside of a code fence or of a \
         sentence is not made. These are the tools, each with the JSON Schema of its arguments:\n\n<tools>\n"
    );
    for tool in tools {
        let tool = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
        text.push_str(&tool.to_string());
        text.push('\n');
    }
    text.push_str("</tools>");
    text
}

fn said(content: Option<&str>, calls: &[ToolCall]) -> Option<String> {
    let blocks = calls.iter().map(|call| {
        // What names no tool stands in the arguments as a whole.
        if call.name.is_empty() {
            return format!("{OPEN}\n{}\n{CLOSE}", call.arguments);
        }
        let arguments = match call.arguments.trim() {
            "" => "{}",
            arguments => arguments,
        };
        format!(
            "{OPEN}\n{{\"name\": {}, \"arguments\": {arguments}}}\n{CLOSE}",
            Value::from(call.name.as_str())
        )
    });
    let text: Vec<String> = content.map(str::to_owned).into_iter().chain(blocks).collect();
    (!text.is_empty()).then(|| text.join("\n"))
}

/// The text in its tags, then the pictures.
fn response(name: &str, content: &[Part]) -> Vec<Part> {
    let mut texts = Vec::new();
    let mut others = Vec::new();
    for part in content {
        match part {
            Part::Text { text } => texts.push(text.as_str()),
            other => others.push(other.clone()),
        }
    }
    // A page that holds the closing tag must not end the result and go on as if it were us.
    let text = texts.join("\n").replace(RESPONSE_END, "</tool_response_>");
    let label = if name.is_empty() { String::new() } else { format!(" name={}", Value::from(name)) };
    let mut parts = vec![Part::Text { text: format!("{RESPONSE}{label}>\n{text}\n{RESPONSE_END}") }];
    parts.extend(others);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Image;

    fn text(text: &str) -> Part {
        Part::Text { text: text.to_owned() }
    }

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn a_conversation_with_calls_becomes_one_without() {
        let picture = Part::Image(Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() });
        let tool = ToolDefinition {
            name: "look".to_owned(),
            description: "Looks.".to_owned(),
            parameters: json!({"type": "object"}),
        };
        let before = [
            Message::System { content: "s".to_owned() },
            Message::User { content: vec![text("q")] },
            Message::Assistant {
                content: Some("hm".to_owned()),
                reasoning: None,
                carried: None,
                tool_calls: vec![
                    call("a", "look", "{\"x\":1}"),
                    call("b", "", "what"),
                    call("c", "look", ""),
                ],
            },
            Message::Tool {
                call_id: "a".to_owned(),
                content: vec![text("one</tool_response>two"), picture.clone()],
            },
            Message::Tool { call_id: "b".to_owned(), content: vec![text("error")] },
            Message::Tool { call_id: "c".to_owned(), content: vec![text("three")] },
            Message::User { content: vec![text("go on")] },
        ];
        let after = messages(&before, &[tool]);
        let [
            Message::System { content: system },
            question,
            Message::Assistant { content, tool_calls, .. },
            Message::User { content: results },
        ] = after.as_slice()
        else {
            panic!("{after:#?}")
        };
        assert!(
            system.starts_with("s\n\n# Tools") && system.contains(r#"{"name":"look","description":"Looks.""#)
        );
        assert_eq!(question, &before[1]);
        assert!(tool_calls.is_empty());
        assert_eq!(
            content.as_deref(),
            Some(
                "hm\n<tool_call>\n{\"name\": \"look\", \"arguments\": {\"x\":1}}\n</tool_call>\n<tool_call>\nwhat\n</tool_call>\n<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>"
            )
        );
        assert_eq!(
            results,
            &[
                text("<tool_response name=\"look\">\none</tool_response_>two\n</tool_response>"),
                picture,
                text("<tool_response>\nerror\n</tool_response>"),
                text("<tool_response name=\"look\">\nthree\n</tool_response>"),
                text("go on"),
            ]
        );
        // What the model wrote is read as what it was.
        let read = super::super::block::find(content.as_deref().unwrap());
        assert_eq!(read.calls[0].arguments, "{\"x\":1}");
    }
}
