//! Schemas written by hand in the small part of JSON Schema that every model provider takes.
//!
//! Derived schemas bring `$schema`, `$ref`, `anyOf`, `format` and arrays of types, each of which some provider
//! refuses; one refused tool fails every request of a run.

use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

/// One property of an object schema.
#[derive(Debug, Clone, Copy)]
pub struct Property {
    pub name: &'static str,
    pub kind: Kind,
    pub presence: Presence,
    pub description: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    Integer,
    /// From the first to the second number, both included; `u64::MAX` is no bound.
    IntegerFrom(u64, u64),
    Number,
    Text,
    /// A string that is not empty.
    Address,
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// Of strings.
    List,
    /// Of some of these strings.
    Choices(&'static [&'static str]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Required,
    Optional,
}

/// An object with these properties. Absent is the only way to leave one out: there is no `null` type.
pub fn object(properties: &[Property]) -> Arc<JsonObject> {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), json!("object"));
    let described: JsonObject =
        properties.iter().map(|property| (property.name.to_owned(), property.schema())).collect();
    schema.insert("properties".to_owned(), Value::Object(described));
    let required: Vec<&str> = properties
        .iter()
        .filter(|property| property.presence == Presence::Required)
        .map(|property| property.name)
        .collect();
    // An empty list is not allowed in the older drafts that some providers check against.
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    Arc::new(schema)
}

impl Property {
    fn schema(&self) -> Value {
        let Self { description, .. } = self;
        match self.kind {
            Kind::Boolean => json!({ "type": "boolean", "description": description }),
            Kind::Integer => json!({ "type": "integer", "description": description }),
            Kind::IntegerFrom(least, u64::MAX) => {
                json!({ "type": "integer", "minimum": least, "description": description })
            }
            Kind::IntegerFrom(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most, "description": description })
            }
            Kind::Number => json!({ "type": "number", "description": description }),
            Kind::Text => json!({ "type": "string", "description": description }),
            Kind::Address => json!({ "type": "string", "minLength": 1, "description": description }),
            Kind::Choice(choices) => json!({ "type": "string", "enum": choices, "description": description }),
            Kind::Choices(choices) => json!({
                "type": "array",
                "items": { "type": "string", "enum": choices },
                "description": description,
            }),
            Kind::List => {
                json!({ "type": "array", "items": { "type": "string" }, "description": description })
            }
        }
    }
}
