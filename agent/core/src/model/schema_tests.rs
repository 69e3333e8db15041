use serde_json::{Map, json};

use super::*;

/// A refusal as a provider worded it, a schema that met it, and the rule behind it.
struct Recorded {
    profile: SchemaProfile,
    source: &'static str,
    says: &'static str,
    published: Value,
    refuses: fn(&Value) -> bool,
}

fn tool(parameters: Value) -> ToolDefinition {
    ToolDefinition { name: "t".to_owned(), description: "Does it.".to_owned(), parameters }
}

fn adapt(profile: SchemaProfile, parameters: &Value) -> Adapted {
    profile.adapt(&tool(parameters.clone()))
}

/// Every schema in a schema, with itself.
fn all(schema: &Value) -> Vec<Map<String, Value>> {
    let mut found = Vec::new();
    repair::walk(&mut schema.clone(), &mut |schema| found.push(schema.clone()));
    found
}

fn some(schema: &Value, refused: impl Fn(&Map<String, Value>) -> bool) -> bool {
    all(schema).iter().any(refused)
}

fn has_root_combinator(schema: &Value) -> bool {
    ["oneOf", "anyOf", "allOf", "enum", "not"].iter().any(|key| schema.get(key).is_some())
}

fn has_bad_key(schema: &Value) -> bool {
    some(schema, |schema| {
        let names = schema.get("properties").and_then(Value::as_object);
        names.into_iter().flatten().any(|(name, _)| !repair::is_safe_name(name))
    })
}

fn array_without_items(schema: &Value) -> bool {
    some(schema, |schema| schema.get("type") == Some(&json!("array")) && !schema.contains_key("items"))
}

fn text_format_but(schema: &Value, known: &[&str]) -> bool {
    some(schema, |schema| {
        schema.get("format").and_then(Value::as_str).is_some_and(|format| !known.contains(&format))
    })
}

