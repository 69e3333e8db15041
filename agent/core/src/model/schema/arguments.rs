use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::references::resolve;
use super::repair::is_safe_name;

/// Objects inside objects that are put right; arguments are no deeper.
const DEPTH: usize = 16;

/// Safe names for property names, all different, in their order.
pub(super) fn safe_names<'a>(names: impl Iterator<Item = &'a String>) -> Vec<(String, String)> {
    let names: Vec<&String> = names.collect();
    let mut taken: BTreeSet<String> =
        names.iter().filter(|name| is_safe_name(name)).map(|name| (*name).clone()).collect();
    let mut safe = |name: &str| -> String {
        if is_safe_name(name) {
            return name.to_owned();
        }
        let allowed =
            |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-');
        let base: String =
            name.chars().map(|character| if allowed(character) { character } else { '_' }).take(60).collect();
        let base = if base.is_empty() { "_".to_owned() } else { base };
        let mut candidate = base.clone();
        let mut number = 2;
        while !taken.insert(candidate.clone()) {
            candidate = format!("{base}_{number}");
            number += 1;
        }
        candidate
    };
    names.into_iter().map(|name| (name.clone(), safe(name))).collect()
}

/// Names and absent values as the published schema has them.
pub(super) fn restore(published: &Value, arguments: String, nulls_are_absent: bool) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(&arguments) else { return arguments };
    let before = value.clone();
    let nulls = if nulls_are_absent { Nulls::Absent } else { Nulls::Kept };
    restore_value(published, published, &mut value, nulls, 0);
    if value == before { arguments } else { value.to_string() }
}

#[derive(Clone, Copy, PartialEq)]
enum Nulls {
    Kept,
    /// Null in place of what is optional means that it was left out.
    Absent,
}

fn restore_value(schema: &Value, root: &Value, value: &mut Value, nulls: Nulls, depth: usize) {
    if depth > DEPTH {
        return;
    }
    let schema =
        match schema.get("$ref").and_then(Value::as_str).and_then(|reference| resolve(root, reference)) {
            Some(target) => target,
            None => schema,
        };
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for branch in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
            restore_value(branch, root, value, nulls, depth + 1);
        }
    }
    match value {
        Value::Array(values) => {
            if let Some(items) = schema.get("items") {
                values.iter_mut().for_each(|value| restore_value(items, root, value, nulls, depth + 1));
            }
        }
        Value::Object(values) => {
            let Some(Value::Object(properties)) = schema.get("properties") else { return };
            rename(properties, values);
            for (name, property) in properties {
                let required = schema.get("required").and_then(Value::as_array);
                let optional = !required.is_some_and(|names| names.iter().any(|required| required == name));
                if nulls == Nulls::Absent
                    && optional
                    && values.get(name) == Some(&Value::Null)
                    && !takes_null(property, root)
                {
                    values.remove(name);
                }
                if let Some(value) = values.get_mut(name) {
                    restore_value(property, root, value, nulls, depth + 1);
                }
            }
        }
        _ => {}
    }
}

fn rename(properties: &Map<String, Value>, values: &mut Map<String, Value>) {
    for (name, safe) in safe_names(properties.keys()) {
        if name != safe
            && !values.contains_key(&name)
            && let Some(value) = values.remove(&safe)
        {
            values.insert(name, value);
        }
    }
}

fn takes_null(schema: &Value, root: &Value) -> bool {
    let schema =
        match schema.get("$ref").and_then(Value::as_str).and_then(|reference| resolve(root, reference)) {
            Some(target) => target,
            None => schema,
        };
    let typed = match schema.get("type") {
        Some(Value::String(kind)) => kind == "null",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
        _ => false,
    };
    let in_branch = ["anyOf", "oneOf"].iter().any(|keyword| {
        schema
            .get(*keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|branch| takes_null(branch, root))
    });
    typed || in_branch || schema.get("nullable") == Some(&Value::Bool(true))
}
