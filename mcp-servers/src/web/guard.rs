//! Keeps requests away from everything but the public internet.
//!
//! Two gates: [`Guard::check`] looks at each URL before anything is done with it, redirects included, and the
//! [`GuardedResolver`] hands only checked addresses to the connector. As the connector connects to the very addresses
//! that were checked, a name that changes between check and use gains nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use gaia_sandbox::{AddressRange, Resolve, why_refused};
use reqwest::dns::{Addrs, Name, Resolving};
use url::{Host, Url};

/// What may be reached.
#[derive(Debug, Clone)]
pub struct Guard {
    allowed: Arc<[AddressRange]>,
    resolver: Arc<dyn Resolve>,
    proxied: Proxied,
}

/// Whether a proxy, and not this process, makes the connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxied {
    No,
    /// Names are looked up here to refuse those that lead to private addresses; one that has no address here is left to
    /// the proxy.
    Yes,
}

/// Why a URL was refused before anything was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Scheme(String),
    NoHost,
    Address { host: String, address: IpAddr, what: &'static str },
    NotAUrl(String),
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme(scheme) => write!(formatter, "only http and https are fetched, not `{scheme}`"),
            Self::NoHost => formatter.write_str("the URL names no host"),
            Self::Address { host, address, what } => write!(
                formatter,
                "{host} resolves to {address}, which is not a public address ({what}). Start the server with \
                 --allow-private-ips to allow private, loopback and link-local addresses, or with --allow-private \
                 and a range"
            ),
            Self::NotAUrl(problem) => {
                write!(
                    formatter,
                    "this is no URL ({problem}); give all of it, such as https://a.example/page"
                )
            }
        }
    }
}

impl Guard {
    pub fn new(allowed: Vec<AddressRange>, resolver: Arc<dyn Resolve>, proxied: Proxied) -> Self {
        Self { allowed: allowed.into(), resolver, proxied }
    }

    /// The URL, when it may be asked for as far as it tells itself: scheme, and host where that is an address in any
    /// notation (the parser reads decimal, octal, hexadecimal and shortened forms as a browser does).
    pub fn parse(text: &str) -> Result<Url, Refusal> {
        let url = Url::parse(text.trim()).map_err(|error| Refusal::NotAUrl(error.to_string()))?;
        match url.scheme() {
            "http" | "https" => Ok(url),
            other => Err(Refusal::Scheme(other.to_owned())),
        }
    }

    /// Refuses what must not be reached. Names are looked up only where a proxy would do it out of our sight.
    pub async fn check(&self, url: &Url) -> Result<(), Refusal> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refusal::Scheme(url.scheme().to_owned()));
        }
        match url.host() {
            None => Err(Refusal::NoHost),
            Some(Host::Ipv4(address)) => self.check_address(address.to_string(), address.into()),
            Some(Host::Ipv6(address)) => self.check_address(format!("[{address}]"), address.into()),
            Some(Host::Domain(name)) => match literal(name) {
                Some(address) => self.check_address(name.to_owned(), address),
                None if self.proxied == Proxied::Yes => match self.resolver.resolve(name).await {
                    Ok(addresses) => addresses
                        .into_iter()
                        .try_for_each(|address| self.check_address(name.to_owned(), address)),
                    Err(_unknown_here) => Ok(()),
                },
                None => Ok(()),
            },
        }
    }

    fn check_address(&self, host: String, address: IpAddr) -> Result<(), Refusal> {
        match why_refused(address, &self.allowed) {
            None => Ok(()),
            Some(what) => Err(Refusal::Address { host, address, what }),
        }
    }

    /// For the HTTP client. `exempt` are the host names of the proxies that the operator has set up.
    pub fn resolver(&self, exempt: BTreeSet<String>) -> GuardedResolver {
        GuardedResolver { guard: self.clone(), exempt: Arc::new(exempt) }
    }
}

/// An address with dots at its end is a name for the URL parser, and an address for a resolver.
fn literal(name: &str) -> Option<IpAddr> {
    let name = name.trim_end_matches('.');
    name.parse().ok().or_else(|| {
        // Read it as the URL parser reads a host, for the notations that only `inet_aton` knows.
        match Url::parse(&format!("http://{name}/")).ok()?.host()? {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    })
}

/// Gives the connector addresses that were checked, and no others.
#[derive(Debug, Clone)]
pub struct GuardedResolver {
    guard: Guard,
    exempt: Arc<BTreeSet<String>>,
}

impl reqwest::dns::Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { guard, exempt } = self.clone();
        Box::pin(async move {
            let name = name.as_str();
            let addresses = guard.resolver.resolve(name).await?;
            if !exempt.contains(name) {
                // One bad address among good ones is how a name is made to change under a check.
                for address in &addresses {
                    guard.check_address(name.to_owned(), *address).map_err(Box::new)?;
                }
            }
            if addresses.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into());
            }
            let addresses: Vec<SocketAddr> =
                addresses.into_iter().map(|address| SocketAddr::new(address, 0)).collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// The refusal inside an error of the HTTP client.
pub(super) fn refusal_in(error: &(dyn std::error::Error + 'static)) -> Option<Refusal> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(refusal) = error.downcast_ref::<Refusal>() {
            return Some(refusal.clone());
        }
        if let Some(boxed) = error.downcast_ref::<Box<Refusal>>() {
            return Some((**boxed).clone());
        }
        next = error.source();
    }
    None
}
