//! Measures what a command costs, beside what `docker exec` costs on the same machine in the same minute.
//!
//! `cargo run --release -p gaia-sandbox --example speed -- IMAGE`
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use futures_util::{StreamExt, TryStreamExt};
use gaia_sandbox::{Command, Engine, Output, Sandbox, SandboxError, SandboxOptions};
use tokio_util::sync::CancellationToken;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let image = std::env::args().nth(1).unwrap_or_else(|| "python:3.11".to_owned());
    let engine = Engine::connect().await?;
    let docker = bollard::Docker::connect_with_host(engine.address())?;

    let (mut starts, mut closes) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let started = Instant::now();
        let sandbox = Sandbox::start(&engine, &SandboxOptions::new(&image)).await?;
        run(&sandbox, "true").await?;
        starts.push(started.elapsed());
        let started = Instant::now();
        sandbox.close().await?;
        closes.push(started.elapsed());
    }
    report("start to first command", starts);
    report("close", closes);

    let sandbox = Sandbox::start(&engine, &SandboxOptions::new(&image)).await?;
    for (name, text, pause) in [
        ("true, back to back", "true", Duration::ZERO),
        ("true, 10 ms between calls", "true", Duration::from_millis(10)),
        ("/bin/true, 10 ms between calls", "/bin/true", Duration::from_millis(10)),
    ] {
        let mut times = Vec::new();
        let mut inside = Vec::new();
        for _ in 0..300 {
            tokio::time::sleep(pause).await;
            let started = Instant::now();
            inside.push(run(&sandbox, text).await?.duration);
            times.push(started.elapsed());
        }
        report(name, times);
        report("  of it inside the guest", inside);
    }
    let mut times = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        exec(&docker, sandbox.container_id(), &["true"]).await?;
        times.push(started.elapsed());
    }
    report("docker exec true", times);

    let mut times = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let runs = (0..50).map(|_| run(&sandbox, "true"));
        futures_util::future::try_join_all(runs).await?;
        times.push(started.elapsed());
    }
    report("50 x true at once", times);

    let text = "head -c 1073741824 /dev/zero";
    let mut times = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        run(&sandbox, text).await?;
        times.push(started.elapsed());
    }
    report("1 GiB of output", times);
    let started = Instant::now();
    let bytes = exec(&docker, sandbox.container_id(), &["sh", "-c", text]).await?;
    report(&format!("1 GiB of output by docker exec ({bytes} bytes)"), vec![started.elapsed()]);

    for (name, text) in [
        ("timeout, cooperative: beyond the limit", "sleep 60"),
        ("timeout, stubborn: beyond the limit", "trap '' TERM; sleep 60; sleep 60"),
        ("timeout, 400 processes: beyond the limit", "for i in $(seq 400); do sleep 60 & done; wait"),
    ] {
        let limit = Duration::from_secs(2);
        let started = Instant::now();
        let command = Command::new(text, limit);
        sandbox.run(command, |_| {}, &CancellationToken::new()).await?;
        report(name, vec![started.elapsed().saturating_sub(limit)]);
    }
    sandbox.close().await?;
    Ok(())
}

async fn run(sandbox: &Sandbox, text: &str) -> std::result::Result<Output, SandboxError> {
    sandbox.run(Command::new(text, Duration::from_secs(120)), |_| {}, &CancellationToken::new()).await
}

/// Bytes of output.
async fn exec(docker: &bollard::Docker, container: &str, command: &[&str]) -> Result<usize> {
    let config = ExecConfig {
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        cmd: Some(command.iter().map(|word| (*word).to_owned()).collect()),
        ..Default::default()
    };
    let id = docker.create_exec(container, config).await?.id;
    let mut bytes = 0;
    if let StartExecResults::Attached { mut output, .. } = docker.start_exec(&id, None).await? {
        while let Some(piece) = output.try_next().await? {
            let (LogOutput::StdOut { message }
            | LogOutput::StdErr { message }
            | LogOutput::Console { message }
            | LogOutput::StdIn { message }) = piece;
            bytes += message.len();
        }
        let _ = output.next().await;
    }
    docker.inspect_exec(&id).await?;
    Ok(bytes)
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!("{name:<46} min {:>9.2}  p50 {:>9.2}  p99 {:>9.2} ms", at(0), at(50), at(99));
}
