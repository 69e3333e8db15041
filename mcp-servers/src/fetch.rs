//! The fetch server: pages and documents of the web as text, a drop-in for mcp-server-fetch.

pub mod allocator;
mod archived;
mod args;
pub mod charset;
mod converters;
pub mod documents;
mod find;
pub mod html;
pub mod kind;
mod links;
mod load;
mod media;
mod output;
pub mod paging;
mod tools;
pub mod worker;

use std::sync::Once;

use rmcp::model::{CallToolResult, JsonObject, Prompt, Tool};
use serde_json::json;
use url::Url;

use crate::arguments::{ArgumentError, Arguments};
use crate::toolset::{Call, Identity, LogLevel, Logging, Toolset, failure};
use crate::web::client::WebClient;
use crate::web::error::WebError;
use crate::web::guard::Guard;
use crate::web::integrity::Integrity;
use crate::web::robots::RobotsRule;

pub use args::{FetchArgs, start};
use converters::Converters;
use documents::{Cells, Wanted};
use load::{Content, Mode, Recent, Wish};
use media::Downloads;
use worker::Worker;

/// The fetch server.
#[derive(Debug)]
pub struct Fetch {
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
    settings: Settings,
    recent: Recent,
    /// The first call says which rules are in force.
    announced: Once,
}

#[derive(Debug)]
struct Settings {
    web: WebClient,
    worker: Worker,
    converters: Converters,
    integrity: Integrity,
    archive: Url,
    downloads: Downloads,
    robots: RobotsRule,
    /// For what a model asks.
    autonomous_agent: String,
    /// For what a person asks.
    user_agent: String,
}

