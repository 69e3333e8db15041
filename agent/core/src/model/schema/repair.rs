use serde_json::{Map, Value, json};

use super::composition::{fold_root, fold_unions, merge_all_of, one_of_to_any_of, types_into_branches};
use super::references::inline;

/// One thing about a schema that some provider refuses, and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repair {
    /// `$ref` becomes what it points to.
    Inline,
    /// `oneOf`, `anyOf`, `allOf`, `enum` and `not` at the root become properties; a note says what went with them.
    FoldRoot,
    /// `allOf` becomes one schema.
    MergeAllOf,
    OneOfToAnyOf,
    /// `type` beside `anyOf` moves into its branches.
    TypesIntoBranches,
    /// `anyOf` becomes its first branch that is not null.
    FoldUnions,
    /// `type: [t, "null"]` becomes `t`, with `nullable` where the provider knows it.
    Nullable,
    /// The same for providers that do not know `nullable`.
    SingleTypes,
    ConstToEnum,
    /// Values of `enum` that are no text, or empty, become words in the description.
    TextEnums,
    /// Every schema says its type.
    ExplicitTypes,
    /// `type: object` and `properties` at the root.
    ObjectRoot,
    /// `items: {}` where an array has none.
    AnyItems,
    /// `items` of text where an array has none.
    TextItems,
    /// `format`s that OpenAI knows.
    OpenaiFormats,
    /// `date-time` is the one format of text that stays.
    DateTimeFormat,
    /// Property names of `[a-zA-Z0-9_.-]{1,64}`.
    SafeNames,
    /// Keywords about the schema itself, and identifiers.
    DropMeta,
    /// Keywords that constrain in ways which OpenAI refuses.
    DropOpenaiConstraints,
    /// All keywords that Gemini does not know.
    DropUnknownToGemini,
}

use Repair::*;

pub(super) const OPENAI: [Repair; 10] = [
    FoldRoot,
    ObjectRoot,
    MergeAllOf,
    OneOfToAnyOf,
    AnyItems,
    OpenaiFormats,
    DropOpenaiConstraints,
    ConstToEnum,
    SafeNames,
    DropMeta,
];

pub(super) const ANTHROPIC: [Repair; 3] = [FoldRoot, ObjectRoot, SafeNames];

pub(super) const GEMINI: [Repair; 13] = [
    Inline,
    FoldRoot,
    ObjectRoot,
    MergeAllOf,
    OneOfToAnyOf,
    ConstToEnum,
    Nullable,
    ExplicitTypes,
    TextEnums,
    TextItems,
    DateTimeFormat,
    SafeNames,
    DropUnknownToGemini,
];

pub(super) const MOONSHOT: [Repair; 6] =
    [Inline, FoldRoot, ObjectRoot, MergeAllOf, ExplicitTypes, TypesIntoBranches];

pub(super) const STRICT: [Repair; 14] = [
    Inline,
    FoldRoot,
    ObjectRoot,
    MergeAllOf,
    OneOfToAnyOf,
    FoldUnions,
    ConstToEnum,
    SingleTypes,
    ExplicitTypes,
    TextEnums,
    TextItems,
    DateTimeFormat,
    SafeNames,
    DropUnknownToGemini,
];

/// "platform.openai.com/docs/guides/structured-outputs": all others are refused with the whole request.
const OPENAI_FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Keywords of a schema that Gemini's own `Schema` has, and `nullable`.
const KNOWN_TO_GEMINI: [&str; 19] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "anyOf",
    "items",
    "minimum",
    "maximum",
];

impl Repair {
    pub(super) fn apply(self, schema: &mut Value, notes: &mut Vec<String>) {
        match self {
            Inline => inline(schema),
            FoldRoot => fold_root(schema, notes),
            ObjectRoot => object_root(schema),
            _ => walk(schema, &mut |schema| self.apply_here(schema)),
        }
    }