fn recorded() -> Vec<Recorded> {
    use SchemaProfile::*;
    let needs_one = json!({
        "type": "object",
        "properties": { "route": { "type": "string" }, "file": { "type": "string" } },
        "anyOf": [{ "required": ["route"] }, { "required": ["file"] }],
    });
    vec![
        Recorded {
            profile: Openai,
            source: "https://github.com/langchain-ai/langchainjs/issues/9804",
            says: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level",
            published: needs_one.clone(),
            refuses: |schema| schema.get("type") != Some(&json!("object")) || has_root_combinator(schema),
        },
        Recorded {
            profile: Openai,
            source: "https://github.com/langchain-ai/langchainjs/issues/9804",
            says: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level",
            published: json!({ "oneOf": [{ "type": "object", "properties": { "a": { "const": 1 } } }] }),
            refuses: |schema| schema.get("type") != Some(&json!("object")) || has_root_combinator(schema),
        },
        Recorded {
            profile: Openai,
            source: "https://github.com/github/github-mcp-server/issues/1548",
            says: "Invalid schema for function 'get_me': In context=(), object schema missing properties.",
            published: json!({ "type": "object" }),
            refuses: |schema| schema.get("properties").is_none(),
        },
        Recorded {
            profile: Openai,
            source: "https://github.com/sigoden/aichat/pull/1049",
            says: "In context=('properties', 'paths'), array schema missing items.",
            published: json!({ "type": "object", "properties": { "paths": { "type": "array" } } }),
            refuses: array_without_items,
        },
        Recorded {
            profile: Openai,
            source: "https://github.com/makenotion/notion-mcp-server/issues/102",
            says: "In context=('properties', 'data'), 'allOf' is not permitted.",
            published: json!({ "type": "object", "properties": { "data": {
                "allOf": [{ "type": "object", "properties": { "a": {} } }, { "properties": { "b": {} } }],
            } } }),
            refuses: |schema| some(schema, |schema| schema.contains_key("allOf")),
        },
        Recorded {
            profile: Openai,
            source: "https://github.com/cyanheads/git-mcp-server/issues/47",
            says: "In context=('properties', 'url', 'type', '0'), 'uri' is not a valid format.",
            published: json!({ "type": "object", "properties": { "url": { "type": ["string", "null"], "format": "uri" } } }),
            refuses: |schema| {
                text_format_but(schema, &["date-time", "time", "date", "duration", "email", "uuid"])
            },
        },
        Recorded {
            profile: Openai,
            source: "https://github.com/griptape-ai/griptape/issues/2150",
            says: "'Parameters Schema' is not a 'uri-reference'.",
            published: json!({ "$id": "Parameters Schema", "type": "object", "properties": {} }),
            refuses: |schema| some(schema, |schema| schema.contains_key("$id")),
        },
        Recorded {
            profile: Openai,
            source: "https://github.com/BuilderIO/agent-native/pull/3085",
            says: "(one request for each of `propertyNames`, `patternProperties`, `if`, `not`, …)",
            published: json!({ "type": "object", "properties": { "a": {
                "type": "object", "propertyNames": { "pattern": "^a" }, "patternProperties": { "^a": {} }, "not": {},
            } } }),
            refuses: |schema| {
                some(schema, |schema| {
                    ["propertyNames", "patternProperties", "not"].iter().any(|key| schema.contains_key(*key))
                })
            },
        },
        Recorded {
            profile: OpenaiStrict,
            source: "https://github.com/ravitemer/mcphub.nvim/pull/124",
            says: "In context=('properties', 'tool_input'), 'additionalProperties' is required to be supplied and to be false.",
            published: json!({ "type": "object", "properties": {
                "tool_input": { "type": "object", "properties": { "a": { "type": "string" } } },
            } }),
            refuses: |schema| {
                some(schema, |schema| {
                    schema.contains_key("properties")
                        && schema.get("additionalProperties") != Some(&json!(false))
                })
            },
        },
        Recorded {
            profile: OpenaiStrict,
            source: "https://github.com/camel-ai/camel/issues/2629",
            says: "'required' is required to be supplied and to be an array including every key in properties.",
            published: json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "enum": ["x"] } }, "required": ["a"] }),
            refuses: |schema| {
                some(schema, |schema| {
                    let properties = schema.get("properties").and_then(Value::as_object);
                    let required = schema.get("required").and_then(Value::as_array);
                    properties.is_some_and(|names| {
                        names.keys().any(|name| !required.is_some_and(|list| list.contains(&json!(name))))
                    })
                })
            },
        },
        Recorded {
            profile: Anthropic,
            source: "https://github.com/cloudflare/mcp-server-cloudflare/issues/224",
            says: "tools.78.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
            published: needs_one.clone(),
            refuses: has_root_combinator,
        },
        Recorded {
            profile: Anthropic,
            source: "https://github.com/anthropics/claude-code/issues/79418",
            says: "tools.14.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
            published: json!({ "type": "object", "required": ["start date"], "properties": {
                "start date": {}, "@type": {}, "x".repeat(70): {}, "nested": { "properties": { "a b": {} } },
            } }),
            refuses: has_bad_key,
        },
        Recorded {
            profile: Gemini,
            source: "https://github.com/google-gemini/gemini-cli/issues/4031",
            says: "parameters.properties[links].items.properties[url].format: only 'enum' and 'date-time' are supported for STRING type",
            published: json!({ "type": "object", "properties": { "links": { "type": "array", "items": {
                "type": "object", "properties": { "url": { "type": "string", "format": "uri" } },
            } } } }),
            refuses: |schema| text_format_but(schema, &["enum", "date-time"]),
        },
        Recorded {
            profile: Gemini,
            source: "https://github.com/nanbingxyz/5ire/issues/218",
            says: "Unknown name \"type\" at 'tools[0].function_declarations[1].parameters.properties[0].value': Proto field is not repeating, cannot start list.",
            published: json!({ "type": "object", "properties": { "a": { "type": ["string", "null"] }, "b": { "type": ["string", "integer"] } } }),
            refuses: |schema| some(schema, |schema| schema.get("type").is_some_and(Value::is_array)),
        },
        Recorded {
            profile: Gemini,
            source: "https://github.com/promptfoo/promptfoo/issues/6902",
            says: "Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0].parameters': Cannot find field.",
            published: json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false, "properties": {} }),
            refuses: |schema| {
                some(schema, |schema| {
                    schema.contains_key("additionalProperties") || schema.contains_key("$schema")
                })
            },
        },
        Recorded {
            profile: Gemini,
            source: "https://github.com/google-gemini/gemini-cli/issues/4415",
            says: "Invalid value at 'request.tools[0].function_declarations[18].parameters.properties[16].value.enum[1]' (TYPE_STRING), 3",
            published: json!({ "type": "object", "properties": { "kind": { "type": "integer", "enum": [2, 3] } } }),
            refuses: |schema| {
                some(schema, |schema| {
                    let values = schema.get("enum").and_then(Value::as_array);
                    values.into_iter().flatten().any(|value| !value.is_string())
                })
            },
        },
        Recorded {
            profile: Gemini,
            source: "https://github.com/sbroenne/mcp-server-excel/issues/607",
            says: "parameters.properties[action].enum[3]: cannot be empty",
            published: json!({ "type": "object", "properties": { "action": { "type": "string", "enum": ["list", ""] } } }),
            refuses: |schema| {
                some(schema, |schema| {
                    schema
                        .get("enum")
                        .and_then(Value::as_array)
                        .is_some_and(|values| values.contains(&json!("")))
                })
            },
        },
        Recorded {
            profile: Gemini,
            source: "https://github.com/google-gemini/gemini-cli/issues/4400",
            says: "functionDeclaration parameters.keyValueType schema didn't specify the schema type field",
            published: json!({ "type": "object", "properties": { "keyValueType": { "enum": ["a", "b"] }, "free": {} } }),
            refuses: |schema| {
                some(schema, |schema| !schema.contains_key("type") && !schema.contains_key("anyOf"))
            },
        },
        Recorded {
            profile: Gemini,
            source: "https://github.com/DEEIX-AI/DEEIX-Chat/issues/546",
            says: "items: missing field",
            published: json!({ "type": "object", "properties": {
                "headers": { "type": "object" },
                "actions": { "type": "array", "items": { "$ref": "#/properties/headers" } },
                "words": { "type": "array" },
            } }),
            refuses: |schema| {
                array_without_items(schema) || some(schema, |schema| schema.contains_key("$ref"))
            },
        },
        Recorded {
            profile: Moonshot,
            source: "https://github.com/abhigyanpatwari/GitNexus/issues/2703",
            says: "At path 'root': when using anyOf, type should be defined in anyOf items instead of the parent schema",
            published: needs_one,
            refuses: |schema| {
                some(schema, |schema| schema.contains_key("anyOf") && schema.contains_key("type"))
            },
        },
        Recorded {
            profile: Moonshot,
            source: "https://github.com/nicobailon/pi-subagents/issues/127",
            says: "At path 'properties.skill': when using anyOf, type should be defined in anyOf items instead of the parent schema",
            published: json!({ "type": "object", "properties": { "skill": { "type": "string", "anyOf": [{ "minLength": 1 }, {}] } } }),
            refuses: |schema| {
                some(schema, |schema| schema.contains_key("anyOf") && schema.contains_key("type"))
            },
        },
        Recorded {
            profile: Moonshot,
            source: "https://github.com/CommandCodeAI/command-code/issues/566",
            says: "At path 'properties.external.$ref': $defs not found for reference: #/$defs/IdentifySessionExternalParams",
            published: json!({
                "$defs": { "P": { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] } },
                "type": "object",
                "properties": { "external": { "$ref": "#/$defs/P", "description": "External actor" } },
            }),
            refuses: |schema| some(schema, |schema| schema.contains_key("$ref")),
        },
        Recorded {
            profile: Moonshot,
            source: "https://github.com/14790897/MiqroForge-Desktop/issues/1165",
            says: "tools.function.parameters.type is required and must be \"object\"",
            published: json!({ "properties": { "a": { "type": "string" } } }),
            refuses: |schema| schema.get("type") != Some(&json!("object")),
        },
        Recorded {
            profile: Strict,
            source: "https://github.com/promptfoo/promptfoo/issues/5965",
            says: "(`$schema` and empty schemas are refused)",
            published: json!({ "$schema": "x", "type": "object", "properties": { "a": {}, "b": true } }),
            refuses: |schema| some(schema, has_schema_or_nothing),
        },
        Recorded {
            profile: Strict,
            source: "https://github.com/HKUDS/nanobot/pull/2287",
            says: "(an endpoint that takes no `anyOf`, `oneOf`, `allOf` anywhere)",
            published: json!({ "type": "object", "properties": {
                "a": { "oneOf": [{ "type": "string" }, { "type": "integer" }] },
                "b": { "anyOf": [{ "type": "null" }, { "type": "boolean" }] },
                "c": { "allOf": [{ "type": "string" }] },
            } }),
            refuses: |schema| {
                some(schema, |schema| ["anyOf", "oneOf", "allOf"].iter().any(|key| schema.contains_key(*key)))
            },
        },
    ]
}

