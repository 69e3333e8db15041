//! How fast `gaia view` opens a large run: 165 samples of 100 turns, 16 kB of output each (some 270 MB of logs).
//!
//!     cargo build --release -p gaia --bins
//!     cargo run -p gaia-tests --example view_bench -- target/release/gaia
//!
//! Each page is asked for twice: by a viewer that has just been started, and again. Memory is the most that the process
//! had (`VmHWM`), after all of them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use gaia_tests::made_run;

const SAMPLES: usize = 165;
const TURNS: usize = 100;
const OUTPUT_BYTES: usize = 16 * 1024;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let gaia = std::env::args().nth(1).context("the path of gaia is missing")?;
    let runs = tempfile::tempdir()?;
    made_run::whole(runs.path(), SAMPLES, TURNS, OUTPUT_BYTES)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "| page | first | again | bytes |\n|---|---|---|---|")?;
    let run = "/run/20261102T090000Z-whole";
    let sample = format!("{run}/00000003-1111-4222-8333-000000005ccd/1");
    for path in [
        "/".to_owned(),
        run.to_owned(),
        format!("{run}?correct=no&sort=tokens&order=down"),
        sample.clone(),
        format!("{sample}?turn=100"),
        format!("{run}/search?q=step%2042"),
        format!("{run}/search?q=nowhere%20to%20be%20found"),
    ] {
        let mut viewer = Viewer::start(&gaia, runs.path())?;
        let (first, bytes) = viewer.open(&path).await?;
        let (again, _) = viewer.open(&path).await?;
        writeln!(out, "| {path} | {} ms | {} ms | {bytes} |", first.as_millis(), again.as_millis())?;
        let status = fs_err::read_to_string(format!("/proc/{}/status", viewer.child.id()))?;
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned();
        viewer.child.kill()?;
        viewer.child.wait()?;
        writeln!(out, "|  | {peak} | | |")?;
    }
    Ok(())
}

struct Viewer {
    child: std::process::Child,
    url: String,
}

impl Viewer {
    fn start(gaia: &str, runs: &std::path::Path) -> anyhow::Result<Self> {
        let mut command = Command::new(gaia);
        command.arg("view").arg(runs).args(["--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut said = String::new();
        BufReader::new(child.stderr.take().context("no stderr")?).read_line(&mut said)?;
        let url = said.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
        let url = format!("http://{}", url.context("no address")?.trim_end_matches('/'));
        Ok(Self { child, url })
    }

    async fn open(&self, path: &str) -> anyhow::Result<(Duration, usize)> {
        let begun = Instant::now();
        let page = reqwest::get(format!("{}{path}", self.url)).await?.error_for_status()?.bytes().await?;
        Ok((begun.elapsed(), page.len()))
    }
}
