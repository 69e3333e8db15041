use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};

/// Attempts, after one and two seconds, to get back to the stream of an answer.
const RECONNECTS: usize = 2;

/// Hops of one request; rmcp's own limit.
const REDIRECTS: usize = 10;

pub(super) type HttpError = StreamableHttpError<reqwest::Error>;

/// Streamable HTTP. The error is a clause about the entry in the config.
pub(super) fn transport(
    url: &str,
    headers: &BTreeMap<String, String>,
    bearer_token: Option<&str>,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let parsed = reqwest::Url::parse(url).map_err(|error| format!("its `url` is not valid: {error}"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(format!("its `url` must start with http:// or https://, not {}://", parsed.scheme()));
    }
    let mut custom = HashMap::new();
    for (name, value) in headers {
        let header =
            HeaderName::try_from(name).map_err(|_| format!("the header name `{name}` is not valid"))?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| format!("the value of the header `{name}` is not valid"))?;
        value.set_sensitive(true);
        custom.insert(header, value);
    }
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(custom)
        // A new session has lost its state, and a call must not be repeated behind the model's back.
        .reinit_on_expired_session(false);
    // Without an end to it, a call whose stream breaks would be asked for again until its timeout.
    let mut reconnect = ExponentialBackoff::default();
    reconnect.max_times = Some(RECONNECTS);
    config.retry_config = Arc::new(reconnect);
    if let Some(token) = bearer_token {
        config = config.auth_header(token);
    }
    let client = client(&parsed).map_err(|error| format!("no HTTP client can be made: {error}"))?;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn client(url: &reqwest::Url) -> Result<reqwest::Client, reqwest::Error> {
    let mut builder = reqwest::Client::builder()
        // An idle connection whose last answer was not read to the end costs 40 ms at its next use.
        .pool_max_idle_per_host(0)
        // 307 and 308 keep the message; FastMCP redirects `/mcp` to `/mcp/`. Another origin must not get our headers.
        .redirect(reqwest::redirect::Policy::custom(|attempt| {
            let same_origin =
                attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
            let keeps_message = matches!(attempt.status().as_u16(), 307 | 308);
            if same_origin && keeps_message && attempt.previous().len() <= REDIRECTS {
                attempt.follow()
            } else {
                attempt.stop()
            }
        }));
    if is_loopback(url) {
        // A proxy would look for the server on its own machine.
        builder = builder.no_proxy();
    }
    builder.build()
}

fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_the_entry_are_named_without_the_value() {
        let check = |url: &str, header: (&str, &str), expected: &str| {
            let headers = BTreeMap::from([(header.0.to_owned(), header.1.to_owned())]);
            let error = transport(url, &headers, None).err().unwrap_or_default();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
        };
        check("127.0.0.1:80/mcp", ("a", "b"), "its `url`");
        check("ftp://127.0.0.1/mcp", ("a", "b"), "not ftp://");
        check("http://127.0.0.1/mcp", ("a b", "s3cret"), "header name `a b`");
        check("http://127.0.0.1/mcp", ("a", "s3cret\n"), "value of the header `a`");
    }
}