fn has_schema_or_nothing(schema: &Map<String, Value>) -> bool {
    schema.contains_key("$schema") || schema.is_empty()
}

#[test]
fn what_was_refused_is_taken() {
    for Recorded { profile, source, says, published, refuses } in recorded() {
        assert!(refuses(&published), "the schema is not the one that was refused: {source}");
        let adapted = adapt(profile, &published);
        assert!(!refuses(&adapted.parameters), "{source}\n{says}\n{:#}", adapted.parameters);
    }
}

/// Every repaired schema of the records is taken under the rules of all other records of the same provider, so that
/// one repair does not bring about the next refusal.
#[test]
fn no_repair_causes_another_refusal() {
    let records = recorded();
    for record in &records {
        for rule in records.iter().filter(|rule| rule.profile == record.profile) {
            let adapted = adapt(record.profile, &record.published).parameters;
            assert!(!(rule.refuses)(&adapted), "{} by {}\n{adapted:#}", record.source, rule.source);
        }
    }
}

#[test]
fn what_is_taken_goes_out_unchanged() {
    let plain = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "What to look for", "minLength": 1 },
            "count": { "type": "integer", "minimum": 1, "maximum": 20, "default": 10 },
            "kind": { "type": "string", "enum": ["a", "b"] },
            "tags": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    for profile in
        [SchemaProfile::Published, SchemaProfile::Openai, SchemaProfile::Anthropic, SchemaProfile::Moonshot]
    {
        assert_eq!(adapt(profile, &plain).parameters, plain, "{profile:?}");
    }
    // All of it, references too, where no provider is known to refuse.
    let odd = json!({ "$schema": "x", "type": "object", "properties": { "a b": { "$ref": "#/$defs/A" } }, "$defs": { "A": {} }, "oneOf": [{}] });
    assert_eq!(adapt(SchemaProfile::Published, &odd).parameters, odd);
}

