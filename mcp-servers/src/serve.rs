//! The shared main of all our servers: arguments, logging, signals, transports, and an end within two seconds.

mod guard;
mod http;
mod oversized;
mod stdio;

use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::toolset::Toolset;

/// From the signal or the closed stdin to the end of the process, which is to come within two seconds. A container
/// that Docker could not remove in this time dies with the connection that this process holds to it.
const END_TIMEOUT: Duration = Duration::from_millis(1800);

/// How any of our servers is reached.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Serve one client on stdin and stdout (the default)
    #[arg(long, conflicts_with = "http")]
    pub stdio: bool,

    /// Serve streamable HTTP at http://ADDR/mcp, such as 127.0.0.1:8931 (port 0 picks a free one)
    #[arg(long, value_name = "ADDR")]
    pub http: Option<SocketAddr>,

    /// Allow an ADDR that other machines can reach; needs --token-env
    #[arg(long, requires = "http")]
    pub allow_remote: bool,

    /// Environment variable that holds the bearer token every HTTP request must carry, or several with spaces between
    /// them, one for each client
    #[arg(long, value_name = "NAME", requires = "http")]
    pub token_env: Option<String>,

    /// Host name that clients may use for this server, beside localhost and the address of --http (repeatable)
    #[arg(long, value_name = "HOST", requires = "http")]
    pub allowed_host: Vec<String>,

    /// Origin of a web page that may call this server, such as https://example.org (repeatable; none by default)
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allowed_origin: Vec<String>,
}

/// Why a server did not start or had to stop; each variant is one exit code.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The command line is wrong: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Something outside must be put right first (no Docker, no image, port taken): exit code 4.
    #[error("{0}")]
    Environment(String),
    /// Exit code 1.
    #[error("{0}")]
    Unexpected(String),
}

impl ServeError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Unexpected(_) => 1,
            Self::Usage(_) => 2,
            Self::Environment(_) => 4,
        })
    }
}

/// What `start` makes of the command line.
pub enum Start<T> {
    Serve(T),
    /// There is nothing to serve: `--check` found all in order.
    Done,
}

/// Parses the command line `A`, starts the toolset and serves it until the client is gone or a signal comes.
///
/// `start` runs before any byte of the protocol is answered: an environment that cannot work ends the process with
/// exit code 4 and a text on stderr, which hosts show to their user.
pub fn main<A, T, F>(serve_args: impl FnOnce(&A) -> &ServeArgs, start: impl FnOnce(A) -> F) -> ExitCode
where
    A: Parser,
    T: Toolset,
    F: Future<Output = Result<Start<T>, ServeError>>,
{
    let args = match A::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            // A closed terminal is no reason to fail differently.
            let _ = error.print();
            return code;
        }
    };
    start_tracing();
    let serve = serve_args(&args).clone();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return report(&ServeError::Unexpected(format!("failed to start the runtime: {error}")));
        }
    };
    let result = runtime.block_on(run(&serve, start(args)));
    // A read from a terminal cannot be cancelled, and must not keep the process alive.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

async fn run<T: Toolset>(
    serve: &ServeArgs,
    start: impl Future<Output = Result<Start<T>, ServeError>>,
) -> Result<(), ServeError> {
    let stop = stop_on_signals()?;
    // Both are checked before the toolset starts, which may be slow.
    let endpoint = match serve.http {
        Some(address) => Some(http::Endpoint::bind(address, serve).await?),
        None => None,
    };
    let toolset = tokio::select! {
        started = start => match started? {
            Start::Serve(toolset) => Arc::new(toolset),
            Start::Done => return Ok(()),
        },
        () = stop.cancelled() => return Ok(()),
    };
    let (end, served) = match endpoint {
        Some(endpoint) => endpoint.serve(Arc::clone(&toolset), stop).await,
        None => stdio::serve(Arc::clone(&toolset), stop).await,
    };
    if tokio::time::timeout_at(end + END_TIMEOUT, toolset.close()).await.is_err() {
        tracing::warn!("the end took too long; containers that are left end by themselves");
    }
    served
}

/// Cancelled by the first SIGTERM, SIGINT or SIGHUP. The end that follows is bounded, so a second one adds nothing.
fn stop_on_signals() -> Result<CancellationToken, ServeError> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut signals = signal(kind)
            .map_err(|error| ServeError::Unexpected(format!("failed to listen for signals: {error}")))?;
        let stop = stop.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                stop.cancel();
            }
        });
    }
    Ok(stop)
}

/// Logs to stderr: stdout belongs to the protocol. `GAIA_LOG` holds a filter such as `debug`.
fn start_tracing() {
    let default = "warn,gaia_mcp_servers=info,gaia_sandbox=info";
    let filter = EnvFilter::try_from_env("GAIA_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .init();
}

fn report(error: &ServeError) -> ExitCode {
    // Nothing is left to do when stderr is closed too.
    let _ = writeln!(std::io::stderr(), "error: {error}");
    error.exit_code()
}
