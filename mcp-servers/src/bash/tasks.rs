//! The tools for commands that run on while the model does something else.

use std::time::Duration;

use gaia_sandbox::{Output, TaskId, TaskState};
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::json;

use super::jobs::{Job, LongCall, Work};
use super::render::{self, Circumstances};
use super::slot::Place;
use super::{ToolError, terminal};
use crate::arguments::Arguments;
use crate::toolset::success;

/// How long a task may run when the call does not say: as long as any sandbox is meant to.
pub(super) const DEFAULT_TASK_TIMEOUT: Duration = Duration::from_secs(8 * 60 * 60);
/// Output in one answer: what `bash` shows too.
const MAX_OUTPUT_BYTES: u64 = 16 * 1024;
/// The longest wait for output: below the 60 s after which clients give up.
const MAX_WAIT_SECONDS: u64 = 50;

/// The answer to `run_in_background`.
pub(super) fn started(number: u64, reset: Option<String>) -> CallToolResult {
    let text = format!(
        "{}[task {number} runs in the background; read its output with bash_output, write to it with bash_input, end it \
         with kill_shell]",
        render::reset_line(reset.as_deref())
    );
    let facts = render::without_output(&text, reset.is_some(), Some(number));
    success(text, facts)
}

/// The answer to a call whose client would have given up on it.
pub(super) fn handed_over(number: u64, after: Duration, reset: Option<String>) -> CallToolResult {
    let text = format!(
        "{}[still running after {} s, now as task {number}; call bash_output with this task_id and a wait for the \
         result, or kill_shell to end it]",
        render::reset_line(reset.as_deref()),
        after.as_secs()
    );
    let facts = render::without_output(&text, reset.is_some(), Some(number));
    success(text, facts)
}

/// The arguments of `bash_output`, checked.
pub(super) struct Read {
    number: u64,
    wait: Duration,
    offset: Option<u64>,
}

impl Read {
    pub(super) fn new(arguments: JsonObject) -> Result<Self, ToolError> {
        let arguments = Arguments::new(arguments, &["task_id", "wait", "offset"])?;
        Ok(Self {
            number: number(&arguments)?,
            wait: Duration::from_secs(arguments.integer("wait", 0..=MAX_WAIT_SECONDS)?.unwrap_or(0)),
            offset: arguments.integer("offset", 0..=u64::MAX)?,
        })
    }

    pub(super) async fn run(self, place: &Place, memory_bytes: u64) -> Result<CallToolResult, ToolError> {
        let job = place.jobs().get(self.number)?;
        match &job.work {
            Work::Task(id) => self.read_task(place, &job, *id).await,
            Work::Call(call) => self.read_call(call, memory_bytes).await,
        }
    }

    async fn read_task(self, place: &Place, job: &Job, id: TaskId) -> Result<CallToolResult, ToolError> {
        let Self { number, wait, offset } = self;
        let offset = offset.unwrap_or_else(|| job.cursor());
        let mut output = place.sandbox().task_output(id, offset, MAX_OUTPUT_BYTES, wait).await?;
        let running = output.state == TaskState::Running;
        let more = output.next_offset < output.total_bytes;
        if running || more {
            // A character whose end is still to come is left for the next call.
            let whole = render::without_broken_end(&output.bytes).len();
            output.next_offset -= (output.bytes.len() - whole) as u64;
            output.bytes.truncate(whole);
        }
        job.move_cursor(output.next_offset);
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
            "task_id": number,
            "running": running,
            "next_offset": output.next_offset,
            "total_bytes": output.total_bytes,
        });
        match output.state {
            TaskState::Running => text.push_str(&format!("[task {number} is running{more}]")),
            TaskState::Ended(ended) => {
                text.push_str(&format!("[task {number} ended: {}{more}]", ending(&ended)));
                facts["exit_code"] = json!(ended.exit_code);
            }
        }
        facts["output"] = json!(text);
        Ok(success(text, facts))
    }

    async fn read_call(self, call: &LongCall, memory_bytes: u64) -> Result<CallToolResult, ToolError> {
        let number = self.number;
        let mut facts = json!({ "task_id": number, "running": false, "next_offset": 0, "total_bytes": 0 });
        let text = match tokio::time::timeout(self.wait, call.ended()).await {
            Ok(Ok(output)) => {
                facts["exit_code"] = json!(output.exit_code);
                facts["next_offset"] = json!(output.total_bytes);
                facts["total_bytes"] = json!(output.total_bytes);
                let timeout = call.timeout;
                render::text(&output, &Circumstances { timeout, memory_bytes, reset: None })
            }
            Ok(Err(reason)) => return Err(ToolError::Text(reason)),
            Err(_elapsed) => {
                facts["running"] = json!(true);
                let status = call.status.get().map(|status| format!(": {status}")).unwrap_or_default();
                format!("(its output comes when it ends)\n[task {number} is running{status}]")
            }
        };
        facts["output"] = json!(text);
        Ok(success(text, facts))
    }
}

/// `bash_input`.
pub(super) async fn write(arguments: JsonObject, place: &Place) -> Result<CallToolResult, ToolError> {
    let arguments = Arguments::new(arguments, &["task_id", "chars", "eof"])?;
    let number = number(&arguments)?;
    let chars = arguments.text("chars")?.unwrap_or_default();
    let eof = arguments.flag("eof")?.unwrap_or(false);
    if chars.is_empty() && !eof {
        return Err(ToolError::Text(
            "`chars` is empty; give what to write (a line ends with \\n), or set `eof` to close the input"
                .to_owned(),
        ));
    }
    let job = place.jobs().get(number)?;
    let Work::Task(id) = job.work else {
        return Err(ToolError::Text(format!(
            "task {number} takes no input: it was not started with run_in_background"
        )));
    };
    if !chars.is_empty() {
        place.sandbox().task_input(id, chars.as_bytes()).await?;
    }
    let mut closed = "";
    if eof {
        place.sandbox().close_task_input(id).await?;
        closed = " and closed its input";
    }
    let facts = json!({ "task_id": number, "bytes": chars.len() });
    Ok(success(format!("[wrote {} bytes to task {number}{closed}]", chars.len()), facts))
}

/// `kill_shell`.
pub(super) async fn kill(arguments: JsonObject, place: &Place) -> Result<CallToolResult, ToolError> {
    let arguments = Arguments::new(arguments, &["task_id"])?;
    let number = number(&arguments)?;
    let job = place.jobs().get(number)?;
    let (exit_code, ending) = match &job.work {
        Work::Task(id) => {
            let ended = place.sandbox().kill_task(*id).await?;
            (ended.exit_code, ending(&ended))
        }
        Work::Call(call) => {
            call.cancel.cancel();
            let ended = call.ended().await.map_err(ToolError::Text)?;
            (ended.exit_code, ending(&ended))
        }
    };
    let facts = json!({ "task_id": number, "exit_code": exit_code });
    Ok(success(format!("[task {number} ended: {ending}]"), facts))
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

fn number(arguments: &Arguments) -> Result<u64, ToolError> {
    Ok(arguments.required_integer("task_id", 1..=u64::from(u32::MAX))?)
}
