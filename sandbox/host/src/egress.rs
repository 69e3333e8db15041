//! The way out of a sandbox: an HTTP proxy on the host's side which decides about every request before anything is
//! sent anywhere.
//!
//! Names are resolved here, every address of a name must be public, and the connection goes to an address that was
//! checked: a name cannot change its mind in between. Redirects are followed by the client, so each of their steps is a
//! request of its own.

mod address;
mod dial;
mod host_rule;
mod proxy;
mod upstream;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

pub use address::{AddressRange, AddressRangeError, why_refused};
pub use dial::{Connect, Resolve, SystemResolver, TcpConnector};
use host_rule::Host;
pub use host_rule::{HostRule, HostRuleError};
use upstream::Scheme;
pub use upstream::{UpstreamProxies, UpstreamProxy, UpstreamProxyError};

use crate::network::Network;

/// Names looked up at the same time by one sandbox: the system's resolver holds a thread for each.
const MAX_LOOKUPS: usize = 8;

/// Longest wait for the addresses of a name: a resolver tries its servers twice for 5 s each.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(20);

/// Longest wait for one address to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Addresses of one name that are tried. More would keep the client waiting longer than it is going to.
const MAX_TRIED_ADDRESSES: usize = 4;

/// Entries of the allow-list that a refusal names.
const MAX_NAMED_RULES: usize = 10;

/// Lowest port that a program may use without privileges. With [`Network::On`], of those below only the web's are
/// served: mail, remote shells and name servers are nothing for a web proxy.
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// What the egress proxy of [`Network::On`] and [`Network::Allow`] lets through.
#[derive(Debug, Clone)]
pub struct EgressOptions {
    /// Hosts that [`Network::Allow`] lets through. [`Network::On`] does not look at it.
    pub allow_hosts: Vec<HostRule>,
    /// Addresses let through although they are not public, for an intranet or a test.
    pub allow_private: Vec<AddressRange>,
    /// Proxies of this machine to go through. They resolve the names of what goes through them, so only literal
    /// addresses and names that are local by convention can be refused then.
    pub upstream: UpstreamProxies,
    /// Longest wait for the head of a request.
    pub head_timeout: Duration,
    /// Silence in both directions after which a connection is given up.
    pub idle_timeout: Duration,
    /// Finds the addresses of names.
    pub resolver: Arc<dyn Resolve>,
    /// Connects to what was found.
    pub connector: Arc<dyn Connect>,
}

impl Default for EgressOptions {
    fn default() -> Self {
        Self {
            allow_hosts: Vec::new(),
            allow_private: Vec::new(),
            upstream: UpstreamProxies::default(),
            head_timeout: Duration::from_secs(30),
            // Longer than any server thinks about an answer.
            idle_timeout: Duration::from_secs(300),
            resolver: Arc::new(SystemResolver),
            connector: Arc::new(TcpConnector),
        }
    }
}

/// The proxy of one sandbox.
#[derive(Debug)]
pub(crate) struct Egress {
    reach: Reach,
    pub(crate) options: EgressOptions,
    lookups: Semaphore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    AllPublic,
    Listed,
}

/// Where a request goes.
#[derive(Debug)]
enum Route<'a> {
    /// To one of these.
    Direct(Vec<SocketAddr>),
    Through(&'a UpstreamProxy),
}

/// Why a request goes nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum EgressError {
    /// It may not go there.
    #[error("the sandbox may not reach `{host}:{port}`: {reason}")]
    Refused { host: String, port: u16, reason: String },
    /// It is not one that a proxy can serve.
    #[error("{0}")]
    Malformed(String),
    /// The name has no address.
    #[error("no address was found for `{host}`: {reason}")]
    Unresolved { host: String, reason: String },
    /// Nobody answered there.
    #[error("the connection to `{host}:{port}` failed: {reason}")]
    Unreachable { host: String, port: u16, reason: String },
}

impl Egress {
    /// The proxy that a network needs, if it needs one.
    pub(crate) fn new(network: Network, options: &EgressOptions) -> Option<Self> {
        let reach = match network {
            Network::On => Reach::AllPublic,
            Network::Allow => Reach::Listed,
            Network::Off | Network::Bridge => return None,
        };
        Some(Self { reach, options: options.clone(), lookups: Semaphore::new(MAX_LOOKUPS) })
    }

