//! What the queue of more than one machine costs: the same samples around a model of no latency, by `gaia run` alone and
//! by a coordinator, a nats-server and three workers on this machine, in turns.
//!
//!     .ci/setup nats
//!     cargo build --release -p gaia -p gaia-tests -p gaia-mcp-servers --bins
//!     cargo run --release -p gaia-tests --example fleet_bench
//!
//! Each sample has a container, calls `bash` five times and hands in what the container said; `--calls 0` leaves the
//! containers out, so that hardly anything is left but the queue. Times are those from the start of `gaia run` to its end;
//! the workers are up before. Memory is that of the coordinator (`VmHWM`), looked at after a quarter of its samples and at
//! its end.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use gaia_tests::machine::{program, sandbox_image, used};
use gaia_tests::nats::NatsServer;
use gaia_tests::scripted::{Options, Script, ScriptedModel, TaskScript, turn};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 1_000)]
    samples: usize,
    /// Commands in the container of each sample; without any there is no container.
    #[arg(long, default_value_t = 5)]
    calls: usize,
    /// Of each worker; alone, `gaia run` has as many as all workers together.
    #[arg(long, default_value_t = 2)]
    at_once: usize,
    #[arg(long, default_value_t = 1)]
    rounds: usize,
}

const WORKERS: usize = 3;

/// Between two looks at the coordinator.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// For workers to say that they are there.
const START_LIMIT: Duration = Duration::from_secs(30);

struct Cost {
    wall: Duration,
    cpu: Duration,
    quarter_kilobytes: u64,
    peak_kilobytes: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let folder = tempfile::tempdir()?;
    let (rows, script) = questions(&arguments);
    let split = folder.path().join("questions/2023/validation");
    fs_err::create_dir_all(&split)?;
    fs_err::write(split.join("metadata.jsonl"), rows)?;
    for round in 1..=arguments.rounds {
        let alone = measure(&arguments, folder.path(), script.clone(), None).await?;
        let nats = NatsServer::start(&folder.path().join(format!("jetstream-{round}")), &[])?;
        let fleet = measure(&arguments, folder.path(), script.clone(), Some(nats.url())).await?;
        let megabytes = |kilobytes: u64| kilobytes as f64 / 1024.0;
        writeln!(
            std::io::stdout(),
            "{} samples of {} calls: alone {:.1} s, with {WORKERS} workers {:.1} s, ratio {:.3}; processor time {:.1} s alone, \
             {:.1} s of the coordinator; memory {:.0} MB alone, of the coordinator {:.0} MB after a quarter and {:.0} MB at the end",
            arguments.samples,
            arguments.calls,
            alone.wall.as_secs_f64(),
            fleet.wall.as_secs_f64(),
            fleet.wall.as_secs_f64() / alone.wall.as_secs_f64(),
            alone.cpu.as_secs_f64(),
            fleet.cpu.as_secs_f64(),
            megabytes(alone.peak_kilobytes),
            megabytes(fleet.quarter_kilobytes),
            megabytes(fleet.peak_kilobytes)
        )?;
    }
    Ok(())
}

/// One run, by the workers of that server if there is one.
async fn measure(
    arguments: &Arguments,
    folder: &Path,
    script: Script,
    nats: Option<String>,
) -> anyhow::Result<Cost> {
    let model = ScriptedModel::start(script, Options::default()).await?;
    fs_err::write(folder.join("c.toml"), config(arguments, &model.base_url))?;
    let mut workers = Vec::new();
    let at_once = match &nats {
        None => arguments.at_once * WORKERS,
        Some(url) => {
            for _ in 0..WORKERS {
                let at_once = arguments.at_once.to_string();
                workers.push(gaia(
                    folder,
                    &["--quiet", "worker", "--nats", url, "--config", "c.toml", "--concurrency", &at_once],
                )?);
            }
            are_there(folder, url).await?;
            arguments.at_once
        }
    };
    let at_once = at_once.to_string();
    let mut command = vec!["--quiet", "run", "c.toml", "--json", "--concurrency", &at_once];
    if let Some(url) = &nats {
        command.extend(["--nats", url.as_str()]);
    }
    let begun = Instant::now();
    let mut run = gaia(folder, &command)?;
    let mut stdout = run.stdout.take().context("no stdout")?;
    let pid = run.id().context("it ended at once")?;
    let (mut last, mut quarter_kilobytes) = (used(pid).unwrap_or_default(), 0);
    // A reply for each call and one that hands in the answer.
    let quarter = (arguments.samples * (arguments.calls + 1) / 4) as u64;
    let printed = async {
        let mut text = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stdout, &mut text).await.map(|_| text)
    };
    tokio::pin!(printed);
    let printed = loop {
        tokio::select! {
            printed = &mut printed => break printed?,
            () = tokio::time::sleep(LOOK_EVERY) => {
                last = used(pid).unwrap_or(last);
                if quarter_kilobytes == 0 && model.stats().ok >= quarter {
                    quarter_kilobytes = last.peak_kilobytes;
                }
            }
        }
    };
    let status = run.wait().await?;
    let wall = begun.elapsed();
    ensure!(status.success(), "gaia ended with {status}");
    let totals = &serde_json::from_str::<Value>(&printed)?["figures"]["totals"];
    ensure!(totals["correct"] == arguments.samples, "not all samples are right: {totals:#}");
    for mut worker in workers {
        worker.kill().await?;
    }
    model.close().await;
    Ok(Cost { wall, cpu: last.cpu, quarter_kilobytes, peak_kilobytes: last.peak_kilobytes })
}

fn gaia(folder: &Path, arguments: &[&str]) -> anyhow::Result<Child> {
    let mut command = Command::new(program("gaia"));
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command.spawn().context("gaia is not built")
}

async fn are_there(folder: &Path, url: &str) -> anyhow::Result<()> {
    let until = Instant::now() + START_LIMIT;
    loop {
        let output = gaia(folder, &["workers", "--nats", url, "--json"])?.wait_with_output().await?;
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if listed.as_array().is_some_and(|workers| workers.len() == WORKERS) {
            return Ok(());
        }
        ensure!(Instant::now() < until, "the workers are not there after {START_LIMIT:?}: {listed}");
    }
}

fn config(arguments: &Arguments, base_url: &str) -> String {
    let bash = match arguments.calls {
        0 => String::new(),
        _ => format!(
            "[mcp_servers.bash]\ncommand = \"gaia-mcp-bash\"\nargs = [\"--image\", {:?}]\nenv_vars = [\"DOCKER_HOST\"]\n\
             enabled_tools = [\"bash\"]\n",
            sandbox_image()
        ),
    };
    format!(
        "[dataset]\npath = \"questions\"\n[model]\nname = \"scripted\"\nbase_url = {base_url:?}\n{bash}[mcp_servers.submit]\n\
         command = \"gaia-mcp-submit\"\n"
    )
}

/// The rows of a snapshot, and what is done about each.
fn questions(arguments: &Arguments) -> (String, Script) {
    let (mut rows, mut script) = (String::new(), Script::new());
    for number in 0..arguments.samples {
        let question = format!("Question {number:04}: how many lines are there?");
        let row = json!({
            "task_id": format!("{number:04}-of-the-bench"), "Question": question, "Level": 1 + number % 3,
            "Final answer": "300", "file_name": "",
        });
        rows.push_str(&format!("{row}\n"));
        let calls = (0..arguments.calls).map(|call| turn::bash(&format!("seq 1 {}; uname -s", call * 100)));
        script = script.with(TaskScript::new(&question, calls.chain([turn::submit("300")])));
    }
    (rows, script)
}
