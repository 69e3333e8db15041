//! Speed and memory of two fetch servers on pages of two megabytes.
//!
//!     cargo build --release -p gaia-mcp-servers --bins
//!     cargo run -p gaia-tests --example fetch_bench -- target/release/gaia-mcp-fetch [PATH/TO/mcp-server-fetch]
//!
//! Without a second path, the pinned server that `.ci/setup servers` installed. Both are started with
//! `--allow-private-ips --ignore-robots-txt`, ours without a cache; every call asks for an address of its own, and both
//! get the same calls with the same `max_length`, in turns. Times are of whole calls over stdio. Memory is the most that
//! all processes of a server had together, seen every few milliseconds: what is theirs alone, and their part of what they
//! share (PSS). Ends with an error when ours is not ten times as fast in less than a fifth of the memory.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

const PAGE_BYTES: usize = 2 * 1024 * 1024;
/// Of each length, for ours and for the other: the same for both, as memory grows with them.
const ROUNDS: [usize; 2] = [3, 3];
const AT_ONCE: usize = 50;
const LENGTHS: [u64; 2] = [999_999, 5_000];
const WANTED_SPEED: f64 = 10.0;
const WANTED_MEMORY: f64 = 5.0;
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(5);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let ours = PathBuf::from(arguments.next().context("the path of gaia-mcp-fetch is missing")?);
    let theirs = match arguments.next() {
        Some(path) => Command::new(path),
        None => {
            let mut command = Command::new(gaia_tests::installed::servers().join("bin/uvx"));
            command.arg("mcp-server-fetch");
            command
        }
    };
    let address = serve()?;
    let mut servers =
        [Server::start("gaia-mcp-fetch", Command::new(&ours))?, Server::start("mcp-server-fetch", theirs)?];
    let mut out = std::io::stdout().lock();
    let mut addresses = 0..;
    let mut page = |kind: &str, length: u64| {
        let number = addresses.next().unwrap_or_default();
        json!({ "url": format!("http://{address}/{kind}/{number}"), "max_length": length })
    };
    for server in &mut servers {
        server.call(&[page("small", 5_000)])?;
    }
    let idle = [servers[0].memory_bytes(), servers[1].memory_bytes()];
    writeln!(out, "| | gaia-mcp-fetch | mcp-server-fetch | |\n|---|---|---|---|")?;
    let mut speed = f64::INFINITY;
    for length in LENGTHS {
        let mut times = [Vec::new(), Vec::new()];
        for ((server, times), rounds) in servers.iter_mut().zip(&mut times).zip(ROUNDS) {
            for _ in 0..rounds {
                times.push(server.call(&[page("large", length)])?);
            }
            times.sort();
        }
        let [own, other] = [times[0][ROUNDS[0] / 2], times[1][ROUNDS[1] / 2]];
        let factor = other.as_secs_f64() / own.as_secs_f64();
        speed = speed.min(factor);
        let what = format!("2 MB page, {length} characters of it, median of {ROUNDS:?}");
        writeln!(out, "| {what} | {own:.0?} | {other:.0?} | {factor:.0} times as fast |")?;
    }
    let peak = [servers[0].peak_bytes(), servers[1].peak_bytes()];
    for (what, [own, other]) in [("memory, idle", idle), ("memory, most for these calls", peak)] {
        let (mine, other) = (own as f64 / 1e6, other as f64 / 1e6);
        writeln!(out, "| {what} | {mine:.0} MB | {other:.0} MB | 1/{:.1} of it |", other / mine)?;
    }
    let memory = peak[1] as f64 / peak[0] as f64;
    for (kind, what) in [("small", "small pages"), ("large", "2 MB pages")] {
        let calls: Vec<Value> = (0..AT_ONCE).map(|_| page(kind, 5_000)).collect();
        let own = servers[0].call(&calls)?;
        let other =
            if kind == "small" { format!("{:.1?}", servers[1].call(&calls)?) } else { "–".to_owned() };
        let most = servers[0].peak_bytes() as f64 / 1e6;
        writeln!(out, "| {AT_ONCE} {what} at once | {own:.1?}, {most:.0} MB at most | {other} | |")?;
    }
    anyhow::ensure!(speed >= WANTED_SPEED, "only {speed:.1} times as fast");
    anyhow::ensure!(memory > WANTED_MEMORY, "only 1/{memory:.1} of the memory");
    Ok(())
}

