//! The texts of the older Brave server.

use http::HeaderMap;
use serde_json::Value;

use super::SearchError;
use super::api::ApiError;
use super::brave::Brave;
use super::parameters::Given;
use super::results::Hit;
use crate::toolset::Log;

pub(super) fn text(hits: &[Hit]) -> String {
    let shown =
        |hit: &Hit| format!("Title: {}\nDescription: {}\nURL: {}", hit.title, hit.description, hit.url);
    hits.iter().map(shown).collect::<Vec<_>>().join("\n\n")
}

/// The text of a failure.
pub(super) fn failure_text(error: &SearchError) -> String {
    match error {
        SearchError::Api(ApiError::Status { status, phrase, raw, .. }) => {
            format!("Error: Brave API error: {status} {phrase}\n{raw}")
        }
        other => format!("Error: {other}"),
    }
}

/// Places; `None` when there are none, and pages are searched for instead.
pub(super) async fn local(
    brave: &Brave,
    query: &str,
    count: u64,
    log: &Log,
) -> Result<Option<String>, SearchError> {
    let pairs = |pairs: &[(&str, &str)]| {
        let query = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Given { query, headers: HeaderMap::new() }
    };
    let count = count.min(20).to_string();
    let wanted =
        pairs(&[("q", query), ("search_lang", "en"), ("result_filter", "locations"), ("count", &count)]);
    let found = brave.ask("/res/v1/web/search", &wanted, log).await?;
    let results = found["locations"]["results"].as_array().cloned().unwrap_or_default();
    let ids: Vec<&str> = results.iter().filter_map(|place| place["id"].as_str()).collect();
    if ids.is_empty() {
        return Ok(None);
    }
    let by_id: Vec<(&str, &str)> = ids.iter().filter(|id| !id.is_empty()).map(|id| ("ids", *id)).collect();
    let places = brave.ask("/res/v1/local/pois", &pairs(&by_id), log).await?;
    let described = brave.ask("/res/v1/local/descriptions", &pairs(&by_id), log).await?;
    let shown: Vec<String> = places["results"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|place| place_text(place, &described["descriptions"]))
        .collect();
    Ok(Some(if shown.is_empty() { "No local results found".to_owned() } else { shown.join("\n---\n") }))
}

fn place_text(place: &Value, descriptions: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let absent = || "N/A".to_owned();
    let parts = ["streetAddress", "addressLocality", "addressRegion", "postalCode"];
    let address: Vec<String> = parts.iter().filter_map(|part| text(&place["address"][part])).collect();
    let hours: Vec<String> =
        place["openingHours"].as_array().into_iter().flatten().filter_map(text).collect();
    let joined = |parts: Vec<String>| if parts.is_empty() { absent() } else { parts.join(", ") };
    let id = place["id"].as_str().unwrap_or_default();
    format!(
        "Name: {}\nAddress: {}\nPhone: {}\nRating: {} ({} reviews)\nPrice Range: {}\nHours: {}\nDescription: {}\n",
        text(&place["name"]).unwrap_or_else(|| "undefined".to_owned()),
        joined(address),
        text(&place["phone"]).unwrap_or_else(absent),
        text(&place["rating"]["ratingValue"]).unwrap_or_else(absent),
        text(&place["rating"]["ratingCount"]).unwrap_or_else(|| "0".to_owned()),
        text(&place["priceRange"]).unwrap_or_else(absent),
        joined(hours),
        text(&descriptions[id]).unwrap_or_else(|| "No description available".to_owned()),
    )
}
