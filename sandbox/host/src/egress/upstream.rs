//! Proxies by which this machine itself reaches the internet.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, Uri};

use super::address::AddressRange;
use super::host_rule::Host;

/// Proxies to go through, as the usual variables name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamProxies {
    /// For `http:` addresses.
    pub http: Option<UpstreamProxy>,
    /// For everything else.
    pub https: Option<UpstreamProxy>,
    /// Hosts that are reached without: names with their subdomains, addresses, ranges, or `*`.
    pub exceptions: Vec<String>,
}

/// A proxy spoken to with HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamProxy {
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// `Proxy-Authorization`.
    pub(crate) authorization: Option<HeaderValue>,
}

/// Not a proxy that can be gone through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the proxy's address is not of the form http://[user:password@]host[:port]: {reason}")]
pub struct UpstreamProxyError {
    reason: &'static str,
}

impl UpstreamProxies {
    /// Reads `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, in small or in capital letters, from where
    /// `variable` looks them up. `HTTP_PROXY` in capitals is taken, too: this is no CGI program.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, UpstreamProxyError> {
        let either = |name: &str| {
            [name.to_owned(), name.to_ascii_uppercase()]
                .iter()
                .find_map(|name| variable(name).filter(|value| !value.trim().is_empty()))
        };
        let proxy =
            |name: &str| either(name).or_else(|| either("all_proxy")).map(|text| text.parse()).transpose();
        let exceptions = either("no_proxy").unwrap_or_default();
        Ok(Self {
            http: proxy("http_proxy")?,
            https: proxy("https_proxy")?,
            exceptions: exceptions
                .split([',', ' '])
                .map(|text| text.trim().to_ascii_lowercase())
                .filter(|text| !text.is_empty())
                .collect(),
        })
    }

    /// The proxy for a host, if it is not reached directly.
    pub(crate) fn proxy_for(&self, scheme: Scheme, host: &Host) -> Option<&UpstreamProxy> {
        let proxy = match scheme {
            Scheme::Http => self.http.as_ref(),
            Scheme::Other => self.https.as_ref(),
        };
        proxy.filter(|_| !self.exceptions.iter().any(|exception| is_exception(exception, host)))
    }
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// An `http:` address.
    Http,
    /// A connection.
    Other,
}

fn is_exception(exception: &str, host: &Host) -> bool {
    match host {
        _ if exception == "*" => true,
        Host::Address(address) => {
            exception.parse::<AddressRange>().is_ok_and(|range| range.contains(*address))
        }
        Host::Name(name) => {
            let domain = exception.trim_start_matches("*.").trim_start_matches('.');
            name.strip_suffix(domain).is_some_and(|front| front.is_empty() || front.ends_with('.'))
        }
    }
}

impl FromStr for UpstreamProxy {
    type Err = UpstreamProxyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |reason| UpstreamProxyError { reason };
        let text = text.trim();
        let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = with_scheme.parse().map_err(|_| error("it is no address"))?;
        if uri.scheme_str() != Some("http") {
            return Err(error("only http: proxies are spoken to"));
        }
        let authority = uri.authority().ok_or_else(|| error("it names no host"))?;
        let authorization = match authority.as_str().rsplit_once('@') {
            None => None,
            Some((user, _)) => {
                let (user, password) = user.split_once(':').unwrap_or((user, ""));
                let pair = [decode_percents(user), vec![b':'], decode_percents(password)].concat();
                let mut value = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair)))
                    .map_err(|_| error("its password cannot be sent"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Ok(Self {
            host: Host::parse(authority.host()).map_err(error)?,
            port: authority.port_u16().unwrap_or(80),
            authorization,
        })
    }
}

/// Without the password.
impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "UpstreamProxy(http://{}:{})", self.host, self.port)
    }
}

fn decode_percents(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = hex.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { &after[2..] } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Result<UpstreamProxies, UpstreamProxyError> {
        UpstreamProxies::from_variables(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_usual_variables_are_read() {
        let found =
            proxies(&[("http_proxy", "proxy.test:3128"), ("HTTPS_PROXY", "http://secure.test")]).unwrap();
        assert_eq!(format!("{:?}", found.http.unwrap()), "UpstreamProxy(http://proxy.test:3128)");
        assert_eq!(found.https.unwrap().port, 80);
        let all = proxies(&[("ALL_PROXY", "http://p.test:1"), ("http_proxy", "")]).unwrap();
        assert!(all.http.is_some() && all.http == all.https);
        assert_eq!(proxies(&[]).unwrap(), UpstreamProxies::default());
        assert!(proxies(&[("https_proxy", "socks5://p.test:1")]).is_err());
    }

    #[test]
    fn a_password_is_sent_but_never_shown() {
        let proxy: UpstreamProxy = "http://me:p%40ss%3A@proxy.test:8080".parse().unwrap();
        assert_eq!(proxy.authorization.as_ref().unwrap(), "Basic bWU6cEBzczo=");
        assert_eq!(format!("{proxy:?}"), "UpstreamProxy(http://proxy.test:8080)");
        let error = "https://me:secret@proxy.test".parse::<UpstreamProxy>().unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn exceptions_are_reached_directly() {
        let found = proxies(&[
            ("https_proxy", "http://proxy.test"),
            ("no_proxy", "localhost, .corp.test,example.org,10.0.0.0/8"),
        ])
        .unwrap();
        let is_direct = |host: &str| found.proxy_for(Scheme::Other, &Host::parse(host).unwrap()).is_none();
        for host in ["localhost", "corp.test", "a.corp.test", "www.example.org", "10.1.2.3"] {
            assert!(is_direct(host), "{host}");
        }
        for host in ["badcorp.test", "example.com", "11.0.0.1"] {
            assert!(!is_direct(host), "{host}");
        }
        assert!(found.proxy_for(Scheme::Http, &Host::parse("example.com").unwrap()).is_none());
    }
}
