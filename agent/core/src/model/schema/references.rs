use serde_json::{Map, Value, json};

/// References followed one inside the other; a recursive schema ends there in an object of any shape.
const DEPTH: usize = 8;

/// Schemas in all that references may turn into: a schema of a few lines can stand for millions.
const EXPANDED_SCHEMAS: usize = 2_000;

/// Replaces every local `$ref` by its target. What stands beside it stays, and wins.
pub(super) fn inline(schema: &mut Value) {
    let root = schema.clone();
    let mut budget = EXPANDED_SCHEMAS;
    expand(schema, &root, 0, &mut budget);
    if let Value::Object(map) = schema {
        map.remove("$defs");
        map.remove("definitions");
    }
}

fn expand(schema: &mut Value, root: &Value, depth: usize, budget: &mut usize) {
    match schema {
        Value::Object(map) => {
            let depth = match map.get("$ref") {
                Some(Value::String(reference)) => {
                    let target = match depth < DEPTH && *budget > 0 {
                        true => {
                            *budget -= 1;
                            resolve(root, reference).cloned()
                        }
                        false => None,
                    };
                    map.remove("$ref");
                    take_over(map, target.unwrap_or_else(|| json!({ "type": "object" })));
                    depth + 1
                }
                // A property may have this name.
                _ => depth,
            };
            let again = map.contains_key("$ref") && map["$ref"].is_string();
            for (key, value) in map.iter_mut() {
                match key.as_str() {
                    // Data, not schemas.
                    "enum" | "const" | "default" | "examples" | "required" => {}
                    "$defs" | "definitions" => {}
                    "properties" => {
                        if let Value::Object(properties) = value {
                            properties.values_mut().for_each(|value| expand(value, root, depth, budget));
                        }
                    }
                    _ => expand(value, root, depth, budget),
                }
            }
            if again {
                expand(schema, root, depth, budget);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| expand(value, root, depth, budget)),
        _ => {}
    }
}

fn take_over(map: &mut Map<String, Value>, target: Value) {
    if let Value::Object(target) = target {
        for (key, value) in target {
            if key != "$defs" && key != "definitions" {
                map.entry(key).or_insert(value);
            }
        }
    }
}

/// What a local reference points to.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}
