//! The protocol as the strictest providers read it. A request that passes here passes everywhere.

use std::collections::HashSet;

use serde_json::Value;

type Checked = Result<(), String>;

/// What is wrong with a request, if anything.
pub(crate) fn request(body: &Value) -> Checked {
    let fields = body.as_object().ok_or("the body is not a JSON object")?;
    if let Some((name, _)) = fields.iter().find(|(_, value)| value.is_null()) {
        return Err(format!("`{name}` is null; leave it out"));
    }
    if body["model"].as_str().is_none_or(str::is_empty) {
        return Err("`model` is missing or empty".to_owned());
    }
    let streams = match fields.get("stream") {
        None => false,
        Some(value) => value.as_bool().ok_or("`stream` is not a boolean")?,
    };
    if fields.contains_key("stream_options") && !streams {
        return Err("`stream_options` is only allowed when `stream` is true".to_owned());
    }
    match fields.get("tools") {
        Some(list) => tools(list)?,
        None => {
            let stray =
                ["tool_choice", "parallel_tool_calls"].into_iter().find(|name| fields.contains_key(*name));
            if let Some(name) = stray {
                return Err(format!("`{name}` is only allowed when `tools` are given"));
            }
        }
    }
    let list = body["messages"].as_array().filter(|list| !list.is_empty());
    messages(list.ok_or("`messages` is missing or empty")?)
}

fn tools(list: &Value) -> Checked {
    let list = list.as_array().ok_or("`tools` is not a list")?;
    if list.is_empty() {
        return Err("`tools` is empty; leave it out".to_owned());
    }
    let mut names = HashSet::new();
    for tool in list {
        if tool["type"] != "function" {
            return Err(format!("a tool's type is {}, not \"function\"", tool["type"]));
        }
        let name = tool["function"]["name"].as_str().ok_or("a tool has no name")?;
        tool_name(name)?;
        if !names.insert(name) {
            return Err(format!("tool `{name}` occurs twice"));
        }
        for field in ["description", "strict"] {
            if tool["function"].get(field).is_some_and(Value::is_null) {
                return Err(format!("`{field}` of tool `{name}` is null; leave it out"));
            }
        }
        let parameters = &tool["function"]["parameters"];
        if parameters["type"] != "object" {
            return Err(format!("the parameters of tool `{name}` are not of type \"object\""));
        }
        if parameters.get("properties").is_some_and(|properties| !properties.is_object()) {
            return Err(format!("the properties of tool `{name}` are not an object"));
        }
    }
    Ok(())
}

fn tool_name(name: &str) -> Checked {
    let valid = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if valid && (1..=64).contains(&name.len()) {
        return Ok(());
    }
    Err(format!("tool name `{name}` does not match ^[a-zA-Z0-9_-]{{1,64}}$"))
}

fn messages(list: &[Value]) -> Checked {
    let mut previous = "";
    let mut open: Vec<&str> = Vec::new();
    let mut ids = HashSet::new();
    let mut asked = false;
    for (index, message) in list.iter().enumerate() {
        let role = message["role"].as_str().ok_or(format!("message {index} has no role"))?;
        if role != "tool" && !open.is_empty() {
            return Err(format!("message {index} ({role}) comes before the calls {open:?} were answered"));
        }
        match role {
            "system" | "developer" if index == 0 => content(message, index, &["text"])?,
            "system" | "developer" => return Err(format!("message {index} ({role}) is not the first")),
            "user" => {
                asked = true;
                content(message, index, &["text", "image_url", "input_audio", "file"])?;
            }
            "assistant" if !asked => {
                return Err(format!("message {index} (assistant) comes before any question"));
            }
            "assistant" if previous == "assistant" => {
                return Err(format!("message {index} (assistant) follows another one directly"));
            }
            "assistant" => open = assistant(message, index, &mut ids)?,
            "tool" => {
                let id =
                    message["tool_call_id"].as_str().ok_or(format!("message {index} has no tool_call_id"))?;
                let place = open.iter().position(|call| *call == id);
                let place = place.ok_or(format!("message {index} answers `{id}`, which is no open call"))?;
                open.remove(place);
                content(message, index, &["text"])?;
            }
            other => return Err(format!("message {index} has the unknown role `{other}`")),
        }
        previous = role;
    }
    if !open.is_empty() {
        return Err(format!("the calls {open:?} were not answered"));
    }
    match previous {
        "user" | "tool" => Ok(()),
        other => Err(format!("the last message is of role `{other}`: nothing to reply to")),
    }
}

