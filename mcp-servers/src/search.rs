//! The search server: the tools of both Brave servers over any of several engines.

mod api;
mod args;
mod brave;
mod engine;
mod legacy;
mod limiter;
mod offer;
mod parameters;
mod render;
mod results;

use std::sync::Once;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool};
use serde_json::json;

use crate::arguments::{ArgumentError, Arguments};
use crate::toolset::{Call, Identity, LogLevel, Logging, Toolset, failure};
use crate::web::integrity::Integrity;

use api::ApiError;
pub use args::{SearchArgs, start};
use brave::Brave;
use engine::{Engine, WebQuery};
use results::{Filter, Hit};

/// The search server.
pub struct Search {
    tools: Vec<Tool>,
    style: Style,
    /// Asked one after the other until one answers.
    engines: Vec<Box<dyn Engine>>,
    /// For what only Brave offers.
    brave: Option<std::sync::Arc<Brave>>,
    integrity: Integrity,
    announced: Once,
}

/// Whose tools and texts are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `@brave/brave-search-mcp-server`.
    Official,
    /// `@modelcontextprotocol/server-brave-search`.
    Legacy,
}

/// Why a search has no result: a text for the model.
#[derive(Debug, thiserror::Error)]
enum SearchError {
    #[error("{0}")]
    Argument(#[from] ArgumentError),
    #[error("{0}")]
    Api(#[from] ApiError),
    #[error("no search engine answered: {0}")]
    AllFailed(String),
    #[error("cancelled")]
    Cancelled,
}

impl Search {
    /// From the first engine that answers.
    async fn hits(&self, query: &WebQuery, call: &Call) -> Result<Vec<Hit>, SearchError> {
        let mut failures = Vec::new();
        for engine in &self.engines {
            match engine.search(query, &call.log).await {
                Ok(hits) => return Ok(hits),
                Err(error) => {
                    // One engine's own words are its reference server's.
                    if self.engines.len() == 1 {
                        return Err(SearchError::Api(error));
                    }
                    let line =
                        json!({ "engine_failed": { "engine": engine.name(), "error": error.to_string() } });
                    call.log.write(LogLevel::Warning, line);
                    failures.push(format!("{}: {error}", engine.name()));
                }
            }
        }
        Err(SearchError::AllFailed(failures.join("; ")))
    }

    fn filter<'a>(&'a self, call: &'a Call) -> Filter<'a> {
        Filter { integrity: &self.integrity, log: &call.log }
    }

    async fn web(&self, arguments: JsonObject, call: &Call) -> Result<CallToolResult, SearchError> {
        let given = parameters::read(&offer::WEB, arguments)?;
        // Brave alone also returns questions, discussions and the like.
        if let ([_], Some(brave)) = (&self.engines[..], &self.brave) {
            let reply = brave.ask("/res/v1/web/search", &given, &call.log).await?;
            return Ok(render::web(&reply, &self.filter(call)));
        }
        let hits = self.hits(&WebQuery::new(&given), call).await?;
        let hits = self.filter(call).apply(hits);
        Ok(render::hits(&hits))
    }

    async fn official(
        &self,
        tool: &str,
        arguments: JsonObject,
        call: &Call,
    ) -> Result<CallToolResult, SearchError> {
        if tool == "brave_web_search" {
            return self.web(arguments, call).await;
        }
        // Offered only when Brave is among the engines.
        let Some(brave) = &self.brave else {
            return Err(ArgumentError::new(format!("`{tool}` needs the engine brave")).into());
        };
        let filter = self.filter(call);
        let read = |offered: &offer::Offer, arguments| parameters::read(offered, arguments);
        let log = &call.log;
        match tool {
            "brave_local_search" => brave::local(brave, &read(&offer::LOCAL, arguments)?, &filter, log).await,
            "brave_video_search" => {
                let reply = brave.ask("/res/v1/videos/search", &read(&offer::VIDEO, arguments)?, log).await?;
                Ok(render::videos(&reply, &filter))
            }
            "brave_image_search" => {
                let reply = brave.ask("/res/v1/images/search", &read(&offer::IMAGE, arguments)?, log).await?;
                Ok(render::images(&reply, &filter))
            }
            "brave_news_search" => {
                let reply = brave.ask("/res/v1/news/search", &read(&offer::NEWS, arguments)?, log).await?;
                Ok(render::news(&reply, &filter))
            }
            "brave_summarizer" => Ok(brave::summary(brave, &read(&offer::SUMMARY, arguments)?, log).await),
            "brave_llm_context" => {
                let reply = brave.ask("/res/v1/llm/context", &read(&offer::CONTEXT, arguments)?, log).await?;
                Ok(render::context(reply, &filter))
            }
            _ => {
                let reply =
                    brave.ask("/res/v1/local/place_search", &read(&offer::PLACE, arguments)?, log).await?;
                Ok(render::places(reply))
            }
        }
    }

    async fn run(
        &self,
        tool: &str,
        arguments: JsonObject,
        call: &Call,
    ) -> Result<CallToolResult, SearchError> {
        let work = async {
            match self.style {
                Style::Official => self.official(tool, arguments, call).await,
                Style::Legacy => self.legacy(tool, arguments, call).await,
            }
        };
        tokio::select! {
            biased;
            () = call.cancel.cancelled() => Err(SearchError::Cancelled),
            result = work => result,
        }
    }

    async fn legacy(
        &self,
        tool: &str,
        arguments: JsonObject,
        call: &Call,
    ) -> Result<CallToolResult, SearchError> {
        let arguments = Arguments::new(arguments, &["query", "count", "offset"])?;
        let query = arguments.required_text("query")?;
        let asked = arguments.integer("count", 1..=u64::MAX)?;
        let text = match (tool, &self.brave) {
            ("brave_local_search", Some(brave)) => {
                let count = asked.unwrap_or(5);
                match legacy::local(brave, &query, count, &call.log).await? {
                    Some(text) => text,
                    None => self.legacy_web(&query, count, call).await?,
                }
            }
            _ => self.legacy_web(&query, asked.unwrap_or(10), call).await?,
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
    }

    async fn legacy_web(&self, query: &str, count: u64, call: &Call) -> Result<String, SearchError> {
        let hits = self.hits(&WebQuery::plain(query, count.min(20)), call).await?;
        Ok(legacy::text(&self.filter(call).apply(hits)))
    }

    fn announce(&self, call: &Call) {
        self.announced.call_once(|| {
            let line = json!({ "integrity": self.integrity.description(), "engines": self.engine_names() });
            call.log.write(LogLevel::Info, line);
        });
    }

    fn engine_names(&self) -> Vec<&'static str> {
        self.engines.iter().map(|engine| engine.name()).collect()
    }
}

impl Toolset for Search {
    fn identity(&self) -> Identity {
        Identity {
            name: "gaia-mcp-search",
            title: "Search the web",
            instructions: format!(
                "Use this server to search the Web (engines: {}). This server's {}.",
                self.engine_names().join(", "),
                self.integrity.description()
            ),
        }
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn logging(&self) -> Logging {
        Logging::ToClient
    }

    async fn call(&self, tool: &str, arguments: JsonObject, call: Call) -> CallToolResult {
        self.announce(&call);
        let failed = |error: SearchError| match self.style {
            Style::Official => error.to_string(),
            Style::Legacy => legacy::failure_text(&error),
        };
        self.run(tool, arguments, &call).await.unwrap_or_else(|error| failure(failed(error)))
    }
}
