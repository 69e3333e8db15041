//! `@modelcontextprotocol/server-everything`: every tool.

use serde_json::{Value, json};

use super::Plugged;

fn entry() -> Value {
    json!({ "command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"] })
}

/// Tool, arguments, what its text must hold, and whether it is an error.
fn calls() -> Vec<(&'static str, Value, &'static str, bool)> {
    vec![
        ("echo", json!({ "message": "ahoy" }), "Echo: ahoy", false),
        (
            "get-annotated-message",
            json!({ "messageType": "error", "includeImage": true }),
            "Operation failed",
            false,
        ),
        ("get-env", json!({}), "\"PATH\": ", false),
        ("get-resource-links", json!({ "count": 2 }), "demo://resource/dynamic/text/2", false),
        // An embedded resource is text.
        (
            "get-resource-reference",
            json!({ "resourceType": "Text", "resourceId": 1 }),
            "Resource 1: This is a plaintext resource",
            false,
        ),
        ("get-structured-content", json!({ "location": "New York" }), "\"conditions\"", false),
        ("get-sum", json!({ "a": 20, "b": 22 }), "The sum of 20 and 22 is 42.", false),
        ("get-tiny-image", json!({}), "The image above is the MCP logo.", false),
        (
            "gzip-file-as-resource",
            json!({ "name": "x.gz", "data": "data:text/plain;base64,aGk=", "outputType": "resource" }),
            "application/gzip",
            false,
        ),
        ("toggle-simulated-logging", json!({}), "Started simulated", false),
        ("toggle-subscriber-updates", json!({}), "Started simulated resource updated", false),
        (
            "trigger-long-running-operation",
            json!({ "duration": 1, "steps": 4 }),
            "Long running operation completed. Duration: 1 seconds, Steps: 4.",
            false,
        ),
        // The host's own, which reads what the links lead to.
        (
            "read_resource",
            json!({ "uri": "demo://resource/dynamic/text/2" }),
            "Resource 2: This is a plaintext resource",
            false,
        ),
        // It can only be called as a background task, which the host does not offer to do: the model is told so.
        ("simulate-research-query", json!({ "topic": "tides" }), "requires task augmentation", true),
    ]
}

#[tokio::test]
async fn every_tool_of_server_everything() {
    let plugged = Plugged::new("everything", &entry());
    let mut tools = plugged.tools().await;
    tools.sort();
    let mut expected: Vec<&str> = calls().iter().map(|(tool, ..)| *tool).collect();
    expected.sort_unstable();
    assert_eq!(tools, expected);
    for (tool, arguments, text, is_error) in calls() {
        let called = plugged.call(tool, arguments).await;
        assert!(called.text().contains(text) && called.is_error == is_error, "{tool}: {called:#?}");
        match tool {
            "get-tiny-image" | "get-annotated-message" => {
                assert_eq!(called.images.len(), 1, "{tool}: {called:#?}");
                assert_eq!(called.images[0].0, "image/png");
            }
            "get-structured-content" => {
                assert_eq!(called.structured["conditions"], "Cloudy", "{called:#?}");
                assert_eq!(called.structured["temperature"], 33, "{called:#?}");
            }
            // Nothing of ours but the minimal environment.
            "get-env" => assert!(!called.text().contains("GAIA_SANDBOX_IMAGE"), "{called:#?}"),
            _ => assert!(called.images.is_empty(), "{tool}: {called:#?}"),
        }
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_explained_before_the_server_sees_them() {
    let called = Plugged::new("everything", &entry()).call("get-sum", json!({ "a": "one" })).await;
    assert!(called.is_error && called.text().contains("were not accepted"), "{called:#?}");
}
