//! Serper: Google's results.

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use url::Url;

use super::super::api::{Api, ApiError, Send};
use super::super::results::{Hit, Names, hits};
use super::{Engine, WebQuery};
use crate::toolset::Log;

const KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

pub(in crate::search) struct Serper {
    pub(in crate::search) api: Api,
    pub(in crate::search) base: Url,
    pub(in crate::search) key: HeaderValue,
}

#[async_trait]
impl Engine for Serper {
    fn name(&self) -> &'static str {
        "serper"
    }

    async fn search(&self, query: &WebQuery, log: &Log) -> Result<Vec<Hit>, ApiError> {
        let mut body = json!({ "q": query.text(), "num": query.count(), "page": query.offset() + 1 });
        if let Some(language) = query.language() {
            body["hl"] = json!(language);
        }
        if let Some(country) = query.country() {
            body["gl"] = json!(country.to_lowercase());
        }
        if let Some(period) = query.period() {
            body["tbs"] = json!(format!("qdr:{}", &period[..1]));
        }
        let headers = HeaderMap::from_iter([(KEY_HEADER, self.key.clone())]);
        let reply = self.api.send(&self.base, "/search", &Send::Post(&body), &headers, log).await?;
        let names = Names { url: "link", description: "snippet", date: "date" };
        Ok(hits(&reply["organic"], &names).collect())
    }
}
