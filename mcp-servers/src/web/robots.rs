//! robots.txt by RFC 9309, with the notices of the reference server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use robotxt::{Agent, Robots};
use url::Url;

/// RFC 9309, 2.4: not longer than a day.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);
/// RFC 9309, 2.5 asks for at least 500 KiB.
pub(super) const MAX_BYTES: u64 = 512 * 1024;
/// RFC 9309, 2.3.1.2 asks for at least five.
pub(super) const MAX_REDIRECTS: usize = 5;
/// Of a long file, what a refusal quotes.
const MAX_QUOTED_CHARS: usize = 2_000;
/// Origins remembered; forgetting them costs one request each.
const MAX_ORIGINS: usize = 2_000;

/// Whether a request goes by robots.txt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RobotsRule {
    Obey,
    Ignore,
}

/// What robots.txt files said.
#[derive(Debug, Default)]
pub(super) struct KnownRobots {
    by_origin: Mutex<HashMap<String, (Instant, Arc<Verdicts>)>>,
}

/// How the request for a robots.txt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RobotsReply {
    Status(u16, Vec<u8>),
    Unreachable,
}

/// What an origin says about all of its addresses.
#[derive(Debug)]
pub(super) enum Verdicts {
    All,
    Rules { text: String, robots: Box<Robots> },
    Forbidden(u16),
    Broken(u16),
    Unreachable,
}

impl KnownRobots {
    pub(super) fn get(&self, origin: &str) -> Option<Arc<Verdicts>> {
        let known = self.by_origin.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, verdicts) = known.get(origin)?;
        (since.elapsed() < KEPT_FOR).then(|| verdicts.clone())
    }

    /// What could not be read is not remembered: the next page may have more luck.
    pub(super) fn put(&self, origin: String, verdicts: Arc<Verdicts>) {
        if matches!(*verdicts, Verdicts::Unreachable | Verdicts::Broken(_)) {
            return;
        }
        let mut known = self.by_origin.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_ORIGINS {
            known.clear();
        }
        known.insert(origin, (Instant::now(), verdicts));
    }
}

/// Where the rules for an address stand.
pub(super) fn robots_url(url: &Url) -> Url {
    let mut robots = url.clone();
    robots.set_path("/robots.txt");
    robots.set_query(None);
    robots.set_fragment(None);
    robots
}

impl Verdicts {
    pub(super) fn read(reply: RobotsReply, user_agent: &str) -> Self {
        match reply {
            RobotsReply::Unreachable => Self::Unreachable,
            // The standard lets these through; the reference server does not, and neither do careful crawlers.
            RobotsReply::Status(status @ (401 | 403), _) => Self::Forbidden(status),
            RobotsReply::Status(400..500, _) => Self::All,
            RobotsReply::Status(200..300, body) => {
                let body = &body[..body.len().min(MAX_BYTES as usize)];
                let robots = Robots::parse(body, Agent::Exact(product(user_agent)));
                Self::Rules { text: String::from_utf8_lossy(body).into_owned(), robots: Box::new(robots) }
            }
            // The standard: a server in trouble forbids all. The reference server reads its error page as rules.
            RobotsReply::Status(status, _) => Self::Broken(status),
        }
    }

    pub(super) fn crawl_delay(&self) -> Option<Duration> {
        match self {
            Self::Rules { robots, .. } => robots.crawl_delay(),
            _ => None,
        }
    }

