//! One request for a page, from the address to the whole body, over any number of hops.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use gaia_sandbox::{AddressRange, Resolve};
use http::{HeaderMap, StatusCode, header};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::block_list::BlockList;
use super::body::{self, BodyError};
use super::cache::{Cache, Kept};
use super::error::WebError;
use super::guard::{Guard, Proxied, refusal_in};
use super::polite::Hosts;
use super::record::{self, Purpose};
use super::retry::{self, Verdict};
use super::robots::{self, KnownRobots, RobotsReply, RobotsRule, Verdicts};
use crate::toolset::{Log, LogLevel};

/// As many as the reference server follows (httpx's default).
pub const MAX_REDIRECTS: usize = 20;
/// A host that does not even take a connection by then is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Silence in the middle of a body.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// The way to the network.
#[derive(Debug)]
pub struct WebClient {
    http: reqwest::Client,
    guard: Guard,
    block_list: Arc<BlockList>,
    cache: Option<Cache>,
    hosts: Hosts,
    robots: KnownRobots,
    limits: Limits,
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of one page after decompression.
    pub body_bytes: u64,
    /// From the first packet to the last, redirects and waits included.
    pub time: Duration,
}

/// How a client is set up.
#[derive(Debug)]
pub struct WebOptions {
    pub allowed: Vec<AddressRange>,
    pub resolver: Arc<dyn Resolve>,
    pub proxies: Proxies,
    pub block_list: Arc<BlockList>,
    pub cache: Option<Cache>,
    pub limits: Limits,
}

/// Proxies for our requests, in the order in which they are asked.
#[derive(Debug, Clone, Default)]
pub struct Proxies(Vec<Proxy>);

#[derive(Debug, Clone)]
struct Proxy {
    url: Url,
    scheme: ProxiedScheme,
}

#[derive(Debug, Clone, Copy)]
enum ProxiedScheme {
    Http,
    Https,
    All,
}

impl Proxies {
    /// The proxy of the command line alone, else those of the environment: what `variable` says of `HTTP_PROXY`,
    /// `HTTPS_PROXY` and `ALL_PROXY`, in either case. `Err` names the setting that is no URL.
    pub fn new(flag: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        if let Some(flag) = flag.filter(|flag| !flag.is_empty()) {
            let url = proxy_url(flag).ok_or_else(|| format!("--proxy-url `{}`", hidden(flag)))?;
            return Ok(Self(vec![Proxy { url, scheme: ProxiedScheme::All }]));
        }
        let mut proxies = Vec::new();
        for (name, scheme) in [
            ("HTTP_PROXY", ProxiedScheme::Http),
            ("HTTPS_PROXY", ProxiedScheme::Https),
            ("ALL_PROXY", ProxiedScheme::All),
        ] {
            let set = variable(name).or_else(|| variable(&name.to_lowercase()));
            if let Some(value) = set.filter(|value| !value.is_empty()) {
                let url = proxy_url(&value).ok_or_else(|| format!("{name}={}", hidden(&value)))?;
                proxies.push(Proxy { url, scheme });
            }
        }
        Ok(Self(proxies))
    }

    fn hosts(&self) -> BTreeSet<String> {
        self.0.iter().filter_map(|proxy| proxy.url.host_str().map(ToOwned::to_owned)).collect()
    }
}

/// A proxy's address may hold a password.
fn hidden(text: &str) -> &str {
    text.rsplit_once('@').map_or(text, |(_, host)| host)
}

/// Desktop settings write `socks://` for `socks5://`, and a bare `host:port` for an HTTP proxy.
fn proxy_url(text: &str) -> Option<Url> {
    let text = match text.strip_prefix("socks://") {
        Some(rest) => format!("socks5://{rest}"),
        None if text.contains("://") => text.to_owned(),
        None => format!("http://{text}"),
    };
    Url::parse(&text).ok().filter(|url| url.host().is_some())
}

/// One request.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    pub url: Url,
    pub user_agent: &'a str,
    pub robots: RobotsRule,
    pub cancel: &'a CancellationToken,
    pub log: &'a Log,
}

