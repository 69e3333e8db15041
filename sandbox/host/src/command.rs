//! What runs in a sandbox and what comes of it.

use std::time::Duration;

use gaia_sandbox_protocol::{Ending, Exit};

/// Result of a command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit status as a shell reports it: 0 to 255, and 128 + signal when a signal ended the shell.
    pub exit_code: i32,
    /// Signal that ended the shell itself, if one did.
    pub signal: Option<i32>,
    /// The time limit ended the command; what it had started was killed.
    pub timed_out: bool,
    /// The caller's cancellation ended the command; what it had started was killed.
    pub cancelled: bool,
    /// The kernel killed a process of the sandbox for want of memory while the command ran. Read from the memory
    /// cgroup's `oom_kill` counter inside the container, so with several commands at once each of them is told.
    pub oom_killed: bool,
    /// From the start of the shell to the end of the command, measured in the container.
    pub duration: Duration,
    /// Bytes written to standard output and standard error together.
    pub total_bytes: u64,
    /// Newlines in them.
    pub total_lines: u64,
    /// The first bytes of the output, at most 8 KiB.
    pub head: Vec<u8>,
    /// The last bytes of the output that are not in `head`, at most 8 KiB. Nothing was left out when
    /// [`Output::omitted_bytes`] is 0; then head and tail joined are the whole output.
    pub tail: Vec<u8>,
    /// File in the container that holds the output from its first byte on, up to [`Output::spilled_bytes`]. Present
    /// when output was omitted here, or when a background process may still write.
    pub spill_path: Option<String>,
    /// Bytes in that file when the command ended.
    pub spilled_bytes: u64,
    /// Working directory the next command starts in.
    pub cwd: String,
    /// Processes killed at the end because of the time limit or cancellation.
    pub processes_killed: u32,
    /// Processes the command left running.
    pub background: Vec<BackgroundProcess>,
    /// Sentences for the reader about what was unusual, for example that the state could not be kept.
    pub notes: Vec<String>,
}

impl Output {
    /// Bytes between head and tail that are not in this value.
    pub fn omitted_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }
}

impl From<Exit> for Output {
    fn from(exit: Exit) -> Self {
        Self {
            exit_code: exit.exit_code,
            signal: (exit.signal != 0).then_some(exit.signal),
            timed_out: exit.ending == Ending::TimedOut,
            cancelled: exit.ending == Ending::Cancelled,
            oom_killed: exit.oom_killed,
            duration: Duration::from_micros(exit.duration_us),
            total_bytes: exit.total_bytes,
            total_lines: exit.total_lines,
            head: exit.head,
            tail: exit.tail,
            spill_path: (!exit.spill_path.is_empty()).then_some(exit.spill_path),
            spilled_bytes: exit.spilled_bytes,
            cwd: exit.cwd,
            processes_killed: exit.processes_killed,
            background: exit
                .background
                .into_iter()
                .map(|process| BackgroundProcess { pid: process.pid, name: process.name })
                .collect(),
            notes: exit.notes,
        }
    }
}

/// A process that outlived the command that started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundProcess {
    /// Process id inside the container.
    pub pid: u32,
    /// Name of the program as the kernel has it (at most 15 bytes).
    pub name: String,
}

/// A command for the sandbox's shell.
#[derive(Debug, Clone)]
pub struct Command {
    /// Shell text: bash where the image has it, else `sh`. At most 16 MiB.
    pub text: String,
    /// Time limit. After it every process of the command gets SIGTERM, and SIGKILL half a second later.
    pub timeout: Duration,
    /// Standard input.
    pub input: Input,
}

impl Command {
    /// A command with empty standard input.
    pub fn new(text: impl Into<String>, timeout: Duration) -> Self {
        Self { text: text.into(), timeout, input: Input::Empty }
    }
}

/// Standard input of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// End of file at once.
    Empty,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// A pipe that [`crate::Sandbox::task_input`] writes to; for tasks only.
    Open,
}

/// State of a running command, sent at most twice a second and only when it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Since the start of the command.
    pub elapsed: Duration,
    /// Bytes of output so far.
    pub total_bytes: u64,
    /// Newlines so far.
    pub total_lines: u64,
    /// The last line that is not blank, at most 256 bytes of it.
    pub last_line: String,
}

/// Handle of a background task, unique in its sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u32);

impl std::fmt::Display for TaskId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// A background task as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskInfo {
    /// Its handle.
    pub id: TaskId,
    /// Its shell text.
    pub text: String,
    /// Whether it still runs.
    pub state: TaskState,
}

/// Whether a task still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// It runs.
    Running,
    /// It has ended.
    Ended(Box<Output>),
}

/// A piece of a task's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOutput {
    /// Whether the task still runs.
    pub state: TaskState,
    /// Bytes from the offset that was asked for; empty when there are none yet.
    pub bytes: Vec<u8>,
    /// Offset to ask for next.
    pub next_offset: u64,
    /// Bytes of output so far. Those beyond the spill limit (64 MiB) are counted, not kept.
    pub total_bytes: u64,
}
