//! SearXNG: a metasearch engine that people run themselves, without a key.

use async_trait::async_trait;
use http::HeaderMap;
use url::Url;

use super::super::api::{Api, ApiError, Send};
use super::super::results::{Hit, Names, hits};
use super::{Engine, WebQuery};
use crate::toolset::Log;

pub(in crate::search) struct Searxng {
    pub(in crate::search) api: Api,
    pub(in crate::search) base: Url,
}

#[async_trait]
impl Engine for Searxng {
    fn name(&self) -> &'static str {
        "searxng"
    }

    async fn search(&self, query: &WebQuery, log: &Log) -> Result<Vec<Hit>, ApiError> {
        let mut pairs = vec![
            ("q".to_owned(), query.text().to_owned()),
            ("format".to_owned(), "json".to_owned()),
            ("pageno".to_owned(), (query.offset() + 1).to_string()),
        ];
        pairs.extend(query.language().map(|language| ("language".to_owned(), language.to_owned())));
        pairs.extend(query.period().map(|period| ("time_range".to_owned(), period.to_owned())));
        let reply = self.api.send(&self.base, "/search", &Send::Get(&pairs), &HeaderMap::new(), log).await?;
        let names = Names { url: "url", description: "content", date: "publishedDate" };
        Ok(hits(&reply["results"], &names).take(query.count()).collect())
    }
}
