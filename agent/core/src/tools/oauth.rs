//! OAuth for servers over HTTP: a login that a person gives once in a browser, and the tokens it leaves.

mod callback;
mod store;

use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadataSource, AuthorizationRequest, AuthorizationSession,
    OAuthClientConfig, OAuthTokenResponse,
};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::Redactor;
use callback::Callback;
pub use store::TokenStore;

/// For a person to sign in, with a second factor and a look for the password.
const LOGIN_PATIENCE: Duration = Duration::from_secs(300);

/// For the requests of the login that wait for no person.
const SERVER_PATIENCE: Duration = Duration::from_secs(30);

/// What a login needs to know.
#[derive(Debug, Clone)]
pub struct Login {
    /// Name of the server in the config, for messages.
    pub server: String,
    pub url: String,
    /// Empty: those that the server asks for.
    pub scopes: Vec<String>,
    /// A client that was registered by hand; `None` registers one.
    pub client: Option<RegisteredClient>,
    /// Of the address on loopback to which the browser is sent back; 0 takes a free one.
    pub redirect_port: u16,
    pub patience: Duration,
}

/// A client that the authorization server knows already.
#[derive(Clone)]
pub struct RegisteredClient {
    pub id: String,
    pub secret: Option<String>,
}

/// What a login left in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    pub scopes: Vec<String>,
    /// Until the first token expires.
    pub expires_in: Option<Duration>,
    /// A token that has expired is renewed without a new login.
    pub renewable: bool,
}

/// Why there is no login; each text is complete and holds no secret.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoginError {
    /// The server has no use for a login.
    #[error("{0}")]
    NotOffered(String),
    /// The person or the authorization server said no.
    #[error("{0}")]
    Denied(String),
    /// Nobody came back from the browser.
    #[error("{0}")]
    TimedOut(String),
    /// The file of tokens cannot be used.
    #[error("{0}")]
    Store(String),
    /// A request failed or an answer made no sense.
    #[error("{0}")]
    Failed(String),
}

impl Login {
    pub fn new(server: &str, url: &str) -> Self {
        Self {
            server: server.to_owned(),
            url: url.to_owned(),
            scopes: Vec::new(),
            client: None,
            redirect_port: 0,
            patience: LOGIN_PATIENCE,
        }
    }
}

/// Signs in at the authorization server of an MCP server: `show` is given the address to open in a browser, and the
/// tokens are in `store` when this returns.
///
/// The code comes back to a listener on loopback (RFC 8252) and is bound to this login by PKCE and `state`.
pub async fn login(
    login: &Login,
    store: &TokenStore,
    show: impl FnOnce(&str) + Send,
) -> Result<Granted, LoginError> {
    let flow = Flow { login };
    let listener = TcpListener::bind(("127.0.0.1", login.redirect_port)).await.map_err(|error| {
        flow.failed(&format!("cannot listen on 127.0.0.1:{}: {error}", login.redirect_port))
    })?;
    let port = listener.local_addr().map_err(|error| flow.failed(&error.to_string()))?.port();
    let callback = Callback { listener, port };

    let url = reqwest::Url::parse(&login.url)
        .map_err(|error| flow.failed(&format!("its `url` is not valid: {error}")))?;
    let session = timeout(SERVER_PATIENCE, flow.session(&url, store, &callback.address()))
        .await
        .map_err(|_| flow.timed_out("the authorization server", SERVER_PATIENCE))??;
    let state = reqwest::Url::parse(&session.auth_url)
        .ok()
        .and_then(|url| {
            url.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned())
        })
        .unwrap_or_default();
    show(&session.auth_url);

    let answered = timeout(login.patience, callback.wait(&state))
        .await
        .map_err(|_| flow.timed_out("the browser", login.patience))?;
    let address = answered.map_err(|reason| LoginError::Denied(flow.text(&reason)))?;
    let tokens = timeout(SERVER_PATIENCE, session.handle_callback_url(&address))
        .await
        .map_err(|_| flow.timed_out("the authorization server", SERVER_PATIENCE))?
        .map_err(|error| flow.error(&error))?;
    if let Some(client) = &login.client {
        store.keep_client_secret(&url, client.secret.as_deref()).map_err(LoginError::Store)?;
    }
    Ok(granted(&tokens, session.auth_manager.get_current_scopes().await))
}

fn granted(tokens: &OAuthTokenResponse, scopes: Vec<String>) -> Granted {
    use oauth_fields::TokenFields;
    Granted { scopes, expires_in: tokens.lifetime(), renewable: tokens.is_renewable() }
}

struct Flow<'a> {
    login: &'a Login,
}

