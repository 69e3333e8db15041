//! Blocks of the form `<tool_call>…</tool_call>` in a text.

use serde_json::{Map, Value};

use super::Written;
use crate::repair::mended;

pub(super) const OPEN: &str = "<tool_call>";
pub(super) const CLOSE: &str = "</tool_call>";
pub(super) const RESPONSE: &str = "<tool_response";

/// What a text holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The text without its calls.
    pub(super) prose: String,
    pub(super) calls: Vec<Written>,
    /// Whether something behind the calls was left out.
    pub(super) is_cut: bool,
}

/// All calls that are made in `text`, not those that it talks about.
pub(super) fn find(text: &str) -> Found {
    let text = without_fence(text);
    let mut found = Found::default();
    let mut prose = Vec::new();
    let mut in_fence = false;
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.find('\n').map_or(rest.len(), |end| end + 1));
        let start = line.trim_start();
        if is_fence(start) {
            in_fence = !in_fence;
        } else if !in_fence && start.starts_with(OPEN) {
            let opened = rest.trim_start();
            let inside = &opened[OPEN.len()..];
            // A block that was not closed ends where the next one begins, or with the text.
            let closed = inside.find(CLOSE);
            let next = inside.find(OPEN);
            let (body, tail) = match (closed, next) {
                (Some(end), next) if next.is_none_or(|next| end < next) => {
                    (&inside[..end], &inside[end + CLOSE.len()..])
                }
                (_, Some(next)) => inside.split_at(next),
                _ => (inside, ""),
            };
            found.calls.extend(calls_in(body));
            rest = tail.strip_prefix('\n').unwrap_or(tail);
            continue;
        } else if !in_fence && !found.calls.is_empty() && start.starts_with(RESPONSE) {
            found.is_cut = true;
            break;
        }
        prose.push(line);
        rest = after;
    }
    found.prose = prose.concat().trim().to_owned();
    found
}

pub(super) fn is_fence(line: &str) -> bool {
    line.starts_with("```") || line.starts_with("~~~")
}

/// A reply that is one fence and nothing else means what is in it.
pub(super) fn without_fence(text: &str) -> &str {
    let whole = text.trim();
    let inside = whole.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inside.and_then(|inside| inside.split_once('\n')) {
        Some((_language, inside)) if !inside.contains("```") => inside,
        _ => text,
    }
}

/// The calls of one block: JSON, or the XML of Qwen's coders and of GLM.
pub(super) fn calls_in(body: &str) -> Vec<Written> {
    let body = without_fence(body.trim()).trim();
    if body.starts_with("<function=") {
        return functions_in(body);
    }
    if let Some(call) = pairs_in(body) {
        return vec![call];
    }
    let parsed = serde_json::from_str::<Value>(body).or_else(|_| serde_json::from_str(&mended(body)));
    match parsed {
        Ok(Value::Array(calls)) if !calls.is_empty() => calls.iter().map(of_value).collect(),
        Ok(call) => vec![of_value(&call)],
        Err(_) => vec![of_broken(body)],
    }
}

pub(super) fn of_value(call: &Value) -> Written {
    // OpenAI's own form has both in `function`.
    let call = call.get("function").filter(|function| function.is_object()).unwrap_or(call);
    let Some(name) = call["name"].as_str() else {
        return Written { name: String::new(), arguments: call.to_string() };
    };
    let arguments = match call.get("arguments").or_else(|| call.get("parameters")) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(object) => object.to_string(),
    };
    Written { name: name.to_owned(), arguments }
}

/// The tool that is meant, so that the error can say what it takes; the arguments stay as broken as they are.
fn of_broken(body: &str) -> Written {
    let after = |key: &str| {
        let rest = &body[body.find(key)? + key.len()..];
        rest.trim_start().strip_prefix(':').map(str::trim_start)
    };
    let name =
        after("\"name\"").and_then(|rest| rest.strip_prefix('"')?.split_once('"')).map(|(name, _)| name);
    let Some(name) = name else { return Written { name: String::new(), arguments: body.to_owned() } };
    let arguments = after("\"arguments\"").unwrap_or(body).trim_end();
    let arguments = arguments.strip_suffix('}').map_or(arguments, str::trim_end);
    Written { name: name.to_owned(), arguments: arguments.to_owned() }
}

/// `<function=name><parameter=key>value</parameter></function>`, and Llama's `<function=name>{…}</function>`.
pub(super) fn functions_in(text: &str) -> Vec<Written> {
    let mut calls = Vec::new();
    for piece in text.split("<function=").skip(1) {
        let Some((name, inside)) = piece.split_once('>') else { continue };
        let inside = inside.split("</function>").next().unwrap_or_default().trim();
        let arguments = if inside.starts_with('{') {
            inside.to_owned()
        } else {
            parameters(inside, "<parameter=", "</parameter>", |head| head.trim().to_owned())
        };
        calls.push(Written { name: name.trim().trim_matches('"').to_owned(), arguments });
    }
    calls
}

/// Values between tags, as an object of texts: what the schema wants bare is repaired when it is checked.
pub(super) fn parameters(text: &str, open: &str, close: &str, name_of: impl Fn(&str) -> String) -> String {
    let mut object = Map::new();
    for piece in text.split(open).skip(1) {
        let Some((head, value)) = piece.split_once('>') else { continue };
        let value = value.split(close).next().unwrap_or_default();
        // One line break at either end belongs to the markup.
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        object.insert(name_of(head), Value::from(value));
    }
    Value::Object(object).to_string()
}

