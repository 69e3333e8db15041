//! Figures of a sandbox, beside what `docker exec` costs on the same machine in the same minute. Shared by the speed
//! test and the example that prints the table.

use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt};
use gaia_sandbox::{Command, Engine, Output, Pool, Sandbox, SandboxError, SandboxOptions};
use tokio_util::sync::CancellationToken;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// One GiB, without a newline and with nothing else.
pub(crate) const GIBIBYTE_WITHOUT_NEWLINE: &str = "head -c 1073741824 /dev/zero";
/// The same amount in lines of 64 bytes.
pub(crate) const GIBIBYTE_OF_LINES: &str =
    "yes 012345678901234567890123456789012345678901234567890123456789012 | head -c 1073741824";

/// A limit long enough that no command measured here reaches it.
const PLENTY: Duration = Duration::from_secs(300);

/// Times of the same thing done again and again, sorted.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    pub(crate) fn join(all: Vec<Self>) -> Self {
        Self::new(all.into_iter().flat_map(|times| times.0).collect())
    }

    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    pub(crate) fn percentile(&self, part: usize) -> Duration {
        self.0[(self.0.len() - 1) * part / 100]
    }
}

/// Of the same calls: as the caller sees them, and as the guest does.
pub(crate) struct Calls {
    pub(crate) whole: Times,
    pub(crate) inside: Times,
}

pub(crate) async fn run(sandbox: &Sandbox, text: &str) -> std::result::Result<Output, SandboxError> {
    sandbox.run(Command::new(text, PLENTY), |_| {}, &CancellationToken::new()).await
}

/// Calls one after the other, with time between them as a model leaves it.
pub(crate) async fn calls(sandbox: &Sandbox, text: &str, count: usize, pause: Duration) -> Result<Calls> {
    let (mut whole, mut inside) = (Vec::new(), Vec::new());
    for _ in 0..count {
        tokio::time::sleep(pause).await;
        let started = Instant::now();
        inside.push(run(sandbox, text).await?.duration);
        whole.push(started.elapsed());
    }
    Ok(Calls { whole: Times::new(whole), inside: Times::new(inside) })
}

/// What the same costs by `docker exec`: create, start, read to the end, ask for the exit code.
pub(crate) async fn execs(docker: &Docker, sandbox: &Sandbox, text: &str, count: usize) -> Result<Times> {
    let mut times = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        exec(docker, sandbox.container_id(), text).await?;
        times.push(started.elapsed());
    }
    Ok(Times::new(times))
}

async fn exec(docker: &Docker, container: &str, text: &str) -> Result<()> {
    let config = ExecConfig {
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        cmd: Some(vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()]),
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
    tracing::trace!(bytes, "output by docker exec");
    Ok(())
}

/// Batches of commands that run at the same time.
pub(crate) async fn batches(sandbox: &Sandbox, width: usize, count: usize) -> Result<Times> {
    let mut times = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        try_join_all((0..width).map(|_| run(sandbox, "true"))).await?;
        times.push(started.elapsed());
    }
    Ok(Times::new(times))
}

/// Time for a command with much output, and by how many bytes the peak of this process's memory grew meanwhile.
pub(crate) async fn output(sandbox: &Sandbox, text: &str) -> Result<(Duration, u64)> {
    // Peak := current.
    fs_err::write("/proc/self/clear_refs", "5")?;
    let before = peak_memory_bytes()?;
    let started = Instant::now();
    let total_bytes = run(sandbox, text).await?.total_bytes;
    let took = started.elapsed();
    if total_bytes != 1 << 30 {
        return Err(format!("`{text}` wrote {total_bytes} bytes").into());
    }
    Ok((took, peak_memory_bytes()?.saturating_sub(before)))
}

fn peak_memory_bytes() -> Result<u64> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

/// How long after its limit a command that would go on for ever is answered.
pub(crate) async fn overshoot(sandbox: &Sandbox, text: &str, limit: Duration) -> Result<Duration> {
    let started = Instant::now();
    let output = sandbox.run(Command::new(text, limit), |_| {}, &CancellationToken::new()).await?;
    if !output.timed_out {
        return Err(format!("`{text}` ended by itself with {}", output.exit_code).into());
    }
    Ok(started.elapsed().saturating_sub(limit))
}

/// From nothing to the end of the first command, and from there to the end of the container.
pub(crate) async fn cold_starts(
    engine: &Engine,
    options: &SandboxOptions,
    count: usize,
) -> Result<(Times, Times)> {
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let started = Instant::now();
        let sandbox = Sandbox::start(engine, options).await?;
        run(&sandbox, "true").await?;
        starts.push(started.elapsed());
        let started = Instant::now();
        sandbox.close().await?;
        ends.push(started.elapsed());
    }
    Ok((Times::new(starts), Times::new(ends)))
}

/// The same from a pool that is full.
pub(crate) async fn warm_starts(engine: &Engine, options: &SandboxOptions, count: usize) -> Result<Times> {
    let pool = Pool::new(engine.clone(), options.clone(), 2);
    let mut starts = Vec::new();
    for _ in 0..count {
        pool.filled().await;
        let started = Instant::now();
        let sandbox = pool.check_out(None).await?;
        run(&sandbox, "true").await?;
        starts.push(started.elapsed());
        sandbox.close().await?;
    }
    pool.close().await?;
    Ok(Times::new(starts))
}

/// From nothing to the end of the last first command when so many containers are asked for at once.
pub(crate) async fn start_together(
    engine: &Engine,
    options: &SandboxOptions,
    count: usize,
) -> Result<Duration> {
    let pool = Pool::new(engine.clone(), options.clone(), 0);
    let started = Instant::now();
    let sandboxes = try_join_all((0..count).map(async |_| {
        let sandbox = pool.check_out(None).await?;
        run(&sandbox, "true").await?;
        Ok::<_, SandboxError>(sandbox)
    }))
    .await?;
    let took = started.elapsed();
    try_join_all(sandboxes.into_iter().map(Sandbox::close)).await?;
    pool.close().await?;
    Ok(took)
}
