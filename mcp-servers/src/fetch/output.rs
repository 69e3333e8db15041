//! Results as the reference server writes them, and the same facts for programs.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Value, json};
use url::Url;

use super::archived;
use super::load::Content;
use super::paging::part;

/// The notices are the reference server's, to the letter.
const NOTHING_LEFT: &str = "<error>No more content available.</error>";

fn truncated(tool: &str, next: usize) -> String {
    format!(
        "\n\n<error>Content truncated. Call the {tool} tool with a start_index of {next} to get more content.</error>"
    )
}

pub(super) fn fetched(url: &Url, content: &Content, start: usize, length: usize) -> CallToolResult {
    result(format!("{}Contents of {url}:\n", content.prefix), "fetch", content, start, length)
}

pub(super) fn archived(url: &Url, content: &Content, start: usize, length: usize) -> CallToolResult {
    let when = archived::date(&content.url).unwrap_or_else(|| "an unknown date".to_owned());
    result(
        format!("{}Contents of {url} as it was on {when}:\n", content.prefix),
        "archive",
        content,
        start,
        length,
    )
}

fn result(heading: String, tool: &str, content: &Content, start: usize, length: usize) -> CallToolResult {
    let part = part(&content.text, start, length);
    let mut text = heading;
    let mut shown = String::new();
    match &part {
        Some(part) => {
            shown.push_str(part.text);
            if let Some(next) = part.next_index {
                shown.push_str(&truncated(tool, next));
            }
        }
        None => shown.push_str(NOTHING_LEFT),
    }
    text.push_str(&shown);
    let mut facts = json!({
        "final_url": content.url.as_str(),
        "status": content.status,
        "content_type": content.content_type,
        "bytes": content.bytes,
        "total_chars": part.as_ref().map_or_else(|| content.text.chars().count(), |part| part.total_chars),
        "contaminated": content.contamination.is_some(),
    });
    let optional = [
        ("title", content.title.clone().map(Value::from)),
        ("date", content.date.clone().map(Value::from)),
        ("language", content.language.clone().map(Value::from)),
        ("next_index", part.and_then(|part| part.next_index).map(Value::from)),
    ];
    for (name, value) in optional {
        if let (Some(value), Some(facts)) = (value, facts.as_object_mut()) {
            facts.insert(name.to_owned(), value);
        }
    }
    let mut blocks = vec![ContentBlock::text(text)];
    // A later part of a document has the pictures of the first.
    if start == 0 {
        let pictures = content.pictures.iter();
        blocks
            .extend(pictures.map(|picture| ContentBlock::image(picture.base64.clone(), picture.media_type)));
    }
    let has_pictures = blocks.len() > 1;
    let mut result = CallToolResult::success(blocks);
    if has_pictures {
        // Hosts that see structured content show a model nothing else, and a picture cannot be in it.
        let mut meta = MetaObject::default();
        meta.insert("gaia/page".to_owned(), facts);
        result.meta = Some(meta);
    } else {
        if let Some(facts) = facts.as_object_mut() {
            // For the same hosts.
            facts.insert("content".to_owned(), Value::from(shown));
        }
        result.structured_content = Some(facts);
    }
    result
}