    /// Decides where a request goes. Nothing is sent, but for looking the name up.
    async fn decide(&self, scheme: Scheme, host: &str, port: u16) -> Result<Route<'_>, EgressError> {
        let refused = |reason: String| EgressError::Refused { host: host.to_owned(), port, reason };
        let parsed = Host::parse(host).map_err(|reason| refused(reason.to_owned()))?;
        self.check_rules(&parsed, port).map_err(refused)?;
        if let Host::Address(address) = parsed {
            self.check_address(address).map_err(refused)?;
        }
        if let Some(proxy) = self.options.upstream.proxy_for(scheme, &parsed) {
            return match &parsed {
                Host::Name(name) if is_local_name(name) => Err(refused("it is a local name".to_owned())),
                _ => Ok(Route::Through(proxy)),
            };
        }
        let addresses = self.look_up(&parsed).await?;
        for address in &addresses {
            self.check_address(*address).map_err(refused)?;
        }
        Ok(Route::Direct(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()))
    }

    fn check_rules(&self, host: &Host, port: u16) -> Result<(), String> {
        match self.reach {
            Reach::AllPublic if matches!(port, 80 | 443 | FIRST_UNPRIVILEGED_PORT..) => Ok(()),
            Reach::AllPublic => {
                Err(format!("of the ports below {FIRST_UNPRIVILEGED_PORT} only 80 and 443 are let through"))
            }
            Reach::Listed if self.options.allow_hosts.iter().any(|rule| rule.allows(host, port)) => Ok(()),
            Reach::Listed => {
                let rules = &self.options.allow_hosts;
                let named: Vec<String> =
                    rules.iter().take(MAX_NAMED_RULES).map(ToString::to_string).collect();
                let more = if rules.len() > named.len() { ", …" } else { "" };
                Err(format!("it is not among the hosts that are allowed ({}{more})", named.join(", ")))
            }
        }
    }

    fn check_address(&self, address: IpAddr) -> Result<(), String> {
        why_refused(address, &self.options.allow_private)
            .map_or(Ok(()), |what| Err(format!("{} is {what}", address.to_canonical())))
    }

    async fn look_up(&self, host: &Host) -> Result<Vec<IpAddr>, EgressError> {
        let name = match host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name,
        };
        let unresolved = |reason: String| EgressError::Unresolved { host: name.clone(), reason };
        let looking = async {
            // Never closed, so this does not fail.
            let _permit = self.lookups.acquire().await;
            self.options.resolver.resolve(name).await
        };
        match tokio::time::timeout(LOOKUP_TIMEOUT, looking).await {
            Ok(Ok(addresses)) if addresses.is_empty() => Err(unresolved("it has none".to_owned())),
            Ok(Ok(addresses)) => Ok(addresses.into_iter().map(|address| address.to_canonical()).collect()),
            Ok(Err(error)) => Err(unresolved(error.to_string())),
            Err(_) => Err(unresolved(format!("no answer within {} s", LOOKUP_TIMEOUT.as_secs()))),
        }
    }

    /// Connects to the first of some addresses that answers.
    async fn connect(&self, host: &str, addresses: &[SocketAddr]) -> Result<TcpStream, EgressError> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses.iter().take(MAX_TRIED_ADDRESSES) {
            match tokio::time::timeout(CONNECT_TIMEOUT, self.options.connector.connect(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::Error::from(io::ErrorKind::TimedOut),
            }
        }
        let port = addresses.first().map_or(0, SocketAddr::port);
        Err(EgressError::Unreachable { host: host.to_owned(), port, reason: last.to_string() })
    }

    /// Connects to a proxy, which may be anywhere: whoever runs this machine has chosen it.
    async fn connect_to_proxy(&self, proxy: &UpstreamProxy) -> Result<TcpStream, EgressError> {
        let addresses = self.look_up(&proxy.host).await?;
        let addresses: Vec<_> =
            addresses.into_iter().map(|address| SocketAddr::new(address, proxy.port)).collect();
        self.connect("the proxy of the sandbox's host", &addresses).await
    }
}

/// Names that are local by convention (RFC 6761, RFC 6762, and what clouds call their own).
fn is_local_name(name: &str) -> bool {
    const LOCAL_DOMAINS: [&str; 7] =
        ["localhost", "local", "localdomain", "internal", "intranet", "lan", "home.arpa"];
    let is_in = |domain: &str| {
        name.strip_suffix(domain).is_some_and(|front| front.is_empty() || front.ends_with('.'))
    };
    !name.contains('.') || LOCAL_DOMAINS.iter().any(|domain| is_in(domain))
}

#[cfg(test)]
#[path = "egress/egress_tests.rs"]
mod tests;
