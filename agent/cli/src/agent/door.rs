use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use gaia_agent::desk::Desk;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::host::{Endpoint, Guard};

/// Bytes of the token: as many as a key of AES has, so that nobody guesses it.
const TOKEN_BYTES: usize = 16;

/// The way to a desk for MCP clients of this machine that know the token.
pub(super) struct Door {
    pub(super) url: String,
    pub(super) token: String,
    /// A file with the one server, as other hosts write it.
    pub(super) config: PathBuf,
    /// Private to this user; also for what the agent writes.
    folder: TempDir,
    stop: CancellationToken,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Door {
    pub(super) async fn open(desk: Arc<Desk>) -> std::io::Result<Self> {
        let token: String =
            rand::random::<[u8; TOKEN_BYTES]>().iter().map(|byte| format!("{byte:02x}")).collect();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let endpoint = Endpoint::bind(address, Guard::with_token(token.clone())).await?;
        let url = endpoint.url();
        let folder = tempfile::Builder::new().prefix("gaia-agent-").tempdir()?;
        fs_err::create_dir(folder.path().join("work"))?;
        let config = folder.path().join("mcp.json");
        let servers = json!({ "mcpServers": { "gaia": {
            "type": "http", "url": url, "headers": { "Authorization": format!("Bearer {token}") },
        } } });
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&config)?;
        file.write_all(format!("{servers:#}\n").as_bytes())?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let serving = tokio::spawn(async move { endpoint.serve(desk, &stopped).await });
        Ok(Self { url, token, config, folder, stop, serving })
    }

    /// An empty folder to work in.
    pub(super) fn work_folder(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// No call gets in any more; those that run are cancelled.
    pub(super) async fn close(self) {
        self.stop.cancel();
        match self.serving.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the tools of an agent were not served to the end: {error}"),
            Err(error) => tracing::warn!("serving the tools of an agent failed: {error}"),
        }
        if let Err(error) = self.folder.close() {
            tracing::warn!("failed to remove the folder of an agent: {error}");
        }
    }
}