    /// On one schema, after its inner ones.
    fn apply_here(self, schema: &mut Map<String, Value>) {
        match self {
            Inline | FoldRoot | ObjectRoot => {}
            MergeAllOf => merge_all_of(schema),
            OneOfToAnyOf => one_of_to_any_of(schema),
            TypesIntoBranches => types_into_branches(schema),
            FoldUnions => fold_unions(schema),
            Nullable => single_type(schema, OnNull::Mark),
            SingleTypes => single_type(schema, OnNull::Drop),
            ConstToEnum => {
                if let Some(value) = schema.remove("const") {
                    schema.insert("enum".to_owned(), json!([value]));
                }
            }
            TextEnums => text_enum(schema),
            ExplicitTypes => {
                if !schema.contains_key("type")
                    && !schema.contains_key("anyOf")
                    && !schema.contains_key("$ref")
                {
                    schema.insert("type".to_owned(), json!(likely_type(schema)));
                }
            }
            AnyItems => items(schema, json!({})),
            TextItems => items(schema, json!({ "type": "string" })),
            OpenaiFormats => format(schema, &OPENAI_FORMATS),
            DateTimeFormat => format(schema, &["date-time"]),
            SafeNames => safe_names(schema),
            DropMeta => drop_all(schema, &["$schema", "$id", "$comment", "$anchor", "examples"]),
            DropOpenaiConstraints => drop_all(
                schema,
                &[
                    "patternProperties",
                    "propertyNames",
                    "dependentSchemas",
                    "dependentRequired",
                    "dependencies",
                    "if",
                    "then",
                    "else",
                    "not",
                    "contains",
                    "unevaluatedProperties",
                    "unevaluatedItems",
                ],
            ),
            DropUnknownToGemini => {
                schema.retain(|key, _| KNOWN_TO_GEMINI.contains(&key.as_str()));
                let properties = schema.get("properties").and_then(Value::as_object);
                let known: Vec<String> =
                    properties.into_iter().flat_map(|names| names.keys().cloned()).collect();
                if let Some(Value::Array(required)) = schema.get_mut("required") {
                    required
                        .retain(|name| name.as_str().is_some_and(|name| known.iter().any(|key| key == name)));
                }
            }
        }
    }
}

/// Applies `change` to every schema inside, innermost first, and to the schema itself. `true` and `false`, which are
/// schemas too, become ones with braces.
pub(super) fn walk(schema: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    if schema.is_boolean() {
        *schema = json!({});
    }
    let Value::Object(map) = schema else { return };
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            (
                "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                Value::Object(inner),
            ) => {
                inner.values_mut().for_each(|schema| walk(schema, change));
            }
            (
                "items" | "contains" | "not" | "if" | "then" | "else" | "propertyNames",
                value @ Value::Object(_),
            ) => {
                walk(value, change);
            }
            ("additionalProperties", value @ Value::Object(_)) => walk(value, change),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(branches)) => {
                branches.iter_mut().for_each(|schema| walk(schema, change));
            }
            _ => {}
        }
    }
    change(map);
}

fn object_root(schema: &mut Value) {
    if !schema.is_object() {
        *schema = json!({});
    }
    if let Value::Object(root) = schema {
        root.insert("type".to_owned(), json!("object"));
        root.entry("properties").or_insert_with(|| json!({}));
    }
}

#[derive(Clone, Copy)]
enum OnNull {
    Mark,
    Drop,
}

