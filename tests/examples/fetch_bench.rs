//! Speed and memory of two fetch servers on the same page of two megabytes.
//!
//!     cargo build --release -p gaia-mcp-servers --bins
//!     cargo run --release -p gaia-tests --example fetch_bench -- target/release/gaia-mcp-fetch PATH/TO/mcp-server-fetch
//!
//! Each server is started with `--allow-private-ips --ignore-robots-txt`, fetches the page once to warm up, then a number
//! of times one after the other; ours also gets fifty small pages at once. Times are of whole calls over stdio; memory is
//! the most that the process ever had resident (`VmHWM`).

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

const PAGE_BYTES: usize = 2 * 1024 * 1024;
const ROUNDS: usize = 5;
const AT_ONCE: usize = 50;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let ours = arguments.next().context("the path of gaia-mcp-fetch is missing")?;
    let theirs = arguments.next();
    let address = serve()?;
    let mut out = std::io::stdout().lock();
    for program in std::iter::once(ours).chain(theirs) {
        let mut server = Server::start(&program)?;
        let fetch = |path: &str| json!({ "url": format!("http://{address}{path}"), "max_length": 999_999 });
        server.call(&[fetch("/large")])?;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            server.call(&[fetch("/large")])?;
            times.push(start.elapsed());
        }
        times.sort();
        let start = Instant::now();
        let many: Vec<Value> = (0..AT_ONCE).map(|number| fetch(&format!("/small/{number}"))).collect();
        server.call(&many)?;
        writeln!(
            out,
            "{program}: 2 MB page {:?} (median of {ROUNDS}), {AT_ONCE} pages at once {:?}, memory {} MB",
            times[ROUNDS / 2],
            start.elapsed(),
            server.peak_memory_kilobytes()? / 1024
        )?;
    }
    Ok(())
}

struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

impl Server {
    fn start(program: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(["--allow-private-ips", "--ignore-robots-txt"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = child.stdin.take().context("stdin")?;
        let stdout = BufReader::new(child.stdout.take().context("stdout")?);
        let mut server = Self { child, stdin, stdout, next_id: 0 };
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "bench", "version": "0" } });
        server.ask("initialize", &[hello])?;
        writeln!(server.stdin, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(server)
    }

    fn call(&mut self, arguments: &[Value]) -> anyhow::Result<()> {
        let calls: Vec<Value> =
            arguments.iter().map(|arguments| json!({ "name": "fetch", "arguments": arguments })).collect();
        for reply in self.ask("tools/call", &calls)? {
            anyhow::ensure!(
                reply["result"]["isError"] != true,
                "the fetch failed: {}",
                reply["result"]["content"][0]["text"]
            );
        }
        Ok(())
    }

    /// Sends all requests, then reads until each has its reply.
    fn ask(&mut self, method: &str, params: &[Value]) -> anyhow::Result<Vec<Value>> {
        for params in params {
            self.next_id += 1;
            writeln!(
                self.stdin,
                "{}",
                json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params })
            )?;
        }
        let mut replies = Vec::new();
        while replies.len() < params.len() {
            let mut line = String::new();
            anyhow::ensure!(self.stdout.read_line(&mut line)? > 0, "the server ended");
            let message: Value = serde_json::from_str(&line)?;
            if message.get("id").is_some() {
                replies.push(message);
            }
        }
        Ok(replies)
    }

    fn peak_memory_kilobytes(&self) -> anyhow::Result<u64> {
        let status = fs_err::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends with its input; this is for one that does not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A page of text, links and tables, as an encyclopedia has them.
fn large_page() -> String {
    let mut page = String::from(
        "<!doctype html><html lang=en><head><title>Lights of the coast</title></head><body><nav><a href=/>Home</a></nav><main>",
    );
    let mut number = 0;
    while page.len() < PAGE_BYTES {
        number += 1;
        page.push_str(&format!(
            "<h2 id=s{number}>Section {number}</h2><p>The light of <a href='/wiki/Place_{number}'>Place {number}</a> stood \
             <b>{number} metres</b> above the sea, and its keeper wrote down wind and tide day by day.<sup><a href='#n{number}'>[{number}]</a></sup></p>\
             <table><tr><th>Year<th>Keeper<th>Ships</tr><tr><td>19{:02}<td>Keeper {number}<td>{}</tr></table>\
             <ul><li>First note on {number}</li><li>Second note, with <em>emphasis</em></li></ul>",
            number % 100,
            number * 7
        ));
    }
    page.push_str("</main></body></html>");
    page
}

fn serve() -> anyhow::Result<std::net::SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let large = large_page();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let large = large.clone();
            std::thread::spawn(move || answer(stream, &large));
        }
    });
    Ok(address)
}

fn answer(mut stream: std::net::TcpStream, large: &str) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
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
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
    }
}