/// GLM's: the name, then `<arg_key>key</arg_key><arg_value>value</arg_value>`.
fn pairs_in(body: &str) -> Option<Written> {
    let (name, rest) = body.split_once("<arg_key>")?;
    let mut object = Map::new();
    for piece in rest.split("<arg_key>") {
        let (key, value) = piece.split_once("</arg_key>")?;
        let value = value.trim_start().strip_prefix("<arg_value>")?.split("</arg_value>").next()?;
        object.insert(key.trim().to_owned(), Value::from(value));
    }
    Some(Written { name: name.trim().to_owned(), arguments: Value::Object(object).to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> (String, Vec<(String, String)>) {
        let found = find(text);
        (found.prose, found.calls.into_iter().map(|call| (call.name, call.arguments)).collect())
    }

    fn calls(text: &str) -> Vec<(String, String)> {
        found(text).1
    }

    fn call(name: &str, arguments: &str) -> (String, String) {
        (name.to_owned(), arguments.to_owned())
    }

    const LS: &str = r#"{"name": "bash", "arguments": {"command": "ls"}}"#;

    #[test]
    fn blocks_are_calls_in_order_and_the_rest_is_prose() {
        let text = format!(
            "I look.\n\n<tool_call>\n{LS}\n</tool_call>\n<tool_call>{LS}</tool_call><tool_call>{LS}</tool_call>\nDone."
        );
        let (prose, calls) = found(&text);
        assert_eq!(prose, "I look.\n\nDone.");
        assert_eq!(calls, vec![call("bash", r#"{"command":"ls"}"#); 3]);
    }

    #[test]
    fn what_is_talked_about_is_not_made() {
        for text in [
            format!("You write <tool_call>{LS}</tool_call> to call."),
            format!("Such as:\n```\n<tool_call>\n{LS}\n</tool_call>\n```\nThat is all."),
            format!("~~~xml\n<tool_call>{LS}</tool_call>\n~~~\n"),
            format!("> <tool_call>{LS}</tool_call>"),
            "no call".to_owned(),
            String::new(),
        ] {
            let (prose, calls) = found(&text);
            assert_eq!((calls, prose.as_str()), (vec![], text.trim()), "{text}");
        }
    }

    #[test]
    fn every_way_to_write_one_call_is_read() {
        let expected = vec![call("bash", r#"{"command":"ls"}"#)];
        for text in [
            format!("```\n<tool_call>\n{LS}\n</tool_call>\n```"),
            format!("<tool_call>\n```json\n{LS}\n```\n</tool_call>"),
            format!("  <tool_call> {LS} </tool_call>  "),
            format!("<tool_call>\n{LS}"),
            format!("<tool_call>\n[{LS}]\n</tool_call>"),
            r#"<tool_call>{"name": "bash", "parameters": {"command": "ls"}}</tool_call>"#.to_owned(),
            r#"<tool_call>{"name": "bash", "arguments": "{\"command\":\"ls\"}"}</tool_call>"#.to_owned(),
            r#"<tool_call>{"type": "function", "function": {"name": "bash", "arguments": {"command": "ls"}}}</tool_call>"#.to_owned(),
            r#"<tool_call>{"name": "bash", "arguments": {"command": "ls",},}</tool_call>"#.to_owned(),
            "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>".to_owned(),
            "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>".to_owned(),
        ] {
            assert_eq!(calls(&text), expected, "{text}");
        }
        // A block that was not closed ends where the next one begins.
        assert_eq!(calls(&format!("<tool_call>\n{LS}\n<tool_call>\n{LS}\n</tool_call>")).len(), 2);
    }

    #[test]
    fn what_cannot_be_read_is_a_call_that_says_so() {
        for (body, expected) in [
            (r#"{"name": "bash", "arguments": {"command": "ls}}"#, call("bash", r#"{"command": "ls}"#)),
            (r#"{"name": "bash", "arguments": {"command": "l"#, call("bash", r#"{"command": "l"#)),
            (r#"{"name": "bash"}"#, call("bash", "")),
            (r#"{"tool": "bash"}"#, call("", r#"{"tool":"bash"}"#)),
            ("ls -l", call("", "ls -l")),
            ("", call("", "")),
        ] {
            assert_eq!(calls(&format!("<tool_call>\n{body}\n</tool_call>")), [expected], "{body}");
        }
    }

    #[test]
    fn invented_results_are_dropped_with_all_that_follows_from_them() {
        let text = format!(
            "<tool_call>{LS}</tool_call>\n<tool_response>\na.txt\n</tool_response>\n<tool_call>{LS}</tool_call>\nFINAL ANSWER: a.txt"
        );
        let found = find(&text);
        assert_eq!((found.calls.len(), found.prose.as_str(), found.is_cut), (1, "", true));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "(?s)(.|<tool_call>|</tool_call>|<tool_response>|```|\n|\\{|\"name\"|\"arguments\"|:|<function=|<parameter=|>|<arg_key>|</arg_key>|<arg_value>){0,60}") {
            let _ = find(&text);
        }
    }
}