/// Checks an assistant message and returns the ids of its calls.
fn assistant<'a>(
    message: &'a Value,
    index: usize,
    ids: &mut HashSet<&'a str>,
) -> Result<Vec<&'a str>, String> {
    let Some(calls) = message.get("tool_calls") else {
        content(message, index, &["text", "refusal"])?;
        if message["content"] == "" {
            return Err(format!("message {index} (assistant) has neither content nor calls"));
        }
        return Ok(Vec::new());
    };
    if !message["content"].is_null() {
        content(message, index, &["text", "refusal"])?;
    }
    let calls = calls.as_array().filter(|calls| !calls.is_empty());
    let calls =
        calls.ok_or(format!("`tool_calls` of message {index} is not a list of calls; leave it out"))?;
    let mut open = Vec::new();
    for call in calls {
        let id = call["id"].as_str().filter(|id| !id.is_empty());
        let id = id.ok_or(format!("a call in message {index} has no id"))?;
        if !ids.insert(id) {
            return Err(format!("call id `{id}` in message {index} was used before"));
        }
        if call["type"] != "function" {
            return Err(format!("call `{id}` is of type {}, not \"function\"", call["type"]));
        }
        tool_name(call["function"]["name"].as_str().ok_or(format!("call `{id}` has no name"))?)?;
        let arguments = call["function"]["arguments"].as_str();
        let arguments = arguments.ok_or(format!("the arguments of call `{id}` are not a string"))?;
        // llama.cpp answers 500 to every later request, others 400, once such a call is in the conversation.
        if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
            return Err(format!(
                "the arguments of call `{id}` are not a JSON object; repair them before they go back"
            ));
        }
        open.push(id);
    }
    Ok(open)
}

fn content(message: &Value, index: usize, allowed: &[&str]) -> Checked {
    let role = &message["role"];
    match &message["content"] {
        // Only a tool may have nothing to say.
        Value::String(text) if text.is_empty() && (role == "user" || role == "system") => {
            Err(format!("the content of message {index} is empty"))
        }
        Value::String(_) => Ok(()),
        Value::Array(parts) if !parts.is_empty() => {
            parts.iter().try_for_each(|each| part(each, index, allowed))
        }
        Value::Array(_) => Err(format!("the content of message {index} is an empty list")),
        Value::Null => Err(format!("message {index} has no content")),
        _ => Err(format!("the content of message {index} is neither a string nor a list")),
    }
}

fn part(part: &Value, index: usize, allowed: &[&str]) -> Checked {
    let kind = part["type"].as_str().unwrap_or_default();
    if !allowed.contains(&kind) {
        return Err(format!("message {index} has a part of type `{kind}`; allowed: {allowed:?}"));
    }
    let bad = |what: &str| Err(format!("message {index} has a part of type `{kind}` {what}"));
    match kind {
        "text" if part["text"].as_str().is_none_or(str::is_empty) => bad("without text"),
        "image_url" => {
            let url = part["image_url"]["url"].as_str().unwrap_or_default();
            if part["image_url"].get("detail").is_some_and(Value::is_null) {
                return bad("whose `detail` is null; leave it out");
            }
            let data = url.strip_prefix("data:image/").and_then(|rest| rest.split_once(";base64,"));
            match data {
                Some((_, data)) if is_base64(data) => Ok(()),
                None if url.starts_with("http://") || url.starts_with("https://") => Ok(()),
                _ => bad("whose url is neither http(s) nor a base64 data URL of an image"),
            }
        }
        "input_audio" => {
            let audio = &part["input_audio"];
            let known = audio["format"] == "wav" || audio["format"] == "mp3";
            match audio["data"].as_str() {
                Some(data) if known && is_base64(data) => Ok(()),
                _ => bad("that is not base64 wav or mp3"),
            }
        }
        "file" if !part["file"].is_object() => bad("without a `file` object"),
        _ => Ok(()),
    }
}

fn is_base64(text: &str) -> bool {
    let letters = text.trim_end_matches('=');
    !letters.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - letters.len() <= 2
        && letters.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
