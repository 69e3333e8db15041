//! Measures what a sandbox costs, beside what `docker exec` costs on the same machine in the same minute, and prints
//! the table for the documentation.
//!
//! `cargo build --release -p gaia-mcp-servers && cargo run --release -p gaia-sandbox --example speed -- IMAGE`
#![allow(clippy::print_stdout)]

mod mcp;
#[path = "../../tests/all/measure.rs"]
mod measure;

use std::time::Duration;

use gaia_sandbox::{Engine, Sandbox, SandboxOptions};

use mcp::{Session, Transport};
use measure::{GIBIBYTE_OF_LINES, GIBIBYTE_WITHOUT_NEWLINE, Result, Times};

#[tokio::main]
async fn main() -> Result<()> {
    let image = std::env::args().nth(1).unwrap_or_else(|| "python:3.11".to_owned());
    let engine = Engine::connect().await?;
    let docker = bollard::Docker::connect_with_host(engine.address())?;
    let mut options = SandboxOptions::new(&image);
    // For the tree of 500 processes.
    options.limits.processes = 700;
    let load = fs_err::read_to_string("/proc/loadavg")?;
    println!("image {image}, load {}", load.split(' ').take(3).collect::<Vec<_>>().join(" "));
    println!("{:<58} {:>9} {:>9}", "milliseconds", "p50", "p99");

    let sandbox = Sandbox::start(&engine, &options).await?;
    let pause = Duration::from_millis(10);
    let calls = measure::calls(&sandbox, "true", 500, pause).await?;
    let program = mcp::server_program()?;
    let mut stdio = Session::open(&program, &image, Transport::Stdio).await?;
    let mut http = Session::open(&program, &image, Transport::Http).await?;
    // In turns, so that what else the machine does meets all alike.
    let (mut by_stdio, mut by_http, mut execs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..10 {
        by_stdio.push(stdio.calls(40, pause).await?);
        by_http.push(http.calls(40, pause).await?);
        execs.push(measure::execs(&docker, &sandbox, "true", 6).await?);
    }
    let (by_stdio, by_http, execs) = (Times::join(by_stdio), Times::join(by_http), Times::join(execs));
    stdio.close().await?;
    http.close().await?;
    row("`true` by the library, 10 ms between calls", &calls.whole);
    row("  of it the guest", &calls.inside);
    row("  back to back", &measure::calls(&sandbox, "true", 500, Duration::ZERO).await?.whole);
    row("  `docker exec` of `true`", &execs);
    row("`bash true` over MCP, stdio", &by_stdio);
    row("`bash true` over MCP, HTTP", &by_http);
    let ratio = execs.median().as_secs_f64() / by_stdio.median().as_secs_f64();
    println!("{:<58} {ratio:>9.1}", "  over stdio times as fast as `docker exec`");
    let program = measure::calls(&sandbox, "/bin/true", 200, pause).await?;
    row("`/bin/true` by the library", &program.whole);
    row("50 x `true` at once", &measure::batches(&sandbox, 50, 10).await?);

    for (name, text) in [("without newline", GIBIBYTE_WITHOUT_NEWLINE), ("in lines", GIBIBYTE_OF_LINES)] {
        let (mut times, mut growth) = (Vec::new(), 0);
        for _ in 0..3 {
            let (took, grown) = measure::output(&sandbox, text).await?;
            times.push(took);
            growth = growth.max(grown);
        }
        let times = Times::new(times);
        let exec = measure::execs(&docker, &sandbox, text, 1).await?;
        row(&format!("1 GiB of output {name}"), &times);
        println!(
            "{:<58} {:>9.1}",
            "  growth of this process's peak memory, MiB",
            growth as f64 / (1 << 20) as f64
        );
        row("  by `docker exec`", &exec);
        let ratio = exec.median().as_secs_f64() / times.median().as_secs_f64();
        println!("{:<58} {ratio:>9.1}", "  times as fast as `docker exec`");
    }

    let limit = Duration::from_secs(2);
    for (name, text) in [
        ("beyond the time limit: cooperative", "sleep 60"),
        ("beyond the time limit: stubborn", "trap '' TERM; sleep 60; sleep 60"),
        ("beyond the time limit: 500 processes", "for i in $(seq 500); do sleep 60 & done; wait"),
    ] {
        let mut times = Vec::new();
        for _ in 0..3 {
            times.push(measure::overshoot(&sandbox, text, limit).await?);
        }
        row(name, &Times::new(times));
    }
    sandbox.close().await?;

    let (cold, ends) = measure::cold_starts(&engine, &options, 8).await?;
    let warm = measure::warm_starts(&engine, &options, 8).await?;
    row("first command, cold container", &cold);
    row("first command, container from the pool", &warm);
    let ratio = cold.median().as_secs_f64() / warm.median().as_secs_f64();
    println!("{:<58} {ratio:>9.1}", "  times as fast as a cold one");
    row("close", &ends);
    row(
        "20 containers at once, first command in each",
        &Times::new(vec![measure::start_together(&engine, &options, 20).await?]),
    );
    Ok(())
}

fn row(name: &str, times: &Times) {
    let milliseconds = |part| times.percentile(part).as_secs_f64() * 1e3;
    println!("{name:<58} {:>9.2} {:>9.2}", milliseconds(50), milliseconds(99));
}
