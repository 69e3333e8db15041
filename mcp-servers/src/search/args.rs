//! The command line of the search server.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Once};

use clap::{Parser, ValueEnum};
use http::HeaderValue;
use url::Url;

use super::api::Api;
use super::brave::Brave;
use super::engine::{Engine, Exa, Fixture, Searxng, Serper, Tavily};
use super::limiter::Limiter;
use super::{Search, Style, offer};
use crate::serve::{ServeArgs, ServeError, Start};
use crate::web::integrity::{Integrity, IntegrityArgs, QUESTION_VARIABLE};

/// MCP server that searches the web with Brave's tools, over Brave or other engines
///
/// Keys are read from the environment only: BRAVE_API_KEY, TAVILY_API_KEY, SERPER_API_KEY, EXA_API_KEY.
#[derive(Debug, Clone, Parser)]
#[command(name = "gaia-mcp-search", version)]
pub struct SearchArgs {
    /// Engines, asked one after the other until one answers, with commas between
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "brave")]
    pub engine: Vec<EngineName>,

    /// Offer the two tools of the older @modelcontextprotocol/server-brave-search, with its texts
    #[arg(long)]
    pub legacy: bool,

    /// Tools to offer, of all that there are (repeatable, or with spaces between)
    #[arg(long, value_name = "NAME", env = "BRAVE_MCP_ENABLED_TOOLS", value_delimiter = ' ', num_args = 1.., hide_env_values = true)]
    pub enabled_tools: Vec<String>,

    /// Tools not to offer (repeatable, or with spaces between)
    #[arg(long, value_name = "NAME", env = "BRAVE_MCP_DISABLED_TOOLS", value_delimiter = ' ', num_args = 1.., conflicts_with = "enabled_tools", hide_env_values = true)]
    pub disabled_tools: Vec<String>,

    /// Requests a second that the plan of a paid engine allows; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    pub requests_per_sec: f64,

    /// Index of the engine `fixture`: JSON lines with url, title, description, and date
    #[arg(long, value_name = "FILE", env = "GAIA_SEARCH_FIXTURE", hide_env_values = true)]
    pub fixture: Option<OsString>,

    /// Root of a SearXNG server, whose settings must allow the format json
    #[arg(
        long,
        value_name = "URL",
        env = "SEARXNG_URL",
        default_value = "http://127.0.0.1:8888",
        hide_env_values = true
    )]
    pub searxng_url: Url,

    /// Root of Brave's interface
    #[arg(long, value_name = "URL", default_value = "https://api.search.brave.com")]
    pub brave_url: Url,

    /// Root of Tavily's interface
    #[arg(long, value_name = "URL", default_value = "https://api.tavily.com")]
    pub tavily_url: Url,

    /// Root of Serper's interface
    #[arg(long, value_name = "URL", default_value = "https://google.serper.dev")]
    pub serper_url: Url,

    /// Root of Exa's interface
    #[arg(long, value_name = "URL", default_value = "https://api.exa.ai")]
    pub exa_url: Url,

    #[command(flatten)]
    pub integrity: IntegrityArgs,

    #[command(flatten)]
    pub serve: ServeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    Brave,
    Searxng,
    Tavily,
    Serper,
    Exa,
    /// A file instead of the web
    Fixture,
}

/// Starts the server.
pub async fn start(args: SearchArgs) -> Result<Start<Search>, ServeError> {
    let question = std::env::var(QUESTION_VARIABLE).ok();
    let integrity = Integrity::new(&args.integrity, question.as_deref())
        .map_err(|error| ServeError::Usage(error.to_string()))?;
    let mut engines: Vec<Box<dyn Engine>> = Vec::new();
    let mut brave = None;
    for name in &args.engine {
        match name {
            EngineName::Brave => {
                let made = Arc::new(make_brave(&args)?);
                brave = Some(made.clone());
                engines.push(Box::new(made));
            }
            other => engines.push(make_engine(*other, &args)?),
        }
    }
    let style = if args.legacy { Style::Legacy } else { Style::Official };
    let tools = match style {
        Style::Legacy => offer::legacy(),
        // Other engines have what all have.
        Style::Official if brave.is_none() => vec![offer::WEB.tool()],
        Style::Official => offer::ALL.iter().map(|offer| offer.tool()).collect(),
    };
    let known: Vec<String> = tools.iter().map(|tool| tool.name.to_string()).collect();
    let named = |names: &[String]| -> Vec<String> {
        names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
    };
    let (enabled, disabled) = (named(&args.enabled_tools), named(&args.disabled_tools));
    if let Some(unknown) = enabled.iter().chain(&disabled).find(|name| !known.contains(name)) {
        return Err(ServeError::Usage(format!(
            "there is no tool `{unknown}`; there are: {}",
            known.join(", ")
        )));
    }
    let is_offered = |name: &str| {
        if enabled.is_empty() {
            !disabled.iter().any(|known| known == name)
        } else {
            enabled.iter().any(|known| known == name)
        }
    };
    let tools = tools.into_iter().filter(|tool| is_offered(&tool.name)).collect();
    tracing::info!("{}", integrity.description());
    Ok(Start::Serve(Search { tools, style, engines, brave, integrity, announced: Once::new() }))
}

fn api(args: &SearchArgs, name: EngineName) -> Result<Api, ServeError> {
    let is_limited = !matches!(name, EngineName::Searxng | EngineName::Fixture);
    let rate = (is_limited && args.requests_per_sec > 0.0).then_some(args.requests_per_sec);
    Api::new(Limiter::new(rate)).map_err(ServeError::Unexpected)
}

fn key(variable: &str) -> Result<String, ServeError> {
    let value =
        std::env::var(variable).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    value.ok_or_else(|| {
        ServeError::Environment(format!(
            "{variable} is not set; put the engine's key there, or choose another --engine"
        ))
    })
}

fn header(variable: &str, scheme: &str) -> Result<HeaderValue, ServeError> {
    let mut value: HeaderValue = format!("{scheme}{}", key(variable)?)
        .parse()
        .map_err(|_| ServeError::Environment(format!("{variable} cannot be sent as a header")))?;
    value.set_sensitive(true);
    Ok(value)
}

fn make_brave(args: &SearchArgs) -> Result<Brave, ServeError> {
    let key = key("BRAVE_API_KEY")?;
    Brave::new(api(args, EngineName::Brave)?, args.brave_url.clone(), &key).map_err(ServeError::Environment)
}

fn make_engine(name: EngineName, args: &SearchArgs) -> Result<Box<dyn Engine>, ServeError> {
    let api = api(args, name)?;
    Ok(match name {
        EngineName::Brave => Box::new(Arc::new(make_brave(args)?)),
        EngineName::Searxng => Box::new(Searxng { api, base: args.searxng_url.clone() }),
        EngineName::Tavily => {
            Box::new(Tavily { api, base: args.tavily_url.clone(), key: header("TAVILY_API_KEY", "Bearer ")? })
        }
        EngineName::Serper => {
            Box::new(Serper { api, base: args.serper_url.clone(), key: header("SERPER_API_KEY", "")? })
        }
        EngineName::Exa => Box::new(Exa { api, base: args.exa_url.clone(), key: header("EXA_API_KEY", "")? }),
        EngineName::Fixture => {
            let file = args.fixture.as_ref();
            let file =
                file.ok_or_else(|| ServeError::Usage("--engine fixture needs --fixture FILE".to_owned()))?;
            Box::new(Fixture::load(Path::new(file)).map_err(ServeError::Environment)?)
        }
    })
}