/// A whole page.
#[derive(Debug, Clone)]
pub struct Page {
    /// Where it was found in the end.
    pub url: Url,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Page {
    pub fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// One reply that was read to its end.
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    from: &'static str,
}

/// What one hop asks for.
struct Hop<'a> {
    url: &'a Url,
    purpose: Purpose,
    limit_bytes: u64,
    deadline: Instant,
}

impl WebClient {
    pub fn new(options: WebOptions) -> Result<Self, String> {
        Self::with_builder(options, reqwest::Client::builder())
    }

    /// As [`WebClient::new`], over a client that is set up in part: tests put a tripwire where connections are made.
    pub fn with_builder(options: WebOptions, builder: reqwest::ClientBuilder) -> Result<Self, String> {
        let WebOptions { allowed, resolver, proxies, block_list, cache, limits } = options;
        let proxied = if proxies.0.is_empty() { Proxied::No } else { Proxied::Yes };
        let guard = Guard::new(allowed, resolver, proxied);
        let mut builder = builder
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(Arc::new(guard.resolver(proxies.hosts())))
            .cookie_store(true)
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .no_proxy();
        for proxy in &proxies.0 {
            let made = match proxy.scheme {
                ProxiedScheme::Http => reqwest::Proxy::http(proxy.url.clone()),
                ProxiedScheme::Https => reqwest::Proxy::https(proxy.url.clone()),
                ProxiedScheme::All => reqwest::Proxy::all(proxy.url.clone()),
            };
            let made = made.map_err(|error| format!("failed to set up the proxy: {error}"))?;
            builder = builder.proxy(made.no_proxy(reqwest::NoProxy::from_env()));
        }
        let http = builder.build().map_err(|error| format!("failed to set up the HTTP client: {error}"))?;
        Ok(Self {
            http,
            guard,
            block_list,
            cache,
            hosts: Hosts::default(),
            robots: KnownRobots::default(),
            limits,
        })
    }

    /// Gets a page. A status of 400 and above is an error.
    pub async fn get(&self, ask: &Ask<'_>) -> Result<Page, WebError> {
        let deadline = Instant::now() + self.limits.time;
        let requested = ask.url.as_str();
        tokio::select! {
            biased;
            () = ask.cancel.cancelled() => Err(WebError::Cancelled),
            page = timeout_at(deadline, self.follow(ask, deadline)) => page.unwrap_or_else(|_| {
                Err(WebError::TimedOut { url: requested.to_owned(), limit: self.limits.time })
            }),
        }
    }

