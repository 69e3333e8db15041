//! Commands that run in the background, by handle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gaia_sandbox_protocol::{GuestFrame, HostFrame, Keep, MAX_PAYLOAD_BYTES, Spill};
use tokio::sync::{mpsc, watch};

use crate::command::{Command, Output, TaskId, TaskInfo, TaskOutput, TaskState};
use crate::connection::Answers;
use crate::error::SandboxError;
use crate::sandbox::{ANSWER_MARGIN, REQUEST_TIMEOUT, Sandbox, invalid};

/// Tasks of one sandbox, ended ones included.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tasks: Mutex<BTreeMap<TaskId, Arc<Task>>>,
}

#[derive(Debug)]
struct Task {
    text: String,
    /// Empty when no file could be made.
    spill_path: String,
    progress: watch::Receiver<TaskProgress>,
    /// Answers to what is written to its input, in order.
    input_answers: tokio::sync::Mutex<mpsc::UnboundedReceiver<GuestFrame>>,
}

#[derive(Debug, Clone, Default)]
struct TaskProgress {
    total_bytes: u64,
    ended: Option<Output>,
    is_lost: bool,
}

impl Sandbox {
    /// Starts a command in the background and returns its handle. It starts from the shell's state and does not
    /// change it. Its time limit holds as for any command.
    pub async fn start_task(&self, command: Command) -> Result<TaskId, SandboxError> {
        let mut answers = self.send_command(&command, Keep::Nothing, Spill::Always)?;
        let id = TaskId(answers.id);
        let spill_path = match tokio::time::timeout(REQUEST_TIMEOUT, answers.next()).await {
            Ok(Some(GuestFrame::Started { spill_path })) => spill_path,
            Ok(Some(GuestFrame::Error { text, .. })) => return Err(invalid("start a task", text)),
            Ok(Some(other)) => return Err(invalid("start a task", format!("unexpected answer {other:?}"))),
            Ok(None) => return Err(self.dead()),
            Err(_) => return Err(self.unresponsive()),
        };
        let (progress_to, progress) = watch::channel(TaskProgress::default());
        let (input_answers_to, input_answers) = mpsc::unbounded_channel();
        tokio::spawn(follow(answers, progress_to, input_answers_to));
        let task = Task {
            text: command.text,
            spill_path,
            progress,
            input_answers: tokio::sync::Mutex::new(input_answers),
        };
        self.tasks.tasks.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::new(task));
        Ok(id)
    }

    /// At most `max_bytes` of a task's output from `offset` on. Waits up to `wait` for new output or the task's end.
    pub async fn task_output(
        &self,
        id: TaskId,
        offset: u64,
        max_bytes: u64,
        wait: Duration,
    ) -> Result<TaskOutput, SandboxError> {
        let task = self.task(id)?;
        let mut changes = task.progress.clone();
        let until = tokio::time::Instant::now() + wait;
        loop {
            let progress = changes.borrow_and_update().clone();
            if progress.is_lost {
                return Err(self.dead());
            }
            let bytes = self.output_of(&task, &progress, offset, max_bytes).await?;
            let is_over = progress.ended.is_some();
            if !bytes.is_empty() || is_over || tokio::time::Instant::now() >= until {
                let next_offset = offset.saturating_add(bytes.len() as u64);
                return Ok(TaskOutput {
                    state: progress
                        .ended
                        .map_or(TaskState::Running, |output| TaskState::Ended(Box::new(output))),
                    bytes,
                    next_offset,
                    total_bytes: progress.total_bytes.max(next_offset),
                });
            }
            // Late or early makes no difference: the loop looks again.
            let _ = tokio::time::timeout_at(until, changes.changed()).await;
        }
    }

    /// Writes to the standard input of a task started with [`crate::Input::Open`]. Refused while 1 MiB waits to be
    /// read by it.
    pub async fn task_input(&self, id: TaskId, bytes: &[u8]) -> Result<(), SandboxError> {
        for piece in bytes.chunks(MAX_PAYLOAD_BYTES) {
            self.send_input(id, &HostFrame::Stdin(piece.to_vec())).await?;
        }
        Ok(())
    }

    /// Closes the standard input of a task.
    pub async fn close_task_input(&self, id: TaskId) -> Result<(), SandboxError> {
        self.send_input(id, &HostFrame::StdinEof).await
    }

    /// Kills a task with everything it started; returns once it has ended, with its result.
    pub async fn kill_task(&self, id: TaskId) -> Result<Output, SandboxError> {
        let task = self.task(id)?;
        let mut changes = task.progress.clone();
        if changes.borrow().ended.is_none() {
            self.connection.send(id.0, [&HostFrame::Cancel]);
        }
        let ended = changes.wait_for(|progress| progress.ended.is_some() || progress.is_lost);
        match tokio::time::timeout(ANSWER_MARGIN, ended).await {
            Ok(progress) => {
                progress.ok().and_then(|progress| progress.ended.clone()).ok_or_else(|| self.dead())
            }
            Err(_) => Err(self.unresponsive()),
        }
    }

    /// The tasks started so far, oldest first.
    pub fn tasks(&self) -> Vec<TaskInfo> {
        let tasks = self.tasks.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks
            .iter()
            .map(|(id, task)| TaskInfo {
                id: *id,
                text: task.text.clone(),
                state: match &task.progress.borrow().ended {
                    Some(output) => TaskState::Ended(Box::new(output.clone())),
                    None => TaskState::Running,
                },
            })
            .collect()
    }

    fn task(&self, id: TaskId) -> Result<Arc<Task>, SandboxError> {
        let tasks = self.tasks.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.get(&id).cloned().ok_or(SandboxError::UnknownTask { id })
    }

    async fn output_of(
        &self,
        task: &Task,
        progress: &TaskProgress,
        offset: u64,
        max_bytes: u64,
    ) -> Result<Vec<u8>, SandboxError> {
        if !task.spill_path.is_empty() {
            return Ok(self.read_file(&task.spill_path, offset, max_bytes).await?.bytes);
        }
        // Without a file only the ends of the output are known, and only at the end.
        let kept = progress.ended.as_ref().map(|output| [output.head.as_slice(), &output.tail].concat());
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(kept.unwrap_or_default().into_iter().skip(size(offset)).take(size(max_bytes)).collect())
    }

    async fn send_input(&self, id: TaskId, frame: &HostFrame) -> Result<(), SandboxError> {
        let task = self.task(id)?;
        // One at a time, so that each answer meets its question.
        let mut answers = task.input_answers.lock().await;
        if task.progress.borrow().ended.is_some() {
            return Err(invalid("write to a task", format!("task `{id}` has ended")));
        }
        self.connection.send(id.0, [frame]);
        match tokio::time::timeout(REQUEST_TIMEOUT, answers.recv()).await {
            Ok(Some(GuestFrame::Done)) => Ok(()),
            Ok(Some(GuestFrame::Error { text, .. })) => Err(invalid("write to a task", text)),
            Ok(Some(other)) => Err(invalid("write to a task", format!("unexpected answer {other:?}"))),
            Ok(None) if task.progress.borrow().is_lost => Err(self.dead()),
            Ok(None) => Err(invalid("write to a task", format!("task `{id}` has ended"))),
            Err(_) => Err(self.unresponsive()),
        }
    }
}

/// Keeps a task's state current until it ends or the connection does.
async fn follow(
    mut answers: Answers,
    progress: watch::Sender<TaskProgress>,
    input_answers: mpsc::UnboundedSender<GuestFrame>,
) {
    loop {
        match answers.next().await {
            Some(GuestFrame::Progress { total_bytes, .. }) => {
                progress.send_modify(|progress| progress.total_bytes = total_bytes);
            }
            Some(GuestFrame::Exit(exit)) => {
                return progress.send_modify(|progress| {
                    progress.total_bytes = exit.total_bytes;
                    progress.ended = Some(Output::from(*exit));
                });
            }
            Some(answer @ (GuestFrame::Done | GuestFrame::Error { .. })) => {
                let _ = input_answers.send(answer);
            }
            Some(_) => {}
            None => return progress.send_modify(|progress| progress.is_lost = true),
        }
    }
}
