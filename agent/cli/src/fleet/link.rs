use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::{Client, ConnectOptions};
use serde::Deserialize;

use crate::config::Secret;
use crate::environment::{Environment, NATS_PASSWORD, NATS_TOKEN, NATS_USER};

/// How to reach a server and who one is there.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// Servers of one cluster, with commas between.
    pub url: String,
    /// A credentials file: a JWT and the seed of its key.
    pub creds: Option<PathBuf>,
    /// A file with the seed of an nkey.
    pub nkey: Option<PathBuf>,
    /// Certificates to trust beside those of the system.
    pub ca: Option<PathBuf>,
    /// Certificate and key of this client.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    pub user_and_password: Option<(String, Secret)>,
    pub token: Option<Secret>,
}

impl Connection {
    /// Adds what must not stand in an argument list.
    #[must_use]
    pub fn with_secrets_of(mut self, environment: &Environment) -> Self {
        let get = |name| environment.get_filled(name);
        if let (Some(user), Some(password)) = (get(NATS_USER), get(NATS_PASSWORD)) {
            self.user_and_password = Some((user.to_owned(), Secret::new(password)));
        }
        self.token = get(NATS_TOKEN).map(Secret::new);
        self
    }

    /// The address without credentials, for people.
    pub fn shown(&self) -> String {
        let servers = self.url.split(',').map(|server| match (server.find("://"), server.rfind('@')) {
            (Some(scheme), Some(at)) if at > scheme => {
                format!("{}{}", &server[..scheme + 3], &server[at + 1..])
            }
            (None, Some(at)) => server[at + 1..].to_owned(),
            _ => server.to_owned(),
        });
        servers.collect::<Vec<_>>().join(",")
    }
}

/// The server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("failed to read `{}`: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
    #[error("failed to connect to NATS at `{url}`: {reason}")]
    Refused { url: String, reason: String },
    #[error("NATS at `{url}` has no JetStream for this account: {reason}")]
    NoJetStream { url: String, reason: String },
}

/// A connection that comes back by itself. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Link {
    pub(super) client: Client,
    pub(super) context: jetstream::Context,
}

/// Of one request to the server. Short, since everything is tried again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Between two tries to reach a server that is gone.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// Messages that are sent without waiting for what the server says to the first of them.
const MAX_IN_FLIGHT: usize = 1_024;

impl Link {
    pub async fn connect(connection: &Connection, name: &str) -> Result<Self, ConnectError> {
        let read = |path: &PathBuf| {
            fs_err::read_to_string(path).map_err(|error| ConnectError::File { path: path.clone(), error })
        };
        let mut options = ConnectOptions::new()
            .name(name)
            .request_timeout(Some(REQUEST_TIMEOUT))
            .max_reconnects(None)
            .reconnect_delay_callback(|_| RECONNECT_DELAY)
            .ping_interval(Duration::from_secs(10))
            .event_callback(|event| async move { tracing::info!("nats: {event}") });
        if let Some(path) = &connection.creds {
            let text = read(path)?;
            options = options
                .credentials(&text)
                .map_err(|error| ConnectError::File { path: path.clone(), error })?;
        }
        if let Some(path) = &connection.nkey {
            options = options.nkey(read(path)?.trim().to_owned());
        }
        if let Some((user, password)) = &connection.user_and_password {
            options = options.user_and_password(user.clone(), password.expose().to_owned());
        }
        if let Some(token) = &connection.token {
            options = options.token(token.expose().to_owned());
        }
        if let Some(ca) = &connection.ca {
            options = options.add_root_certificates(ca.clone());
        }
        if let Some((certificate, key)) = &connection.client_certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        let servers: Vec<String> = connection.url.split(',').map(|server| server.trim().to_owned()).collect();
        let client = options.connect(servers).await.map_err(|error| ConnectError::Refused {
            url: connection.shown(),
            reason: with_causes(&error),
        })?;
        let context = jetstream::context::ContextBuilder::new()
            .timeout(REQUEST_TIMEOUT)
            .ack_timeout(REQUEST_TIMEOUT)
            .max_ack_inflight(MAX_IN_FLIGHT)
            .backpressure_on_inflight(true)
            .build(client.clone());
        match account(&context).await {
            Ok(()) => Ok(Self { client, context }),
            Err(reason) => Err(ConnectError::NoJetStream { url: connection.shown(), reason }),
        }
    }

    /// Sends what is still to be sent.
    pub async fn close(self) {
        if let Err(error) = self.client.flush().await {
            tracing::debug!("nats: the last messages may not have been sent: {error}");
        }
    }
}

/// Whether this account may use JetStream. The library's own question wants more of the answer than older servers say.
async fn account(context: &jetstream::Context) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Answer {
        error: Option<Refusal>,
    }
    #[derive(Deserialize)]
    struct Refusal {
        description: String,
    }
    let answer: Answer = context.request("INFO", &()).await.map_err(|error| with_causes(&error))?;
    answer.error.map_or(Ok(()), |refusal| Err(refusal.description))
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let shown = |url: &str| Connection { url: url.to_owned(), ..Connection::default() }.shown();
        assert_eq!(shown("nats://u:p@a:4222,tls://b:4222"), "nats://a:4222,tls://b:4222");
        assert_eq!(shown("u:p@a"), "a");
        assert_eq!(shown("nats://a"), "nats://a");
    }
}
