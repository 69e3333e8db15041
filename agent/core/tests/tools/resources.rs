use gaia_agent::message::{Image, Part, Sound};
use gaia_agent::tools::{CallFailure, validate};
use serde_json::json;

use crate::support::*;

trials![
    a_server_with_resources_gets_a_tool_that_reads_them,
    a_server_without_resources_gets_none,
    the_allow_list_holds_for_it_too,
    a_tool_of_the_servers_own_comes_first,
    every_kind_of_content,
    content_of_an_unknown_kind_is_shown_as_it_is,
];

fn text_part(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn picture() -> Part {
    Part::Image(Image { media_type: "image/png".to_owned(), data: "iVBORw0KGgo=".to_owned() })
}

async fn a_server_with_resources_gets_a_tool_that_reads_them() {
    let mut spec = peer("x", &["resources"]);
    spec.tool_timeout = std::time::Duration::from_secs(2);
    let host = start(&[spec]).await.unwrap();
    let tool = host.find("read_resource").unwrap();
    assert_eq!((tool.canonical.as_str(), tool.annotations.read_only), ("x/read_resource", true));
    assert!(validate("{}", tool).unwrap_err().contains("\"uri\" is a required property"));
    let read = async |uri: &str| call(&host, "x/read_resource", json!({ "uri": uri })).await;
    assert_eq!(read("res://notes").await.content, [text_part("remember the milk")]);
    assert_eq!(read("res://picture").await.content, [picture()]);
    assert_eq!(
        read("res://both").await.content,
        [text_part("first"), text_part("[resource res://b, application/zip, 3 bytes: not shown]")]
    );
    let missing = read("res://nowhere").await;
    assert_eq!((missing.is_error, missing.failure), (true, Some(CallFailure::Protocol)));
    assert!(text(&missing).contains("no such resource (MCP error -32602)"), "{}", text(&missing));
    assert_eq!(read("res://hang").await.failure, Some(CallFailure::Timeout));
    assert_eq!(read("res://die").await.failure, Some(CallFailure::Died));
    assert_eq!(text(&read("res://notes").await), "remember the milk");
    host.close().await;
}

async fn a_server_without_resources_gets_none() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    assert!(host.find("read_resource").is_none());
    host.close().await;
}

async fn the_allow_list_holds_for_it_too() {
    let mut spec = peer("x", &["resources"]);
    spec.enabled_tools = Some(vec!["echo".to_owned()]);
    let host = start(&[spec.clone()]).await.unwrap();
    assert_eq!(names(&host), ["echo"]);
    assert!(host.hidden().iter().any(|tool| tool.tool == "read_resource"));
    host.close().await;
    spec.enabled_tools = Some(vec!["echo".to_owned(), "read_resource".to_owned()]);
    let host = start(&[spec]).await.unwrap();
    assert_eq!(names(&host), ["echo", "read_resource"]);
    host.close().await;
}

async fn a_tool_of_the_servers_own_comes_first() {
    // Two servers with resources clash as any two tools do.
    let host = start(&[peer("x", &["resources"]), peer("y", &["resources"])]).await.unwrap();
    assert!(host.find("x__read_resource").is_some() && host.find("y__read_resource").is_some());
    host.close().await;
    let host = start(&[peer("x", &["named", "read_resource"])]).await.unwrap();
    let output = call(&host, "read_resource", json!({ "uri": "res://notes" })).await;
    assert!(text(&output).contains("unknown tool read_resource"), "the server is asked: {}", text(&output));
    host.close().await;
}

async fn every_kind_of_content() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    let output = call(&host, "kinds", json!({})).await;
    assert_eq!(
        output.content,
        [
            text_part("words"),
            picture(),
            Part::Sound(Sound { media_type: "audio/wav".to_owned(), data: "UklGRg==".to_owned() }),
            text_part("embedded words"),
            text_part("[resource res://b, application/zip, 3 bytes: not shown]"),
            picture(),
            text_part("[link to resource notes, res://notes (text/plain)]"),
        ]
    );
    assert_eq!((output.structured, output.is_error), (Some(json!({ "n": 1 })), false));
    assert_eq!(text(&call(&host, "empty", json!({})).await), "(the tool returned nothing)");
    host.close().await;
}

async fn content_of_an_unknown_kind_is_shown_as_it_is() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    let output = call(&host, "hologram", json!({})).await;
    assert!(
        text(&output).contains("\"hologram\"") && text(&output).ends_with("beside it"),
        "{}",
        text(&output)
    );
    assert!(!output.is_error);
    host.close().await;
}
