//! A person at the terminal, who has the tools of a sample at hand.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use gaia_agent::desk::{AgentEnd, Called, Desk};
use gaia_agent::{Outcome, Part};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::command::{Room, attachment, question};
use super::door::Door;
use crate::console::Console;

const HELP: &str = "\
  type the answer, or one of these:
    /tools                  what there is, and what it takes
    /call TOOL {JSON}       call one, such as /call bash {\"command\": \"ls /shared_files\"}
    /skip                   leave this question without an answer";

/// Answers one sample at a time.
pub struct Human {
    pub console: Console,
    pub timeout: Duration,
    /// Held by the sample whose turn it is.
    pub lines: Mutex<Lines>,
}

/// Lines that are typed, as they come.
pub struct Lines(mpsc::Receiver<String>);

/// What was typed.
enum Typed<'a> {
    Nothing,
    Tools,
    Call { tool: &'a str, arguments: &'a str },
    Skip,
    Unknown(&'a str),
    Answer(&'a str),
}

impl Lines {
    /// Of standard input. A thread of its own reads them: a read cannot be cancelled, and must not be waited for at the
    /// end.
    pub fn of_stdin() -> Self {
        let (sender, receiver) = mpsc::channel(1);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Self(receiver)
    }
}

impl Human {
    /// Shows the question and takes what is typed until there is an answer. When nobody types any more, the sample is
    /// left for another time.
    pub async fn work(
        &self,
        room: Room<'_>,
        desk: Arc<Desk>,
        lines: &mut Lines,
        cancel: &CancellationToken,
    ) -> Outcome {
        let door = match Door::open(desk.clone()).await {
            Ok(door) => door,
            Err(error) => {
                let end = AgentEnd::Failed(format!("failed to open the tools: {error}"));
                return desk.close(end, "").await;
            }
        };
        self.show(room, &door);
        let deadline = Instant::now() + self.timeout;
        let end = loop {
            let line = tokio::select! {
                biased;
                () = cancel.cancelled() => break AgentEnd::Cancelled,
                () = desk.answered() => break AgentEnd::Ended,
                () = sleep_until(deadline) => break AgentEnd::TimeOver,
                line = lines.0.recv() => line,
            };
            let Some(line) = line else { break AgentEnd::Cancelled };
            match read(&line) {
                Typed::Nothing => {}
                Typed::Tools => self.list(&desk),
                Typed::Skip => break AgentEnd::Ended,
                Typed::Unknown(word) => self.console.warn(&format!("  there is no `{word}`\n{HELP}")),
                Typed::Call { tool, arguments } => {
                    self.call(&desk, tool, arguments, cancel, deadline).await;
                }
                Typed::Answer(answer) => {
                    let arguments = json!({ "answer": answer }).to_string();
                    let tool = desk.answer_tool().to_owned();
                    self.call(&desk, &tool, &arguments, cancel, deadline).await;
                }
            }
        };
        if end == AgentEnd::TimeOver {
            self.console.warn("  the time for this question is over");
        }
        door.close().await;
        desk.close(end, "").await
    }

    fn show(&self, room: Room<'_>, door: &Door) {
        let mut text = format!("\n── {} ──\n\n{}\n", room.task.id, question(room.task));
        let file = attachment(room);
        if !file.is_empty() {
            text.push_str(&format!("\n  the file, on this machine: {file}\n"));
        }
        text.push_str(&format!(
            "\n{HELP}\n  the tools for an MCP client: {} (`gaia host` takes it too, and serves them on stdio)\n",
            door.config.display()
        ));
        self.console.warn(&text);
    }

    fn list(&self, desk: &Desk) {
        for tool in desk.tools() {
            let definition = tool.definition;
            let names = definition.parameters["properties"].as_object();
            let names: Vec<&str> = names.into_iter().flat_map(Map::keys).map(String::as_str).collect();
            let line = definition.description.lines().next().unwrap_or_default();
            self.console.warn(&format!("  {} {{{}}}  {line}", definition.name, names.join(", ")));
        }
    }

    async fn call(
        &self,
        desk: &Desk,
        tool: &str,
        arguments: &str,
        cancel: &CancellationToken,
        deadline: Instant,
    ) {
        let arguments = match serde_json::from_str::<Value>(arguments) {
            Ok(Value::Object(arguments)) => arguments,
            _ => {
                self.console.warn("  the arguments must be a JSON object, such as {\"command\": \"ls\"}");
                return;
            }
        };
        let in_time = cancel.child_token();
        let mut called = std::pin::pin!(desk.call(tool, arguments, &in_time, None));
        let called = tokio::select! {
            called = &mut called => called,
            () = sleep_until(deadline) => {
                in_time.cancel();
                called.await
            }
        };
        self.console.warn(&shown(&called));
    }
}

fn read(line: &str) -> Typed<'_> {
    let line = line.trim();
    let Some(command) = line.strip_prefix('/') else {
        return if line.is_empty() { Typed::Nothing } else { Typed::Answer(line) };
    };
    let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    match word {
        "tools" => Typed::Tools,
        "skip" => Typed::Skip,
        "call" => {
            let (tool, arguments) =
                rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), "{}"));
            Typed::Call { tool, arguments }
        }
        // An answer may begin with a slash: a path, a fraction of a page.
        _ if line.contains('/') && word.contains(['/', '.']) => Typed::Answer(line),
        _ => Typed::Unknown(line),
    }
}

fn shown(called: &Called) -> String {
    let parts = called.content.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        media => format!("[{}]", media.media().map_or("something", |(media_type, _)| media_type)),
    });
    parts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_an_answer_unless_it_begins_with_a_slash() {
        assert!(matches!(read(" 17 km "), Typed::Answer("17 km")));
        assert!(matches!(read("  "), Typed::Nothing));
        assert!(matches!(read("/skip"), Typed::Skip));
        assert!(matches!(
            read("/call bash {\"command\": \"ls -l\"}"),
            Typed::Call { tool: "bash", arguments: "{\"command\": \"ls -l\"}" }
        ));
        assert!(matches!(read("/call view"), Typed::Call { tool: "view", arguments: "{}" }));
        assert!(matches!(read("/usr/bin/env"), Typed::Answer("/usr/bin/env")));
        assert!(matches!(read("/quit"), Typed::Unknown("/quit")));
    }
}
