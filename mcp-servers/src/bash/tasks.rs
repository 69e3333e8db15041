//! Commands that run on while the model does something else.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gaia_sandbox::{Output, TaskId, TaskState};
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::json;

use super::slot::Place;
use super::{ToolError, render, terminal};
use crate::arguments::Arguments;
use crate::toolset::success;

/// How long a task may run when the call does not say: as long as any sandbox is meant to.
pub(super) const DEFAULT_TASK_TIMEOUT: Duration = Duration::from_secs(8 * 60 * 60);
/// Output in one answer: what `bash` shows too.
const MAX_OUTPUT_BYTES: u64 = 16 * 1024;
/// The longest wait for output: below the 60 s after which clients give up.
const MAX_WAIT_SECONDS: u64 = 50;

/// Up to where each task's output has been read by this client.
#[derive(Debug, Default)]
pub(super) struct Cursors(Mutex<HashMap<TaskId, u64>>);

impl Cursors {
    fn get(&self, id: TaskId) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).copied().unwrap_or(0)
    }

    fn set(&self, id: TaskId, offset: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, offset);
    }
}

pub(super) fn started(id: TaskId, reset: Option<String>) -> CallToolResult {
    let text = format!(
        "{}[task {id} runs in the background; read its output with bash_output, end it with kill_shell]",
        render::reset_line(reset.as_deref())
    );
    success(text, render::without_output(reset.is_some(), Some(id)))
}

/// The arguments of `bash_output`, checked.
pub(super) struct Read {
    id: TaskId,
    wait: Duration,
    offset: Option<u64>,
}

impl Read {
    pub(super) fn new(arguments: JsonObject) -> Result<Self, ToolError> {
        let arguments = Arguments::new(arguments, &["task_id", "wait", "offset"])?;
        Ok(Self {
            id: task_id(&arguments)?,
            wait: Duration::from_secs(arguments.integer("wait", 0..=MAX_WAIT_SECONDS)?.unwrap_or(0)),
            offset: arguments.integer("offset", 0..=u64::MAX)?,
        })
    }

    pub(super) async fn run(self, place: &Place) -> Result<CallToolResult, ToolError> {
        let Self { id, wait, offset } = self;
        let offset = offset.unwrap_or_else(|| place.cursors().get(id));
        let mut output = place.sandbox().task_output(id, offset, MAX_OUTPUT_BYTES, wait).await?;
        let running = output.state == TaskState::Running;
        let more = output.next_offset < output.total_bytes;
        if running || more {
            // A character whose end is still to come is left for the next call.
            let whole = render::without_broken_end(&output.bytes).len();
            output.next_offset -= (output.bytes.len() - whole) as u64;
            output.bytes.truncate(whole);
        }
        place.cursors().set(id, output.next_offset);
        let mut text = if output.bytes.is_empty() {
            "(no new output)".to_owned()
        } else if terminal::is_binary(&output.bytes) {
            format!("[binary, {} bytes]", output.bytes.len())
        } else {
            terminal::clean(&output.bytes)
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let more = match output.total_bytes.saturating_sub(output.next_offset) {
            0 => String::new(),
            left => format!(" · {left} bytes more, call again"),
        };
        let mut facts = json!({
            "task_id": id.0,
            "running": running,
            "next_offset": output.next_offset,
            "total_bytes": output.total_bytes,
        });
        match output.state {
            TaskState::Running => text.push_str(&format!("[task {id} is running{more}]")),
            TaskState::Ended(ended) => {
                text.push_str(&format!("[task {id} ended: {}{more}]", ending(&ended)));
                facts["exit_code"] = json!(ended.exit_code);
            }
        }
        Ok(success(text, facts))
    }
}

/// `kill_shell`.
pub(super) async fn kill(arguments: JsonObject, place: &Place) -> Result<CallToolResult, ToolError> {
    let arguments = Arguments::new(arguments, &["task_id"])?;
    let id = task_id(&arguments)?;
    let ended = place.sandbox().kill_task(id).await?;
    let facts = json!({ "task_id": id.0, "exit_code": ended.exit_code });
    Ok(success(format!("[task {id} ended: {}]", ending(&ended)), facts))
}

fn ending(ended: &Output) -> String {
    let seconds = ended.duration.as_secs_f64();
    if ended.timed_out {
        format!("timed out · {seconds:.1} s")
    } else if ended.cancelled {
        format!("killed · {seconds:.1} s")
    } else {
        format!("exit {} · {seconds:.1} s", ended.exit_code)
    }
}

fn task_id(arguments: &Arguments) -> Result<TaskId, ToolError> {
    let id = arguments.required_integer("task_id", 0..=u64::from(u32::MAX))?;
    // The range was just checked.
    Ok(TaskId(u32::try_from(id).unwrap_or(u32::MAX)))
}
