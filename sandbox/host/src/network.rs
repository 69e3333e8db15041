//! How far a sandbox reaches, and what the container needs for it.

use bollard::models::NetworkCreateRequest;

use crate::engine::{self, Engine};
use crate::error::EngineError;

/// Reach of the network inside a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Only the loopback interface of the container itself.
    Off,
    /// Every public host by HTTP and HTTPS, through the egress proxy (see [`crate::EgressOptions`]). The container still
    /// has its loopback interface only, so neither the host's services nor other containers nor link-local and
    /// metadata addresses are within reach. Programs must honour `http_proxy` and `https_proxy`, as curl, wget, pip,
    /// apt, git, npm and Python's libraries do; there is no ping, no UDP and no DNS.
    On,
    /// As [`Network::On`], but only the hosts of [`crate::EgressOptions::allow_hosts`].
    Allow,
    /// A bridge of the engine on which sandboxes do not see each other: every protocol, but also whatever the host and
    /// its networks offer, the metadata service of a cloud included. Only firewall rules of the host can change that.
    Bridge,
}

/// Where the guest listens for programs that want out: the port that proxies usually have.
pub(crate) const PROXY_PORT: u16 = 3128;

const PROXY_ADDRESS: &str = "http://127.0.0.1:3128";
const NOT_PROXIED: &str = "localhost,127.0.0.1,::1";

/// Variables that send programs to the proxy. curl reads `http_proxy` in small letters only, others in capitals only,
/// and Node nothing unless told so.
const PROXY_ENVIRONMENT: [(&str, &str); 7] = [
    ("http_proxy", PROXY_ADDRESS),
    ("https_proxy", PROXY_ADDRESS),
    ("HTTP_PROXY", PROXY_ADDRESS),
    ("HTTPS_PROXY", PROXY_ADDRESS),
    ("no_proxy", NOT_PROXIED),
    ("NO_PROXY", NOT_PROXIED),
    ("NODE_USE_ENV_PROXY", "1"),
];

/// The network for [`Network::Bridge`] and its interface on the host, shared by all sandboxes of an engine.
const BRIDGE_NAME: &str = "gaia-sandbox";

impl Network {
    pub(crate) fn is_proxied(self) -> bool {
        matches!(self, Self::On | Self::Allow)
    }

    /// The engine's name of the network.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Self::Off | Self::On | Self::Allow => "none",
            Self::Bridge => BRIDGE_NAME,
        }
    }

    pub(crate) fn environment(self) -> &'static [(&'static str, &'static str)] {
        if self.is_proxied() { &PROXY_ENVIRONMENT } else { &[] }
    }

    /// Makes the engine's network unless it is there.
    pub(crate) async fn prepare(self, engine: &Engine) -> Result<(), EngineError> {
        let is_there = async || engine.docker.inspect_network(BRIDGE_NAME, None).await.is_ok();
        if self != Self::Bridge || is_there().await {
            return Ok(());
        }
        let options = [
            // Containers on it do not reach each other.
            ("com.docker.network.bridge.enable_icc", "false"),
            // Networks may have the same name, interfaces may not: of two processes that make it at once, one fails.
            ("com.docker.network.bridge.name", BRIDGE_NAME),
        ];
        let wanted = NetworkCreateRequest {
            name: BRIDGE_NAME.to_owned(),
            driver: Some("bridge".to_owned()),
            options: Some(options.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
            ..Default::default()
        };
        match engine.docker.create_network(wanted).await {
            Err(error) if !is_there().await => {
                Err(engine::request(format!("create network `{BRIDGE_NAME}`"), &error))
            }
            _ => Ok(()),
        }
    }
}

impl Engine {
    /// Removes the engine's network of [`Network::Bridge`] when no container is on it; whether one was removed. The next
    /// sandbox that needs it makes it again.
    pub async fn remove_idle_bridge(&self) -> Result<bool, EngineError> {
        match self.docker.remove_network(BRIDGE_NAME).await {
            Ok(()) => Ok(true),
            // 404: there is none. 403 and 409, by version: containers are on it.
            Err(error) if matches!(engine::status_of(&error), Some(403 | 404 | 409)) => Ok(false),
            Err(error) => Err(engine::request(format!("remove network `{BRIDGE_NAME}`"), &error)),
        }
    }
}
