//! Brave's interface: the search itself, places and summaries.

use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, header};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};
use url::Url;

use super::SearchError;
use super::api::{Api, ApiError, Send};
use super::engine::{Engine, WebQuery};
use super::parameters::Given;
use super::render::web_blocks;
use super::results::{Filter, Hit};
use crate::toolset::{Log, failure};

/// As the official server asks for a summary that is being written.
const SUMMARY_ATTEMPTS: u32 = 20;
const SUMMARY_INTERVAL: Duration = Duration::from_millis(50);
/// Places that are described in one request.
const MAX_PLACES: usize = 20;

#[derive(Debug)]
pub(super) struct Brave {
    api: Api,
    base: Url,
    key: HeaderValue,
}

impl Brave {
    pub(super) fn new(api: Api, base: Url, key: &str) -> Result<Self, String> {
        let mut key: HeaderValue =
            key.parse().map_err(|_| "BRAVE_API_KEY cannot be sent as a header".to_owned())?;
        key.set_sensitive(true);
        Ok(Self { api, base, key })
    }

    pub(super) async fn ask(&self, path: &str, given: &Given, log: &Log) -> Result<Value, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert("x-subscription-token", self.key.clone());
        headers.extend(given.headers.clone());
        self.api.send(&self.base, path, &Send::Get(&given.query), &headers, log).await
    }
}

#[async_trait]
impl Engine for std::sync::Arc<Brave> {
    fn name(&self) -> &'static str {
        "brave"
    }

    async fn search(&self, query: &WebQuery, log: &Log) -> Result<Vec<Hit>, ApiError> {
        let reply = self.ask("/res/v1/web/search", &query.given, log).await?;
        let results = reply["web"]["results"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(results
            .iter()
            .map(|result| Hit {
                url: text(&result["url"]),
                title: text(&result["title"]),
                description: text(&result["description"]),
                extra_snippets: result["extra_snippets"].as_array().into_iter().flatten().map(text).collect(),
                date: result["page_age"].as_str().or_else(|| result["age"].as_str()).map(ToOwned::to_owned),
            })
            .collect())
    }
}

/// Places, else pages, as the official server does it.
pub(super) async fn local(
    brave: &Brave,
    given: &Given,
    filter: &Filter<'_>,
    log: &Log,
) -> Result<CallToolResult, SearchError> {
    let mut given = given.clone();
    if let Some(kinds) = given.get("result_filter") {
        let kinds = format!("{kinds},web,locations");
        given.set("result_filter", kinds);
    }
    let reply = brave.ask("/res/v1/web/search", &given, log).await?;
    let places = reply["locations"]["results"].as_array().cloned().unwrap_or_default();
    let ids: Vec<String> = places
        .iter()
        .filter_map(|place| place["id"].as_str())
        .take(MAX_PLACES)
        .map(ToOwned::to_owned)
        .collect();
    if ids.is_empty() {
        let pages = web_blocks(&reply["web"]["results"], filter);
        if pages.is_empty() {
            let text = "No location data was returned. User's plan does not support local search, or the query may be \
                        unclear.";
            return Ok(CallToolResult::success(vec![ContentBlock::text(text.to_owned())]));
        }
        let text = "No location data was returned. Either the user's plan does not support local search, or the API was \
                    unable to find locations for the provided query. Falling back to general web search.";
        let mut blocks = vec![ContentBlock::text(text.to_owned())];
        blocks.extend(pages);
        return Ok(CallToolResult::success(blocks));
    }
    let query = ids.into_iter().map(|id| ("ids".to_owned(), id)).collect();
    let wanted = Given { query, headers: HeaderMap::new() };
    let described = brave.ask("/res/v1/local/descriptions", &wanted, log).await?;
    let blocks =
        places.iter().map(|place| ContentBlock::text(place_json(place, &described["results"]).to_string()));
    Ok(CallToolResult::success(blocks.collect()))
}

fn place_json(place: &Value, descriptions: &Value) -> Value {
    let description = descriptions
        .as_array()
        .into_iter()
        .flatten()
        .find(|description| description["id"] == place["id"])
        .map(|description| description["description"].clone());
    let fields = [
        ("name", Some(place["title"].clone())),
        ("price_range", Some(place["price_range"].clone())),
        ("phone", Some(place["contact"]["telephone"].clone())),
        ("rating", Some(place["rating"]["ratingValue"].clone())),
        ("hours", opening_hours(&place["opening_hours"])),
        ("rating_count", Some(place["rating"]["reviewCount"].clone())),
        ("description", description),
        ("address", Some(place["postal_address"]["displayAddress"].clone())),
    ];
    let there = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.filter(|value| !value.is_null())?)));
    Value::Object(there.collect())
}

/// `{"today (monday)": "10:00-18:00", "tuesday": …}`; `None` when nothing is known.
fn opening_hours(hours: &Value) -> Option<Value> {
    let mut days: Map<String, Value> = Map::new();
    let mut add = |name: String, span: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let span = format!("{}-{}", text(&span["opens"]), text(&span["closes"]));
        match days.get_mut(&name).and_then(|known| known.as_str().map(|known| format!("{known}, {span}"))) {
            Some(joined) => drop(days.insert(name, json!(joined))),
            None => drop(days.insert(name, json!(span))),
        }
    };
    let day_name = |span: &Value| span["full_name"].as_str().unwrap_or_default().to_lowercase();
    let today = hours["current_day"].as_array().cloned().unwrap_or_default();
    let today_name = today.first().map(|span| format!("today ({})", day_name(span)));
    for span in &today {
        add(today_name.clone().unwrap_or_default(), span);
    }
    for day in hours["days"].as_array().into_iter().flatten() {
        let spans = day.as_array().cloned().unwrap_or_else(|| vec![day.clone()]);
        for span in &spans {
            add(day_name(span), span);
        }
    }
    (!days.is_empty()).then_some(Value::Object(days))
}

/// Asked for until it is written.
pub(super) async fn summary(brave: &Brave, given: &Given, log: &Log) -> CallToolResult {
    for _ in 0..SUMMARY_ATTEMPTS {
        match brave.ask("/res/v1/summarizer/search", given, log).await {
            Ok(reply) if reply["status"] == "complete" => {
                let parts = reply["summary"].as_array().cloned().unwrap_or_default();
                let text: String = parts
                    .iter()
                    .map(|part| match part["type"].as_str() {
                        Some("token") => part["data"].as_str().unwrap_or_default().to_owned(),
                        Some("inline_reference") => {
                            format!(" ({})", part["data"]["url"].as_str().unwrap_or_default())
                        }
                        _ => String::new(),
                    })
                    .collect();
                if parts.is_empty() {
                    break;
                }
                return CallToolResult::success(vec![ContentBlock::text(text)]);
            }
            Ok(_) | Err(_) => tokio::time::sleep(SUMMARY_INTERVAL).await,
        }
    }
    failure("Unable to retrieve a Summarizer summary.")
}