#[test]
fn what_the_root_required_is_told_in_words() {
    let schema = json!({
        "type": "object",
        "properties": { "route": {}, "file": {}, "id": {} },
        "oneOf": [{ "required": ["id", "route"] }, { "required": ["id", "file"], "properties": { "extra": {} } }],
    });
    let adapted = adapt(SchemaProfile::Anthropic, &schema);
    assert_eq!(adapted.description, "Does it.\nGive exactly one of these: `route`; `file`.");
    assert_eq!(adapted.parameters["required"], json!(["id"]));
    assert!(adapted.parameters["properties"].get("extra").is_some(), "{:#}", adapted.parameters);
}

#[test]
fn long_descriptions_are_cut_where_they_are_refused() {
    // https://github.com/modelcontextprotocol/servers/issues/799
    let says = "Expected a string with maximum length 1024, but got a string with length 2780 instead.";
    let mut long = tool(
        json!({ "type": "object", "properties": {}, "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
    );
    long.description = "é".repeat(2_780);
    let adapted = SchemaProfile::Openai.adapt(&long);
    assert_eq!(adapted.description.chars().count(), 1_024, "{says}");
    assert!(
        adapted.description.ends_with("…\nGive at least one of these: `a`; `b`."),
        "{}",
        adapted.description
    );
    assert!(SchemaProfile::Anthropic.adapt(&long).description.starts_with(&long.description));
}

#[test]
fn renamed_properties_come_back_under_their_names() {
    let schema = json!({ "type": "object", "required": ["start date"], "properties": {
        "start date": { "type": "string" },
        "start_date": { "type": "string" },
        "list": { "type": "array", "items": { "type": "object", "properties": { "@id": { "type": "integer" } } } },
        "ref": { "$ref": "#/$defs/R" },
    }, "$defs": { "R": { "type": "object", "properties": { "a/b": { "type": "string" } } } } });
    let profile = SchemaProfile::Anthropic;
    let adapted = adapt(profile, &schema).parameters;
    assert_eq!(adapted["required"], json!(["start_date_2"]));
    assert_eq!(adapted["properties"]["start_date_2"]["description"], "(`start date`)");
    let sent =
        json!({ "start_date_2": "a", "start_date": "b", "list": [{ "_id": 1 }], "ref": { "a_b": "c" } });
    let restored: Value = serde_json::from_str(&profile.restore(&tool(schema), sent.to_string())).unwrap();
    assert_eq!(
        restored,
        json!({ "start date": "a", "start_date": "b", "list": [{ "@id": 1 }], "ref": { "a/b": "c" } })
    );
}

#[test]
fn strict_mode_makes_the_optional_nullable_and_takes_the_nulls_back() {
    let schema = json!({ "type": "object", "required": ["a"], "properties": {
        "a": { "type": "string" },
        "b": { "type": "integer", "minimum": 1 },
        "c": { "type": ["string", "null"] },
        "d": { "type": "object", "properties": { "e": { "type": "string", "enum": ["x"] } } },
    } });
    let profile = SchemaProfile::OpenaiStrict;
    let adapted = adapt(profile, &schema);
    assert!(adapted.strict);
    assert_eq!(adapted.parameters["required"], json!(["a", "b", "c", "d"]));
    assert_eq!(adapted.parameters["properties"]["b"]["type"], json!(["integer", "null"]));
    assert_eq!(adapted.parameters["properties"]["d"]["properties"]["e"]["enum"], json!(["x", null]));
    let sent = json!({ "a": "1", "b": null, "c": null, "d": { "e": null } }).to_string();
    let restored: Value = serde_json::from_str(&profile.restore(&tool(schema.clone()), sent)).unwrap();
    assert_eq!(restored, json!({ "a": "1", "c": null, "d": {} }));
    jsonschema::validate(&schema, &restored).unwrap();
}

/// The schema of https://github.com/czlonkowski/n8n-mcp/issues/492: open on purpose.
#[test]
fn what_strict_mode_cannot_express_goes_without_it() {
    for schema in [
        json!({ "type": "object", "properties": { "operations": { "type": "array", "items": { "type": "object", "additionalProperties": true } } } }),
        json!({ "type": "object", "properties": { "any": { "type": "object" } } }),
        json!({ "type": "object", "properties": { "free": {} } }),
    ] {
        let adapted = adapt(SchemaProfile::OpenaiStrict, &schema);
        assert!(!adapted.strict, "{:#}", adapted.parameters);
        assert_eq!(adapted.parameters, adapt(SchemaProfile::Openai, &schema).parameters);
    }
}

#[test]
fn recursion_and_expansion_end() {
    let recursive = json!({ "type": "object", "properties": { "child": { "$ref": "#" } } });
    let bomb = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": {
        "d0": { "type": "object", "properties": { "a": { "$ref": "#/$defs/d1" }, "b": { "$ref": "#/$defs/d1" } } },
        "d1": { "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" }, "b": { "$ref": "#/$defs/d0" } } },
    } });
    for schema in [recursive, bomb] {
        let adapted = adapt(SchemaProfile::Gemini, &schema).parameters;
        assert!(!adapted.to_string().contains("$ref"));
        assert!(adapted.to_string().len() < 500_000, "{}", adapted.to_string().len());
    }
    // A property of this name is none.
    let named = json!({ "type": "object", "properties": { "$ref": { "type": "string" } } });
    assert_eq!(adapt(SchemaProfile::Moonshot, &named).parameters, named);
}

