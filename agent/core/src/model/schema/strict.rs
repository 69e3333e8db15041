use serde_json::{Map, Value, json};

use super::references::inline;
use super::repair::walk;

/// What strict mode knows; a schema with anything else goes without it.
const KNOWN: [&str; 16] = [
    "type",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "anyOf",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "exclusiveMinimum",
    "exclusiveMaximum",
];

/// Makes every object closed and every property required, where what was optional may be null instead. `false`, and
/// no change, for a schema that strict mode cannot express, such as an object of any keys.
pub(super) fn close(schema: &mut Value) -> bool {
    let mut closed = schema.clone();
    inline(&mut closed);
    let mut fits = true;
    walk(&mut closed, &mut |schema| {
        schema.retain(|key, _| {
            !matches!(key.as_str(), "default" | "title" | "minLength" | "maxLength" | "multipleOf")
        });
        fits &= schema.keys().all(|key| KNOWN.contains(&key.as_str()));
        let of = |kind: &str| match schema.get("type") {
            Some(Value::String(own)) => own == kind,
            Some(Value::Array(own)) => own.iter().any(|own| own == kind),
            _ => false,
        };
        fits &= schema.contains_key("type") || schema.contains_key("anyOf") || schema.contains_key("enum");
        if of("object") || schema.contains_key("properties") {
            fits &= close_object(schema);
        }
    });
    if fits {
        *schema = closed;
    }
    fits
}

fn close_object(schema: &mut Map<String, Value>) -> bool {
    if !matches!(schema.get("additionalProperties"), None | Some(Value::Bool(false))) {
        return false;
    }
    let is_root_of_none = schema.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty);
    // An object that names no property takes any; with the door closed it would take none.
    if is_root_of_none && schema.get("additionalProperties").is_none() {
        return false;
    }
    let required: Vec<Value> = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut names = Vec::new();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            names.push(json!(name));
            if !required.contains(&json!(name)) {
                make_nullable(property);
            }
        }
    }
    schema.insert("required".to_owned(), Value::Array(names));
    schema.insert("additionalProperties".to_owned(), json!(false));
    true
}

fn make_nullable(property: &mut Value) {
    let Value::Object(map) = property else { return };
    match map.get_mut("type") {
        Some(Value::String(kind)) if kind != "null" => {
            let kind = kind.clone();
            map.insert("type".to_owned(), json!([kind, "null"]));
        }
        Some(Value::Array(kinds)) if !kinds.contains(&json!("null")) => kinds.push(json!("null")),
        Some(_) => {}
        None => {
            let inner = std::mem::take(map);
            map.insert("anyOf".to_owned(), json!([inner, { "type": "null" }]));
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}
