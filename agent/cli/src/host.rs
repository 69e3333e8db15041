//! The allow-listed tools of all servers as one MCP server: what the loop would see, for any MCP client. The only
//! module of this package that names rmcp.

mod endpoint;
mod guard;
mod handler;

pub use endpoint::Endpoint;
pub use guard::{Guard, GuardError};

use std::sync::Arc;

use async_trait::async_trait;
use gaia_agent::Part;
use gaia_agent::desk::{Called, Desk, DeskTool};
use gaia_agent::tools::{ProgressSink, ToolHost, validate};
use rmcp::service::{ServerInitializeError, ServiceExt};
use rmcp::transport::io::stdio_pipes;
use tokio_util::sync::CancellationToken;

use handler::Handler;
use serde_json::{Map, Value};

use crate::shown::shown;

/// Tools that are served, the same for every client.
#[async_trait]
pub trait Hosted: Send + Sync {
    /// Names, descriptions and schemas as a model request of the loop carries them.
    fn tools(&self) -> Vec<DeskTool>;

    /// Names of the servers that are behind the tools.
    fn servers(&self) -> Vec<String>;

    /// The result as a model would be shown it; `name` is one of `tools`.
    async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
        progress: ProgressSink,
    ) -> Called;
}

/// The tools of a config, as they are.
#[derive(Debug)]
pub struct Served {
    pub tools: ToolHost,
    /// Bytes of one result that a client is shown.
    pub result_bytes: usize,
}

#[async_trait]
impl Hosted for Served {
    fn tools(&self) -> Vec<DeskTool> {
        let offered = self.tools.definitions().into_iter().zip(self.tools.offered());
        offered
            .map(|(definition, offered)| DeskTool { definition, annotations: offered.annotations })
            .collect()
    }

    fn servers(&self) -> Vec<String> {
        self.tools.servers().map(|server| server.name().to_owned()).collect()
    }

    async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
        progress: ProgressSink,
    ) -> Called {
        let refused =
            |text: String| Called { content: vec![Part::Text { text }], structured: None, is_error: true };
        let Some(tool) = self.tools.offered().iter().find(|tool| tool.model_name == name) else {
            return refused(format!("there is no tool `{name}`"));
        };
        // As in a run: what does not fit the schema never reaches the server.
        let arguments = match validate(&Value::Object(arguments).to_string(), tool) {
            Ok(arguments) => arguments,
            Err(reason) => {
                return refused(format!(
                    "the arguments of `{}` were not accepted: {reason}",
                    tool.model_name
                ));
            }
        };
        let output = self.tools.call_watched(tool, arguments, cancel, Some(progress)).await;
        // The same limit: a client would give it to its model.
        let structured =
            output.structured.filter(|structured| structured.to_string().len() <= self.result_bytes);
        let content = shown(&output.content, self.result_bytes);
        Called { content, structured, is_error: output.is_error }
    }
}

#[async_trait]
impl Hosted for Desk {
    fn tools(&self) -> Vec<DeskTool> {
        self.tools()
    }

    fn servers(&self) -> Vec<String> {
        self.servers()
    }

    async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
        progress: ProgressSink,
    ) -> Called {
        self.call(name, arguments, cancel, Some(progress)).await
    }
}

/// Serves one client on stdin and stdout until stdin closes or `stop` is cancelled. Calls in flight may still answer
/// after the end of stdin; those that take longer are cancelled.
///
/// # Errors
/// When what comes in is no MCP; the text is a clause.
pub async fn serve_stdio(served: Arc<dyn Hosted>, stop: &CancellationToken) -> Result<(), String> {
    let (stdin, stdout) = stdio_pipes();
    let handler = Handler::new(served);
    match handler.serve_with_ct((stdin, stdout), stop.child_token()).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| error.to_string()),
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
