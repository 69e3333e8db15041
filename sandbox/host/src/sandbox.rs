//! One container and the commands in it.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::command::{Command, Output, Progress, TaskId, TaskInfo, TaskOutput};
use crate::engine::Engine;
use crate::error::{EngineError, SandboxError};
use crate::options::SandboxOptions;

/// A running container.
///
/// Close it with [`Sandbox::close`]; dropping it removes the container too, but without waiting.
#[derive(Debug)]
pub struct Sandbox;

impl Sandbox {
    /// Creates and starts a container and waits until its guest reports in.
    pub async fn start(_engine: &Engine, options: &SandboxOptions) -> Result<Self, SandboxError> {
        Err(EngineError::ImageAbsent { name: options.image.clone() }.into())
    }

    /// Full container id.
    pub fn container_id(&self) -> &str {
        ""
    }

    /// Whether the next call has a chance. False once the container ended or its stream broke.
    pub fn is_alive(&self) -> bool {
        false
    }

    /// Runs a command and waits for its end. Several may run at once: each starts from the state (working directory,
    /// variables, functions) at its start, and the last to end leaves its state to the next.
    ///
    /// A cancelled command is killed and still answers, with `cancelled` set. Dropping the future kills it too.
    pub async fn run(
        &self,
        _command: Command,
        _progress: impl FnMut(Progress) + Send,
        _cancel: &CancellationToken,
    ) -> Result<Output, SandboxError> {
        Err(unimplemented_yet("run a command"))
    }

    /// Starts a command in the background and returns its handle. It starts from the shell's state and does not
    /// change it.
    pub async fn start_task(&self, _command: Command) -> Result<TaskId, SandboxError> {
        Err(unimplemented_yet("start a task"))
    }

    /// At most `max_bytes` of a task's output from `offset` on. Waits up to `wait` for new output or the task's end.
    pub async fn task_output(
        &self,
        _id: TaskId,
        _offset: u64,
        _max_bytes: u64,
        _wait: Duration,
    ) -> Result<TaskOutput, SandboxError> {
        Err(unimplemented_yet("read a task's output"))
    }

    /// Writes to the standard input of a task started with [`crate::Input::Open`].
    pub async fn task_input(&self, _id: TaskId, _bytes: &[u8]) -> Result<(), SandboxError> {
        Err(unimplemented_yet("write to a task"))
    }

    /// Closes the standard input of a task.
    pub async fn close_task_input(&self, _id: TaskId) -> Result<(), SandboxError> {
        Err(unimplemented_yet("close a task's input"))
    }

    /// Kills a task with everything it started; returns once it has ended, with its result.
    pub async fn kill_task(&self, _id: TaskId) -> Result<Output, SandboxError> {
        Err(unimplemented_yet("kill a task"))
    }

    /// The tasks started so far, oldest first.
    pub fn tasks(&self) -> Vec<TaskInfo> {
        Vec::new()
    }

    /// A fresh shell: kills everything that runs and forgets working directory, variables, functions and options.
    pub async fn restart_shell(&self) -> Result<(), SandboxError> {
        Err(unimplemented_yet("restart the shell"))
    }

    /// At most `max_bytes` of a regular file from `offset` on. A relative path starts at the shell's working directory.
    pub async fn read_file(
        &self,
        _path: &str,
        _offset: u64,
        _max_bytes: u64,
    ) -> Result<FileChunk, SandboxError> {
        Err(unimplemented_yet("read a file"))
    }

    /// Writes a file, making its parent folders. A relative path starts at the shell's working directory.
    pub async fn write_file(&self, _path: &str, _bytes: &[u8], _mode: WriteMode) -> Result<(), SandboxError> {
        Err(unimplemented_yet("write a file"))
    }

    /// Ends the guest, removes the container with its volumes and returns once the engine no longer has it.
    pub async fn close(self) -> Result<(), SandboxError> {
        Ok(())
    }
}

/// What a write does to a file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Replaces its content.
    Replace,
    /// Adds to its end.
    Append,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChunk {
    /// The bytes; fewer than asked for only at the end of the file.
    pub bytes: Vec<u8>,
    /// Size of the whole file in bytes when it was read (0 for files the kernel makes up, as in `/proc`).
    pub file_bytes: u64,
    /// Whether the file ended with this piece.
    pub end_of_file: bool,
}

fn unimplemented_yet(operation: &str) -> SandboxError {
    SandboxError::Invalid { operation: operation.to_owned(), reason: "not implemented yet".to_owned() }
}
