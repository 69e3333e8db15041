use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fault::Fault;

/// What the model says, task by task. On disk: JSON lines, one [`TaskScript`] each.
#[derive(Debug, Clone, Default)]
pub struct Script {
    tasks: Vec<TaskScript>,
}

/// The replies to one task, in order.
///
/// Texts and arguments may hold `${file}` (the attachment's path as the question names it) and `${answer}` (what
/// follows the last line `ANSWER: ` in the tool outputs of the conversation), and `${between:ONE…OTHER}` (what the
/// tools have printed last between two texts). A turn whose answer is not to be found says so instead, without calls:
/// no answer is ever made up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskScript {
    pub task_id: String,
    /// Text by which the question is known; the longest match among all tasks wins. Empty matches every question.
    #[serde(rename = "match")]
    pub question: String,
    pub turns: Vec<Turn>,
    /// Says the last turn for ever: a model that loops, or that never submits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat_last: bool,
    /// Reply to a request that offers no tools; the default is `FINAL ANSWER: ${answer}`, or, where no tool has
    /// printed an answer, the turn itself if it calls nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced_answer: Option<String>,
}

/// One reply of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// One for each attempt at this turn, before the good reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Reply to a request that offers no tools, at this turn only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_tools: Option<String>,
    /// The default is `tool_calls` or `stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The default is a guess from the number of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Tokens>,
    /// Wait before the reply, on top of the server's own latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
}

/// One tool call of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Exact name, or the end of a name that an orchestrator made longer (`bash__bash`), or a part of it.
    pub tool: String,
    /// A string is sent as it is, valid JSON or not; anything else as JSON.
    pub arguments: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("failed to read the script: {0}")]
    Read(#[from] std::io::Error),
    #[error("bad task in script `{}`, line {line}: {reason}", path.display())]
    Line { path: PathBuf, line: usize, reason: String },
}

impl Script {
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a script file. Empty lines are skipped.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let mut script = Self::new();
        let mut seen = HashSet::new();
        for (index, line) in fs_err::read_to_string(path)?.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let bad = |reason: String| ScriptError::Line { path: path.to_owned(), line: index + 1, reason };
            let task: TaskScript = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
            if !seen.insert(task.task_id.clone()) {
                return Err(bad(format!("task `{}` occurs twice", task.task_id)));
            }
            if task.turns.is_empty() {
                return Err(bad(format!("task `{}` has no turns", task.task_id)));
            }
            script.tasks.push(task);
        }
        Ok(script)
    }

    /// Adds a task that is known by `question` and named after it.
    #[must_use]
    pub fn task(self, question: &str, turns: impl IntoIterator<Item = Turn>) -> Self {
        self.with(TaskScript::new(question, turns))
    }

    #[must_use]
    pub fn with(mut self, task: TaskScript) -> Self {
        self.tasks.push(task);
        self
    }

    pub fn tasks(&self) -> &[TaskScript] {
        &self.tasks
    }

    /// The task that the text of a question belongs to.
    pub(crate) fn find(&self, question: &str) -> Option<&TaskScript> {
        let matching = self.tasks.iter().filter(|task| question.contains(&task.question));
        matching.max_by_key(|task| task.question.len())
    }
}

impl TaskScript {
    pub fn new(question: &str, turns: impl IntoIterator<Item = Turn>) -> Self {
        Self {
            task_id: question.to_owned(),
            question: question.to_owned(),
            turns: turns.into_iter().collect(),
            repeat_last: false,
            forced_answer: None,
        }
    }

    #[must_use]
    pub fn repeat_last(mut self) -> Self {
        self.repeat_last = true;
        self
    }

    #[must_use]
    pub fn forced_answer(mut self, text: &str) -> Self {
        self.forced_answer = Some(text.to_owned());
        self
    }

    pub(crate) fn turn(&self, step: usize) -> Option<&Turn> {
        let last = self.turns.last().filter(|_| self.repeat_last);
        self.turns.get(step).or(last)
    }
}

impl Turn {
    #[must_use]
    pub fn with_content(mut self, text: &str) -> Self {
        self.content = Some(text.to_owned());
        self
    }

    #[must_use]
    pub fn with_reasoning(mut self, text: &str) -> Self {
        self.reasoning = Some(text.to_owned());
        self
    }

    #[must_use]
    pub fn with_faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.faults = faults.into_iter().collect();
        self
    }

    #[must_use]
    pub fn with_usage(mut self, prompt_tokens: u64, completion_tokens: u64) -> Self {
        self.usage = Some(Tokens { prompt_tokens, completion_tokens });
        self
    }

    #[must_use]
    pub fn with_finish_reason(mut self, reason: &str) -> Self {
        self.finish_reason = Some(reason.to_owned());
        self
    }

    #[must_use]
    pub fn with_latency_ms(mut self, milliseconds: u64) -> Self {
        self.latency_ms = Some(milliseconds);
        self
    }

    #[must_use]
    pub fn without_tools(mut self, text: &str) -> Self {
        self.without_tools = Some(text.to_owned());
        self
    }

    /// One more call in the same turn.
    #[must_use]
    pub fn and_call(mut self, tool: &str, arguments: Value) -> Self {
        self.calls.push(Call { tool: tool.to_owned(), arguments });
        self
    }
}

/// Turns for scripts written in code.
pub mod turn {
    use super::{Turn, Value, json};

    pub fn text(content: &str) -> Turn {
        Turn::default().with_content(content)
    }

    pub fn call(tool: &str, arguments: Value) -> Turn {
        Turn::default().and_call(tool, arguments)
    }

    pub fn bash(command: &str) -> Turn {
        call("bash", json!({ "command": command }))
    }

    pub fn submit(answer: &str) -> Turn {
        call("submit", json!({ "answer": answer }))
    }

    /// A call whose arguments are this text, which need not be JSON.
    pub fn raw_call(tool: &str, arguments: &str) -> Turn {
        call(tool, Value::String(arguments.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Script, ScriptError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), text).unwrap();
        Script::read(file.path())
    }

    #[test]
    fn reads_tasks_and_finds_the_longest_match() {
        let script = read(concat!(
            r#"{"task_id":"a","match":"blue","turns":[{"content":"1"}]}"#,
            "\n\n",
            r#"{"task_id":"b","match":"blue boats","repeat_last":true,"turns":[{"content":"2","faults":["429","cut"]}]}"#
        ))
        .unwrap();
        assert_eq!(script.find("three blue boats").unwrap().task_id, "b");
        assert_eq!(script.find("blue cars").unwrap().task_id, "a");
        assert!(script.find("red").is_none());
        assert_eq!(script.tasks()[1].turns[0].faults, [Fault::RateLimited, Fault::Cut]);
        assert!(script.tasks()[0].turn(1).is_none());
        assert_eq!(script.tasks()[1].turn(7).unwrap().content.as_deref(), Some("2"));
    }

    #[test]
    fn bad_lines_are_named() {
        let line = r#"{"task_id":"a","match":"m","turns":[{"content":"1"}]}"#;
        for (text, expected) in [
            (format!("{line}\n{line}"), "line 2: task `a` occurs twice"),
            (r#"{"task_id":"a","match":"m","turns":[]}"#.to_owned(), "line 1: task `a` has no turns"),
            (
                r#"{"task_id":"a","match":"m","turns":[{"contents":""}]}"#.to_owned(),
                "unknown field `contents`",
            ),
            (
                r#"{"task_id":"a","match":"m","turns":[{"faults":["418"]}]}"#.to_owned(),
                "unknown variant `418`",
            ),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
