//! What a page carries as data for its scripts: often all that a shell of an application has to say.

use html5ever::local_name;
use serde_json::Value;

use super::dom::{DOCUMENT, Data, Dom, Into, Step};

/// Of all data of a page.
const MAX_DATA_BYTES: usize = 200 * 1024;
/// Of what data is called; behind more there is a program.
const MAX_NAME_BYTES: usize = 100;
/// Deeper data is a state of a program, not something to read.
const MAX_DEPTH: usize = 24;

/// One line for each value that says something, as `path: value`.
pub(super) fn data(dom: &Dom) -> String {
    let mut lines = String::new();
    dom.walk(DOCUMENT, |step| {
        if let Step::Enter(id) = step
            && dom.name(id) == Some(&local_name!("script"))
            && let Some(child) = dom.children(id).next()
            && let Data::Text(text) = &dom.node(child).data
        {
            values(text).iter().for_each(|value| write(&mut lines, &mut Vec::new(), value));
        }
        Into::Children
    });
    lines
}

/// Whether a script begins by giving data a name: what it needs to build the page.
pub(super) fn is_assignment(script: &str) -> bool {
    assigned(script).is_some()
}

/// A document of JSON, or the ones that a script gives names to before it does anything else.
fn values(script: &str) -> Vec<Value> {
    if let Ok(value) = serde_json::from_str(script) {
        return vec![value];
    }
    let mut values = Vec::new();
    let mut rest = script;
    while let Some(json) = assigned(rest) {
        let mut parsed = serde_json::Deserializer::from_str(json).into_iter();
        let Some(Ok(value)) = parsed.next() else { break };
        values.push(value);
        rest = json[parsed.byte_offset()..].trim_start_matches([';', ',']);
    }
    values
}

/// What comes behind `window.__STATE__ =`, if that is an object or a list.
fn assigned(script: &str) -> Option<&str> {
    let script = script.trim_start();
    let starts = ["window.", "window[", "self.", "globalThis.", "var ", "let ", "const "];
    let name = starts.iter().find_map(|start| script.strip_prefix(start))?;
    let (name, value) = name.split_once('=')?;
    let value = value.trim_start();
    let is_data = name.len() <= MAX_NAME_BYTES && value.starts_with(['{', '[']);
    is_data.then_some(value)
}

/// serde_json refuses what is nested deeper than 128 levels, so this recursion is bounded twice.
fn write(lines: &mut String, path: &mut Vec<String>, value: &Value) {
    if lines.len() > MAX_DATA_BYTES || path.len() > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                path.push(name.clone());
                write(lines, path, member);
                path.pop();
            }
        }
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            line(lines, path, &items.join(", "));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                write(lines, path, item);
                path.pop();
            }
        }
        Value::Null => {}
        value => line(lines, path, &plain(value)),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

fn line(lines: &mut String, path: &[String], text: &str) {
    if !text.is_empty() {
        lines.push_str(&path.join("."));
        lines.push_str(": ");
        lines.push_str(text);
        lines.push('\n');
    }
}