fn single_type(schema: &mut Map<String, Value>, on_null: OnNull) {
    let mut nullable = false;
    if let Some(Value::Array(types)) = schema.get("type") {
        let mut types = types.clone();
        let before = types.len();
        types.retain(|kind| kind != "null");
        nullable = types.len() < before;
        match types.len() {
            0 => drop(schema.insert("type".to_owned(), json!("null"))),
            1 => drop(schema.insert("type".to_owned(), types.remove(0))),
            _ => {
                schema.remove("type");
                match on_null {
                    OnNull::Mark => {
                        let branches: Vec<Value> =
                            types.into_iter().map(|kind| json!({ "type": kind })).collect();
                        schema.insert("anyOf".to_owned(), json!(branches));
                    }
                    OnNull::Drop => drop(schema.insert("type".to_owned(), types.remove(0))),
                }
            }
        }
    }
    if let Some(Value::Array(branches)) = schema.get_mut("anyOf") {
        let before = branches.len();
        branches.retain(|branch| branch.get("type") != Some(&json!("null")));
        nullable |= branches.len() < before;
        if branches.len() == 1 {
            let only = branches.remove(0);
            schema.remove("anyOf");
            overlay(schema, only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        let before = values.len();
        values.retain(|value| !value.is_null());
        nullable |= values.len() < before;
    }
    if nullable && matches!(on_null, OnNull::Mark) {
        schema.insert("nullable".to_owned(), json!(true));
    }
}

/// Takes over the keywords of `other` that `schema` has not.
pub(super) fn overlay(schema: &mut Map<String, Value>, other: Value) {
    if let Value::Object(other) = other {
        for (key, value) in other {
            schema.entry(key).or_insert(value);
        }
    }
}

fn text_enum(schema: &mut Map<String, Value>) {
    let Some(Value::Array(values)) = schema.get_mut("enum") else { return };
    let all_text = values.iter().all(Value::is_string);
    if all_text {
        values.retain(|value| value.as_str().is_some_and(|text| !text.is_empty()));
        if !values.is_empty() {
            return;
        }
    }
    let told: Vec<String> = values.iter().map(Value::to_string).collect();
    schema.remove("enum");
    if !told.is_empty() {
        describe(schema, &format!("One of: {}.", told.join(", ")));
    }
}

/// Adds a sentence to the description.
pub(super) fn describe(schema: &mut Map<String, Value>, sentence: &str) {
    let before = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let text = if before.is_empty() { sentence.to_owned() } else { format!("{before} {sentence}") };
    schema.insert("description".to_owned(), json!(text));
}

fn likely_type(schema: &Map<String, Value>) -> &'static str {
    let has = |keys: &[&str]| keys.iter().any(|key| schema.contains_key(*key));
    let of_values = schema
        .get("enum")
        .and_then(Value::as_array)
        .and_then(|values| values.first())
        .or(schema.get("default"));
    match of_values {
        _ if has(&["properties", "additionalProperties", "required"]) => "object",
        _ if has(&["items", "prefixItems", "minItems", "maxItems"]) => "array",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(number)) if number.is_f64() => "number",
        Some(Value::Number(_)) => "integer",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
        _ if has(&["minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"]) => "number",
        _ => "string",
    }
}

fn items(schema: &mut Map<String, Value>, default: Value) {
    let is_array = match schema.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        _ => false,
    };
    let usable = match schema.get("items") {
        Some(Value::Object(items)) => default == json!({}) || !items.is_empty(),
        _ => false,
    };
    if is_array && !usable {
        // A list of schemas, one for each place: the first stands for all.
        let first =
            |key: &str| schema.get(key).and_then(Value::as_array).and_then(|list| list.first()).cloned();
        let items =
            first("items").or_else(|| first("prefixItems")).filter(Value::is_object).unwrap_or(default);
        schema.remove("prefixItems");
        schema.insert("items".to_owned(), items);
    }
}

fn format(schema: &mut Map<String, Value>, known: &[&str]) {
    let Some(Value::String(format)) = schema.get("format") else { return };
    if !known.contains(&format.as_str()) {
        let sentence = format!("Format: {format}.");
        schema.remove("format");
        if !schema.get("type").is_some_and(|kind| kind == "integer" || kind == "number") {
            describe(schema, &sentence);
        }
    }
}

fn safe_names(schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    if properties.keys().all(|name| is_safe_name(name)) {
        return;
    }
    let names = super::arguments::safe_names(properties.keys());
    let renamed = |name: &str| names.iter().find(|(from, _)| from == name).map(|(_, to)| to.clone());
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        *properties = std::mem::take(properties)
            .into_iter()
            .map(|(name, mut property)| match renamed(&name) {
                Some(safe) if safe != name => {
                    if let Value::Object(property) = &mut property {
                        describe(property, &format!("(`{name}`)"));
                    }
                    (safe, property)
                }
                _ => (name, property),
            })
            .collect();
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        for name in required {
            if let Some(safe) = name.as_str().and_then(renamed) {
                *name = json!(safe);
            }
        }
    }
}

pub(super) fn is_safe_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

fn drop_all(schema: &mut Map<String, Value>, keys: &[&str]) {
    for key in keys {
        schema.remove(*key);
    }
}
