//! The way in: a Unix socket in the run directory, which only the user who runs it can open. One request a connection,
//! a JSON line each way.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fs_err::{self as fs, File};
use rustix::process::geteuid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::{Controls, Order, Reply, RunState, RunStatus};
use crate::console::Console;
use crate::feed::{Feed, RunEvent};
use crate::progress::Progress;
use crate::schedule::Starts;
use crate::signals::Interrupt;
use crate::store::{CONTROL_SOCKET, RunDirectory};

/// Of a request; the longest names a task.
const MAX_REQUEST_BYTES: u64 = 64 * 1024;

/// A process that is alive answers at once; one that is stopped never does.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Takes orders for as long as it exists.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    serving: JoinHandle<()>,
}

/// What an order acts on and what a status tells of.
#[derive(Debug, Clone)]
pub struct Session {
    pub run: String,
    pub controls: Arc<Controls>,
    pub progress: Arc<Progress>,
    pub interrupt: Interrupt,
    pub console: Console,
    pub feed: Option<Arc<Feed>>,
}

impl ControlSocket {
    /// The caller holds the lock of the run, so a socket that is there was left by a process that was killed.
    pub fn open(run: &RunDirectory, session: Session) -> io::Result<Self> {
        let path = run.path().join(CONTROL_SOCKET);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let folder = File::open(run.path())?;
        let listener = UnixListener::bind(short_path(&folder))?;
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
        let serving = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let session = session.clone();
                        tokio::spawn(async move {
                            if let Err(error) = session.answer(stream).await {
                                tracing::debug!("an order to the run was not answered: {error}");
                            }
                        });
                    }
                    // Out of files, most likely: others will be free again.
                    Err(error) => {
                        tracing::warn!("failed to take an order to the run: {error}");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        });
        Ok(Self { path, serving })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.serving.abort();
        // One that stays is no obstacle to the next session.
        fs::remove_file(&self.path).ok();
    }
}

/// Whatever the length of the run's path, and the kernel takes 107 bytes: the folder by its open file.
fn short_path(folder: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(CONTROL_SOCKET)
}

impl Session {
    async fn answer(&self, mut stream: UnixStream) -> io::Result<()> {
        let peer = stream.peer_cred()?.uid();
        if peer != geteuid().as_raw() && peer != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it came from user {peer}")));
        }
        let (read, mut write) = stream.split();
        let mut line = String::new();
        BufReader::new(read.take(MAX_REQUEST_BYTES)).read_line(&mut line).await?;
        let mut reply = serde_json::to_vec(&self.reply(&line))?;
        reply.push(b'\n');
        write.write_all(&reply).await?;
        write.shutdown().await
    }

    fn reply(&self, line: &str) -> Reply {
        let order: Order = match serde_json::from_str(line) {
            Ok(order) => order,
            // Of another version, or not of gaia at all.
            Err(error) => return Reply::Refused { reason: format!("this is no order that I know: {error}") },
        };
        if order != Order::Status && self.interrupt.drain.is_cancelled() {
            return Reply::Refused { reason: "the run is being stopped by a signal".to_owned() };
        }
        match self.controls.obey(&order) {
            Ok(said) => {
                if order != Order::Status {
                    self.console.say(&said);
                    if let Some(feed) = &self.feed {
                        feed.tell(&RunEvent::RunChanged { what: &said });
                    }
                }
                Reply::Done { said, status: self.status() }
            }
            Err(reason) => Reply::Refused { reason },
        }
    }

    fn status(&self) -> RunStatus {
        let limits = *self.controls.limits().borrow();
        let state = if self.interrupt.cancel.is_cancelled() {
            RunState::Cancelling
        } else if self.interrupt.drain.is_cancelled() {
            RunState::Stopping
        } else if limits.starts == Starts::Paused {
            RunState::Paused
        } else {
            RunState::Running
        };
        let (requested, done, waiting, cancelled) = self.controls.tally();
        let activity = self.progress.activity();
        RunStatus {
            run: self.run.clone(),
            pid: std::process::id(),
            state,
            concurrency: limits.worked_on.get(),
            requested,
            done,
            waiting,
            cancelled,
            running: activity.running,
            tokens: activity.tokens,
            cost_usd: activity.cost_usd,
        }
    }
}

/// Why a run could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// Nobody listens.
    #[error("no process works on the run")]
    NobodyWorks,
    #[error("the process that works on the run gave no answer: {0}")]
    NoAnswer(io::Error),
}

/// Tells the process that works on the run.
pub async fn ask(run: &RunDirectory, order: &Order) -> Result<Reply, Unreachable> {
    let folder = File::open(run.path()).map_err(Unreachable::NoAnswer)?;
    let mut stream = match UnixStream::connect(short_path(&folder)).await {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Err(Unreachable::NobodyWorks);
        }
        Err(error) => return Err(Unreachable::NoAnswer(error)),
    };
    let asked = async {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(serde_json::from_slice(&answer)?)
    };
    match tokio::time::timeout(ANSWER_LIMIT, asked).await {
        Ok(answer) => answer.map_err(Unreachable::NoAnswer),
        Err(_) => Err(Unreachable::NoAnswer(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("none within {} s; is it stopped?", ANSWER_LIMIT.as_secs()),
        ))),
    }
}
