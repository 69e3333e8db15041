//! What the whole line costs around a model of no latency: each sample has a container of its own, calls `bash` five times
//! and hands in what the container said.
//!
//!     cargo build --release -p gaia -p gaia-tests -p gaia-mcp-servers --bins
//!     cargo run --release -p gaia-tests --example line_bench
//!
//! A crowd to look at on this terminal: `-- --samples 165 --at-once 100 --latency-ms 6000`. `--gaia` names another program.
//!
//! Processor time is that of `gaia` and of everything it started and waited for, its MCP servers among them; memory is the
//! most that all of them had together, each page they share counted once (PSS), and that of the process `gaia` alone
//! (`VmHWM`). What the engine and the commands in the containers take is in neither.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use gaia_tests::machine::{Used, program, sandbox_image, used};
use gaia_tests::scripted::{Options, Script, ScriptedModel, TaskScript, turn};
use serde_json::{Value, json};

#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 40)]
    samples: usize,
    #[arg(long, default_value_t = 20)]
    at_once: usize,
    /// Of each reply.
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// The network of the containers, as `gaia-mcp-bash --network` takes it.
    #[arg(long, default_value = "on")]
    network: String,
    #[arg(long)]
    gaia: Option<PathBuf>,
}

const CALLS: usize = 5;

/// GAIA's validation split has so many questions of each level.
const LEVELS: [(u8, usize); 3] = [(1, 53), (2, 86), (3, 26)];

/// Between two looks at the processes.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let folder = tempfile::tempdir()?;
    let (rows, script) = questions(arguments.samples);
    let split = folder.path().join("questions/2023/validation");
    fs_err::create_dir_all(&split)?;
    fs_err::write(split.join("metadata.jsonl"), rows)?;
    let latency = Duration::from_millis(arguments.latency_ms);
    let model = ScriptedModel::start(script, Options { latency, ..Options::default() }).await?;
    let config = format!(
        "[dataset]\npath = \"questions\"\n[model]\nname = \"scripted\"\nbase_url = {:?}\n[run]\nconcurrency = {}\n\
         [mcp_servers.bash]\ncommand = \"gaia-mcp-bash\"\nargs = [\"--image\", {:?}, \"--network\", {:?}]\n\
         env_vars = [\"DOCKER_HOST\"]\nenabled_tools = [\"bash\"]\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
        model.base_url,
        arguments.at_once,
        sandbox_image(),
        arguments.network
    );
    fs_err::write(folder.path().join("c.toml"), config)?;
    let result = folder.path().join("result.json");
    let begun = Instant::now();
    let mut gaia = tokio::process::Command::new(arguments.gaia.unwrap_or_else(|| program("gaia")))
        .args(["run", "c.toml", "--json"])
        .current_dir(folder.path())
        .stdout(fs_err::File::create(&result)?.into_parts().0)
        .kill_on_drop(true)
        .spawn()
        .context("gaia is not built")?;
    let pid = gaia.id().context("it ended at once")?;
    let (mut alone, mut together_kilobytes, mut first_request) = (Used::default(), 0, None);
    let status = loop {
        tokio::select! {
            status = gaia.wait() => break status?,
            () = model.wait_until(|stats| stats.requests > 0), if first_request.is_none() => {
                first_request = Some(begun.elapsed());
            }
            () = tokio::time::sleep(LOOK_EVERY) => {
                alone = used(pid).unwrap_or(alone);
                together_kilobytes = together_kilobytes.max(pss_of_family(pid));
            }
        }
    };
    let wall = begun.elapsed();
    let stats = model.stats();
    model.close().await;
    ensure!(status.success(), "gaia ended with {status}");
    let printed: Value = serde_json::from_str(&fs_err::read_to_string(&result)?)?;
    let totals = &printed["figures"]["totals"];
    ensure!(totals["correct"] == arguments.samples, "not all samples are right: {totals:#}");
    writeln!(
        std::io::stdout(),
        "{} samples, {} at a time: {:.1} s, first request after {:.2} s, processor time {:.2} s, peak memory {:.0} MB in all \
         and {:.0} MB in gaia, at most {} requests under way",
        arguments.samples,
        arguments.at_once,
        wall.as_secs_f64(),
        first_request.unwrap_or_default().as_secs_f64(),
        time_of_children()?.as_secs_f64(),
        together_kilobytes as f64 / 1024.0,
        alone.peak_kilobytes as f64 / 1024.0,
        stats.max_in_flight
    )?;
    Ok(())
}

/// The rows of a snapshot, and what is done about each.
fn questions(samples: usize) -> (String, Script) {
    let (mut rows, mut script) = (String::new(), Script::new());
    let levels = LEVELS.into_iter().flat_map(|(level, count)| std::iter::repeat_n(level, count));
    for (number, level) in levels.cycle().take(samples).enumerate() {
        let question = format!("Question {number:04}: how many lines are there?");
        let row = json!({
            "task_id": format!("{number:04}-of-the-bench"), "Question": question, "Level": level,
            "Final answer": "300", "file_name": "",
        });
        rows.push_str(&format!("{row}\n"));
        let mut turns: Vec<_> =
            (1..CALLS).map(|call| turn::bash(&format!("seq 1 {}; uname -s", call * 100))).collect();
        turns.push(turn::bash("echo ANSWER: $(seq 1 300 | wc -l)"));
        turns.push(turn::submit("${answer}"));
        script = script.with(TaskScript::new(&question, turns));
    }
    (rows, script)
}

/// Of a process and everything below it.
fn pss_of_family(pid: u32) -> u64 {
    let own = fs_err::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok().and_then(|text| {
        let pss = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        pss.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    let threads = fs_err::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs_err::read_to_string(thread.path().join("children")).ok());
    let below =
        children.flat_map(|pids| pids.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>());
    own.unwrap_or_default() + below.map(pss_of_family).sum::<u64>()
}

/// Processor time of the processes that this one has waited for, and of those that these have.
fn time_of_children() -> anyhow::Result<Duration> {
    /// Linux counts in these for everyone, whatever its own clock is.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs_err::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    let both = ticks(13).zip(ticks(14)).context("`/proc/self/stat` is not as it is documented")?;
    Ok(Duration::from_secs_f64((both.0 + both.1) / TICKS_PER_SECOND))
}
