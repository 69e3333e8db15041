use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};

use super::oauth_fields::TokenFields;
use crate::tools::Redactor;
use crate::tools::spec::without_secrets;

/// Version of the file; a file of another one is not touched.
const FORMAT: u32 = 1;

/// A file that holds the tokens of all logins, readable by its owner only.
#[derive(Debug, Clone)]
pub struct TokenStore {
    path: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    format: u32,
    /// By the address of the MCP server: two configs may call it by different names.
    servers: BTreeMap<String, Record>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    pub(super) credentials: StoredCredentials,
}

impl TokenStore {
    /// Nothing is read or written yet; the file and its folder are made at the first login.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether somebody has logged in to the server at `url`. The error names the file.
    pub fn has_login(&self, url: &str) -> Result<bool, String> {
        Ok(self.contents()?.servers.contains_key(&without_secrets(url)))
    }

    /// Forgets the login at `url`; `false` when there was none.
    pub fn forget(&self, url: &str) -> Result<bool, String> {
        self.change(|servers| servers.remove(&without_secrets(url)).is_some())
    }

    pub(super) fn read(&self, url: &reqwest::Url) -> Result<Option<Record>, String> {
        Ok(self.contents()?.servers.remove(&key(url)))
    }

    pub(super) fn keep_client_secret(&self, url: &reqwest::Url, secret: Option<&str>) -> Result<(), String> {
        self.change(|servers| {
            if let Some(record) = servers.get_mut(&key(url)) {
                record.client_secret = secret.map(str::to_owned);
            }
        })
    }

    pub(super) fn entry(&self, url: &reqwest::Url, redactor: &Redactor) -> Entry {
        Entry { store: self.clone(), key: key(url), redactor: redactor.clone() }
    }

    fn contents(&self) -> Result<Contents, String> {
        let bytes = match fs_err::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Contents { format: FORMAT, servers: BTreeMap::new() });
            }
            Err(error) => return Err(self.failed("read", &error)),
        };
        // Without serde's own text, which may quote a token.
        let contents: Contents = serde_json::from_slice(&bytes).map_err(|_| {
            format!("the file of tokens `{}` is damaged; remove it and log in again", self.path.display())
        })?;
        match contents.format {
            FORMAT => Ok(contents),
            other => Err(format!(
                "the file of tokens `{}` has format {other}, this version knows {FORMAT}; use another file",
                self.path.display()
            )),
        }
    }

    /// Reads, changes and replaces the file while no other process does.
    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Record>) -> T) -> Result<T, String> {
        let written = |error: io::Error| self.failed("write", &error);
        if let Some(folder) = self.path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(written)?;
        }
        let _lock = lock(&self.beside("lock")).map_err(written)?;
        let mut contents = self.contents()?;
        let changed = change(&mut contents.servers);
        let new = self.beside("new");
        let mut file = private().truncate(true).open(&new).map_err(written)?;
        file.write_all(&serde_json::to_vec_pretty(&contents).map_err(|error| written(error.into()))?)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs_err::rename(&new, &self.path))
            .map_err(written)?;
        Ok(changed)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".");
        name.push(ending);
        name.into()
    }

    fn failed(&self, doing: &str, error: &io::Error) -> String {
        format!("failed to {doing} the file of tokens `{}`: {error}", self.path.display())
    }
}

fn key(url: &reqwest::Url) -> String {
    without_secrets(url.as_str())
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

fn lock(path: &Path) -> io::Result<File> {
    let file = private().open(path)?;
    file.lock()?;
    Ok(file)
}

/// The tokens of one server, as rmcp reads and renews them.
pub(super) struct Entry {
    store: TokenStore,
    key: String,
    /// Told of every token that passes.
    redactor: Redactor,
}

impl Entry {
    fn watch(&self, credentials: &StoredCredentials) {
        for token in credentials.token_response.iter().flat_map(TokenFields::secrets) {
            self.redactor.add("access token", &token);
        }
    }
}

#[async_trait::async_trait]
impl CredentialStore for Entry {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let mut contents = self.store.contents().map_err(AuthError::CredentialStoreError)?;
        let credentials = contents.servers.remove(&self.key).map(|record| record.credentials);
        credentials.iter().for_each(|credentials| self.watch(credentials));
        Ok(credentials)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.watch(&credentials);
        let change = |servers: &mut BTreeMap<String, Record>| {
            let client_secret = servers.remove(&self.key).and_then(|record| record.client_secret);
            servers.insert(self.key.clone(), Record { client_secret, credentials });
        };
        self.store.change(change).map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.store.change(|servers| drop(servers.remove(&self.key))).map_err(AuthError::CredentialStoreError)
    }

    /// One process at a time: a refresh token often works once only.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let path = self.store.beside("refresh");
        let failed = |error: &dyn std::fmt::Display| {
            AuthError::CredentialStoreError(format!("failed to lock the file of tokens: {error}"))
        };
        let locked =
            tokio::task::spawn_blocking(move || lock(&path)).await.map_err(|error| failed(&error))?;
        Ok(Some(CredentialRefreshGuard::new(locked.map_err(|error| failed(&error))?)))
    }
}
