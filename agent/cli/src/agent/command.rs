//! A program that works on a sample with our tools.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gaia_agent::desk::{AgentEnd, Desk};
use gaia_agent::tools::INHERITED_VARIABLES;
use gaia_agent::{AgentEvent, EventSink, Outcome, Task};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::door::Door;
use super::output::Output;
use crate::config::Secrets;
use crate::environment::{
    AGENT_FILE, Environment, FILES_DIR, MCP_CONFIG, MCP_TOKEN, MCP_URL, QUESTION, RUN_ID, SAMPLE_ID,
};

/// A program that has handed in its answer may tidy up for so long: to close its client, to write its own log.
const ANSWERED_GRACE: Duration = Duration::from_secs(5);

/// From SIGTERM to SIGKILL.
const TERMINATE_GRACE: Duration = Duration::from_secs(2);

/// For what a program wrote last to come through, once all of its group are gone.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Of stderr, in the text of a failure.
const SHOWN_STDERR_BYTES: usize = 1_000;

/// The same program for each sample.
#[derive(Debug, Clone)]
pub struct CommandAgent {
    /// Program and arguments; the arguments with placeholders.
    pub words: Vec<String>,
    /// Passed on beside what every program inherits.
    pub env_vars: Vec<String>,
    pub environment: Environment,
    pub run_id: String,
    pub timeout: Duration,
    pub secrets: Arc<Secrets>,
}

/// A sample as a program is told of it.
#[derive(Debug, Clone, Copy)]
pub struct Room<'a> {
    pub task: &'a Task,
    /// A folder that holds the sample's own attachment and nothing else.
    pub files: &'a Path,
}

impl CommandAgent {
    /// Lets the program work until it ends, has answered, or its time is over. Nothing of it is left running.
    pub async fn work(
        &self,
        room: Room<'_>,
        desk: Arc<Desk>,
        sink: &dyn EventSink,
        cancel: &CancellationToken,
    ) -> Outcome {
        let failed = |what: &str, error: &std::io::Error| {
            AgentEnd::Failed(format!("failed to {what} of the agent `{}`: {error}", self.program()))
        };
        let door = match Door::open(desk.clone()).await {
            Ok(door) => door,
            Err(error) => return desk.close(failed("open the tools", &error), "").await,
        };
        let ended = match self.spawn(room, &door) {
            Ok(child) => Ok(self.watch(child, room, &desk, cancel).await),
            Err(error) => Err(failed("start the program", &error)),
        };
        // Calls that are under way end before the outcome is told.
        let token = door.token.clone();
        door.close().await;
        let ended = match ended {
            Ok(ended) => ended,
            Err(end) => return desk.close(end, "").await,
        };
        // It opened the tools of this sample, which are gone; all the same nobody should learn to rely on it.
        let [stdout, stderr] =
            [&ended.stdout, &ended.stderr].map(|output| output.text().replace(&token, "[token]"));
        let keep = |text: &str| if text.is_empty() { None } else { sink.keep(text) };
        sink.emit(AgentEvent::ProgramEnded {
            exit: ended.exit.clone(),
            stdout_bytes: ended.stdout.bytes,
            stderr_bytes: ended.stderr.bytes,
            stdout: keep(&stdout),
            stderr: keep(&stderr),
        });
        let end = match ended.end {
            AgentEnd::Failed(message) => {
                let from = stderr.ceil_char_boundary(stderr.len().saturating_sub(SHOWN_STDERR_BYTES));
                let lines: Vec<&str> = stderr[from..].trim().lines().collect();
                match lines.is_empty() {
                    true => AgentEnd::Failed(format!("{message}; it wrote nothing to stderr")),
                    false => AgentEnd::Failed(format!("{message}; its stderr: | {}", lines.join(" | "))),
                }
            }
            end => end,
        };
        desk.close(end, &self.secrets.redact(&stdout)).await
    }

    fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    fn spawn(&self, room: Room<'_>, door: &Door) -> std::io::Result<Child> {
        let file = attachment(room);
        let question = question(room.task);
        let told = [
            (RUN_ID, self.run_id.clone()),
            (SAMPLE_ID, room.task.id.clone()),
            (QUESTION, crate::sample::for_variable(&question)),
            (FILES_DIR, room.files.to_string_lossy().into_owned()),
            (AGENT_FILE, file.clone()),
            (MCP_URL, door.url.clone()),
            (MCP_TOKEN, door.token.clone()),
            (MCP_CONFIG, door.config.to_string_lossy().into_owned()),
        ];
        let placeholders = [
            ("{question}", question.replace('\0', "")),
            ("{files_dir}", room.files.to_string_lossy().into_owned()),
            ("{file}", file),
            ("{mcp_url}", door.url.clone()),
            ("{mcp_config}", door.config.to_string_lossy().into_owned()),
        ];
        let inherited = INHERITED_VARIABLES.into_iter().chain(self.env_vars.iter().map(String::as_str));
        let inherited = inherited.filter_map(|name| Some((name, self.environment.get(name)?)));
        // A relative path is one of the folder that gaia runs in, not of the agent's own.
        let program = match self.program() {
            path if path.contains('/') => std::path::absolute(path)?,
            name => PathBuf::from(name),
        };
        let mut command = Command::new(program);
        command
            .args(self.words.iter().skip(1).map(|word| replaced(word, &placeholders)))
            .env_clear()
            .envs(inherited)
            .envs(told)
            .current_dir(door.work_folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command.spawn()
    }

    async fn watch(
        &self,
        mut child: Child,
        room: Room<'_>,
        desk: &Desk,
        cancel: &CancellationToken,
    ) -> Ended {
        let deadline = Instant::now() + self.timeout;
        let group = Group::of(&child);
        let (mut stdout, mut stderr) = (Output::default(), Output::default());
        let question = question(room.task);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let streams = async {
            let (stdin, out, err) = pipes;
            let ask = async {
                if let Some(mut stdin) = stdin {
                    // A program that does not read its stdin has the question all the same.
                    stdin.write_all(question.as_bytes()).await.ok();
                }
            };
            let read_out = async {
                if let Some(out) = out {
                    stdout.read(out).await;
                }
            };
            let read_err = async {
                if let Some(err) = err {
                    stderr.read(err).await;
                }
            };
            tokio::join!(ask, read_out, read_err);
        };
        let ending = async {
            let first = tokio::select! {
                biased;
                () = cancel.cancelled() => Seen::Cancelled,
                status = child.wait() => Seen::Exited(status),
                () = desk.answered() => Seen::Answered,
                () = sleep_until(deadline) => Seen::TimeOver,
            };
            let (end, exit) = match first {
                Seen::Exited(status) => self.judged(status),
                Seen::Answered => {
                    let exit = match timeout(ANSWERED_GRACE, child.wait()).await {
                        Ok(status) => self.judged(status).1,
                        Err(_) => killed(&mut child, &group, "it had answered").await,
                    };
                    (AgentEnd::Ended, exit)
                }
                Seen::TimeOver => (AgentEnd::TimeOver, killed(&mut child, &group, "its time was over").await),
                Seen::Cancelled => {
                    (AgentEnd::Cancelled, killed(&mut child, &group, "the run was stopped").await)
                }
            };
            // What it started and left behind goes with it.
            group.signal(Signal::KILL);
            (end, exit)
        };
        let (end, exit) = {
            let (mut streams, mut ending) = (std::pin::pin!(streams), std::pin::pin!(ending));
            let mut open = true;
            loop {
                tokio::select! {
                    ended = &mut ending => {
                        if open {
                            timeout(LAST_WORDS, &mut streams).await.ok();
                        }
                        break ended;
                    }
                    () = &mut streams, if open => open = false,
                }
            }
        };
        // All of it are gone, and its id may be somebody else's.
        std::mem::forget(group);
        Ended { end, exit, stdout, stderr }
    }

    fn judged(&self, status: std::io::Result<ExitStatus>) -> (AgentEnd, String) {
        let failed =
            |exit: String| (AgentEnd::Failed(format!("the agent `{}` {exit}", self.program())), exit);
        match status {
            Ok(status) if status.success() => (AgentEnd::Ended, describe(status)),
            Ok(status) => failed(describe(status)),
            Err(error) => failed(format!("could not be waited for: {error}")),
        }
    }
}

/// What happened first.
enum Seen {
    Exited(std::io::Result<ExitStatus>),
    Answered,
    TimeOver,
    Cancelled,
}

struct Ended {
    end: AgentEnd,
    exit: String,
    stdout: Output,
    stderr: Output,
}

/// Asks the whole group to end, then makes it.
async fn killed(child: &mut Child, group: &Group, why: &str) -> String {
    group.signal(Signal::TERM);
    if timeout(TERMINATE_GRACE, child.wait()).await.is_err() {
        group.signal(Signal::KILL);
        child.wait().await.ok();
    }
    format!("was ended: {why}")
}

/// The program and everything it started; killed when nobody waits for it any more.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw))
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0 {
            // The only error is that nobody is left.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The question as the loop's own model gets it: with the place of the file in the tools.
pub(super) fn question(task: &Task) -> String {
    match &task.attachment {
        Some(attachment) => format!(
            "{}\n\nThe file that belongs to this question is at {}",
            task.question, attachment.sandbox_path
        ),
        None => task.question.clone(),
    }
}

/// The file on this machine; empty without one.
pub(super) fn attachment(room: Room<'_>) -> String {
    let path = room.task.attachment.as_ref().map(|attachment| attachment.host_path.as_path());
    path.map_or_else(String::new, |path| path.to_string_lossy().into_owned())
}

/// In one pass: what was put in is not looked at again, and a question may hold anything.
fn replaced(word: &str, placeholders: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(start) = rest.find('{') {
        text.push_str(&rest[..start]);
        rest = &rest[start..];
        match placeholders.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => {
                text.push_str(value);
                rest = &rest[name.len()..];
            }
            None => {
                text.push('{');
                rest = &rest[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_once_and_nothing_else_is() {
        let placeholders = [("{question}", "what is {file}?".to_owned()), ("{file}", "/tmp/a".to_owned())];
        for (word, expected) in [
            ("{question}", "what is {file}?"),
            ("--file={file}", "--file=/tmp/a"),
            ("{\"a\": {unknown}}", "{\"a\": {unknown}}"),
            ("{", "{"),
            ("plain", "plain"),
        ] {
            assert_eq!(replaced(word, &placeholders), expected);
        }
    }
}
