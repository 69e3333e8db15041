use serde_json::{Value, json};

use super::request;

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": {}}}})
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": "{}"}})
}

fn base(messages: Value) -> Value {
    json!({"model": "m", "messages": messages, "tools": [tool("bash")]})
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut body = base(json!([{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]));
    change(&mut body);
    body
}

fn check(body: &Value, expected: &str) {
    let found = request(body).expect_err(&format!("accepted, expected: {expected}"));
    assert!(found.contains(expected), "found: {found}\nexpected: {expected}");
}

#[test]
fn a_whole_conversation_passes() {
    let pixel = "data:image/png;base64,iVBORw0KGgo=";
    let body = base(json!([
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "image_url", "image_url": {"url": pixel}}]},
        {"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "b", "content": ""},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "t"}]},
        {"role": "assistant", "content": "thinking"},
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": "x", "tool_calls": [call("c")]},
        {"role": "tool", "tool_call_id": "c", "content": "t"},
    ]));
    assert_eq!(request(&body), Ok(()));
    assert_eq!(
        request(&json!({"model": "m", "messages": [{"role": "user", "content": "q"}], "stream": true,
        "stream_options": {"include_usage": true}})),
        Ok(())
    );
}

#[test]
fn fields_around_the_conversation() {
    check(&json!([]), "not a JSON object");
    check(&with(|b| b["model"] = json!("")), "`model` is missing");
    check(&with(|b| b["temperature"] = Value::Null), "`temperature` is null");
    check(&with(|b| b["stream"] = json!("yes")), "`stream` is not a boolean");
    check(&with(|b| b["stream_options"] = json!({})), "only allowed when `stream`");
    check(&with(|b| b["messages"] = json!([])), "`messages` is missing or empty");
    let without_tools =
        json!({"model": "m", "messages": [{"role": "user", "content": "q"}], "tool_choice": "auto"});
    check(&without_tools, "`tool_choice` is only allowed when `tools`");
}

#[test]
fn tool_lists() {
    check(&with(|b| b["tools"] = json!([])), "`tools` is empty");
    check(&with(|b| b["tools"] = json!([tool("bash/bash")])), "does not match");
    check(&with(|b| b["tools"] = json!([tool(&"x".repeat(65))])), "does not match");
    check(&with(|b| b["tools"] = json!([tool("a"), tool("a")])), "occurs twice");
    check(&with(|b| b["tools"][0]["type"] = json!("tool")), "a tool's type");
    check(&with(|b| b["tools"][0]["function"]["parameters"] = json!({})), "not of type \"object\"");
    check(
        &with(|b| b["tools"][0]["function"]["description"] = Value::Null),
        "`description` of tool `bash` is null",
    );
    check(&with(|b| b["tools"][0]["function"]["parameters"]["properties"] = json!([])), "not an object");
}

#[test]
fn order_of_messages() {
    let user = json!({"role": "user", "content": "q"});
    let said = json!({"role": "assistant", "content": "a"});
    let called = json!({"role": "assistant", "tool_calls": [call("a"), call("b")]});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
    for (messages, expected) in [
        (json!([user, {"role": "system", "content": "s"}]), "(system) is not the first"),
        (json!([user, said, said, user]), "follows another one directly"),
        (json!([said, user]), "before any question"),
        (json!([user, said]), "nothing to reply to"),
        (json!([user, {"role": "function", "content": "s"}]), "unknown role `function`"),
        (json!([user, called, result("a")]), "[\"b\"] were not answered"),
        (json!([user, called, result("a"), user]), "comes before the calls [\"b\"]"),
        (json!([user, called, result("a"), result("a"), result("b")]), "`a`, which is no open call"),
        (json!([user, result("z")]), "`z`, which is no open call"),
        (
            json!([user, called, result("a"), result("b"), called, result("a"), result("b")]),
            "was used before",
        ),
        (json!([user, {"role": "assistant", "tool_calls": [call("a"), call("a")]}]), "was used before"),
    ] {
        check(&base(messages), expected);
    }
}

#[test]
fn contents_and_calls() {
    let after_question = |message: Value| base(json!([{"role": "user", "content": "q"}, message]));
    for (message, expected) in [
        (json!({"role": "user", "content": ""}), "is empty"),
        (json!({"role": "user", "content": []}), "an empty list"),
        (json!({"role": "user"}), "has no content"),
        (json!({"role": "user", "content": 3}), "neither a string nor a list"),
        (json!({"role": "user", "content": [{"type": "text", "text": ""}]}), "without text"),
        (json!({"role": "user", "content": [{"type": "image", "data": ""}]}), "type `image`"),
        (
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,a b="}}]}),
            "neither http(s)",
        ),
        (
            json!({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "ogg"}}]}),
            "not base64 wav",
        ),
        (json!({"role": "assistant", "content": null}), "has no content"),
        (json!({"role": "assistant", "content": ""}), "neither content nor calls"),
        (json!({"role": "assistant", "content": "a", "tool_calls": []}), "leave it out"),
        (json!({"role": "assistant", "content": "a", "tool_calls": null}), "leave it out"),
        (json!({"role": "assistant", "tool_calls": [{"id": "", "type": "function"}]}), "has no id"),
        (
            json!({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "n", "arguments": "{}"}}]}),
            "is of type null",
        ),
    ] {
        check(&after_question(message), expected);
    }
    for (arguments, expected) in [
        (json!({}), "are not a string"),
        (json!("{\"a\":"), "not a JSON object"),
        (json!("[]"), "not a JSON object"),
    ] {
        let call = json!({"id": "a", "type": "function", "function": {"name": "n", "arguments": arguments}});
        check(&after_question(json!({"role": "assistant", "tool_calls": [call]})), expected);
    }
    let image = json!([{"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}]);
    let body = base(json!([
        {"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [call("a")]},
        {"role": "tool", "tool_call_id": "a", "content": image},
    ]));
    check(&body, "part of type `image_url`; allowed: [\"text\"]");
}
