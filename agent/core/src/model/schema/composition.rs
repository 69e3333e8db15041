use serde_json::{Map, Value, json};

use super::references::resolve;
use super::repair::{describe, overlay, walk};

/// Makes one object of a root that is put together of several schemas. What the parts require differently becomes a
/// sentence for the model: the call is checked against the published schema anyway.
pub(super) fn fold_root(schema: &mut Value, notes: &mut Vec<String>) {
    let whole = schema.clone();
    let Value::Object(root) = schema else { return };
    for keyword in ["not", "enum", "const"] {
        root.remove(keyword);
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = root.remove(keyword) else { continue };
        let branches: Vec<Map<String, Value>> = branches
            .into_iter()
            .filter_map(|branch| match target(branch, &whole) {
                Value::Object(branch) => Some(branch),
                _ => None,
            })
            .collect();
        let required_by = |branch: &Map<String, Value>| -> Vec<String> {
            let names = branch.get("required").and_then(Value::as_array);
            names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let sets: Vec<Vec<String>> = branches.iter().map(required_by).collect();
        for branch in branches {
            if let Some(Value::Object(properties)) = branch.get("properties") {
                let known = root.entry("properties").or_insert_with(|| json!({}));
                if let Value::Object(known) = known {
                    overlay(known, Value::Object(properties.clone()));
                }
            }
        }
        let everywhere: Vec<String> = match (keyword, sets.split_first()) {
            ("allOf", _) => sets.iter().flatten().cloned().collect(),
            (_, Some((first, rest))) => {
                first.iter().filter(|name| rest.iter().all(|set| set.contains(name))).cloned().collect()
            }
            (_, None) => Vec::new(),
        };
        if keyword != "allOf" {
            let choices: Vec<String> = sets
                .iter()
                .map(|set| {
                    let own: Vec<String> = set
                        .iter()
                        .filter(|name| !everywhere.contains(name))
                        .map(|name| format!("`{name}`"))
                        .collect();
                    own.join(" and ")
                })
                .filter(|choice| !choice.is_empty())
                .collect();
            if choices.len() > 1 {
                let how_many = if keyword == "oneOf" { "exactly one" } else { "at least one" };
                notes.push(format!("Give {how_many} of these: {}.", choices.join("; ")));
            }
        }
        if !everywhere.is_empty() {
            let required = root.entry("required").or_insert_with(|| json!([]));
            if let Value::Array(required) = required {
                for name in everywhere.into_iter().map(Value::from) {
                    if !required.contains(&name) {
                        required.push(name);
                    }
                }
            }
        }
    }
}

/// A branch that is a reference is what it points to.
fn target(branch: Value, root: &Value) -> Value {
    match branch.get("$ref").and_then(Value::as_str).and_then(|reference| resolve(root, reference)) {
        Some(target) => target.clone(),
        None => branch,
    }
}

/// Makes one schema of all that must hold together.
pub(super) fn merge_all_of(schema: &mut Map<String, Value>) {
    let Some(Value::Array(parts)) = schema.remove("allOf") else { return };
    for part in parts {
        let Value::Object(part) = part else { continue };
        for (key, value) in part {
            match (key.as_str(), schema.get_mut(&key), value) {
                ("properties", Some(Value::Object(known)), value) => overlay(known, value),
                ("required", Some(Value::Array(known)), Value::Array(more)) => {
                    for name in more {
                        if !known.contains(&name) {
                            known.push(name);
                        }
                    }
                }
                (_, Some(_), _) => {}
                (_, None, value) => drop(schema.insert(key, value)),
            }
        }
    }
}

pub(super) fn one_of_to_any_of(schema: &mut Map<String, Value>) {
    if let Some(branches) = schema.remove("oneOf") {
        schema.entry("anyOf").or_insert(branches);
    }
}

/// `{type: t, anyOf: [{…}]}` becomes `{anyOf: [{type: t, …}]}`; the root keeps its type beside none.
pub(super) fn types_into_branches(schema: &mut Map<String, Value>) {
    for keyword in ["anyOf", "oneOf"] {
        if !schema.contains_key(keyword) {
            continue;
        }
        let kind = schema.remove("type");
        if let (Some(kind), Some(Value::Array(branches))) = (kind, schema.get_mut(keyword)) {
            for branch in branches {
                if let Value::Object(branch) = branch
                    && !branch.contains_key("$ref")
                {
                    branch.entry("type").or_insert_with(|| kind.clone());
                }
            }
        }
    }
}

/// The first branch that is something stands for all; the description names the other kinds.
pub(super) fn fold_unions(schema: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = schema.remove("anyOf") else { return };
    let mut branches: Vec<Value> =
        branches.into_iter().filter(|branch| branch.get("type") != Some(&json!("null"))).collect();
    if branches.is_empty() {
        return;
    }
    let first = branches.remove(0);
    overlay(schema, first);
    if !branches.is_empty() {
        for branch in &mut branches {
            walk(branch, &mut |inner| drop(inner.remove("description")));
        }
        let others: Vec<String> = branches.iter().map(Value::to_string).collect();
        let told = others.join(" or ");
        // A whole second schema in words helps nobody.
        let told = if told.len() > 300 { "of another shape".to_owned() } else { format!("as {told}") };
        describe(schema, &format!("Can also be given {told}."));
    }
}
