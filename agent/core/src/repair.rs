//! One round of repair of arguments that are no JSON or do not fit: only what cannot change their meaning. A text that
//! was cut off is never completed, and nothing is ever replaced by `{}`.

use serde_json::{Map, Value};

/// Arguments as the model must have meant them, or `None` when that is anybody's guess. Whether they fit is for the
/// caller to check.
pub(crate) fn repaired(arguments: &str, schema: &Value) -> Option<String> {
    let value = serde_json::from_str::<Value>(arguments)
        .ok()
        .or_else(|| serde_json::from_str(&mended(without_fence(arguments))).ok())?;
    let object = match value {
        Value::Object(object) => object,
        // Encoded twice.
        Value::String(text) => serde_json::from_str::<Map<String, Value>>(&text).ok()?,
        _ => return None,
    };
    let properties = schema.get("properties");
    let fields = object.into_iter().map(|(name, value)| {
        let kind = properties.and_then(|all| all.get(&name)?.get("type")?.as_str()).unwrap_or_default();
        (name, as_kind(value, kind))
    });
    Some(Value::Object(fields.collect()).to_string())
}

/// A value in quotes where the schema wants it bare.
fn as_kind(value: Value, kind: &str) -> Value {
    let Value::String(text) = &value else { return value };
    match serde_json::from_str::<Value>(text.trim()) {
        Ok(bare) if is_kind(&bare, kind) => bare,
        _ => value,
    }
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inside.map_or(text, |inside| inside.trim_start_matches("json").trim())
}

/// Escapes control characters inside of strings, and drops commas that nothing follows.
pub(crate) fn mended(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '\n' if in_string => {
                out.push_str("\\n");
                continue;
            }
            '\r' if in_string => {
                out.push_str("\\r");
                continue;
            }
            '\t' if in_string => {
                out.push_str("\\t");
                continue;
            }
            ',' if !in_string && text[at + 1..].trim_start().starts_with(['}', ']']) => continue,
            _ => {}
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_one_meaning_is_repaired_and_nothing_else() {
        let schema = json!({"properties": {
            "command": {"type": "string"}, "timeout": {"type": "integer"}, "paths": {"type": "array"},
        }});
        for (arguments, expected) in [
            ("{\"command\": \"a\nb\tc\"}", Some(json!({"command": "a\nb\tc"}))),
            (r#"{"command": "ls", "paths": ["a",],}"#, Some(json!({"command": "ls", "paths": ["a"]}))),
            ("```json\n{\"command\": \"ls\"}\n```", Some(json!({"command": "ls"}))),
            (r#""{\"command\": \"ls\"}""#, Some(json!({"command": "ls"}))),
            (r#"{"timeout": "30", "paths": "[\"a\"]"}"#, Some(json!({"timeout": 30, "paths": ["a"]}))),
            // A text stays a text, whatever it looks like.
            (r#"{"command": "30", "timeout": "soon"}"#, Some(json!({"command": "30", "timeout": "soon"}))),
            (r#"{"command": "say \",}\" to\n them"}"#, Some(json!({"command": "say \",}\" to\n them"}))),
            (r#"{"command": "rm -rf /tmp/x"#, None),
            (r#"{"command": "ls""#, None),
            (r#"["ls"]"#, None),
            ("ls", None),
            ("", None),
        ] {
            let seen = repaired(arguments, &schema).map(|text| serde_json::from_str::<Value>(&text).unwrap());
            assert_eq!(seen, expected, "{arguments}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_changes_nothing_that_is_right(text in ".*", key in "[a-z]{1,5}", value in ".*") {
            let _ = repaired(&text, &json!({}));
            let right = json!({key: value}).to_string();
            proptest::prop_assert_eq!(repaired(&right, &json!({})), Some(right));
        }
    }
}
