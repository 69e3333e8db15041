//! What the harness costs around a model of no latency: 165 samples of 20 tool calls each, 20 samples at a time.
//!
//!     cargo build --release -p gaia -p gaia-tests -p gaia-mcp-servers --bins
//!     cargo build --release -p gaia-agent --example overhead
//!     cargo run --release -p gaia-tests --example loop_bench -- [PYTHON]
//!
//! `gaia run` asks the scripted model over HTTP, streamed, calls a tool of an MCP server over stdio that is started for
//! each sample, and keeps its whole record; processor time and peak memory (`VmHWM`) are those of the process `gaia`
//! alone. PYTHON is that of an environment with inspect-ai, which then does the same with its own scripted model and a
//! tool in its own process (`inspect_peer.py`), without HTTP, MCP or other processes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use gaia_tests::machine::{Used, used};
use gaia_tests::scripted::{TaskScript, turn};
use serde_json::{Value, json};

const SAMPLES: usize = 165;
const CALLS: usize = 20;
const AT_ONCE: usize = 20;

/// The last look at a process comes at most so long before its end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

fn main() -> anyhow::Result<()> {
    let peer = std::env::args().nth(1);
    let mut out = std::io::stdout().lock();
    let ours = measure_gaia()?;
    writeln!(out, "{SAMPLES} samples of {CALLS} tool calls, {AT_ONCE} at a time: {} turns", turns())?;
    ours.print(&mut out, "gaia run")?;
    if let Some(python) = peer {
        let theirs = measure_peer(&python)?;
        theirs.print(&mut out, "inspect eval")?;
        writeln!(
            out,
            "ratio: processor time {:.1}, memory {:.1}",
            theirs.used.cpu.as_secs_f64() / ours.used.cpu.as_secs_f64(),
            theirs.used.peak_kilobytes as f64 / ours.used.peak_kilobytes as f64
        )?;
    }
    Ok(())
}

/// The last of a sample hands in the answer.
fn turns() -> usize {
    SAMPLES * (CALLS + 1)
}

struct Cost {
    wall: Duration,
    /// By the whole process, its start included.
    used: Used,
}

impl Cost {
    fn print(&self, out: &mut impl Write, name: &str) -> std::io::Result<()> {
        writeln!(
            out,
            "{name}: {:.2} ms of processor time a turn ({:.2} s in all), peak memory {:.0} MB, {:.1} s",
            self.used.cpu.as_secs_f64() * 1e3 / turns() as f64,
            self.used.cpu.as_secs_f64(),
            self.used.peak_kilobytes as f64 / 1024.0,
            self.wall.as_secs_f64()
        )
    }
}

fn measure_gaia() -> anyhow::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let programs = programs()?;
    let question = |number: usize| format!("Question {number:03} of the bench?");
    let mut rows = String::new();
    let mut script = String::new();
    for number in 0..SAMPLES {
        let row = json!({
            "task_id": format!("bench-{number:03}"), "Question": question(number), "Level": 1,
            "Final answer": "42", "file_name": "",
        });
        rows.push_str(&format!("{row}\n"));
        let calls = (0..CALLS)
            .map(|call| turn::call("echo", json!({ "text": format!("call {call} says something") })));
        let task = TaskScript::new(&question(number), calls.chain([turn::submit("42")]));
        script.push_str(&format!("{}\n", serde_json::to_string(&task)?));
    }
    let split = folder.path().join("samples/2023/validation");
    fs_err::create_dir_all(&split)?;
    fs_err::write(split.join("metadata.jsonl"), rows)?;
    let script_path = folder.path().join("script.jsonl");
    fs_err::write(&script_path, script)?;

    let mut model = Running(
        Command::new(programs.join("gaia-scripted-model"))
            .arg("--script")
            .arg(&script_path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("gaia-scripted-model is not built")?,
    );
    let mut line = String::new();
    BufReader::new(model.0.stdout.take().context("no stdout")?).read_line(&mut line)?;
    let ready: Value = serde_json::from_str(&line)?;
    let echo = programs.join("examples/overhead");
    ensure!(echo.is_file(), "`{}` is not built", echo.display());
    let config = format!(
        "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = {}\n[run]\nconcurrency = {AT_ONCE}\n\
         [mcp_servers.echo]\ncommand = {echo:?}\nargs = [\"serve\"]\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
        ready["base_url"]
    );
    fs_err::write(folder.path().join("c.toml"), config)?;
    let begun = Instant::now();
    let mut gaia = Running(
        Command::new(programs.join("gaia"))
            .args(["--quiet", "run", "c.toml", "--json"])
            .current_dir(folder.path())
            .stdout(fs_err::File::create(folder.path().join("stdout"))?.into_parts().0)
            .spawn()
            .context("gaia is not built")?,
    );
    let mut last = Used::default();
    let status = loop {
        last = used(gaia.0.id()).unwrap_or(last);
        if let Some(status) = gaia.0.try_wait()? {
            break status;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let wall = begun.elapsed();
    ensure!(status.success(), "gaia ended with {status}");
    let printed: Value = serde_json::from_str(&fs_err::read_to_string(folder.path().join("stdout"))?)?;
    let totals = &printed["figures"]["totals"];
    ensure!(totals["correct"] == SAMPLES, "not all samples are right: {totals:#}");
    Ok(Cost { wall, used: last })
}

fn measure_peer(python: &str) -> anyhow::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inspect_peer.py");
    let numbers = [SAMPLES, CALLS, AT_ONCE].map(|number| number.to_string());
    let output = Command::new(python)
        .arg(script)
        .args(numbers)
        .current_dir(folder.path())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("failed to start `{python}`"))?;
    ensure!(output.status.success(), "the peer ended with {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let cost: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    let seconds = |name: &str| cost[name].as_f64().map(Duration::from_secs_f64).context("no figure");
    let peak_kilobytes = cost["peak_kilobytes"].as_u64().context("no figure")?;
    Ok(Cost { wall: seconds("wall")?, used: Used { cpu: seconds("cpu")?, peak_kilobytes } })
}

/// The folder of the programs of this build.
fn programs() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(Path::parent).context("this program is in no build folder")?;
    Ok(folder.to_owned())
}

/// A process that ends with this program.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