    /// The notice, when the page must not be fetched.
    pub(super) fn refusal(&self, url: &Url, user_agent: &str) -> Option<String> {
        let robots_url = robots_url(url);
        match self {
            Self::All => None,
            Self::Rules { robots, .. } if robots.is_allowed(&path(url)) => None,
            Self::Rules { text, .. } => {
                let text: String = text.chars().take(MAX_QUOTED_CHARS).collect();
                Some(format!(
                    "The sites robots.txt ({robots_url}), specifies that autonomous fetching of this page is not \
                     allowed, <useragent>{user_agent}</useragent>\n<url>{url}</url><robots>\n{text}\n</robots>\n\
                     The assistant must let the user know that it failed to view the page. The assistant may provide \
                     further guidance based on the above information.\n\
                     The assistant can tell the user that they can try manually fetching the page by using the fetch \
                     prompt within their UI."
                ))
            }
            Self::Forbidden(status) => Some(format!(
                "When fetching robots.txt ({robots_url}), received status {status} so assuming that autonomous \
                 fetching is not allowed, the user can try manually fetching by using the fetch prompt"
            )),
            Self::Broken(status) => Some(format!(
                "When fetching robots.txt ({robots_url}), received status {status}; a server in trouble is not to be \
                 crawled (RFC 9309), so try again later or use another source"
            )),
            Self::Unreachable => {
                Some(format!("Failed to fetch robots.txt {robots_url} due to a connection issue"))
            }
        }
    }
}

fn path(url: &Url) -> String {
    url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()))
}

/// `ModelContextProtocol/1.0 (…)` is known to robots.txt as `ModelContextProtocol`.
fn product(user_agent: &str) -> &str {
    let end =
        user_agent.find(|character: char| !(character.is_ascii_alphabetic() || "-_".contains(character)));
    &user_agent[..end.unwrap_or(user_agent.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: &str = "ModelContextProtocol/1.0 (Autonomous; +https://example.org)";

    fn refusal(status: u16, text: &str, path: &str) -> Option<String> {
        let url = Url::parse("http://a.example").unwrap().join(path).unwrap();
        Verdicts::read(RobotsReply::Status(status, text.as_bytes().to_vec()), AGENT).refusal(&url, AGENT)
    }

    #[test]
    fn rules_are_read_by_the_standard() {
        let text = "User-agent: *\nDisallow: /all\nCrawl-delay: 1\n\nUser-agent: modelcontextprotocol\n\
                    User-agent: other\nDisallow: /private\nAllow: /private/open$\nDisallow: /*.cgi\n";
        for (path, allowed) in [
            ("/", true),
            ("/all", true),
            ("/private", false),
            ("/private/x?y", false),
            ("/private/open", true),
            ("/private/open/not", false),
            ("/a/b.cgi?c", false),
            ("/robots.txt", true),
        ] {
            assert_eq!(refusal(200, text, path).is_none(), allowed, "{path}");
        }
        assert!(refusal(200, "User-agent: *\nDisallow: /all", "/all/x").is_some());
        assert!(refusal(200, "", "/x").is_none());
        assert!(refusal(200, "<html>no rules</html>", "/x").is_none());
        assert!(refusal(200, "\u{feff}User-agent: *\r\nDisallow: /x", "/x").is_some());
    }

    #[test]
    fn a_status_is_a_verdict() {
        for status in [400, 404, 410, 429] {
            assert_eq!(refusal(status, "User-agent: *\nDisallow: /", "/x"), None, "{status}");
        }
        for (status, part) in
            [(401, "received status 401 so assuming"), (403, "403 so"), (500, "500"), (503, "503")]
        {
            assert!(refusal(status, "", "/x").unwrap().contains(part), "{status}");
        }
        let unreachable = Verdicts::read(RobotsReply::Unreachable, AGENT);
        let url = Url::parse("http://a.example:8080/x?y#z").unwrap();
        assert_eq!(
            unreachable.refusal(&url, AGENT).unwrap(),
            "Failed to fetch robots.txt http://a.example:8080/robots.txt due to a connection issue"
        );
    }

    #[test]
    fn a_refusal_quotes_the_rules_as_the_reference_server_does() {
        let text = refusal(200, "User-agent: *\nDisallow: /x", "/x").unwrap();
        for part in [
            "The sites robots.txt (http://a.example/robots.txt), specifies that autonomous fetching of this page is \
             not allowed, <useragent>ModelContextProtocol/1.0",
            "<url>http://a.example/x</url><robots>\nUser-agent: *\nDisallow: /x\n</robots>\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