struct Server {
    name: &'static str,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
    peak_bytes: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Server {
    fn start(name: &'static str, mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .args(["--allow-private-ips", "--ignore-robots-txt"])
            .env_remove("GAIA_WEB_CACHE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("failed to start {name}"))?;
        let stdin = child.stdin.take().context("stdin")?;
        let stdout = BufReader::new(child.stdout.take().context("stdout")?);
        let (peak_bytes, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (pid, peak, stop) = (child.id(), peak_bytes.clone(), ended.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                peak.fetch_max(tree_bytes(pid), Ordering::Relaxed);
                std::thread::sleep(LOOK);
            }
        });
        let mut server = Self { name, child, stdin, stdout, next_id: 0, peak_bytes, ended };
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "bench", "version": "0" } });
        server.ask("initialize", &[hello])?;
        writeln!(server.stdin, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(server)
    }

    /// The time until all calls are answered.
    fn call(&mut self, arguments: &[Value]) -> anyhow::Result<Duration> {
        let calls: Vec<Value> =
            arguments.iter().map(|arguments| json!({ "name": "fetch", "arguments": arguments })).collect();
        let start = Instant::now();
        let replies = self.ask("tools/call", &calls)?;
        let time = start.elapsed();
        for reply in replies {
            let text = reply["result"]["content"][0]["text"].as_str().unwrap_or_default();
            let is_page = text.contains("Place 1") || text.contains("A small page");
            anyhow::ensure!(
                reply["result"]["isError"] != true && is_page,
                "{} failed: {reply:.300}",
                self.name
            );
        }
        Ok(time)
    }

    /// Sends all requests, then reads until each has its reply.
    fn ask(&mut self, method: &str, params: &[Value]) -> anyhow::Result<Vec<Value>> {
        for params in params {
            self.next_id += 1;
            let request = json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params });
            writeln!(self.stdin, "{request}")?;
        }
        let mut replies = Vec::new();
        while replies.len() < params.len() {
            let mut line = String::new();
            anyhow::ensure!(self.stdout.read_line(&mut line)? > 0, "{} ended", self.name);
            let message: Value = serde_json::from_str(&line)?;
            if message.get("id").is_some() {
                replies.push(message);
            }
        }
        Ok(replies)
    }

    fn memory_bytes(&self) -> u64 {
        tree_bytes(self.child.id())
    }

    fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // It ends with its input; this is for one that does not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Memory of a process and of all that it started. A process that ends meanwhile has none.
fn tree_bytes(root: u32) -> u64 {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs_err::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(parent) = parent(&entry.path()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut waiting = vec![root];
    let mut total = 0;
    while let Some(pid) = waiting.pop() {
        let rollup = fs_err::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
        total += line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() * 1024;
        waiting.extend(children.remove(&pid).unwrap_or_default());
    }
    total
}

/// The second field behind the name, which may itself hold spaces and parentheses.
fn parent(process: &Path) -> Option<u32> {
    let stat = fs_err::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A page as an encyclopedia has them: menus, an infobox, sections with links, notes, lists, pictures and tables, and
/// the attributes that all of that has.
fn large_page() -> String {
    let mut page = String::from(
        "<!doctype html><html lang=en><head><meta charset=utf-8><title>Lights of the coast</title>\
         <link rel=stylesheet href=/s.css><script>window.data={a:1,b:'<p>'}</script><style>.x{color:red}</style></head>\
         <body class='skin page-Lights'><nav id=menu class='site-nav'><ul>",
    );
    (0..60).for_each(|number| {
        page.push_str(&format!("<li><a href='/menu/{number}' class=m>Menu entry {number}</a></li>"))
    });
    page.push_str("</ul></nav><main id=content><h1>Lights of the coast</h1>");
    let mut number = 0;
    while page.len() < PAGE_BYTES {
        number += 1;
        page.push_str(&format!(
            "<h2 id=s{number}><span class='headline'>Section {number}</span><span class=edit>[<a href='/edit/{number}'>edit</a>]</span></h2>\
             <p>The light of <a href='/wiki/Place_{number}' title='Place {number}' class='mw-redirect'>Place {number}</a> stood \
             <b>{number} metres</b> above the sea, and its keeper wrote down wind and tide day by day.<sup id='r{number}' \
             class='reference'><a href='#n{number}'>[{number}]</a></sup> It was lit in <time datetime='18{:02}'>18{:02}</time> \
             &amp; put out &ndash; for good &ndash; a century later.</p>\
             <figure class='thumb'><img src='/img/{number}.jpg' width=220 height=160 alt='The tower of Place {number}' loading=lazy>\
             <figcaption>The tower in winter</figcaption></figure>\
             <table class='wikitable sortable' style='width:100%'><caption>Keepers</caption><thead><tr><th scope=col>Year<th \
             scope=col>Keeper<th scope=col>Ships</tr></thead><tbody>",
            number % 100,
            number % 100
        ));
        for row in 0..6 {
            page.push_str(&format!(
                "<tr><td data-sort-value='{row}'>19{row:02}</td><td><a href='/wiki/Keeper_{row}'>Keeper {number}</a></td><td align=right>{}</td></tr>",
                number * 7 + row
            ));
        }
        page.push_str(&format!(
            "</tbody></table><ul><li>First note on {number}</li><li>Second note, with <em>emphasis</em> and <code>code</code>\
             <ol><li>one</li><li>two</li></ol></li></ul>"
        ));
    }
    page.push_str("</main><footer><p>Imprint</p></footer></body></html>");
    page
}

fn serve() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let large: Arc<str> = large_page().into();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let large = large.clone();
            std::thread::spawn(move || answer(stream, &large));
        }
    });
    Ok(address)
}

fn answer(mut stream: TcpStream, large: &str) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(600))).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            if reader.read_line(&mut request).ok()? == 0 {
                return None;
            }
        }
        let body = if request.starts_with("GET /large") {
            large
        } else {
            "<html><body><p>A small page.</p></body></html>"
        };
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .ok()?;
    }
}
