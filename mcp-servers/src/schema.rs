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
    Text,
    /// Of strings.
    List,
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
            Kind::Text => json!({ "type": "string", "description": description }),
            Kind::List => {
                json!({ "type": "array", "items": { "type": "string" }, "description": description })
            }
        }
    }
}
