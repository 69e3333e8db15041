use jsonschema::Validator;
use serde_json::{Map, Value};

use super::OfferedTool;

/// Mistakes told at once: enough to repair a call in one go.
const TOLD_MISTAKES: usize = 5;

/// Characters of one mistake: the validator quotes the offending value, which may be a whole document.
const MISTAKE_CHARS: usize = 300;

/// Reads the arguments that a model wrote for `tool`. The error is written for the model: what is wrong, and what
/// the tool takes. Nothing is ever repaired or replaced; only an empty text and `null` stand for no arguments, and
/// only where the tool needs none.
pub fn validate(arguments_text: &str, tool: &OfferedTool) -> Result<Map<String, Value>, String> {
    let text = if matches!(arguments_text.trim(), "" | "null") { "{}" } else { arguments_text };
    let value: Value = serde_json::from_str(text).map_err(|error| {
        format!("The arguments are not valid JSON ({error}); nothing was called. {}", expectation(tool))
    })?;
    if !value.is_object() {
        return Err(format!(
            "The arguments must be one JSON object, not {}; nothing was called. {}",
            kind(&value),
            expectation(tool)
        ));
    }
    let mistakes: Vec<String> = tool
        .validator
        .iter_errors(&value)
        .take(TOLD_MISTAKES)
        .map(|error| {
            let text = shorten(&error.to_string());
            match error.instance_path().to_string() {
                path if path.is_empty() => text,
                path => format!("`{}`: {text}", path.trim_start_matches('/')),
            }
        })
        .collect();
    match value {
        Value::Object(arguments) if mistakes.is_empty() => Ok(arguments),
        _ => Err(format!(
            "The arguments do not fit: {}; nothing was called. {}",
            mistakes.join("; "),
            expectation(tool)
        )),
    }
}

/// Compiles the schema of a tool; the error is a clause about the tool.
pub(super) fn compile(input_schema: &Value) -> Result<Validator, String> {
    match input_schema.get("type") {
        None => {}
        Some(Value::String(kind)) if kind == "object" => {}
        Some(other) => return Err(format!("its input schema is of type {other}, not \"object\"")),
    }
    jsonschema::validator_for(input_schema)
        .map_err(|error| format!("its input schema is not valid: {}", shorten(&error.to_string())))
}

/// `` `bash` takes command (string, required), timeout (integer). ``
fn expectation(tool: &OfferedTool) -> String {
    let required: Vec<&str> = tool
        .input_schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    let takes: Vec<String> = properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| {
            let kind = schema.get("type").and_then(Value::as_str);
            let needed = required.contains(&name.as_str()).then_some("required");
            match kind.into_iter().chain(needed).collect::<Vec<_>>().join(", ") {
                notes if notes.is_empty() => name.clone(),
                notes => format!("{name} ({notes})"),
            }
        })
        .collect();
    match takes.is_empty() {
        true => format!("`{}` takes one JSON object.", tool.model_name),
        false => format!("`{}` takes {}.", tool.model_name, takes.join(", ")),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MISTAKE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::{ServerTool, ToolAnnotations};

    fn tool(input_schema: Value) -> OfferedTool {
        let tool = ServerTool {
            name: "bash".to_owned(),
            title: None,
            description: String::new(),
            input_schema,
            annotations: ToolAnnotations::default(),
        };
        let validator = compile(&tool.input_schema).unwrap();
        OfferedTool::new("bash".to_owned(), "sandbox", &tool, validator)
    }

    fn bash() -> OfferedTool {
        tool(json!({
            "type": "object",
            "properties": { "command": { "type": "string" }, "timeout": { "type": "integer", "maximum": 600 } },
            "required": ["command"],
            "additionalProperties": false,
        }))
    }

    #[test]
    fn what_fits_passes_as_it_is() {
        let arguments = validate(r#" {"command": "ls", "timeout": 5} "#, &bash()).unwrap();
        assert_eq!(Value::Object(arguments), json!({ "command": "ls", "timeout": 5 }));
    }

    #[test]
    fn mistakes_are_told_in_words() {
        let check = |arguments: &str, expected: &[&str]| {
            let error = validate(arguments, &bash()).unwrap_err();
            for part in expected {
                assert!(error.contains(part), "{error}");
            }
            assert!(error.contains("`bash` takes command (string, required), timeout (integer)."), "{error}");
            assert!(error.contains("nothing was called"), "{error}");
        };
        check(r#"{"command": "ls"#, &["not valid JSON", "line 1 column 15"]);
        check("[1]", &["one JSON object, not an array"]);
        check(r#""{\"command\":\"ls\"}""#, &["one JSON object, not a string"]);
        check("null", &["\"command\" is a required property"]);
        check("", &["\"command\" is a required property"]);
        check("{}", &["\"command\" is a required property"]);
        check(
            r#"{"command": 5, "timeout": 601}"#,
            &["`command`: 5 is not of type \"string\"", "`timeout`: 601 is greater"],
        );
        check(r#"{"command": "ls", "cmd": "ls"}"#, &["'cmd' was unexpected"]);
    }

    #[test]
    fn an_empty_text_is_no_arguments_where_none_are_needed() {
        assert_eq!(validate(" ", &tool(json!({ "type": "object" }))), Ok(Map::new()));
        assert_eq!(validate("", &tool(json!({}))), Ok(Map::new()));
        assert_eq!(validate("null", &tool(json!({}))), Ok(Map::new()));
    }

    #[test]
    fn a_long_value_is_not_quoted_whole() {
        let error = validate(&json!({ "command": vec!["x"; 10_000] }).to_string(), &bash()).unwrap_err();
        assert!(error.len() < 1_000, "{}", error.len());
    }

    #[test]
    fn schemas_that_break_requests_are_refused() {
        assert!(compile(&json!({ "type": "array" })).unwrap_err().contains("not \"object\""));
        assert!(compile(&json!({ "type": "object", "properties": { "a": { "type": "strin" } } })).is_err());
        assert!(
            compile(&json!({ "$ref": "https://example.invalid/schema.json" })).is_err(),
            "nothing is fetched"
        );
    }

    proptest::proptest! {
        #[test]
        fn never_panics(arguments in ".*") {
            let _ = validate(&arguments, &bash());
        }
    }
}
