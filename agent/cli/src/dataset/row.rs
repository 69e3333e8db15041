use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::config::Split;
use crate::dataset::error::{Position, RowProblem};
use crate::dataset::metadata::kind;
use crate::dataset::sample::{Annotator, Sample};

/// Below the limit of file systems (255 bytes), so that a suffix still fits.
const MAX_TASK_ID_BYTES: usize = 200;

/// What stands in the place of a truth that is not published.
const HIDDEN_TRUTH: &str = "?";

/// A row that is right by itself; its attachment is not looked for yet.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) file: PathBuf,
    pub(super) position: Position,
    pub(super) task_id: String,
    question: String,
    pub(super) level: u8,
    truth: Option<String>,
    /// Not empty.
    pub(super) file_name: Option<String>,
    /// Not empty.
    pub(super) file_path: Option<String>,
    annotator: Annotator,
}

impl Row {
    pub(super) fn parse(
        file: &Path,
        position: Position,
        fields: &Map<String, Value>,
        split: Split,
    ) -> Result<Self, String> {
        let task_id = required_text(fields, "task_id")?;
        check_task_id(task_id)?;
        let question = required_text(fields, "Question")?;
        if question.trim().is_empty() {
            return Err("`Question` is empty".to_owned());
        }
        let file_path = optional_text(fields, "file_path")?;
        let file_name = match optional_text(fields, "file_name")? {
            Some(name) => Some(name),
            None => file_path.and_then(|path| path.rsplit('/').next()).filter(|name| !name.is_empty()),
        };
        if let Some(name) = file_name {
            check_file_name(name)?;
        }
        Ok(Self {
            file: file.to_owned(),
            position,
            task_id: task_id.to_owned(),
            question: question.to_owned(),
            level: level(fields)?,
            truth: truth(fields, split)?,
            file_name: file_name.map(str::to_owned),
            file_path: file_path.map(str::to_owned),
            annotator: annotator(fields),
        })
    }

    pub(super) fn problem(&self, message: String) -> RowProblem {
        RowProblem {
            file: self.file.clone(),
            position: self.position,
            task_id: Some(self.task_id.clone()),
            message,
        }
    }

    pub(super) fn into_sample(self, file: Option<PathBuf>) -> Sample {
        Sample {
            task_id: self.task_id,
            question: self.question,
            level: self.level,
            truth: self.truth,
            file,
            file_name: self.file_name,
            annotator: self.annotator,
        }
    }

    /// The name of the first field that matters and differs. Paths may be written in different ways.
    pub(super) fn first_difference(&self, other: &Self) -> Option<&'static str> {
        if self.question != other.question {
            Some("Question")
        } else if self.level != other.level {
            Some("Level")
        } else if self.truth != other.truth {
            Some("Final answer")
        } else if self.file_name != other.file_name {
            Some("file_name")
        } else {
            None
        }
    }
}

fn required_text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    match fields.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("`{name}` must be text, not {}", kind(other))),
        None => Err(missing(fields, name)),
    }
}

/// `None` when absent, null or empty.
fn optional_text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(other) => Err(format!("`{name}` must be text, not {}", kind(other))),
    }
}

fn missing(fields: &Map<String, Value>, name: &str) -> String {
    let there: Vec<String> = fields.keys().map(|key| format!("`{key}`")).collect();
    match there.len() {
        0 => format!("`{name}` is missing: the row is empty"),
        _ => format!("`{name}` is missing; the row has {}", there.join(", ")),
    }
}

fn level(fields: &Map<String, Value>) -> Result<u8, String> {
    let level = match fields.get("Level") {
        None => return Err(missing(fields, "Level")),
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) => {
            let word = text.trim();
            let word = word.strip_prefix("2023_").unwrap_or(word);
            word.strip_prefix("level").unwrap_or(word).parse().ok()
        }
        Some(_) => None,
    };
    match level {
        Some(level @ 1..=3) => Ok(level as u8),
        _ => Err(format!("`Level` must be 1, 2 or 3, not `{}`", fields["Level"])),
    }
}

/// The text is never shown in an error.
fn truth(fields: &Map<String, Value>, split: Split) -> Result<Option<String>, String> {
    match (fields.get("Final answer"), split) {
        (Some(Value::String(text)), _) if text == HIDDEN_TRUTH => Ok(None),
        (Some(Value::String(text)), Split::Validation) if text.is_empty() => {
            Err("`Final answer` is empty".to_owned())
        }
        (Some(Value::String(text)), Split::Test) if text.is_empty() => Ok(None),
        (Some(Value::String(text)), _) => Ok(Some(text.clone())),
        (None | Some(Value::Null), Split::Test) => Ok(None),
        (None, Split::Validation) => Err(missing(fields, "Final answer")),
        (Some(other), _) => Err(format!("`Final answer` must be text, not {}", kind(other))),
    }
}

/// Nothing depends on it, so nothing in it is an error.
fn annotator(fields: &Map<String, Value>) -> Annotator {
    let text = |name: &str| match fields.get("Annotator Metadata")?.get(name)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    Annotator {
        steps: text("Steps"),
        number_of_steps: text("Number of steps"),
        time_taken: text("How long did this take?"),
        tools: text("Tools"),
        number_of_tools: text("Number of tools"),
    }
}

/// Task ids become folder names in the run directory.
pub(crate) fn check_task_id(task_id: &str) -> Result<(), String> {
    let reason = if task_id.is_empty() {
        "it is empty"
    } else if task_id.len() > MAX_TASK_ID_BYTES {
        "it is longer than 200 bytes"
    } else if task_id.contains(['/', '\\']) {
        "it holds a slash"
    } else if task_id.starts_with('.') {
        "it starts with a dot"
    } else if task_id.chars().any(char::is_control) {
        "it holds a control character"
    } else if task_id.trim() != task_id {
        "it starts or ends with white space"
    } else {
        return Ok(());
    };
    Err(format!("`task_id` cannot be a folder name: {reason}"))
}

/// The name becomes that of a staged file.
pub(crate) fn check_file_name(name: &str) -> Result<(), String> {
    let reason = if name.contains('/') {
        "it holds a slash"
    } else if name == "." || name == ".." {
        "it is a folder"
    } else if name.chars().any(char::is_control) {
        "it holds a control character"
    } else if name.len() > 255 {
        "it is longer than 255 bytes"
    } else {
        return Ok(());
    };
    Err(format!("`file_name` `{}` is not the name of a file: {reason}", name.escape_debug()))
}
