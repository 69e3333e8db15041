//! Exa: search by meaning.

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use url::Url;

use super::super::api::{Api, ApiError, Send};
use super::super::results::{Hit, Names, hits};
use super::{Engine, WebQuery};
use crate::toolset::Log;

const KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");
/// Characters of a page that stand for it.
const EXCERPT_CHARS: u32 = 500;

pub(in crate::search) struct Exa {
    pub(in crate::search) api: Api,
    pub(in crate::search) base: Url,
    pub(in crate::search) key: HeaderValue,
}

#[async_trait]
impl Engine for Exa {
    fn name(&self) -> &'static str {
        "exa"
    }

    async fn search(&self, query: &WebQuery, log: &Log) -> Result<Vec<Hit>, ApiError> {
        // It has no pages: what lies before the wanted one is left out here.
        let skipped = query.offset() * query.count();
        let mut body = json!({
            "query": query.text(),
            "numResults": (skipped + query.count()).min(100),
            "contents": { "text": { "maxCharacters": EXCERPT_CHARS } },
        });
        if let Some((first, last)) = query.days() {
            body["startPublishedDate"] = json!(first);
            body["endPublishedDate"] = json!(last);
        }
        let headers = HeaderMap::from_iter([(KEY_HEADER, self.key.clone())]);
        let reply = self.api.send(&self.base, "/search", &Send::Post(&body), &headers, log).await?;
        let names = Names { url: "url", description: "text", date: "publishedDate" };
        Ok(hits(&reply["results"], &names).skip(skipped).collect())
    }
}
