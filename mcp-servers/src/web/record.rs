//! One line for each request, for the trajectory.

use std::time::Duration;

use serde_json::{Value, json};
use url::Url;

/// Names of parameters whose values are keys more often than not.
const SECRET_PARTS: [&str; 9] =
    ["key", "token", "secret", "passw", "signature", "credential", "auth", "session", "sig"];
/// A longer address is cut: a line of a log, not a document.
const MAX_URL_CHARS: usize = 500;

/// What a request was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Page,
    Robots,
    Search,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Robots => "robots.txt",
            Self::Search => "search",
        }
    }
}

/// The line of a request that got a reply.
pub fn replied(purpose: Purpose, url: &Url, status: u16, bytes: usize, time: Duration, from: &str) -> Value {
    json!({ "request": {
        "url": without_secrets(url),
        "for": purpose.name(),
        "status": status,
        "bytes": bytes,
        "ms": milliseconds(time),
        "from": from,
    } })
}

/// The line of a request that got none, or was never made.
pub fn failed(purpose: Purpose, url: &Url, time: Duration, error: &str) -> Value {
    json!({ "request": {
        "url": without_secrets(url),
        "for": purpose.name(),
        "error": error,
        "ms": milliseconds(time),
    } })
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// An address as it may be kept: no user, no password, no fragment, and no value of a parameter that is named like a key.
pub fn without_secrets(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_fragment(None);
    // Fails only for addresses that cannot have a user.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    if let Some(query) = url.query() {
        let parts: Vec<String> = query.split('&').map(hide).collect();
        shown.set_query(Some(&parts.join("&")));
    }
    let text = String::from(shown);
    match text.char_indices().nth(MAX_URL_CHARS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

fn hide(part: &str) -> String {
    let Some((name, _value)) = part.split_once('=') else { return part.to_owned() };
    let plain = name.to_lowercase();
    if SECRET_PARTS.iter().any(|secret| plain.contains(secret)) {
        return format!("{name}=[hidden]");
    }
    part.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_without_what_opens_doors() {
        for (address, kept) in [
            ("https://me:word@a.example/x?q=1#top", "https://a.example/x?q=1"),
            ("https://a.example/?q=tea&api_key=SECRET&n=2", "https://a.example/?q=tea&api_key=[hidden]&n=2"),
            ("https://a.example/?X-Amz-Signature=abc", "https://a.example/?X-Amz-Signature=[hidden]"),
            ("https://a.example/?access_token=abc&flag", "https://a.example/?access_token=[hidden]&flag"),
            ("https://a.example/", "https://a.example/"),
        ] {
            assert_eq!(without_secrets(&Url::parse(address).unwrap()), kept);
        }
        let long = Url::parse(&format!("https://a.example/{}", "x".repeat(5_000))).unwrap();
        assert_eq!(without_secrets(&long).chars().count(), MAX_URL_CHARS + 1);
    }
}
