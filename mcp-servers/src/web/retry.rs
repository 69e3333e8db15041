//! How long a server asks us to wait.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};

/// Requests for one address, the first one included.
pub(crate) const MAX_ATTEMPTS: u32 = 3;
/// A longer wait is better spent on another source, which only the model can choose.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// When the server does not say: doubled each time.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// What to do about a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Take,
    RetryAfter(Duration),
    /// Too busy for us; how long it wants to be left alone, if it said so.
    GiveUp(Option<Duration>),
}

pub(crate) fn judge(status: StatusCode, headers: &HeaderMap, attempt: u32, now: SystemTime) -> Verdict {
    if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return Verdict::Take;
    }
    let asked = headers.get(header::RETRY_AFTER).and_then(|value| wait(value.to_str().ok()?, now));
    if attempt >= MAX_ATTEMPTS || asked.is_some_and(|wait| wait > MAX_WAIT) {
        return Verdict::GiveUp(asked);
    }
    Verdict::RetryAfter(asked.unwrap_or(FIRST_WAIT * 2u32.pow(attempt - 1)))
}

/// Seconds, or a date.
fn wait(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: u16, retry_after: Option<&str>, attempt: u32) -> Verdict {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(header::RETRY_AFTER, value.parse().unwrap());
        }
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 10:00:00 GMT").unwrap();
        judge(StatusCode::from_u16(status).unwrap(), &headers, attempt, now)
    }

    #[test]
    fn a_busy_server_is_obeyed_within_bounds() {
        let seconds = Duration::from_secs;
        for (status, header, attempt, expected) in [
            (200, Some("5"), 1, Verdict::Take),
            (500, None, 1, Verdict::Take),
            (429, Some("5"), 1, Verdict::RetryAfter(seconds(5))),
            (503, Some("0"), 2, Verdict::RetryAfter(seconds(0))),
            (429, Some("Mon, 30 Nov 2026 10:00:07 GMT"), 1, Verdict::RetryAfter(seconds(7))),
            (429, Some("Mon, 30 Nov 2026 09:00:00 GMT"), 1, Verdict::RetryAfter(seconds(0))),
            (429, None, 1, Verdict::RetryAfter(seconds(1))),
            (429, Some("soon"), 2, Verdict::RetryAfter(seconds(2))),
            (429, Some("3600"), 1, Verdict::GiveUp(Some(seconds(3600)))),
            (429, Some("1"), MAX_ATTEMPTS, Verdict::GiveUp(Some(seconds(1)))),
            (503, None, MAX_ATTEMPTS, Verdict::GiveUp(None)),
        ] {
            assert_eq!(verdict(status, header, attempt), expected, "{status} {header:?} {attempt}");
        }
    }
}
