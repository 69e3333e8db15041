//! A real nats-server of a test's own, which can be killed and started again, and a wire to it that can be cut.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener as Listener, TcpStream as Stream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// A server on a busy machine is up long before.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Ends with whoever owns it.
pub struct NatsServer {
    child: Child,
    port: u16,
    store: PathBuf,
    arguments: Vec<String>,
}

impl NatsServer {
    /// With JetStream, on loopback, and with further arguments.
    pub fn start(store: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        let port = Listener::bind("127.0.0.1:0")?.local_addr()?.port();
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let child = spawn(port, store, &arguments)?;
        Ok(Self { child, port, store: store.to_owned(), arguments })
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// As a crash of its machine would.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// With what it had on its disk.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.child = spawn(self.port, &self.store, &self.arguments)?;
        Ok(())
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        // It may have been killed by the test.
        self.kill().ok();
    }
}

/// What `.ci/setup nats` unpacked, or the system's.
fn program() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let unpacked = cache.unwrap_or_default().join("gaia-tests/nats-server/usr/sbin/nats-server");
    if unpacked.is_file() { unpacked } else { PathBuf::from("nats-server") }
}

fn spawn(port: u16, store: &Path, arguments: &[String]) -> anyhow::Result<Child> {
    let log = fs_err::OpenOptions::new().create(true).append(true).open(store.with_extension("log"))?;
    let mut child = Command::new(program())
        .args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"])
        .arg(store)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.into_parts().0)
        .spawn()
        .context("nats-server is not there; run `.ci/setup nats`")?;
    let until = Instant::now() + START_LIMIT;
    loop {
        // It says INFO to whoever comes.
        let greeting = Stream::connect(("127.0.0.1", port)).and_then(|stream| {
            let mut line = String::new();
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            BufReader::new(stream).read_line(&mut line)?;
            Ok(line)
        });
        if greeting.is_ok_and(|line| line.starts_with("INFO")) {
            return Ok(child);
        }
        if let Some(status) = child.try_wait()? {
            anyhow::bail!(
                "nats-server ended with {status}; `{}` says why",
                store.with_extension("log").display()
            );
        }
        if Instant::now() > until {
            child.kill().ok();
            ensure!(Instant::now() <= until, "nats-server did not start within {START_LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A way to a port on this machine, which can be cut and mended.
pub struct Wire {
    port: u16,
    is_whole: watch::Sender<bool>,
    _task: AbortOnDropHandle<()>,
}

impl Wire {
    pub async fn to(port: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let own = listener.local_addr()?.port();
        let (is_whole, mut whole) = watch::channel(true);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *whole.borrow_and_update() {
                    tokio::spawn(carry(client, port, whole.clone()));
                }
            }
        });
        Ok(Self { port: own, is_whole, _task: AbortOnDropHandle::new(task) })
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn cut(&self) {
        self.is_whole.send_replace(false);
    }

    pub fn mend(&self) {
        self.is_whole.send_replace(true);
    }
}

async fn carry(mut client: TcpStream, port: u16, mut whole: watch::Receiver<bool>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    tokio::select! {
        // However it ends, both sides see it.
        ended = tokio::io::copy_bidirectional(&mut client, &mut server) => drop(ended),
        cut = whole.wait_for(|whole| !whole) => drop(cut),
    }
}
