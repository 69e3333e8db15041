//! Tavily.

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, header};
use serde_json::json;
use url::Url;

use super::super::api::{Api, ApiError, Send};
use super::super::results::{Hit, Names, hits};
use super::{Engine, WebQuery};
use crate::toolset::Log;

pub(in crate::search) struct Tavily {
    pub(in crate::search) api: Api,
    pub(in crate::search) base: Url,
    /// `Bearer …`
    pub(in crate::search) key: HeaderValue,
}

#[async_trait]
impl Engine for Tavily {
    fn name(&self) -> &'static str {
        "tavily"
    }

    async fn search(&self, query: &WebQuery, log: &Log) -> Result<Vec<Hit>, ApiError> {
        // It has no pages: what lies before the wanted one is left out here.
        let skipped = query.offset() * query.count();
        let mut body = json!({ "query": query.text(), "max_results": (skipped + query.count()).min(20) });
        if let Some(period) = query.period() {
            body["time_range"] = json!(period);
        }
        if let Some((first, last)) = query.days() {
            body["start_date"] = json!(first);
            body["end_date"] = json!(last);
        }
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, self.key.clone())]);
        let reply = self.api.send(&self.base, "/search", &Send::Post(&body), &headers, log).await?;
        let names = Names { url: "url", description: "content", date: "published_date" };
        Ok(hits(&reply["results"], &names).skip(skipped).collect())
    }
}
