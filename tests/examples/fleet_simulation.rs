//! What a sample costs the coordinator of a large fleet: the real `gaia run --nats`, a real nats-server, and simulated
//! workers that claim, send trajectories and commit without any work. Writes a line for each part of the run, and draws the
//! curve.
//!
//!     .ci/setup nats
//!     cargo build --release -p gaia -p gaia-mcp-servers --bins
//!     cargo run --release -p gaia-tests --example fleet_simulation -- --draw docs/fleet/simulation.svg
//!
//! The cost of a part is the coordinator's processor time (user and system), and the time that passed, while it took the
//! messages of that part down; its memory is the peak so far. The last line is the whole of the process: reading the
//! dataset and making the report are in it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use gaia_tests::machine::{Used, program, used};
use gaia_tests::nats::NatsServer;
use gaia_tests::scripted::{Options, Script, ScriptedModel};
use gaia_tests::simulated_workers::{SimulatedWorkers, messages_taken_down, offered_run};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 100_000)]
    samples: usize,
    #[arg(long, default_value_t = 100)]
    workers: usize,
    /// Of each sample.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Of each result of a tool.
    #[arg(long, default_value_t = 500)]
    output_bytes: usize,
    /// Points of the curve.
    #[arg(long, default_value_t = 20)]
    parts: usize,
    /// A file for the curve.
    #[arg(long)]
    draw: Option<PathBuf>,
    /// A folder on a disk for the run and the server's files; a temporary one without it.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// Between two looks at the coordinator.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What had been used when so many samples were written.
#[derive(Clone, Copy)]
struct Point {
    samples: f64,
    passed: Duration,
    used: Used,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let folder = match &arguments.folder {
        Some(parent) => tempfile::tempdir_in(parent)?,
        None => tempfile::tempdir()?,
    };
    // Nobody asks it anything but whether it is there.
    let model = ScriptedModel::start(Script::new(), Options::default()).await?;
    write_inputs(&arguments, folder.path(), &model.base_url)?;
    let nats = NatsServer::start(&folder.path().join("jetstream"), &[])?;
    let begun = Instant::now();
    let mut coordinator = Command::new(program("gaia"))
        .args(["--quiet", "run", "c.toml", "--json", "--nats", &nats.url()])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(fs_err::File::create(folder.path().join("printed.json"))?.into_parts().0)
        .kill_on_drop(true)
        .spawn()
        .context("gaia is not built")?;
    let pid = coordinator.id().context("the coordinator ended at once")?;
    let workers = SimulatedWorkers {
        url: nats.url(),
        workers: arguments.workers,
        turns: arguments.turns,
        output_bytes: arguments.output_bytes,
        answer: "blue".to_owned(),
    };
    let ended = CancellationToken::new();
    let working = tokio::spawn(workers.work(ended.clone()));
    let run = offered_run(&nats.url()).await?;
    let context = async_nats::jetstream::new(async_nats::connect(nats.url()).await?);
    let mut points: Vec<Point> = Vec::new();
    let mut last = used(pid).unwrap_or_default();
    let mut look = tokio::time::interval(LOOK_EVERY);
    let status = loop {
        tokio::select! {
            status = coordinator.wait() => break status?,
            _ = look.tick() => {}
        }
        last = used(pid).unwrap_or(last);
        let Ok(messages) = messages_taken_down(&context, &run).await else { continue };
        let samples = messages as f64 / (arguments.turns + 1) as f64;
        let next = points.len() as f64 * arguments.samples as f64 / arguments.parts as f64;
        if samples >= next {
            let point = Point { samples, passed: begun.elapsed(), used: last };
            if let Some(before) = points.last() {
                say(&arguments, before, &point)?;
            }
            points.push(point);
        }
    };
    let whole = begun.elapsed();
    ended.cancel();
    let committed = working.await??;
    ensure!(status.success(), "the coordinator ended with {status}");
    let printed: Value = serde_json::from_slice(&fs_err::read(folder.path().join("printed.json"))?)?;
    let totals = &printed["figures"]["totals"];
    ensure!(
        committed == arguments.samples && totals["correct"] == arguments.samples,
        "{committed} were committed, and not all are right: {totals:#}"
    );
    writeln!(
        std::io::stdout(),
        "{} workers, {} samples of {} turns: {:.0} s, {:.2} ms of processor time of the coordinator a sample, {:.0} MB at most",
        arguments.workers,
        arguments.samples,
        arguments.turns,
        whole.as_secs_f64(),
        last.cpu.as_secs_f64() * 1e3 / arguments.samples as f64,
        megabytes(last)
    )?;
    model.close().await;
    if let Some(path) = &arguments.draw {
        fs_err::write(path, drawn(&arguments, &points))?;
    }
    Ok(())
}