/// Why a call has no result: a text for the model.
#[derive(Debug, Clone, thiserror::Error)]
enum FetchError {
    #[error("{0}")]
    Argument(#[from] ArgumentError),
    #[error("{0}")]
    Web(#[from] WebError),
    #[error("Failed to read {url}: {reason}")]
    Unreadable { url: String, reason: String },
}

impl Fetch {
    fn new(settings: Settings) -> Self {
        Self {
            tools: tools::tools(),
            prompts: tools::prompts(),
            settings,
            recent: Recent::default(),
            announced: Once::new(),
        }
    }

    async fn fetch(&self, arguments: JsonObject, call: &Call) -> Result<CallToolResult, FetchError> {
        let names = ["url", "max_length", "start_index", "raw", "mode", "cells"];
        let arguments = Arguments::new(arguments, &names)?;
        let url = address(&arguments)?;
        let (start, length) = range(&arguments)?;
        let mode = match arguments.choice("mode", &tools::MODES)?.as_deref() {
            _ if arguments.flag("raw")? == Some(true) => Mode::Raw,
            Some("full") => Mode::Full,
            Some("raw") => Mode::Raw,
            _ => Mode::Readable,
        };
        let cells = arguments.choice("cells", &Cells::NAMES)?.and_then(|name| Cells::parse(&name));
        let wish = Wish {
            url,
            mode,
            wanted: Wanted { cells: cells.unwrap_or_default() },
            robots: self.settings.robots,
        };
        let content =
            if start == 0 { self.load(&wish, call).await? } else { self.load_again(&wish, call).await? };
        Ok(output::fetched(&wish.url, &content, start, length))
    }

    async fn find(&self, arguments: JsonObject, call: &Call) -> Result<CallToolResult, FetchError> {
        let arguments = Arguments::new(arguments, &["url", "pattern", "context", "max_hits"])?;
        let url = address(&arguments)?;
        let request = find::Request::new(&arguments)?;
        let mut wish = Wish::new(url, Mode::Readable, self.settings.robots);
        let mut content = self.load_again(&wish, call).await?;
        // What the extraction left out is looked at as well, and is worth a second look alone.
        if content.is_part && !request.is_in(&content.text) {
            wish.mode = Mode::Full;
            content = self.load_again(&wish, call).await?;
        }
        Ok(request.run(&content))
    }

    async fn links(&self, arguments: JsonObject, call: &Call) -> Result<CallToolResult, FetchError> {
        let arguments = Arguments::new(arguments, &["url", "filter", "max_links"])?;
        let url = address(&arguments)?;
        let request = links::Request::new(&arguments)?;
        let wish = Wish::new(url, Mode::Full, self.settings.robots);
        let content = self.load_again(&wish, call).await?;
        Ok(request.run(&content))
    }

    async fn archive(&self, arguments: JsonObject, call: &Call) -> Result<CallToolResult, FetchError> {
        let arguments = Arguments::new(arguments, &["url", "date", "max_length", "start_index"])?;
        let url = address(&arguments)?;
        let (start, length) = range(&arguments)?;
        let stamp = archived::stamp(&arguments.required_text("date")?)?;
        let wish = Wish::new(
            archived::copy_url(&self.settings.archive, &stamp, &url),
            Mode::Readable,
            // The archive's interface is there to be asked.
            RobotsRule::Ignore,
        );
        let content = match self.load_again(&wish, call).await {
            Err(FetchError::Web(WebError::Status { status: 404, .. })) => {
                return Ok(failure(format!(
                    "the archive has no copy of {url}; try another address of the page"
                )));
            }
            loaded => loaded?,
        };
        Ok(output::archived(&url, &content, start, length))
    }

    async fn run(
        &self,
        tool: &str,
        arguments: JsonObject,
        call: &Call,
    ) -> Result<CallToolResult, FetchError> {
        match tool {
            "find" => self.find(arguments, call).await,
            "links" => self.links(arguments, call).await,
            "archive" => self.archive(arguments, call).await,
            _ => self.fetch(arguments, call).await,
        }
    }

    /// From what was just read, when a model pages through it; else anew.
    async fn load_again(&self, wish: &Wish, call: &Call) -> Result<std::sync::Arc<Content>, FetchError> {
        if let Some(content) = self.recent.get(wish) {
            return Ok(content);
        }
        self.load(wish, call).await
    }

    async fn load(&self, wish: &Wish, call: &Call) -> Result<std::sync::Arc<Content>, FetchError> {
        let content = load::load(&self.settings, wish, &self.settings.autonomous_agent, call).await?;
        if let Some(part) = &content.contamination {
            let line = json!({ "contaminated": {
                "url": crate::web::record::without_secrets(&content.url),
                "question_part": part,
            } });
            call.log.write(LogLevel::Warning, line);
        }
        let content = std::sync::Arc::new(content);
        self.recent.put(wish, &content);
        Ok(content)
    }

    fn announce(&self, call: &Call) {
        let integrity = &self.settings.integrity;
        self.announced
            .call_once(|| call.log.write(LogLevel::Info, json!({ "integrity": integrity.description() })));
    }
}

fn address(arguments: &Arguments) -> Result<Url, FetchError> {
    let text = arguments.required_text("url")?;
    Guard::parse(&text).map_err(|reason| FetchError::Web(WebError::Refused { url: text, reason }))
}

fn range(arguments: &Arguments) -> Result<(usize, usize), ArgumentError> {
    let start = arguments.integer("start_index", 0..=u64::MAX)?.unwrap_or_default();
    let length = arguments.integer("max_length", 1..=tools::MAX_LENGTH)?.unwrap_or(tools::DEFAULT_LENGTH);
    Ok((usize::try_from(start).unwrap_or(usize::MAX), usize::try_from(length).unwrap_or(usize::MAX)))
}

impl Toolset for Fetch {
    fn identity(&self) -> Identity {
        Identity {
            name: "gaia-mcp-fetch",
            title: "Fetch from the web",
            instructions: format!(
                "Fetch web pages and documents as text. This server's {}.",
                self.settings.integrity.description()
            ),
        }
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    fn logging(&self) -> Logging {
        Logging::ToClient
    }

    async fn call(&self, tool: &str, arguments: JsonObject, call: Call) -> CallToolResult {
        self.announce(&call);
        // The prefix is the reference server's.
        self.run(tool, arguments, &call)
            .await
            .unwrap_or_else(|error| failure(format!("Error executing tool {tool}: {error}")))
    }

    /// A person asked, so robots.txt does not matter, and a failure is the text of the prompt.
    async fn prompt(&self, _name: &str, arguments: JsonObject, call: Call) -> String {
        let loaded = async {
            let url = address(&Arguments::new(arguments, &["url"])?)?;
            let wish = Wish::new(url, Mode::Readable, RobotsRule::Ignore);
            load::load(&self.settings, &wish, &self.settings.user_agent, &call).await
        };
        match loaded.await {
            Ok(content) => format!("{}{}", content.prefix, content.text),
            Err(error) => error.to_string(),
        }
    }
}
