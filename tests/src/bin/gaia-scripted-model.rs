//! The scripted model as a program: prints its base URL as one line of JSON and serves until it is told to end, or
//! until its standard input ends with whoever started it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use gaia_tests::scripted::{ApiKey, CallForm, Dialect, FaultRate, Options, Script, ScriptedModel};
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

/// Serve scripted replies as an OpenAI-compatible model.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Script: JSON lines, one task each.
    #[arg(long, value_name = "FILE")]
    script: PathBuf,
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Share of requests that meet a fault, such as `429=0.05`; may be given several times.
    #[arg(long = "fault", value_name = "KIND=RATE")]
    faults: Vec<FaultRate>,
    /// Seed of the chance by which faults are drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Wait before every reply.
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// What `Retry-After` says.
    #[arg(long, default_value_t = 1)]
    retry_after_secs: u64,
    /// Refuse longer requests, at four bytes a token, as a provider with this window would.
    #[arg(long)]
    window_tokens: Option<u64>,
    /// Environment variable with the key that requests must carry.
    #[arg(long, value_name = "VARIABLE")]
    api_key_env: Option<String>,
    #[arg(long, value_enum, default_value_t = Dialect::OpenAi)]
    dialect: Dialect,
    /// How calls are said to a client that offers tools natively.
    #[arg(long, value_enum, default_value_t = CallForm::Native)]
    call_form: CallForm,
    /// What to do when standard input ends.
    #[arg(long, value_enum, default_value_t = OnStdinEnd::Exit)]
    on_stdin_end: OnStdinEnd,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnStdinEnd {
    /// End: whoever started this is gone.
    Exit,
    /// Go on, for use by hand.
    Ignore,
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(filter).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.context("failed to start").and_then(|runtime| {
        let outcome = runtime.block_on(serve(Arguments::parse()));
        // A read of standard input that has not ended cannot be cancelled and must not be waited for.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    let api_key = match &arguments.api_key_env {
        Some(variable) => {
            ApiKey::Required(std::env::var(variable).with_context(|| format!("`{variable}` is not set"))?)
        }
        None => ApiKey::NotChecked,
    };
    let options = Options {
        listen: arguments.listen,
        seed: arguments.seed,
        faults: arguments.faults,
        latency: Duration::from_millis(arguments.latency_ms),
        retry_after_secs: arguments.retry_after_secs,
        window_tokens: arguments.window_tokens,
        max_in_flight: None,
        api_key,
        dialect: arguments.dialect,
        call_form: arguments.call_form,
    };
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let script = Script::read(&arguments.script)?;
    let listen = options.listen;
    let model = ScriptedModel::start(script, options)
        .await
        .with_context(|| format!("failed to listen on `{listen}`"))?;
    writeln!(std::io::stdout(), "{}", json!({"base_url": model.base_url}))
        .context("failed to print the base URL")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = stdin_end(), if arguments.on_stdin_end == OnStdinEnd::Exit => {}
    }
    model.close().await;
    Ok(())
}

async fn stdin_end() {
    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 1024];
    while stdin.read(&mut ignored).await.is_ok_and(|count| count > 0) {}
}
