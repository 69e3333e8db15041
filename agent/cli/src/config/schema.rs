use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::settings::Config;

/// JSON Schema of the config file, committed as `configs/config.schema.json`.
pub fn schema() -> Value {
    SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator()
        .into_root_schema_for::<Config>()
        .to_value()
}

/// The schema as a tree without references: what is known about the keys, for suggestions and for texts from
/// the command line.
pub(super) struct KnownKeys {
    root: Value,
}

/// How a text from the command line or the environment is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Text,
    List,
    Other,
}

impl KnownKeys {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .for_deserialize()
            .with(|settings| settings.inline_subschemas = true);
        Self { root: settings.into_generator().into_root_schema_for::<Config>().to_value() }
    }

    /// The names of the keys that may stand in the table at `path`.
    pub(super) fn names_in(&self, path: &[String]) -> Vec<&str> {
        let properties = self.at(path).and_then(|schema| object_of(schema)?.get("properties")?.as_object());
        properties.map(|properties| properties.keys().map(String::as_str).collect()).unwrap_or_default()
    }

    pub(super) fn reading(&self, path: &[String]) -> Reading {
        match self.at(path) {
            Some(schema) if takes(schema, "string") => Reading::Text,
            Some(schema) if takes(schema, "array") => Reading::List,
            _ => Reading::Other,
        }
    }

    fn at(&self, path: &[String]) -> Option<&Value> {
        path.iter().try_fold(&self.root, |schema, key| {
            let object = object_of(schema)?;
            let named = object.get("properties").and_then(|properties| properties.get(key));
            named.or_else(|| object.get("additionalProperties").filter(|schema| schema.is_object()))
        })
    }
}

/// Looks through `anyOf [X, null]`, which stands for an optional key.
fn object_of(schema: &Value) -> Option<&Value> {
    if schema.get("properties").is_some() || schema.get("additionalProperties").is_some() {
        return Some(schema);
    }
    schema.get("anyOf")?.as_array()?.iter().find_map(object_of)
}

fn takes(schema: &Value, kind: &str) -> bool {
    let by_type = match schema.get("type") {
        Some(Value::String(name)) => name == kind,
        Some(Value::Array(names)) => names.iter().any(|name| name == kind),
        _ => kind == "string" && schema.get("const").is_some_and(Value::is_string),
    };
    let choices = ["anyOf", "oneOf"].iter().filter_map(|word| schema.get(word)?.as_array()).flatten();
    by_type || choices.into_iter().any(|choice| takes(choice, kind))
}
