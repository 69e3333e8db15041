//! Replies of Brave's interface as the official server shows them: one block of JSON for each result.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

use super::results::{Filter, Hit, add_facts};
use crate::toolset::failure;

/// Names of the official server, and where the engine keeps what they mean.
type Fields<'a> = &'a [(&'a str, &'a [&'a str])];

const NO_RESULTS: &str = "No web results found";

pub(super) fn hits(hits: &[Hit]) -> CallToolResult {
    if hits.is_empty() {
        return failure(NO_RESULTS);
    }
    CallToolResult::success(hits.iter().map(|hit| ContentBlock::text(hit.json().to_string())).collect())
}

pub(super) fn web(reply: &Value, filter: &Filter<'_>) -> CallToolResult {
    let mut blocks = Vec::new();
    if let Some(key) = reply["summarizer"]["key"].as_str() {
        blocks.push(ContentBlock::text(format!("Summarizer key: {key}")));
    }
    let results = web_blocks(&reply["web"]["results"], filter);
    if results.is_empty() {
        blocks.push(ContentBlock::text(NO_RESULTS.to_owned()));
        return CallToolResult::error(blocks);
    }
    blocks.extend(results);
    let sections: [(&str, Fields<'_>); 4] = [
        (
            "faq",
            &[("question", &["question"]), ("answer", &["answer"]), ("title", &["title"]), ("url", &["url"])],
        ),
        ("discussions", &[("url", &["url"]), ("data", &["data"])]),
        (
            "news",
            &[
                ("source", &["source"]),
                ("breaking", &["breaking"]),
                ("is_live", &["is_live"]),
                ("age", &["age"]),
                ("url", &["url"]),
                ("title", &["title"]),
                ("description", &["description"]),
                ("extra_snippets", &["extra_snippets"]),
            ],
        ),
        (
            "videos",
            &[
                ("url", &["url"]),
                ("title", &["title"]),
                ("description", &["description"]),
                ("age", &["age"]),
                ("thumbnail_url", &["thumbnail", "src"]),
                ("duration", &["video", "duration"]),
                ("view_count", &["video", "views"]),
                ("creator", &["video", "creator"]),
                ("publisher", &["video", "publisher"]),
                ("tags", &["video", "tags"]),
            ],
        ),
    ];
    for (section, fields) in sections {
        for result in filter.apply_json(&reply[section]["results"]) {
            let mut object = Map::new();
            if section != "faq"
                && let Some(mutated) = reply[section].get("mutated_by_goggles")
            {
                object.insert("mutated_by_goggles".to_owned(), mutated.clone());
            }
            object.extend(picked(&result, fields));
            blocks.push(ContentBlock::text(Value::Object(object).to_string()));
        }
    }
    CallToolResult::success(blocks)
}

pub(super) fn web_blocks(results: &Value, filter: &Filter<'_>) -> Vec<ContentBlock> {
    filter
        .apply_json(results)
        .iter()
        .map(|result| {
            let fields: Fields<'_> = &[
                ("url", &["url"]),
                ("title", &["title"]),
                ("description", &["description"]),
                ("extra_snippets", &["extra_snippets"]),
            ];
            let mut object = Value::Object(picked(result, fields));
            let date = result["page_age"].as_str().or_else(|| result["age"].as_str());
            add_facts(&mut object, result["url"].as_str().unwrap_or_default(), date);
            ContentBlock::text(object.to_string())
        })
        .collect()
}

/// Fields that are there, under the official server's names.
fn picked(result: &Value, fields: Fields<'_>) -> Map<String, Value> {
    fields
        .iter()
        .filter_map(|(name, path)| {
            let value = path.iter().try_fold(result, |value, part| value.get(part))?;
            Some(((*name).to_owned(), value.clone()))
        })
        .collect()
}

fn blocks_of(results: &Value, fields: Fields<'_>, filter: &Filter<'_>) -> Vec<ContentBlock> {
    let shown = |result: &Value| ContentBlock::text(Value::Object(picked(result, fields)).to_string());
    filter.apply_json(results).iter().map(shown).collect()
}

pub(super) fn videos(reply: &Value, filter: &Filter<'_>) -> CallToolResult {
    let fields: Fields<'_> = &[
        ("url", &["url"]),
        ("title", &["title"]),
        ("description", &["description"]),
        ("duration", &["video", "duration"]),
        ("thumbnail_url", &["thumbnail", "src"]),
    ];
    CallToolResult::success(blocks_of(&reply["results"], fields, filter))
}

pub(super) fn news(reply: &Value, filter: &Filter<'_>) -> CallToolResult {
    let fields: Fields<'_> = &[
        ("url", &["url"]),
        ("title", &["title"]),
        ("age", &["age"]),
        ("page_age", &["page_age"]),
        ("breaking", &["breaking"]),
        ("description", &["description"]),
        ("extra_snippets", &["extra_snippets"]),
        ("thumbnail", &["thumbnail", "src"]),
    ];
    let mut results = reply["results"].clone();
    for result in results.as_array_mut().into_iter().flatten() {
        if result.get("breaking").is_none_or(Value::is_null) {
            result["breaking"] = json!(false);
        }
    }
    CallToolResult::success(blocks_of(&results, fields, filter))
}

pub(super) fn images(reply: &Value, filter: &Filter<'_>) -> CallToolResult {
    let items: Vec<Value> = filter.apply_json(&reply["results"]).iter().filter_map(image).collect();
    let payload = json!({
        "type": "object",
        "items": items,
        "count": items.len(),
        "might_be_offensive": reply["extra"]["might_be_offensive"].as_bool().unwrap_or_default(),
    });
    with_text(payload)
}

/// `None` for a result that lacks what the official server insists on.
fn image(result: &Value) -> Option<Value> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let pixels = |value: &Value| value.as_u64().filter(|pixels| *pixels > 0);
    let properties = &result["properties"];
    Some(json!({
        "title": text(&result["title"])?,
        "url": text(&result["url"])?,
        "page_fetched": text(&result["page_fetched"])?,
        "confidence": text(&result["confidence"])?,
        "properties": {
            "url": text(&properties["url"])?,
            "width": pixels(&properties["width"])?,
            "height": pixels(&properties["height"])?,
        },
    }))
}

pub(super) fn context(mut reply: Value, filter: &Filter<'_>) -> CallToolResult {
    for list in ["generic", "map"] {
        let kept = filter.apply_json(&reply["grounding"][list]);
        if let Some(known) = reply["grounding"].get_mut(list) {
            *known = Value::Array(kept);
        }
    }
    let blocked = |url: &String| {
        url::Url::parse(url).is_ok_and(|url| filter.integrity.block_list.blocks(&url).is_some())
    };
    if let Some(sources) = reply["sources"].as_object_mut() {
        sources.retain(|url, _| !blocked(url));
    }
    // Nothing else is in the official server's schema.
    let shown = picked(&reply, &[("grounding", &["grounding"]), ("sources", &["sources"])]);
    with_text(Value::Object(shown))
}

pub(super) fn places(reply: Value) -> CallToolResult {
    with_text(reply)
}

/// Structured, and the same as text.
fn with_text(payload: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(payload.to_string())]);
    result.structured_content = Some(payload);
    result
}
