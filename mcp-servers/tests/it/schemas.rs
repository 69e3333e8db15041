//! Every schema stays in the part of JSON Schema that all model providers take.

use rmcp::model::Tool;
use serde_json::Value;

use crate::support::{BASH, Era, PATIENCE, SUBMIT, image, stdio};
use crate::web_support::{FETCH, SEARCH, Web};

/// Keywords that some provider refuses or misreads.
const REFUSED: [&str; 15] = [
    "$schema",
    "$ref",
    "$defs",
    "$id",
    "definitions",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "const",
    "format",
    "nullable",
    "additionalProperties",
    "patternProperties",
    "default",
];
const TYPES: [&str; 5] = ["array", "boolean", "integer", "number", "string"];

fn lint(path: &str, schema: &Value) {
    let object = schema.as_object().unwrap_or_else(|| panic!("{path} is no object"));
    for keyword in REFUSED {
        assert!(!object.contains_key(keyword), "{path} has `{keyword}`");
    }
    let kind = object.get("type").and_then(Value::as_str);
    let kind = kind.unwrap_or_else(|| panic!("{path} needs one `type`, a string"));
    if kind == "object" {
        let properties =
            object["properties"].as_object().unwrap_or_else(|| panic!("{path} has no properties"));
        for (name, property) in properties {
            assert_ne!(property["type"], "object", "{path}.{name} is nested");
            assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{path}.{name}");
            lint(&format!("{path}.{name}"), property);
        }
        if let Some(required) = object.get("required") {
            let required = required.as_array().unwrap();
            assert!(!required.is_empty(), "{path}: an empty `required` is refused by old drafts");
            for name in required {
                assert!(
                    properties.contains_key(name.as_str().unwrap()),
                    "{path}: {name} is required, not described"
                );
            }
        }
    } else {
        assert!(TYPES.contains(&kind), "{path} has the type `{kind}`");
        if kind == "array" {
            lint(&format!("{path}[]"), &object["items"]);
        }
    }
}

fn lint_tool(tool: &Tool) {
    let name = &tool.name;
    let allowed = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
    assert!(name.len() <= 64 && name.chars().all(allowed), "{name}");
    let input = ("input", &tool.input_schema);
    let output = tool.output_schema.as_ref().map(|schema| ("output", schema));
    // Where structured content is declared, hosts show a model nothing else: a picture must not have any.
    // And those of the reference servers have none.
    let without = ["view_image", "fetch", "archive"];
    assert_eq!(
        output.is_none(),
        without.contains(&&**name) || name.starts_with("brave_"),
        "{name}: output schema"
    );
    for (part, schema) in [input].into_iter().chain(output) {
        assert_eq!(schema["type"], "object", "{name} {part}");
        lint(&format!("{name} {part}"), &Value::Object((**schema).clone()));
    }
    let annotations = tool.annotations.as_ref().unwrap_or_else(|| panic!("{name} has no annotations"));
    assert!(
        annotations.read_only_hint.is_some()
            && annotations.destructive_hint.is_some()
            && annotations.idempotent_hint.is_some()
            && annotations.open_world_hint.is_some(),
        "{name}: {annotations:?}"
    );
    assert!(tool.description.as_ref().is_some_and(|text| !text.is_empty()), "{name}");
}

/// What the schemas of ours can say, checked by hand.
pub(crate) fn check_output(tool: &Tool, structured: Option<&Value>) {
    let name = &tool.name;
    let schema = tool.output_schema.as_ref().unwrap_or_else(|| panic!("{name} has no output schema"));
    let facts =
        structured.and_then(Value::as_object).unwrap_or_else(|| panic!("{name} gave no structured content"));
    for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        assert!(facts.contains_key(required.as_str().unwrap()), "{name}: {required} is missing in {facts:?}");
    }
    for (key, value) in facts {
        let fits = match schema["properties"][key]["type"].as_str() {
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("boolean") => value.is_boolean(),
            Some("array") => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
            other => panic!("{name}: {key} is declared as {other:?}"),
        };
        assert!(fits, "{name}: {key} is {value}");
    }
}

#[tokio::test]
async fn submit_has_flat_schemas() {
    let (_server, client) = stdio(SUBMIT, &[], Era::Modern).await;
    let tools = client.tools().await;
    assert_eq!(tools.len(), 1);
    tools.iter().for_each(lint_tool);
}

#[tokio::test]
async fn bash_has_flat_schemas() {
    let (mut server, client) = stdio(BASH, &["--image", &image()], Era::Modern).await;
    let tools = client.tools().await;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    let expected =
        ["bash", "bash_output", "bash_input", "kill_shell", "read_file", "write_file", "view_image"];
    assert_eq!(names, expected);
    tools.iter().for_each(lint_tool);
    client.close().await;
    // Its container may just be starting: killed now, the server could not remove it.
    server.wait(PATIENCE).await;
}

#[tokio::test]
async fn fetch_and_search_have_flat_schemas() {
    for (program, args, count) in [(FETCH, &[][..], 4), (SEARCH, &[], 8), (SEARCH, &["--legacy"], 2)] {
        let web = Web::start(program, args, &[("BRAVE_API_KEY", "k")]).await;
        let tools = web.client.tools().await;
        assert_eq!(tools.len(), count);
        tools.iter().for_each(lint_tool);
    }
}

#[test]
#[should_panic(expected = "x.y has `anyOf`")]
fn the_lint_sees_what_is_nested() {
    let schema = serde_json::json!({
        "type": "object",
        "properties": { "y": { "type": "string", "description": "d", "anyOf": [] } }
    });
    lint("x", &schema);
}
