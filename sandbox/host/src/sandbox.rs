//! One container and the commands in it.

use std::sync::Arc;
use std::time::Duration;

use gaia_sandbox_protocol::{Exec, GuestFrame, HostFrame, Keep, MAX_PAYLOAD_BYTES, Spill};
use tokio_util::sync::CancellationToken;

use crate::command::{Command, Input, Output, Progress};
use crate::connection::{Answers, Connection};
use crate::disk;
use crate::engine::{self, Engine};
use crate::error::SandboxError;
use crate::options::SandboxOptions;
use crate::shared_folder::SharedFolder;
use crate::start::{self, FilesArrival, Started};
use crate::tasks::Tasks;

/// Longest shell text. The guest holds it in memory, and nobody writes such a command by hand.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// Most standard input given at once, for the same reason.
const MAX_INPUT_BYTES: usize = 64 << 20;

/// How much longer than its time limit a command may take to answer before the sandbox counts as dead: half a second
/// of grace, the rounds of killing, and a very busy host.
pub(crate) const ANSWER_MARGIN: Duration = Duration::from_secs(30);

/// Longest wait for the answer to a request that runs nothing.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A running container.
///
/// Close it with [`Sandbox::close`]; dropping it removes the container too, but without waiting.
#[derive(Debug)]
pub struct Sandbox {
    engine: Engine,
    container_id: String,
    pub(crate) connection: Arc<Connection>,
    pub(crate) tasks: Tasks,
    /// Where files can be put that the container shows.
    pub(crate) shared: Option<SharedFolder>,
    is_closed: bool,
}

impl Sandbox {
    /// Creates and starts a container and waits until its guest reports in. On failure, or when the future is dropped,
    /// nothing is left of it.
    pub async fn start(engine: &Engine, options: &SandboxOptions) -> Result<Self, SandboxError> {
        Self::start_with(engine, options, FilesArrival::AtStart).await
    }

    pub(crate) async fn start_with(
        engine: &Engine,
        options: &SandboxOptions,
        arrival: FilesArrival,
    ) -> Result<Self, SandboxError> {
        let (engine, options) = (engine.clone(), options.clone());
        let image = options.image.clone();
        // In a task of its own: a creation whose caller has lost interest must still be seen to its end, since the
        // engine goes on with it. The sandbox that nobody waits for is then dropped, which removes it.
        let started = tokio::spawn(async move {
            let Started { container_id, connection, shared } =
                start::start(&engine, &options, arrival).await?;
            let connection = Arc::new(connection);
            let watch = disk::watch(
                engine.clone(),
                container_id.clone(),
                Arc::clone(&connection),
                options.limits.disk_bytes,
            );
            tokio::spawn(watch);
            Ok(Self { engine, container_id, connection, tasks: Tasks::default(), shared, is_closed: false })
        });
        started.await.unwrap_or_else(|error| Err(SandboxError::Start { image, reason: error.to_string() }))
    }

    /// Full container id.
    pub fn container_id(&self) -> &str {
        &self.container_id
    }

    /// Whether the next call has a chance. False once the container ended or its stream broke.
    pub fn is_alive(&self) -> bool {
        !self.connection.has_ended()
    }

    /// Whether the guest answers within this time.
    pub(crate) async fn answers_within(&self, limit: Duration) -> bool {
        let mut answers = self.connection.expect_answers();
        self.connection.send(answers.id, [&HostFrame::Ping]);
        match tokio::time::timeout(limit, answers.next()).await {
            Ok(answer) => answer.is_some(),
            Err(_) => {
                self.connection.end("its guest stopped answering");
                false
            }
        }
    }

    /// Returns when the container has ended or its stream broke.
    pub async fn ended(&self) {
        self.connection.ended().await;
    }

