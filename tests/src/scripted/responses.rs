//! OpenAI's Responses API, as a stateless client uses it: requests as those of chat completions, so that one script
//! serves both, and replies in its own form.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::fault::Fault;
use super::reply::Reply;
use super::wire::Head;

/// The request in the form of chat completions. The error says what breaks the protocol.
pub(crate) fn as_chat(body: &Value) -> Result<Value, String> {
    if body.get("messages").is_some() {
        return Err("`messages` belongs to chat completions; here it is `input`".to_owned());
    }
    if body["store"] != false {
        return Err("`store` is not false: the reply would be kept at the provider".to_owned());
    }
    let wants_thoughts =
        body["include"].as_array().is_some_and(|list| list.contains(&json!("reasoning.encrypted_content")));
    if !wants_thoughts {
        return Err("`include` has no `reasoning.encrypted_content`: thoughts would be lost".to_owned());
    }
    let items =
        body["input"].as_array().filter(|items| !items.is_empty()).ok_or("`input` is no list of items")?;
    thoughts(items)?;
    let mut chat = Map::new();
    for key in ["model", "stream", "parallel_tool_calls", "tool_choice"] {
        if let Some(value) = body.get(key) {
            chat.insert(key.to_owned(), value.clone());
        }
    }
    let mut messages = Vec::new();
    if let Some(instructions) = body["instructions"].as_str() {
        messages.push(json!({"role": "system", "content": instructions}));
    }
    for (index, item) in items.iter().enumerate() {
        message(item, &mut messages).map_err(|what| format!("item {index} of `input`: {what}"))?;
    }
    chat.insert("messages".to_owned(), Value::Array(messages));
    if let Some(tools) = body["tools"].as_array() {
        let tools = tools.iter().map(tool).collect::<Result<Vec<Value>, String>>()?;
        chat.insert("tools".to_owned(), Value::Array(tools));
    }
    Ok(Value::Object(chat))
}

fn tool(tool: &Value) -> Result<Value, String> {
    if !tool["strict"].is_boolean() {
        return Err(format!("tool {} leaves `strict` to its default, which is true", tool["name"]));
    }
    let function =
        json!({"name": tool["name"], "description": tool["description"], "parameters": tool["parameters"]});
    Ok(json!({"type": tool["type"], "function": function}))
}

