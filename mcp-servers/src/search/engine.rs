//! Engines behind one trait.

mod exa;
mod fixture;
mod searxng;
mod serper;
mod tavily;

use async_trait::async_trait;
use http::HeaderMap;

use super::api::ApiError;
use super::parameters::Given;
use super::results::Hit;
use crate::toolset::Log;

pub(super) use exa::Exa;
pub(super) use fixture::Fixture;
pub(super) use searxng::Searxng;
pub(super) use serper::Serper;
pub(super) use tavily::Tavily;

/// Searches the web.
#[async_trait]
pub(super) trait Engine: Send + Sync {
    fn name(&self) -> &'static str;

    async fn search(&self, query: &WebQuery, log: &Log) -> Result<Vec<Hit>, ApiError>;
}

/// What is searched for, in Brave's parameters; other engines translate what they can.
#[derive(Debug, Clone)]
pub(super) struct WebQuery {
    pub(super) given: Given,
}

impl WebQuery {
    pub(super) fn new(given: &Given) -> Self {
        Self { given: given.clone() }
    }

    /// As the older Brave server asks.
    pub(super) fn plain(text: &str, count: u64) -> Self {
        let pairs = [("q", text.to_owned()), ("count", count.to_string()), ("offset", "0".to_owned())];
        let query = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { given: Given { query, headers: HeaderMap::new() } }
    }

    pub(super) fn text(&self) -> &str {
        self.given.get("q").unwrap_or_default()
    }

    pub(super) fn count(&self) -> usize {
        self.given.get("count").and_then(|count| count.parse().ok()).unwrap_or(10)
    }

    /// Pages of results before the wanted one.
    pub(super) fn offset(&self) -> usize {
        self.given.get("offset").and_then(|offset| offset.parse().ok()).unwrap_or_default()
    }

    pub(super) fn language(&self) -> Option<&str> {
        self.given.get("search_lang")
    }

    pub(super) fn country(&self) -> Option<&str> {
        self.given.get("country")
    }

    /// The period that is meant, for engines that know days, weeks, months and years.
    pub(super) fn period(&self) -> Option<&'static str> {
        match self.given.get("freshness")? {
            "pd" => Some("day"),
            "pw" => Some("week"),
            "pm" => Some("month"),
            "py" => Some("year"),
            _ => None,
        }
    }

    /// First and last day of a range.
    pub(super) fn days(&self) -> Option<(&str, &str)> {
        self.given.get("freshness")?.split_once("to")
    }
}
