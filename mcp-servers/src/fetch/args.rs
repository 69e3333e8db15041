//! The command line of the fetch server: every flag of the reference server, and ours.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use gaia_sandbox::{AddressRange, SystemResolver};

use super::Fetch;
use super::converters::Converters;
use super::media::Downloads;
use super::worker::Worker;
use crate::serve::{ServeArgs, ServeError, Start};
use crate::web::cache::Cache;
use crate::web::client::{Limits, Proxies, WebClient, WebOptions};
use crate::web::integrity::{Integrity, IntegrityArgs, QUESTION_VARIABLE};
use crate::web::robots::RobotsRule;

/// User agents of the reference server, which site owners know.
const AUTONOMOUS: &str =
    "ModelContextProtocol/1.0 (Autonomous; +https://github.com/modelcontextprotocol/servers)";
const USER_SPECIFIED: &str =
    "ModelContextProtocol/1.0 (User-Specified; +https://github.com/modelcontextprotocol/servers)";

/// MCP server that fetches pages and documents as text; a drop-in for mcp-server-fetch
#[derive(Debug, Clone, Parser)]
#[command(name = "gaia-mcp-fetch", version)]
pub struct FetchArgs {
    /// Custom User-Agent string
    #[arg(long, value_name = "TEXT")]
    pub user_agent: Option<String>,

    /// Ignore robots.txt restrictions
    #[arg(long)]
    pub ignore_robots_txt: bool,

    /// Proxy for all requests (http, https, socks5); the default are HTTP_PROXY, HTTPS_PROXY and ALL_PROXY
    #[arg(long, value_name = "URL")]
    pub proxy_url: Option<String>,

    /// Allow all private, loopback and link-local addresses
    #[arg(long)]
    pub allow_private_ips: bool,

    /// Allow a range of private addresses, such as 10.1.0.0/16 (repeatable)
    #[arg(long, value_name = "CIDR")]
    pub allow_private: Vec<AddressRange>,

    /// Bytes of one page or document, after decompression
    #[arg(long, value_name = "BYTES", default_value_t = 50 * 1024 * 1024, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_bytes: u64,

    /// Seconds for one page, with redirects and waits for a busy server
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub timeout_sec: u64,

    /// Folder that keeps pages for all servers that are given the same one, such as those of the samples of a run
    #[arg(long, value_name = "DIR", env = "GAIA_WEB_CACHE", hide_env_values = true)]
    pub cache_dir: Option<OsString>,

    /// Seconds for which a kept page is not asked for again when it does not say so itself
    #[arg(long, value_name = "N", default_value_t = 600)]
    pub cache_fresh_sec: u64,

    /// Bytes of all kept pages together; the oldest make room for new ones
    #[arg(long, value_name = "BYTES", default_value_t = MAX_CACHE_BYTES)]
    pub cache_max_bytes: u64,

    /// Folder for files that are not text, such as recordings; the default is the folder `fetched` in that of the
    /// sample's files
    #[arg(long, value_name = "DIR")]
    pub save_dir: Option<OsString>,

    /// Folder of the sample's files, which other tools see as /shared_files
    #[arg(long, value_name = "DIR", env = "GAIA_FILES_DIR", hide_env_values = true)]
    pub files_dir: Option<OsString>,

    /// Archive that the tool `archive` asks: the Wayback Machine, or a server with its interface
    #[arg(long, value_name = "URL", default_value = "https://web.archive.org")]
    pub archive_url: String,

    #[command(flatten)]
    pub integrity: IntegrityArgs,

    #[command(flatten)]
    pub serve: ServeArgs,
}

/// A run of all questions reads some thousands of pages and documents, of which few are larger than a megabyte.
const MAX_CACHE_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// All there is: an empty prefix holds every address of its kind.
const EVERYTHING: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// Starts the server.
pub async fn start(args: FetchArgs) -> Result<Start<Fetch>, ServeError> {
    let question = std::env::var(QUESTION_VARIABLE).ok();
    let integrity = Integrity::new(&args.integrity, question.as_deref())
        .map_err(|error| ServeError::Usage(error.to_string()))?;
    let variable = |name: &str| std::env::var(name).ok();
    let proxies = Proxies::new(args.proxy_url.as_deref(), variable)
        .map_err(|setting| ServeError::Usage(format!("{setting} is not the URL of a proxy")))?;
    let mut allowed = args.allow_private.clone();
    if args.allow_private_ips {
        allowed.extend(EVERYTHING.iter().filter_map(|range| range.parse::<AddressRange>().ok()));
    }
    // An empty variable is the usual way to unset one.
    let folder =
        |given: &Option<OsString>| given.clone().filter(|given| !given.is_empty()).map(PathBuf::from);
    let cache = match folder(&args.cache_dir) {
        Some(folder) => Some(
            Cache::open(&folder, Duration::from_secs(args.cache_fresh_sec), args.cache_max_bytes)
                .map_err(|error| ServeError::Environment(format!("failed to open the cache: {error}")))?,
        ),
        None => None,
    };
    let web = WebClient::new(WebOptions {
        allowed,
        resolver: Arc::new(SystemResolver),
        proxies,
        block_list: integrity.block_list.clone(),
        cache,
        limits: Limits { body_bytes: args.max_bytes, time: Duration::from_secs(args.timeout_sec) },
    })
    .map_err(ServeError::Usage)?;
    let worker = Worker::of_this_program()
        .map_err(|error| ServeError::Unexpected(format!("failed to find this program: {error}")))?;
    let archive = url::Url::parse(&args.archive_url)
        .map_err(|error| ServeError::Usage(format!("--archive-url `{}`: {error}", args.archive_url)))?;
    let agent = |default: &str| args.user_agent.clone().unwrap_or_else(|| default.to_owned());
    tracing::info!("{}", integrity.description());
    Ok(Start::Serve(Fetch::new(super::Settings {
        web,
        worker,
        converters: Converters::of_this_machine(),
        integrity,
        archive,
        downloads: Downloads::new(folder(&args.save_dir), folder(&args.files_dir)),
        robots: if args.ignore_robots_txt { RobotsRule::Ignore } else { RobotsRule::Obey },
        autonomous_agent: agent(AUTONOMOUS),
        user_agent: agent(USER_SPECIFIED),
    })))
}