/// Milliseconds a sample between two points: of processor time, and those that passed.
fn cost(before: &Point, after: &Point) -> (f64, f64) {
    let samples = after.samples - before.samples;
    let per_sample = |duration: Duration| duration.as_secs_f64() * 1e3 / samples;
    (per_sample(after.used.cpu - before.used.cpu), per_sample(after.passed - before.passed))
}

fn say(arguments: &Arguments, before: &Point, after: &Point) -> anyhow::Result<()> {
    let (cpu, passed) = cost(before, after);
    writeln!(
        std::io::stdout(),
        "{:>7.0} of {} samples: {cpu:.2} ms of processor time a sample, {passed:.2} ms passed, {:.0} MB at most",
        after.samples,
        arguments.samples,
        megabytes(after.used)
    )?;
    Ok(())
}

fn megabytes(used: Used) -> f64 {
    used.peak_kilobytes as f64 / 1024.0
}

/// A drawing that reads on dark and on light paper.
fn drawn(arguments: &Arguments, points: &[Point]) -> String {
    const WIDTH: f64 = 720.0;
    const HEIGHT: f64 = 300.0;
    const LEFT: f64 = 60.0;
    const BOTTOM: f64 = 250.0;
    const TOP: f64 = 40.0;
    let pairs: Vec<(f64, (f64, f64))> =
        points.windows(2).map(|pair| (pair[1].samples, cost(&pair[0], &pair[1]))).collect();
    let most = pairs.iter().map(|(_, (cpu, passed))| cpu.max(*passed)).fold(0.0, f64::max).max(1.0).ceil();
    let x = |samples: f64| LEFT + samples / arguments.samples as f64 * (WIDTH - LEFT - 20.0);
    let y = |milliseconds: f64| BOTTOM - milliseconds / most * (BOTTOM - TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#888\">\n<text x=\"{LEFT}\" y=\"20\">milliseconds a sample, by samples written; {} \
         workers</text>\n",
        // Half of the last number stands beyond the end.
        WIDTH + 10.0,
        arguments.workers
    );
    for step in 0..=4 {
        let value = most * f64::from(step) / 4.0;
        let at = y(value);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#888\" stroke-opacity=\"0.3\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value:.2}</text>",
            WIDTH - 20.0,
            LEFT - 6.0,
            at + 4.0
        );
        let samples = arguments.samples as f64 * f64::from(step) / 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{samples:.0}</text>",
            x(samples),
            BOTTOM + 18.0
        );
    }
    type Choice = fn(&(f64, f64)) -> f64;
    let lines: [(&str, &str, Choice); 2] = [
        ("processor time of the coordinator", "#d2691e", |cost| cost.0),
        ("time that passed", "#4682b4", |cost| cost.1),
    ];
    for (number, (name, color, choose)) in lines.into_iter().enumerate() {
        let path: Vec<String> = pairs
            .iter()
            .map(|(samples, cost)| format!("{:.1},{:.1}", x(*samples), y(choose(cost))))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/><text x=\"{:.1}\" y=\"{}\" \
             fill=\"{color}\">{name}</text>",
            path.join(" "),
            LEFT + 260.0 * number as f64,
            HEIGHT - 8.0
        );
    }
    svg + "</svg>\n"
}

/// A dataset in which every answer is the same, and a config.
fn write_inputs(arguments: &Arguments, folder: &Path, base_url: &str) -> anyhow::Result<()> {
    let split = folder.join("questions/2023/validation");
    fs_err::create_dir_all(&split)?;
    let mut rows = std::io::BufWriter::new(fs_err::File::create(split.join("metadata.jsonl"))?);
    for number in 0..arguments.samples {
        let row = json!({
            "task_id": format!("{number:06}-of-the-simulation"), "Question": format!("What is number {number:06}?"),
            "Level": 1 + number % 3, "Final answer": "blue", "file_name": "",
        });
        writeln!(rows, "{row}")?;
    }
    rows.flush()?;
    let config = format!(
        "[dataset]\npath = \"questions\"\n[model]\nname = \"simulated\"\nbase_url = {base_url:?}\n[mcp_servers.submit]\n\
         command = \"gaia-mcp-submit\"\n"
    );
    fs_err::write(folder.join("c.toml"), config)?;
    Ok(())
}