    async fn follow(&self, ask: &Ask<'_>, deadline: Instant) -> Result<Page, WebError> {
        let requested = ask.url.as_str();
        let mut url = ask.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            self.permit(ask, &url).await?;
            if ask.robots == RobotsRule::Obey {
                self.consult_robots(ask, &url, deadline).await?;
            }
            let hop =
                Hop { url: &url, purpose: Purpose::Page, limit_bytes: self.limits.body_bytes, deadline };
            let reply = self.request(ask, &hop).await?;
            match redirect(&url, &reply)? {
                Some(next) => url = next,
                None => return accept(requested, url, reply),
            }
        }
        Err(WebError::TooManyRedirects {
            url: ask.url.to_string(),
            limit: MAX_REDIRECTS,
            last: record::without_secrets(&url),
        })
    }

    /// Decides before anything is sent.
    async fn permit(&self, ask: &Ask<'_>, url: &Url) -> Result<(), WebError> {
        let error = if let Some(entry) = self.block_list.blocks(url) {
            WebError::Blocked { url: url.to_string(), entry: entry.to_owned() }
        } else if let Err(reason) = self.guard.check(url).await {
            WebError::Refused { url: url.to_string(), reason }
        } else {
            return Ok(());
        };
        let why = match &error {
            WebError::Blocked { entry, .. } => format!("blocked by the block-list entry `{entry}`"),
            other => other.to_string(),
        };
        ask.log.write(LogLevel::Warning, record::failed(Purpose::Page, url, Duration::ZERO, &why));
        Err(error)
    }

    async fn consult_robots(&self, ask: &Ask<'_>, url: &Url, deadline: Instant) -> Result<(), WebError> {
        let origin = format!("{} {}", url.origin().ascii_serialization(), ask.user_agent);
        let verdicts = match self.robots.get(&origin) {
            Some(known) => known,
            None => {
                let reply = self.read_robots(ask, url, deadline).await?;
                let verdicts = Arc::new(Verdicts::read(reply, ask.user_agent));
                self.robots.put(origin, verdicts.clone());
                if let Some(delay) = verdicts.crawl_delay() {
                    self.hosts.slow_down(&host_and_port(url), delay);
                }
                verdicts
            }
        };
        verdicts.refusal(url, ask.user_agent).map_or(Ok(()), |notice| Err(WebError::Robots(notice)))
    }

    async fn read_robots(
        &self,
        ask: &Ask<'_>,
        url: &Url,
        deadline: Instant,
    ) -> Result<RobotsReply, WebError> {
        let mut robots_url = robots::robots_url(url);
        for _ in 0..=robots::MAX_REDIRECTS {
            self.permit(ask, &robots_url).await?;
            let hop =
                Hop { url: &robots_url, purpose: Purpose::Robots, limit_bytes: robots::MAX_BYTES, deadline };
            let reply = match self.request(ask, &hop).await {
                Ok(reply) => reply,
                // Too long to be rules for us: what it forbids is unknown.
                Err(WebError::Connection { .. } | WebError::TooLarge { .. }) => {
                    return Ok(RobotsReply::Unreachable);
                }
                Err(error) => return Err(error),
            };
            match redirect(&robots_url, &reply) {
                Ok(Some(next)) => robots_url = next,
                Ok(None) => return Ok(RobotsReply::Status(reply.status.as_u16(), reply.body.to_vec())),
                Err(_) => return Ok(RobotsReply::Unreachable),
            }
        }
        // The standard: beyond five redirects it may be taken for absent.
        Ok(RobotsReply::Status(404, Vec::new()))
    }

    /// One hop: from the cache, or from the network with as many attempts as a busy server is worth.
    async fn request(&self, ask: &Ask<'_>, hop: &Hop<'_>) -> Result<Reply, WebError> {
        let start = Instant::now();
        let kept =
            self.cache.as_ref().and_then(|cache| cache.get(hop.url, ask.user_agent, SystemTime::now()));
        let result = match kept {
            Some(kept) if kept.is_fresh() => Ok(reply_of(kept, "cache")),
            kept => self.attempts(ask, hop, kept).await,
        };
        let line = match &result {
            Ok(reply) => record::replied(
                hop.purpose,
                hop.url,
                reply.status.as_u16(),
                reply.body.len(),
                start.elapsed(),
                reply.from,
            ),
            Err(error) => record::failed(hop.purpose, hop.url, start.elapsed(), &reason(error)),
        };
        let level = if result.is_ok() { LogLevel::Info } else { LogLevel::Warning };
        ask.log.write(level, line);
        result
    }

    async fn attempts(&self, ask: &Ask<'_>, hop: &Hop<'_>, kept: Option<Kept>) -> Result<Reply, WebError> {
        let mut attempt = 1;
        loop {
            let reply = self.send(ask, hop, kept.as_ref()).await?;
            match retry::judge(reply.status, &reply.headers, attempt, SystemTime::now()) {
                Verdict::Take => return Ok(reply),
                Verdict::RetryAfter(wait) if Instant::now() + wait < hop.deadline => {
                    tokio::time::sleep(wait).await;
                    attempt += 1;
                }
                Verdict::RetryAfter(wait) => return busy(hop, &reply, Some(wait)),
                Verdict::GiveUp(wait) => return busy(hop, &reply, wait),
            }
        }
    }

    async fn send(&self, ask: &Ask<'_>, hop: &Hop<'_>, kept: Option<&Kept>) -> Result<Reply, WebError> {
        let _place = self.hosts.enter(&host_and_port(hop.url)).await;
        let mut request = self
            .http
            .get(hop.url.clone())
            .header(header::USER_AGENT, ask.user_agent)
            .header(header::ACCEPT, "*/*");
        if let Some(kept) = kept {
            request = request.headers(kept.conditions());
        }
        let response = request.send().await.map_err(|error| connection_error(hop.url, &error))?;
        let status = response.status();
        if let (StatusCode::NOT_MODIFIED, Some(kept)) = (status, kept) {
            let kept = kept.clone().renewed(response.headers());
            self.keep(ask, hop, kept.status, &kept.headers, &kept.body);
            return Ok(reply_of(kept, "cache, still right"));
        }
        let headers = response.headers().clone();
        // What is not shown need not be read.
        if status.is_redirection() && headers.contains_key(header::LOCATION) {
            return Ok(Reply { status, headers, body: Bytes::new(), from: "network" });
        }
        let body = body::read(response, hop.limit_bytes).await.map_err(|error| match error {
            BodyError::TooLong => WebError::TooLarge {
                url: hop.url.to_string(),
                limit_bytes: hop.limit_bytes,
                what: if headers.contains_key(header::CONTENT_LENGTH) { "" } else { " after decompression" },
            },
            BodyError::Broken(error) => connection_error(hop.url, &error),
        })?;
        self.keep(ask, hop, status, &headers, &body);
        Ok(Reply { status, headers, body, from: "network" })
    }

    fn keep(&self, ask: &Ask<'_>, hop: &Hop<'_>, status: StatusCode, headers: &HeaderMap, body: &Bytes) {
        if let Some(cache) = &self.cache {
            cache.put(hop.url, ask.user_agent, status, headers, body, SystemTime::now());
        }
    }
}

