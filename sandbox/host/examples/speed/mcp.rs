//! The least a client of `gaia-mcp-bash` can be: JSON-RPC by hand, so that what is measured is the server's.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::measure::{Result, Times};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"speed","version":"0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const TRUE: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bash","arguments":{"command":"true"}}}"#;

/// The server's program, in the folder above that of this example.
pub(crate) fn server_program() -> Result<PathBuf> {
    let example = std::env::current_exe()?;
    let program = example.ancestors().nth(2).unwrap_or(Path::new(".")).join("gaia-mcp-bash");
    if program.exists() {
        return Ok(program);
    }
    Err(format!("`{}` is absent: `cargo build --release -p gaia-mcp-servers`", program.display()).into())
}

/// A session with a server that runs for it alone.
pub(crate) struct Session {
    server: Child,
    way: Way,
}

enum Way {
    Stdio { input: ChildStdin, output: BufReader<ChildStdout> },
    Http { stream: BufReader<TcpStream>, host: String, session: String },
}

/// How the server is spoken to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
}

impl Session {
    pub(crate) async fn open(program: &Path, image: &str, transport: Transport) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["--image", image]).kill_on_drop(true);
        let mut session = match transport {
            Transport::Stdio => {
                let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
                let input = server.stdin.take().ok_or("no standard input")?;
                let output = BufReader::new(server.stdout.take().ok_or("no standard output")?);
                Self { server, way: Way::Stdio { input, output } }
            }
            Transport::Http => {
                let mut server = command.args(["--http", "127.0.0.1:0"]).stderr(Stdio::piped()).spawn()?;
                let mut lines = BufReader::new(server.stderr.take().ok_or("no standard error")?).lines();
                let host = loop {
                    let line = lines.next_line().await?.ok_or("the server ended")?;
                    if let Some((_, rest)) = line.split_once("listening on http://") {
                        break rest.split('/').next().unwrap_or_default().to_owned();
                    }
                };
                // Whatever else it says must not fill the pipe.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                let stream = TcpStream::connect(&host).await?;
                stream.set_nodelay(true)?;
                let way = Way::Http { stream: BufReader::new(stream), host, session: String::new() };
                Self { server, way }
            }
        };
        session.exchange(INITIALIZE).await?;
        session.notify(INITIALIZED).await?;
        // The first one waits for the container.
        session.call().await?;
        Ok(session)
    }

    /// Times of calls of `true`, one after the other, with time between them as a model leaves it.
    pub(crate) async fn calls(&mut self, count: usize, pause: Duration) -> Result<Times> {
        let mut times = Vec::new();
        for _ in 0..count {
            tokio::time::sleep(pause).await;
            let started = Instant::now();
            self.call().await?;
            times.push(started.elapsed());
        }
        Ok(Times::new(times))
    }

    pub(crate) async fn close(mut self) -> Result<()> {
        drop(self.way);
        if let Some(pid) = self.server.id() {
            Command::new("kill").arg(pid.to_string()).status().await?;
        }
        self.server.wait().await?;
        Ok(())
    }

    async fn call(&mut self) -> Result<()> {
        let answer = self.exchange(TRUE).await?;
        if answer.contains("\"exit_code\":0") {
            return Ok(());
        }
        Err(format!("`true` was answered with {answer}").into())
    }

    async fn notify(&mut self, message: &str) -> Result<()> {
        match &mut self.way {
            Way::Stdio { input, .. } => {
                input.write_all(format!("{message}\n").as_bytes()).await?;
                Ok(input.flush().await?)
            }
            Way::Http { .. } => self.exchange(message).await.map(drop),
        }
    }

    async fn exchange(&mut self, message: &str) -> Result<String> {
        match &mut self.way {
            Way::Stdio { input, output } => {
                input.write_all(format!("{message}\n").as_bytes()).await?;
                input.flush().await?;
                let mut line = String::new();
                output.read_line(&mut line).await?;
                Ok(line)
            }
            Way::Http { stream, host, session } => {
                let named =
                    if session.is_empty() { String::new() } else { format!("Mcp-Session-Id: {session}\r\n") };
                let request = format!(
                    "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
                     Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{named}\r\n{message}",
                    message.len()
                );
                stream.write_all(request.as_bytes()).await?;
                let (head, body) = read_response(stream).await?;
                if let Some(line) =
                    head.lines().find(|line| line.to_lowercase().starts_with("mcp-session-id:"))
                {
                    *session = line[15..].trim().to_owned();
                }
                Ok(body)
            }
        }
    }
}

/// The head and the body of one answer on a connection that stays open.
async fn read_response(stream: &mut BufReader<TcpStream>) -> Result<(String, String)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Err(format!("the server closed the connection after {head:?}").into());
        }
    }
    let lower = head.to_lowercase();
    let mut body = Vec::new();
    if lower.contains("transfer-encoding: chunked") {
        loop {
            let mut size = String::new();
            stream.read_line(&mut size).await?;
            let size = usize::from_str_radix(size.trim(), 16)?;
            let start = body.len();
            body.resize(start + size + 2, 0);
            stream.read_exact(&mut body[start..]).await?;
            body.truncate(start + size);
            if size == 0 {
                break;
            }
        }
    } else if let Some((_, rest)) = lower.split_once("content-length:") {
        body.resize(rest.lines().next().unwrap_or_default().trim().parse()?, 0);
        stream.read_exact(&mut body).await?;
    }
    Ok((head, String::from_utf8_lossy(&body).into_owned()))
}
