use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use rmcp::model::{ContentBlock, Resource, ResourceContents, ServerResult};
use serde_json::Value;

use crate::message::{Document, Image, Part, Sound};

/// A tool's own result, in the parts that a model is shown.
#[derive(Debug, PartialEq)]
pub(super) struct Converted {
    pub(super) content: Vec<Part>,
    pub(super) structured: Option<Value>,
    pub(super) is_error: bool,
}

/// `Err` says, in words for the model, what came instead of a result.
pub(super) fn convert(result: ServerResult) -> Result<Converted, String> {
    let (blocks, structured, is_error) = match result {
        ServerResult::CallToolResult(result) => {
            let content = result.content.into_iter().map(block).collect();
            (content, result.structured_content, result.is_error.unwrap_or(false))
        }
        ServerResult::InputRequiredResult(_) => {
            return Err("the tool asked for input from a person, and there is nobody to ask".to_owned());
        }
        ServerResult::CreateTaskResult(_) => {
            return Err("the tool started a background task, which this client did not ask for".to_owned());
        }
        ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => (Vec::new(), None, false),
        // A block that rmcp does not know makes the whole result unknown to it.
        ServerResult::CustomResult(custom) => from_json(custom.0)?,
        other => from_json(serde_json::to_value(other).unwrap_or_default())?,
    };
    Ok(Converted { content: complete(blocks, structured.as_ref()), structured, is_error })
}

/// What reading a resource gave, in the same parts.
pub(super) fn convert_resource(result: ServerResult) -> Result<Converted, String> {
    let contents: Vec<Part> = match result {
        ServerResult::ReadResourceResult(result) => result.contents.into_iter().map(resource).collect(),
        ServerResult::InputRequiredResult(_) => {
            return Err("the resource asks for input from a person, and there is nobody to ask".to_owned());
        }
        other => {
            let mut value = serde_json::to_value(other).unwrap_or_default();
            let Some(Value::Array(entries)) = value.get_mut("contents").map(Value::take) else {
                return Err("the server's answer is not a resource".to_owned());
            };
            let known = |entry: Value| match serde_json::from_value(entry.clone()) {
                Ok(known) => resource(known),
                Err(_) => {
                    text(format!("[a resource of a kind that this client does not know: {}]", pretty(&entry)))
                }
            };
            entries.into_iter().map(known).collect()
        }
    };
    Ok(Converted { content: complete(contents, None), structured: None, is_error: false })
}

fn from_json(mut value: Value) -> Result<(Vec<Part>, Option<Value>, bool), String> {
    let structured = value.get_mut("structuredContent").map(Value::take);
    let is_error = value.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let content = match value.get_mut("content").map(Value::take) {
        Some(Value::Array(entries)) => entries
            .into_iter()
            .map(|entry| match serde_json::from_value(entry.clone()) {
                Ok(known) => block(known),
                Err(_) => {
                    text(format!("[content of a kind that this client does not know: {}]", pretty(&entry)))
                }
            })
            .collect(),
        Some(Value::String(whole)) => vec![text(whole)],
        _ if structured.is_some() => Vec::new(),
        _ => return Err("the server's answer is not a tool result".to_owned()),
    };
    Ok((content, structured, is_error))
}

/// A result without text shows its structured content, and never nothing at all: some providers refuse an empty
/// tool message.
fn complete(mut content: Vec<Part>, structured: Option<&Value>) -> Vec<Part> {
    let has_text = content.iter().any(|part| matches!(part, Part::Text { text } if !text.is_empty()));
    if !has_text && let Some(structured) = structured {
        content.retain(|part| part.media().is_some());
        content.insert(0, text(pretty(structured)));
    }
    if content.iter().all(|part| matches!(part, Part::Text { text } if text.is_empty())) {
        content = vec![text("(the tool returned nothing)".to_owned())];
    }
    content
}

fn block(block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(block) => text(block.text),
        ContentBlock::Image(block) => image(&block.mime_type, &block.data)
            .unwrap_or_else(|| binary("image", None, Some(&block.mime_type), &block.data)),
        ContentBlock::Audio(block) => sound(&block.mime_type, &block.data)
            .unwrap_or_else(|| binary("audio", None, Some(&block.mime_type), &block.data)),
        ContentBlock::ResourceLink(link) => text(describe_link(&link)),
        ContentBlock::Resource(embedded) => resource(embedded.resource),
        _ => text("[content of a kind that this client does not know]".to_owned()),
    }
}

fn resource(contents: ResourceContents) -> Part {
    match contents {
        ResourceContents::TextResourceContents { text: content, .. } => text(content),
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => mime_type
            .as_deref()
            .and_then(|media_type| match media_type {
                "application/pdf" => document(&uri, media_type, &blob),
                _ => image(media_type, &blob).or_else(|| sound(media_type, &blob)),
            })
            .unwrap_or_else(|| binary("resource", Some(&uri), mime_type.as_deref(), &blob)),
        _ => text("[resource of a kind that this client does not know]".to_owned()),
    }
}

/// `None` when the data is no base64: a provider would refuse the whole conversation for it.
fn proper(data: &str) -> Option<String> {
    let data: String = data.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(&data).or_else(|_| STANDARD_NO_PAD.decode(&data)).ok()?;
    if bytes.is_empty() {
        return None;
    }
    Some(if data.len().is_multiple_of(4) { data } else { STANDARD.encode(bytes) })
}

fn image(media_type: &str, data: &str) -> Option<Part> {
    let image = || Some(Image { media_type: media_type.to_owned(), data: proper(data)? });
    media_type.starts_with("image/").then(image)?.map(Part::Image)
}

/// Of the two kinds that providers take.
fn sound(media_type: &str, data: &str) -> Option<Part> {
    let media_type = match media_type {
        "audio/wav" | "audio/x-wav" | "audio/wave" => "audio/wav",
        "audio/mpeg" | "audio/mp3" => "audio/mpeg",
        _ => return None,
    };
    Some(Part::Sound(Sound { media_type: media_type.to_owned(), data: proper(data)? }))
}

fn document(uri: &str, media_type: &str, data: &str) -> Option<Part> {
    let name = uri.rsplit('/').find(|piece| !piece.is_empty()).unwrap_or("document.pdf").to_owned();
    Some(Part::Document(Document { name, media_type: media_type.to_owned(), data: proper(data)? }))
}

fn binary(kind: &str, uri: Option<&str>, media_type: Option<&str>, data: &str) -> Part {
    let padding = data.bytes().rev().take_while(|&byte| byte == b'=').count();
    let bytes = (data.bytes().filter(|byte| !byte.is_ascii_whitespace()).count() - padding) * 3 / 4;
    let name = uri.map(|uri| format!(" {uri}")).unwrap_or_default();
    text(format!("[{kind}{name}, {}, {bytes} bytes: not shown]", media_type.unwrap_or("unknown type")))
}

fn describe_link(link: &Resource) -> String {
    let notes: Vec<String> =
        link.mime_type.iter().cloned().chain(link.size.map(|bytes| format!("{bytes} bytes"))).collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    let description = link.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    let name = link.title.as_deref().unwrap_or(&link.name);
    format!("[link to resource {name}, {}{notes}{description}]", link.uri)
}

fn text(text: String) -> Part {
    Part::Text { text }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

#[cfg(test)]
#[path = "content_tests.rs"]
mod tests;
