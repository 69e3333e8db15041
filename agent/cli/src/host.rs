//! The allow-listed tools of all servers as one MCP server: what the loop would see, for any MCP client. The only
//! module of this package that names rmcp.

mod endpoint;
mod guard;
mod handler;

pub use endpoint::Endpoint;
pub use guard::{Guard, GuardError};

use std::sync::Arc;

use gaia_agent::tools::ToolHost;
use rmcp::service::{ServerInitializeError, ServiceExt};
use rmcp::transport::io::stdio_pipes;
use tokio_util::sync::CancellationToken;

use handler::Handler;

/// What is served, the same for every client.
#[derive(Debug)]
pub struct Served {
    pub tools: ToolHost,
    /// Bytes of one result that a client is shown.
    pub result_bytes: usize,
}

/// Serves one client on stdin and stdout until stdin closes or `stop` is cancelled. Calls in flight may still answer
/// after the end of stdin; those that take longer are cancelled.
///
/// # Errors
/// When what comes in is no MCP; the text is a clause.
pub async fn serve_stdio(served: &Arc<Served>, stop: &CancellationToken) -> Result<(), String> {
    let (stdin, stdout) = stdio_pipes();
    let handler = Handler::new(served.clone());
    match handler.serve_with_ct((stdin, stdout), stop.child_token()).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| error.to_string()),
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
