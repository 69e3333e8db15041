//! Which hosts a sandbox may talk to.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Ports of a rule that names none.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// An entry of an allow-list: `example.org`, `*.example.org` (its subdomains, not itself), `192.0.2.7`, `[2001:db8::7]`;
/// each also with a port, without which 80 and 443 are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    host: HostPattern,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    Exactly(Host),
    SubdomainsOf(String),
}

/// Not an entry of an allow-list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a host such as example.org, *.example.org or example.org:8443: {reason}")]
pub struct HostRuleError {
    text: String,
    reason: &'static str,
}

/// A host as a client names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    Address(IpAddr),
    /// In lower case, without a dot at the end.
    Name(String),
}

impl HostRule {
    pub(crate) fn allows(&self, host: &Host, port: u16) -> bool {
        let is_port = self.port.map_or(DEFAULT_PORTS.contains(&port), |allowed| allowed == port);
        is_port
            && match (&self.host, host) {
                (HostPattern::Exactly(allowed), host) => allowed == host,
                (HostPattern::SubdomainsOf(domain), Host::Name(name)) => name
                    .strip_suffix(domain.as_str())
                    .and_then(|front| front.strip_suffix('.'))
                    .is_some_and(|front| !front.is_empty()),
                (HostPattern::SubdomainsOf(_), Host::Address(_)) => false,
            }
    }
}

impl FromStr for HostRule {
    type Err = HostRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |reason| HostRuleError { text: text.to_owned(), reason };
        if text.contains('/') || text.contains('@') {
            return Err(error("name the host only, without scheme, user or path"));
        }
        // The colons of an IPv6 address are inside of brackets, unless it stands alone.
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (host, Some(port.ok_or_else(|| error("the port is a number from 1 to 65535"))?))
            }
            _ => (text, None),
        };
        let host = match host.strip_prefix("*.") {
            Some(domain) => match Host::parse(domain) {
                Ok(Host::Name(domain)) => HostPattern::SubdomainsOf(domain),
                Ok(Host::Address(_)) => return Err(error("an address has no subdomains")),
                Err(reason) => return Err(error(reason)),
            },
            None if host.contains('*') => return Err(error("`*.` may stand at the beginning only")),
            None => HostPattern::Exactly(Host::parse(host).map_err(error)?),
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostPattern::Exactly(host) => write!(formatter, "{host}")?,
            HostPattern::SubdomainsOf(domain) => write!(formatter, "*.{domain}")?,
        }
        self.port.map_or(Ok(()), |port| write!(formatter, ":{port}"))
    }
}

impl Host {
    /// Reads a host as it stands in a URL, or the reason why it is none.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        /// Longest name there can be (RFC 1035).
        const MAX_NAME_BYTES: usize = 253;
        let unbracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if let Some(address) = unbracketed {
            return address
                .parse::<Ipv6Addr>()
                .map(|address| Self::Address(IpAddr::V6(address).to_canonical()))
                .map_err(|_| "this is no IPv6 address");
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if name.len() > MAX_NAME_BYTES || !name.split('.').all(is_label) {
            return Err("a name has letters, digits and hyphens between single dots (others as xn--…)");
        }
        // Resolvers take 127.1, 0x7f000001 and 2130706433 for addresses.
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") {
            return Err("an IPv4 address is written as four decimal numbers");
        }
        Ok(Self::Name(name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(formatter, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rule: &str, host: &str, port: u16) -> bool {
        rule.parse::<HostRule>().unwrap().allows(&Host::parse(host).unwrap(), port)
    }

    #[test]
    fn a_rule_allows_what_it_says_and_nothing_else() {
        for (rule, host, port, expected) in [
            ("example.org", "example.org", 443, true),
            ("example.org", "EXAMPLE.org.", 80, true),
            ("Example.ORG.", "example.org", 80, true),
            ("example.org", "example.org", 22, false),
            ("example.org", "example.org", 8443, false),
            ("example.org", "www.example.org", 443, false),
            ("example.org", "example.org.evil.test", 443, false),
            ("example.org", "notexample.org", 443, false),
            ("*.example.org", "www.example.org", 443, true),
            ("*.example.org", "a.b.example.org", 443, true),
            ("*.example.org", "example.org", 443, false),
            ("*.example.org", "evilexample.org", 443, false),
            ("example.org:8443", "example.org", 8443, true),
            ("example.org:8443", "example.org", 443, false),
            ("*.example.org:22", "git.example.org", 22, true),
            ("192.0.2.7", "192.0.2.7", 80, true),
            ("192.0.2.7", "[::ffff:192.0.2.7]", 80, true),
            ("*.2.7.test", "192.0.2.7", 80, false),
            ("[2001:db8::7]:8080", "[2001:db8:0::7]", 8080, true),
            ("2001:db8::7", "[2001:db8::7]", 443, true),
        ] {
            assert_eq!(allows(rule, host, port), expected, "{rule} for {host}:{port}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_with_the_reason() {
        for (wrong, reason) in [
            ("https://example.org/", "without scheme"),
            ("user@example.org", "without scheme, user"),
            ("*", "at the beginning only"),
            ("a.*.org", "at the beginning only"),
            ("*.192.0.2.7", "no subdomains"),
            ("example.org:0", "from 1 to 65535"),
            ("example.org:http", "from 1 to 65535"),
            ("", "letters"),
            ("exa mple.org", "letters"),
            ("a..b", "letters"),
            ("bücher.example", "xn--"),
            ("127.1", "four decimal"),
            ("0x7f.1", "four decimal"),
            ("2130706433", "four decimal"),
            ("[::1", "letters"),
        ] {
            let error = wrong.parse::<HostRule>().unwrap_err().to_string();
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_rule_is_shown_as_it_is_written() {
        for text in ["example.org", "*.example.org:8443", "192.0.2.7", "[2001:db8::7]:80"] {
            assert_eq!(text.parse::<HostRule>().unwrap().to_string(), text);
        }
    }
}