    /// Runs a command and waits for its end. Several may run at once: each starts from the state (working directory,
    /// variables, functions) at its start, and the last to end leaves its state to the next.
    ///
    /// A cancelled command is killed and still answers, with `cancelled` set. Dropping the future kills it too.
    pub async fn run(
        &self,
        command: Command,
        mut progress: impl FnMut(Progress) + Send,
        cancel: &CancellationToken,
    ) -> Result<Output, SandboxError> {
        let mut answers = self.send_command(&command, Keep::State, Spill::WhenLong)?;
        let mut guard = KillOnDrop { connection: &self.connection, id: answers.id, is_armed: true };
        let patience = tokio::time::sleep(command.timeout.saturating_add(ANSWER_MARGIN));
        tokio::pin!(patience);
        let mut is_cancelled = false;
        loop {
            let answer = tokio::select! {
                answer = answers.next() => answer,
                () = cancel.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    self.connection.send(answers.id, [&HostFrame::Cancel]);
                    patience.as_mut().reset(tokio::time::Instant::now() + ANSWER_MARGIN);
                    continue;
                }
                () = &mut patience => return Err(self.unresponsive()),
            };
            match answer {
                Some(GuestFrame::Progress { elapsed_us, total_bytes, total_lines, last_line }) => {
                    progress(Progress {
                        elapsed: Duration::from_micros(elapsed_us),
                        total_bytes,
                        total_lines,
                        last_line,
                    });
                }
                Some(GuestFrame::Exit(exit)) => {
                    guard.is_armed = false;
                    return Ok(Output::from(*exit));
                }
                Some(GuestFrame::Error { text, .. }) => {
                    guard.is_armed = false;
                    return Err(invalid("run a command", text));
                }
                Some(_) => {}
                None => return Err(self.dead()),
            }
        }
    }

    /// A fresh shell: kills everything that runs and forgets working directory, variables, functions and options.
    pub async fn restart_shell(&self) -> Result<(), SandboxError> {
        match self.request(&HostFrame::Restart).await? {
            GuestFrame::Done => Ok(()),
            other => Err(invalid("restart the shell", format!("unexpected answer {other:?}"))),
        }
    }

    /// Ends the guest, removes the container with its volumes and returns once the engine no longer has it.
    pub async fn close(mut self) -> Result<(), SandboxError> {
        self.connection.end("the sandbox was closed");
        self.engine.remove(&self.container_id).await?;
        // Only now: if this future is dropped before, dropping the sandbox still removes the container.
        self.is_closed = true;
        Ok(())
    }

    /// Sends a command with everything it needs; its answers come to what is returned.
    pub(crate) fn send_command(
        &self,
        command: &Command,
        keep: Keep,
        spill: Spill,
    ) -> Result<Answers, SandboxError> {
        if command.text.len() > MAX_TEXT_BYTES {
            return Err(invalid("run a command", "its text is longer than 16 MiB".to_owned()));
        }
        if command.text.contains('\0') {
            let reason = "its text holds a NUL character, which no shell can read".to_owned();
            return Err(invalid("run a command", reason));
        }
        let (input, bytes): (_, &[u8]) = match &command.input {
            Input::Empty => (gaia_sandbox_protocol::Input::Empty, &[]),
            Input::Bytes(bytes) => (gaia_sandbox_protocol::Input::Bytes, bytes),
            Input::Open => (gaia_sandbox_protocol::Input::Open, &[]),
        };
        if bytes.len() > MAX_INPUT_BYTES {
            let reason = "its standard input is longer than 64 MiB: write a file instead".to_owned();
            return Err(invalid("run a command", reason));
        }
        if self.connection.has_ended() {
            return Err(self.dead());
        }
        let exec = Exec {
            timeout_ms: u64::try_from(command.timeout.as_millis()).unwrap_or(u64::MAX),
            input,
            keep,
            spill,
        };
        let frames: Vec<HostFrame> = command
            .text
            .as_bytes()
            .chunks(MAX_PAYLOAD_BYTES)
            .map(|piece| HostFrame::Script(piece.to_vec()))
            .chain(bytes.chunks(MAX_PAYLOAD_BYTES).map(|piece| HostFrame::Stdin(piece.to_vec())))
            .chain([HostFrame::Exec(exec)])
            .collect();
        let answers = self.connection.expect_answers();
        self.connection.send(answers.id, &frames);
        Ok(answers)
    }

    /// Sends a request that has one answer and waits for it.
    pub(crate) async fn request(&self, frame: &HostFrame) -> Result<GuestFrame, SandboxError> {
        let mut answers = self.connection.expect_answers();
        self.connection.send(answers.id, [frame]);
        match tokio::time::timeout(REQUEST_TIMEOUT, answers.next()).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.dead()),
            Err(_) => Err(self.unresponsive()),
        }
    }

    pub(crate) fn dead(&self) -> SandboxError {
        SandboxError::Dead {
            container: engine::short_id(&self.container_id).to_owned(),
            reason: self.connection.end_reason(),
        }
    }

    /// A guest that does not answer in time will not be trusted with another command.
    pub(crate) fn unresponsive(&self) -> SandboxError {
        self.connection.end("its guest stopped answering");
        self.dead()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        // Ends the container also where there is no runtime to remove it with.
        self.connection.end("the sandbox was dropped");
        tracing::debug!(
            container = engine::short_id(&self.container_id),
            "a sandbox was dropped without being closed"
        );
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (engine, container_id) = (self.engine.clone(), std::mem::take(&mut self.container_id));
            let shared = self.shared.take();
            runtime.spawn(async move {
                // Goes after the container.
                let _shared = shared;
                if let Err(error) = engine.remove(&container_id).await {
                    tracing::warn!(%error, "a dropped sandbox may have been left behind");
                }
            });
        }
    }
}

/// Kills a command whose caller went away.
struct KillOnDrop<'a> {
    connection: &'a Connection,
    id: u32,
    is_armed: bool,
}

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.connection.send(self.id, [&HostFrame::Cancel]);
        }
    }
}

pub(crate) fn invalid(operation: &str, reason: String) -> SandboxError {
    SandboxError::Invalid { operation: operation.to_owned(), reason }
}
