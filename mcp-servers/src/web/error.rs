//! Why a request gave nothing.

use std::time::Duration;

use super::guard::Refusal;

/// Texts are for the model: each says what went wrong and, where there is one, the way out.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WebError {
    /// Nothing was sent.
    #[error("Refused to fetch {url}: {reason}")]
    Refused { url: String, reason: Refusal },
    /// The block-list names the place. Nothing was sent.
    #[error(
        "Refused to fetch {url}: the place is on this server's block-list ({entry}), because it may hold answers of \
         the benchmark itself; use another source"
    )]
    Blocked { url: String, entry: String },
    /// robots.txt forbids it, or could not be read; the text is the reference server's.
    #[error("{0}")]
    Robots(String),
    #[error("Failed to fetch {url} - status code {status}{advice}")]
    Status { url: String, status: u16, advice: String },
    #[error("Failed to fetch {url}: {reason}")]
    Connection { url: String, reason: String },
    #[error("Failed to fetch {url}: no complete answer within {} s; try again, or use another source", .limit.as_secs())]
    TimedOut { url: String, limit: Duration },
    #[error(
        "Failed to fetch {url}: more than {limit_bytes} bytes{what}; a smaller part or another source is needed"
    )]
    TooLarge { url: String, limit_bytes: u64, what: &'static str },
    #[error("Failed to fetch {url}: more than {limit} redirects, the last one to {last}")]
    TooManyRedirects { url: String, limit: usize, last: String },
    #[error("Failed to fetch {url}: it redirects to `{location}`, which is no URL")]
    BadRedirect { url: String, location: String },
    #[error("cancelled")]
    Cancelled,
}
