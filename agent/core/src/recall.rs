//! The loop's own tool: what was cut from a tool's output, or dropped to make room, can be read again.
//!
//! It is offered from the first request on. Providers cache a request from its start, and tools stand before the
//! messages: a tool that appears in the middle of a task would make every token so far be paid for anew, in the turn
//! in which they are most. And output is cut to its limit long before a window is full.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::archive::Archive;
use crate::message::ToolDefinition;
use crate::tools::ToolHost;

/// As events name it.
pub(crate) const CANONICAL: &str = "gaia/recall";

/// How the model calls it: another name when a server has a tool of the usual one.
pub(crate) fn name(tools: &ToolHost) -> &'static str {
    if tools.find("recall").is_none() { "recall" } else { "gaia_recall_output" }
}

pub(crate) fn definition(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: "Reads tool output again that was cut, or dropped from the conversation to make room. Give `call` \
                      (the number that the note in its place names), and `offset` in bytes to go on reading; or \
                      `pattern` to find lines, in one call or in all. Without arguments: a list of what there is."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "call": {"type": "integer", "description": "Number of the call whose output is wanted."},
                "offset": {"type": "integer", "description": "Byte to start at; default 0."},
                "pattern": {"type": "string", "description": "Regular expression or plain text, case ignored."},
            },
        }),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    call: Option<u32>,
    offset: Option<usize>,
    pattern: Option<String>,
}

/// The arguments as an object, or in words what is wrong with them.
pub(crate) fn arguments(text: &str) -> Result<Value, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let check = |value: &Value| serde_json::from_value::<Arguments>(value.clone()).map(drop);
    serde_json::from_str::<Value>(text)
        .and_then(|value| check(&value).map(|()| value))
        .map_err(|error| format!("{error}; it takes call (integer), offset (integer), pattern (string)"))
}

/// The kept text, or an error in words.
pub(crate) fn answer(arguments: &Value, archive: &Archive) -> Result<String, String> {
    let arguments: Arguments =
        serde_json::from_value(arguments.clone()).map_err(|error| error.to_string())?;
    match (arguments.pattern.filter(|pattern| !pattern.is_empty()), arguments.call) {
        (Some(pattern), call) => archive.search(&pattern, call),
        (None, Some(call)) => archive.page(call, arguments.offset.unwrap_or(0)),
        (None, None) => archive.list(),
    }
}