impl Flow<'_> {
    async fn session(
        &self,
        url: &reqwest::Url,
        store: &TokenStore,
        redirect: &str,
    ) -> Result<AuthorizationSession, LoginError> {
        let mut manager = AuthorizationManager::new(url.clone()).await.map_err(|error| self.error(&error))?;
        manager.set_credential_store(store.entry(url, &Redactor::default()));
        let challenge = self.challenge(url).await;
        let resolved = manager
            .resolve_metadata_from_challenge(challenge.as_deref())
            .await
            .map_err(|error| self.error(&error))?;
        if resolved.source == AuthorizationMetadataSource::LegacyEndpointFallback {
            return Err(LoginError::NotOffered(self.text(
                "it publishes no authorization server; if it wants a token, set `bearer_token_env_var` or `headers`",
            )));
        }
        manager.set_metadata(resolved.metadata);
        let mut request =
            AuthorizationRequest::new(redirect).with_client_name("gaia").with_initial_scope_selection();
        if let Some(challenge) = challenge {
            request = request.with_challenge(challenge);
        }
        request.scopes = self.login.scopes.clone();
        if let Some(client) = &self.login.client {
            request = request.with_preregistered_client(&client.id);
            if let Some(secret) = &client.secret {
                request = request.with_client_secret(secret);
            }
        }
        AuthorizationSession::new(manager, request).await.map_err(|(_, error)| self.error(&error))
    }

    /// What the server says when it refuses a request without a token: where its metadata is, and which scopes it wants.
    /// Not every server has them at the well-known addresses.
    async fn challenge(&self, url: &reqwest::Url) -> Option<String> {
        let request = serde_json::json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "gaia", "version": env!("CARGO_PKG_VERSION") },
            },
        });
        let sent = reqwest::Client::new()
            .post(url.clone())
            .header(reqwest::header::ACCEPT, "application/json, text/event-stream")
            .json(&request)
            .send();
        let response =
            sent.await.ok().filter(|response| response.status() == reqwest::StatusCode::UNAUTHORIZED)?;
        let values = response.headers().get_all(reqwest::header::WWW_AUTHENTICATE);
        let mut values = values.iter().filter_map(|value| value.to_str().ok());
        values
            .find(|value| value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer")))
            .map(str::to_owned)
    }

    fn text(&self, reason: &str) -> String {
        format!("failed to log in to MCP server `{}`: {reason}", self.login.server)
    }

    fn failed(&self, reason: &str) -> LoginError {
        LoginError::Failed(self.text(reason))
    }

    fn timed_out(&self, whom: &str, patience: Duration) -> LoginError {
        LoginError::TimedOut(
            self.text(&format!("nothing came back from {whom} within {} s", patience.as_secs())),
        )
    }

    fn error(&self, error: &AuthError) -> LoginError {
        let text = self.text(&describe(error));
        match error {
            AuthError::CredentialStoreError(_) => LoginError::Store(text),
            AuthError::NoAuthorizationSupport => LoginError::NotOffered(text),
            AuthError::AuthorizationFailed(_) | AuthError::InvalidScope(_) => LoginError::Denied(text),
            _ => LoginError::Failed(text),
        }
    }
}

/// An error with its innermost cause.
pub(super) fn describe(error: &AuthError) -> String {
    let outer = error.to_string();
    let mut innermost: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let inner = innermost.to_string();
    if outer.contains(&inner) { outer } else { format!("{outer}: {inner}") }
}

impl TokenStore {
    /// Whoever hands out the tokens for `url`; `None` when nobody has logged in there.
    pub(super) async fn manager(
        &self,
        url: &reqwest::Url,
        redactor: &Redactor,
    ) -> Result<Option<AuthorizationManager>, String> {
        let Some(record) = self.read(url)? else { return Ok(None) };
        let clause = |error: AuthError| format!("cannot use the tokens of its login: {}", describe(&error));
        let mut manager = AuthorizationManager::new(url.clone()).await.map_err(clause)?;
        manager.set_credential_store(self.entry(url, redactor));
        if !manager.initialize_from_store().await.map_err(clause)? {
            return Ok(None);
        }
        if let Some(secret) = &record.client_secret {
            redactor.add("client secret", secret);
            let client = OAuthClientConfig::new(record.credentials.client_id, url.as_str());
            manager.configure_client(client.with_client_secret(secret)).map_err(clause)?;
        }
        Ok(Some(manager))
    }
}

impl std::fmt::Debug for RegisteredClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RegisteredClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The fields of a token response, read from its JSON form: the crate with the trait that names them is rmcp's own.
mod oauth_fields {
    use std::time::Duration;

    use rmcp::transport::auth::OAuthTokenResponse;
    use serde_json::Value;

    pub(super) trait TokenFields {
        fn field(&self, name: &str) -> Option<Value>;

        fn lifetime(&self) -> Option<Duration> {
            self.field("expires_in").and_then(|seconds| seconds.as_u64()).map(Duration::from_secs)
        }

        fn is_renewable(&self) -> bool {
            self.field("refresh_token").is_some_and(|token| token.is_string())
        }

        /// Access and refresh token.
        fn secrets(&self) -> Vec<String> {
            ["access_token", "refresh_token"]
                .iter()
                .filter_map(|name| self.field(name)?.as_str().map(str::to_owned))
                .collect()
        }
    }

    impl TokenFields for OAuthTokenResponse {
        fn field(&self, name: &str) -> Option<Value> {
            serde_json::to_value(self).ok()?.get_mut(name).map(Value::take)
        }
    }
}
