use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::tools::start_all;
use crate::args::HostArguments;
use crate::config::{Loaded, Purpose};
use crate::exit_code::{self, CommandError, CommandResult};
use crate::host::{Endpoint, Guard, Served, serve_stdio};
use crate::signals::ends;

/// For the calls of clients that are gone to be cancelled and to come back.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) async fn host(arguments: HostArguments, surroundings: &Surroundings) -> CommandResult {
    let loaded = surroundings.load(&arguments.config, Vec::new(), Purpose::Tools)?;
    let stop = ends()?;
    // Before the servers start, which may be slow.
    let endpoint = match arguments.http {
        Some(address) => {
            let guard = Guard::new(address, &arguments, &loaded.environment).map_err(CommandError::usage)?;
            let bound = Endpoint::bind(address, guard).await.map_err(|error| {
                CommandError::environment(
                    anyhow::Error::from(error).context(format!("failed to listen on `{address}`")),
                )
            })?;
            Some(bound)
        }
        None => None,
    };
    let started = tokio::select! {
        started = start_all(&loaded) => started,
        () = stop.cancelled() => return Ok(exit_code::SUCCESS),
    };
    let (tools, _files) = started?;
    let served = Arc::new(Served { tools, result_bytes: loaded.config.agent.result_bytes });
    let result = serve(endpoint, &served, &stop, &loaded, surroundings).await;
    stop.cancel();
    if let Some(served) = alone(served).await {
        served.tools.close().await;
    }
    result?;
    Ok(exit_code::SUCCESS)
}

/// What is served, when no handler has it any more: their calls are cancelled, and give it up one by one.
async fn alone(mut served: Arc<Served>) -> Option<Served> {
    let deadline = Instant::now() + RELEASE_TIMEOUT;
    loop {
        served = match Arc::try_unwrap(served) {
            Ok(served) => return Some(served),
            Err(served) => served,
        };
        if Instant::now() > deadline {
            // Dropping the last reference kills the processes.
            tracing::warn!("calls are still running; their servers are killed");
            return None;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn serve(
    endpoint: Option<Endpoint>,
    served: &Arc<Served>,
    stop: &CancellationToken,
    loaded: &Loaded,
    surroundings: &Surroundings,
) -> CommandResult<()> {
    let names: Vec<&str> = loaded.servers.iter().map(|server| server.name.as_str()).collect();
    let what = format!("{} tools of {}", served.tools.offered().len(), names.join(", "));
    match endpoint {
        Some(endpoint) => {
            let url = endpoint.url();
            surroundings.console.say(&format!("{what}; listening on {url}"));
            Ok(endpoint.serve(served.clone(), stop).await?)
        }
        None => {
            surroundings.console.say(&format!("{what}; serving stdin and stdout"));
            serve_stdio(served.clone(), stop)
                .await
                .map_err(|reason| anyhow::anyhow!("the client does not speak MCP: {reason}").into())
        }
    }
}
