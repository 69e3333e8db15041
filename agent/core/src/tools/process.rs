use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, watch};

use super::left;
use super::report::Reporter;
use crate::event::NoticeLevel;

/// From the end of stdin to SIGTERM. A server that owns a container needs up to two seconds to remove it.
const END_OF_INPUT_GRACE: Duration = Duration::from_millis(2_500);

/// From SIGTERM to SIGKILL; with the grace before, no server is killed within four seconds.
const TERMINATE_GRACE: Duration = Duration::from_millis(1_700);

/// For the kernel to take a killed process away; all three together stay under five seconds.
const KILL_GRACE: Duration = Duration::from_millis(500);

/// Kept of a server's stderr for error messages: the last words are the ones that explain.
const STDERR_TAIL_BYTES: usize = 4 * 1024;

/// A longer line is passed on in pieces.
const STDERR_LINE_BYTES: usize = 4 * 1024;

/// A server's process and everything it started, as one process group.
pub(super) struct Process {
    exit: watch::Receiver<Option<ExitStatus>>,
    signals: mpsc::UnboundedSender<Signal>,
    stderr: Arc<StderrTail>,
    stderr_ended: watch::Receiver<bool>,
}

/// Both ends of the protocol.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

impl Process {
    pub(super) fn spawn(
        program: &Path,
        args: &[String],
        environment: &BTreeMap<OsString, OsString>,
        cwd: Option<&Path>,
        reporter: Arc<Reporter>,
    ) -> std::io::Result<(Self, Pipes)> {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Wrappers such as `npx` and `uvx` leave the real server behind when only they are killed.
            .process_group(0);
        if let Some(cwd) = cwd {
            command.current_dir(cwd);
        }
        let mut child = command.spawn()?;
        let missing = || std::io::Error::other("a pipe of the child is missing");
        let pipes = Pipes {
            stdin: child.stdin.take().ok_or_else(missing)?,
            stdout: child.stdout.take().ok_or_else(missing)?,
        };
        let stderr_pipe = child.stderr.take().ok_or_else(missing)?;
        let group = child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw)
            .map(Group::enter)
            .ok_or_else(|| std::io::Error::other("the child has no process id"))?;

        let (exit_sender, exit) = watch::channel(None);
        let (signals, signal_receiver) = mpsc::unbounded_channel();
        tokio::spawn(supervise(child, group, signal_receiver, exit_sender));

        let stderr = Arc::new(StderrTail::default());
        let (ended, stderr_ended) = watch::channel(false);
        tokio::spawn(read_stderr(stderr_pipe, stderr.clone(), reporter, ended));
        Ok((Self { exit, signals, stderr, stderr_ended }, pipes))
    }

    /// Waits for the end of the process, for at most `patience`.
    pub(super) async fn exited(&self, patience: Duration) -> Option<ExitStatus> {
        let mut exit = self.exit.clone();
        let waited = tokio::time::timeout(patience, exit.wait_for(Option::is_some)).await;
        match waited {
            Ok(Ok(status)) => *status,
            _ => None,
        }
    }

    /// Ends the process and its group within five seconds. The caller has closed stdin.
    pub(super) async fn shut_down(&self) {
        if self.exited(END_OF_INPUT_GRACE).await.is_some() {
            return;
        }
        // A failed send means that the supervisor is done, and with it the process.
        let _ = self.signals.send(Signal::TERM);
        if self.exited(TERMINATE_GRACE).await.is_some() {
            return;
        }
        let _ = self.signals.send(Signal::KILL);
        let _ = self.exited(KILL_GRACE).await;
    }

    /// The last lines of stderr, after waiting a moment for lines that are still on their way.
    pub(super) async fn stderr_tail(&self, patience: Duration) -> Vec<String> {
        let mut ended = self.stderr_ended.clone();
        let _ = tokio::time::timeout(patience, ended.wait_for(|ended| *ended)).await;
        self.stderr.lines()
    }
}

/// `exited with code 4`, `was killed by signal 9`.
pub(super) fn describe_exit(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Signals go through here only, so that none is sent to an id that has been given to somebody else.
struct Group {
    leader: Pid,
    alive: bool,
}

impl Group {
    fn enter(leader: Pid) -> Self {
        left::enter(leader);
        Self { leader, alive: true }
    }

    fn signal(&self, signal: Signal) {
        // The only error is that nobody is left.
        let _ = kill_process_group(self.leader, signal);
    }
}

impl Drop for Group {
    /// The runtime went away without a close: the safety net. SIGTERM, since a killed server could not remove its
    /// container.
    fn drop(&mut self) {
        if self.alive {
            self.signal(Signal::TERM);
        }
    }
}

async fn supervise(
    mut child: Child,
    mut group: Group,
    mut signals: mpsc::UnboundedReceiver<Signal>,
    exit: watch::Sender<Option<ExitStatus>>,
) {
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            signal = signals.recv() => match signal {
                Some(signal) => group.signal(signal),
                None => break end_abandoned(&mut child, &group).await,
            },
        }
    };
    // The leader is gone; what it started goes with it, now, before its id can belong to somebody else.
    group.signal(Signal::KILL);
    group.alive = false;
    left::leave(group.leader);
    match status {
        Ok(status) => {
            exit.send_replace(Some(status));
        }
        Err(error) => tracing::warn!(%error, "cannot wait for an MCP server's process"),
    }
}

/// Nobody holds the process any more (a start or a run was cancelled): the same steps as `shut_down`.
async fn end_abandoned(child: &mut Child, group: &Group) -> std::io::Result<ExitStatus> {
    if let Ok(status) = tokio::time::timeout(END_OF_INPUT_GRACE, child.wait()).await {
        return status;
    }
    group.signal(Signal::TERM);
    if let Ok(status) = tokio::time::timeout(TERMINATE_GRACE, child.wait()).await {
        return status;
    }
    group.signal(Signal::KILL);
    child.wait().await
}

#[derive(Default)]
struct StderrTail {
    kept: Mutex<VecDeque<String>>,
}

impl StderrTail {
    fn push(&self, line: String) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(line);
        let mut bytes: usize = kept.iter().map(String::len).sum();
        while bytes > STDERR_TAIL_BYTES && kept.len() > 1 {
            bytes -= kept.pop_front().map_or(0, |line| line.len());
        }
    }

    fn lines(&self) -> Vec<String> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Reads to the end whatever comes: a full pipe would stop the server.
async fn read_stderr(
    mut pipe: impl AsyncRead + Unpin,
    tail: Arc<StderrTail>,
    reporter: Arc<Reporter>,
    ended: watch::Sender<bool>,
) {
    let mut line = Vec::new();
    let mut chunk = vec![0; 8 * 1024];
    let finish = |line: &mut Vec<u8>| {
        let text = reporter.redact(String::from_utf8_lossy(line).trim_end());
        line.clear();
        if !text.is_empty() {
            reporter.relay(NoticeLevel::Info, &text);
            tail.push(text);
        }
    };
    loop {
        match pipe.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => {
                for &byte in &chunk[..count] {
                    if byte == b'\n' || line.len() >= STDERR_LINE_BYTES {
                        finish(&mut line);
                    }
                    if byte != b'\n' {
                        line.push(byte);
                    }
                }
            }
        }
    }
    finish(&mut line);
    ended.send_replace(true);
}