fn reply_of(kept: Kept, from: &'static str) -> Reply {
    Reply { status: kept.status, headers: kept.headers, body: kept.body, from }
}

fn accept(requested: &str, url: Url, reply: Reply) -> Result<Page, WebError> {
    let Reply { status, headers, body, .. } = reply;
    if status.is_client_error() || status.is_server_error() {
        return Err(WebError::Status {
            url: requested.to_owned(),
            status: status.as_u16(),
            advice: String::new(),
        });
    }
    Ok(Page { url, status, headers, body })
}

/// Where a reply sends us, if it does.
fn redirect(from: &Url, reply: &Reply) -> Result<Option<Url>, WebError> {
    if !matches!(reply.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = reply.headers.get(header::LOCATION) else { return Ok(None) };
    // Many servers write it in UTF-8.
    let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
    match from.join(&location) {
        Ok(mut next) => {
            // RFC 9110: what has no fragment inherits it.
            if next.fragment().is_none() {
                next.set_fragment(from.fragment());
            }
            Ok(Some(next))
        }
        Err(_) => Err(WebError::BadRedirect { url: from.to_string(), location }),
    }
}

fn busy(hop: &Hop<'_>, reply: &Reply, wait: Option<Duration>) -> Result<Reply, WebError> {
    let advice = match wait {
        Some(wait) => format!(
            " (the server is busy and asks to be left alone for {} s; use another source, or come back later)",
            wait.as_secs()
        ),
        None => " (the server is busy, also after several attempts; use another source)".to_owned(),
    };
    Err(WebError::Status { url: hop.url.to_string(), status: reply.status.as_u16(), advice })
}

/// The same for a log, without the address that stands beside it anyway.
fn reason(error: &WebError) -> String {
    match error {
        WebError::Connection { reason, .. } => reason.clone(),
        WebError::Status { status, .. } => format!("status {status}"),
        WebError::Refused { reason, .. } => reason.to_string(),
        WebError::TooLarge { limit_bytes, .. } => format!("more than {limit_bytes} bytes"),
        other => other.to_string(),
    }
}

fn host_and_port(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default())
}

/// The innermost cause says what happened; the outer layers repeat the address.
fn connection_error(url: &Url, error: &reqwest::Error) -> WebError {
    if let Some(reason) = refusal_in(error) {
        return WebError::Refused { url: url.to_string(), reason };
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let what = match error {
        _ if error.is_timeout() => "no answer in time".to_owned(),
        _ if error.is_connect() => format!("failed to connect: {cause}"),
        _ if error.is_decode() => format!("failed to decompress the body: {cause}"),
        _ => cause.to_string(),
    };
    WebError::Connection { url: url.to_string(), reason: what }
}