/// Adds an item to the conversation; those of one output become one message.
fn message(item: &Value, messages: &mut Vec<Value>) -> Result<(), String> {
    let kind = item["type"].as_str().ok_or("no type")?;
    match (kind, item["role"].as_str()) {
        ("message", Some("user")) => {
            let parts = item["content"].as_array().ok_or("content is no list")?;
            let parts = parts.iter().map(user_part).collect::<Result<Vec<Value>, String>>()?;
            messages.push(json!({"role": "user", "content": parts}));
        }
        ("message", Some("assistant")) => {
            let texts =
                item["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
            let text: String = texts.collect();
            assistant(messages)["content"] = json!(text);
        }
        ("reasoning", _) => {
            assistant(messages);
        }
        ("function_call", _) => {
            let call = json!({"id": item["call_id"], "type": "function",
                "function": {"name": item["name"], "arguments": item["arguments"]}});
            let message = assistant(messages);
            match message["tool_calls"].as_array_mut() {
                Some(calls) => calls.push(call),
                None => message["tool_calls"] = json!([call]),
            }
        }
        ("function_call_output", _) => {
            let id = item["call_id"].as_str().ok_or("no call_id")?;
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": item["output"]}));
        }
        (kind, role) => return Err(format!("of type `{kind}` and role {role:?}")),
    }
    Ok(())
}

fn user_part(part: &Value) -> Result<Value, String> {
    match part["type"].as_str() {
        Some("input_text") => Ok(json!({"type": "text", "text": part["text"]})),
        Some("input_image") => Ok(json!({"type": "image_url", "image_url": {"url": part["image_url"]}})),
        Some("input_audio") => Ok(part.clone()),
        Some("input_file") => Ok(
            json!({"type": "file", "file": {"filename": part["filename"], "file_data": part["file_data"]}}),
        ),
        other => Err(format!("a part of type {other:?}")),
    }
}

/// The message of the output that is being read, or a new one.
fn assistant(messages: &mut Vec<Value>) -> &mut Value {
    if messages.last().is_none_or(|message| message["role"] != "assistant") {
        messages.push(json!({"role": "assistant", "content": null}));
    }
    let last = messages.len() - 1;
    &mut messages[last]
}

/// Marks the ids of items that came with a thought.
const THOUGHTFUL: &str = "_t";

/// What only this server can have made of an id.
fn encrypted(id: &str) -> String {
    let digest = Sha256::digest(format!("sealed {id}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every thought comes back as it was given away, before the items that came with it, and none of these without it.
fn thoughts(items: &[Value]) -> Result<(), String> {
    let mut seen = HashSet::new();
    let mut is_open = false;
    for (index, item) in items.iter().enumerate() {
        let id = item["id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("reasoning") => {
                let is_as_given = item["encrypted_content"] == encrypted(id) && item["summary"].is_array();
                if !is_as_given || !seen.insert(id) {
                    return Err(format!("item {index} of `input`: thought `{id}` was changed or repeated"));
                }
                let followed = items.get(index + 1).and_then(|next| next["id"].as_str());
                if !followed.is_some_and(|next| next.ends_with(THOUGHTFUL)) {
                    return Err(format!(
                        "item {index} of `input`: thought `{id}` without the item that followed it"
                    ));
                }
                is_open = true;
            }
            Some("function_call_output") => is_open = false,
            Some("message") if item["role"] == "user" => is_open = false,
            _ if id.ends_with(THOUGHTFUL) && !is_open => {
                return Err(format!("item {index} of `input`: `{id}` without the thought that came with it"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The output items of a reply.
fn output(reply: &Reply, head: &Head) -> Vec<Value> {
    let mut items = Vec::new();
    let mark = if reply.reasoning.is_some() { THOUGHTFUL } else { "" };
    if let Some(reasoning) = &reply.reasoning {
        let id = format!("rs_{}", head.id);
        items.push(json!({"type": "reasoning", "id": id, "encrypted_content": encrypted(&id),
            "summary": [{"type": "summary_text", "text": reasoning}]}));
    }
    if let Some(content) = &reply.content {
        items.push(json!({"type": "message", "id": format!("msg_{}{mark}", head.id), "role": "assistant",
            "status": "completed", "content": [{"type": "output_text", "text": content, "annotations": []}]}));
    }
    for call in &reply.calls {
        items
            .push(json!({"type": "function_call", "id": format!("fc_{}{mark}", call.id), "call_id": call.id,
            "name": call.name, "arguments": call.arguments, "status": "completed"}));
    }
    items
}

/// The reply as one object.
pub(crate) fn whole(reply: &Reply, head: &Head, fault: Option<Fault>) -> Value {
    let (status, reason) = match (fault, reply.finish_reason.as_str()) {
        (Some(Fault::NoFinish | Fault::Empty), _) => ("in_progress", None),
        (Some(Fault::ErrorEvent), _) => ("failed", None),
        (_, "length") => ("incomplete", Some("max_output_tokens")),
        (_, "content_filter") => ("incomplete", Some("content_filter")),
        _ => ("completed", None),
    };
    let items = if fault == Some(Fault::Empty) { Vec::new() } else { output(reply, head) };
    let tokens = reply.usage;
    json!({"id": format!("resp_{}", head.id), "object": "response", "created_at": head.created, "model": head.model,
        "status": status, "output": items,
        "error": (status == "failed").then(|| json!({"code": "server_error", "message": "The server had an error (injected)."})),
        "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "usage": {"input_tokens": tokens.prompt_tokens, "output_tokens": tokens.completion_tokens,
            "total_tokens": tokens.prompt_tokens + tokens.completion_tokens,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}})
}

/// The reply as events.
pub(crate) fn events(reply: &Reply, head: &Head, fault: Option<Fault>) -> Vec<String> {
    let event = |kind: &str, fields: Value| {
        let mut event = json!({"type": kind});
        if let (Some(event), Some(fields)) = (event.as_object_mut(), fields.as_object()) {
            event.extend(fields.clone());
        }
        format!("event: {kind}\ndata: {event}\n\n")
    };
    let whole = whole(reply, head, None);
    let begun = json!({"id": whole["id"], "object": "response", "status": "in_progress", "output": []});
    let mut events = vec![event("response.created", json!({ "response": begun }))];
    for (index, item) in whole["output"].as_array().into_iter().flatten().enumerate() {
        events.push(event(
            "response.output_item.added",
            json!({"output_index": index, "item": {"type": item["type"]}}),
        ));
        if let Some(text) = item.pointer("/content/0/text") {
            events.push(event("response.output_text.delta", json!({"output_index": index, "delta": text})));
        }
        events.push(event("response.output_item.done", json!({"output_index": index, "item": item})));
    }
    match fault {
        Some(Fault::Cut | Fault::NoFinish) => events.truncate(events.len().div_ceil(2)),
        Some(Fault::Empty) => events.truncate(1),
        Some(Fault::ErrorEvent) => {
            events.truncate(events.len().div_ceil(2));
            events.push(event(
                "error",
                json!({"code": "server_error", "message": "The server had an error (injected)."}),
            ));
        }
        _ => {
            let last =
                if whole["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
            events.push(event(last, json!({ "response": whole })));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(items: Value) -> Value {
        json!({"model": "m", "store": false, "include": ["reasoning.encrypted_content"], "input": items})
    }

    #[test]
    fn a_conversation_reads_as_one_of_chat_completions() {
        let thought =
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": encrypted("rs_1")});
        let items = json!([
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
            thought,
            {"type": "message", "id": "msg_1_t", "role": "assistant", "content": [{"type": "output_text", "text": "hm"}]},
            {"type": "function_call", "id": "fc_1_t", "call_id": "a", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "out"},
        ]);
        assert_eq!(
            as_chat(&body(items)).unwrap()["messages"],
            json!([
                {"role": "user", "content": [{"type": "text", "text": "q"}]},
                {"role": "assistant", "content": "hm", "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "out"},
            ])
        );
    }

    #[test]
    fn what_breaks_the_protocol_is_told() {
        let thought =
            |seal: &str| json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": seal});
        let call = json!({"type": "function_call", "id": "fc_1_t", "call_id": "a", "name": "look", "arguments": "{}"});
        let other =
            json!({"type": "function_call", "id": "fc_2", "call_id": "b", "name": "look", "arguments": "{}"});
        for (items, expected) in [
            (json!([thought("x"), call]), "was changed"),
            (json!([call]), "without the thought"),
            (json!([thought(&encrypted("rs_1")), other]), "without the item"),
            (json!([thought(&encrypted("rs_1"))]), "without the item"),
            (
                json!([{"type": "message", "role": "user", "content": [{"type": "text", "text": "q"}]}]),
                "a part of type",
            ),
            (json!([]), "no list"),
        ] {
            let error = as_chat(&body(items)).unwrap_err();
            assert!(error.contains(expected), "{error}, not {expected}");
        }
        assert!(as_chat(&json!({"store": true})).unwrap_err().contains("`store`"));
    }
}