#[test]
fn the_profile_is_found_by_endpoint_and_model() {
    use SchemaProfile::*;
    let check = |base_url: &str, model: &str, expected: SchemaProfile| {
        assert_eq!(Auto.resolve(base_url, model), expected, "{base_url} {model}");
    };
    check("https://api.openai.com/v1", "gpt-5.1", Openai);
    check("https://x.openai.azure.com/openai/v1", "deployment-1", Openai);
    check("https://openrouter.ai/api/v1", "openai/o4-mini", Openai);
    check("https://openrouter.ai/api/v1", "anthropic/claude-opus-5", Anthropic);
    check("https://openrouter.ai/api/v1", "google/gemini-3-pro", Gemini);
    check("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro", Gemini);
    check("https://api.moonshot.cn/v1", "kimi-k3", Moonshot);
    check("https://dashscope.aliyuncs.com/compatible-mode/v1", "qwen3-max", Published);
    check("http://127.0.0.1:8000/v1", "openai-gpt-oss", Published);
    check("https://evilopenai.com/v1", "x", Published);
    assert_eq!(Published.resolve("https://api.openai.com/v1", "gpt-5.1"), Published);
}

proptest::proptest! {
    /// Whatever is published, a repaired schema is an object with a type, and repairing it again changes nothing.
    #[test]
    fn repairs_settle(
        name in "[a-z $]{1,8}",
        kind in proptest::sample::select(vec!["string", "integer", "array", "object", "null"]),
        keyword in proptest::sample::select(vec!["anyOf", "oneOf", "allOf", "items", "not", "const", "enum", "format", "$ref", "type"]),
        value in proptest::sample::select(vec![
            json!([{ "type": "string" }, { "type": "null" }]), json!({ "type": "object" }), json!(true), json!("uri"),
            json!(["string", "null"]), json!([1, "a", null]), json!("#/properties"), json!([]),
        ]),
    ) {
        let inner = json!({ "type": kind, keyword: value });
        let schema = json!({ "type": "object", "properties": { name: inner }, keyword: value });
        for profile in [SchemaProfile::Openai, SchemaProfile::OpenaiStrict, SchemaProfile::Anthropic, SchemaProfile::Gemini, SchemaProfile::Moonshot, SchemaProfile::Strict] {
            let once = adapt(profile, &schema).parameters;
            proptest::prop_assert_eq!(&once["type"], "object");
            proptest::prop_assert!(once["properties"].is_object());
            if profile != SchemaProfile::OpenaiStrict {
                let twice = adapt(profile, &once).parameters;
                proptest::prop_assert_eq!(once, twice, "{:?}", profile);
            }
        }
    }
}
