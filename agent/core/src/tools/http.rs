use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use rmcp::transport::AuthClient;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};

use super::Redactor;
use super::oauth::TokenStore;

/// Attempts, after one and two seconds, to get back to the stream of an answer.
const RECONNECTS: usize = 2;

/// Hops of one request; rmcp's own limit.
const REDIRECTS: usize = 10;

pub(super) type HttpError = StreamableHttpError<reqwest::Error>;

/// An address and how to be let in there.
pub(super) struct Endpoint {
    pub(super) url: reqwest::Url,
    pub(super) headers: HashMap<HeaderName, HeaderValue>,
    pub(super) client: reqwest::Client,
    pub(super) authorization: Authorization,
}

#[derive(Clone)]
pub(super) enum Authorization {
    None,
    /// The bearer token of the config.
    Token(String),
    /// The tokens of a login, renewed when they are about to expire.
    Login(AuthClient<reqwest::Client>),
}

impl Authorization {
    pub(super) async fn token(&self) -> Result<Option<String>, HttpError> {
        match self {
            Self::None => Ok(None),
            Self::Token(token) => Ok(Some(token.clone())),
            Self::Login(client) => Ok(Some(client.get_access_token().await?)),
        }
    }
}

impl Endpoint {
    /// The error is a clause about the entry in the config.
    pub(super) fn new(
        url: &str,
        headers: &BTreeMap<String, String>,
        bearer_token: Option<&str>,
    ) -> Result<Self, String> {
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
        let client = client(&parsed).map_err(|error| format!("no HTTP client can be made: {error}"))?;
        let authorization = match bearer_token {
            Some(token) => Authorization::Token(token.to_owned()),
            None => Authorization::None,
        };
        Ok(Self { url: parsed, headers: custom, client, authorization })
    }

    /// Uses the tokens of a login when there are any and the config has no token of its own.
    pub(super) async fn with_login(
        mut self,
        tokens: Option<&TokenStore>,
        redactor: &Redactor,
    ) -> Result<Self, String> {
        if let (Authorization::None, Some(tokens)) = (&self.authorization, tokens)
            && let Some(manager) = tokens.manager(&self.url, redactor).await?
        {
            self.authorization = Authorization::Login(AuthClient::new(self.client.clone(), manager));
        }
        Ok(self)
    }

    pub(super) fn config(&self) -> StreamableHttpClientTransportConfig {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str())
            .custom_headers(self.headers.clone())
            // A new session has lost its state, and a call must not be repeated behind the model's back.
            .reinit_on_expired_session(false);
        // Without an end to it, a call whose stream breaks would be asked for again until its timeout.
        let mut reconnect = ExponentialBackoff::default();
        reconnect.max_times = Some(RECONNECTS);
        config.retry_config = Arc::new(reconnect);
        match &self.authorization {
            Authorization::Token(token) => config.auth_header(token),
            Authorization::None | Authorization::Login(_) => config,
        }
    }
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
            let error = Endpoint::new(url, &headers, None).err().unwrap_or_default();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
        };
        check("127.0.0.1:80/mcp", ("a", "b"), "its `url`");
        check("ftp://127.0.0.1/mcp", ("a", "b"), "not ftp://");
        check("http://127.0.0.1/mcp", ("a b", "s3cret"), "header name `a b`");
        check("http://127.0.0.1/mcp", ("a", "s3cret\n"), "value of the header `a`");
    }
}
