//! `mcp-server-fetch` against a site of ours, and `markitdown-mcp` with a document.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::json;

use super::Plugged;
use super::site::{Site, page};

#[tokio::test]
async fn mcp_server_fetch_reads_a_page_and_passes_its_errors_on() {
    let site = Site::start(|path, _headers| match path {
        "/harbour" => Some(page(
            "Harbour",
            "<p>The ferry leaves from <b>pier 4</b> at 14:35.</p><p>It returns in the evening.</p>",
        )),
        "/secret" => Some(page("Secret", "<p>not for robots</p>")),
        "/robots.txt" => Some("User-agent: *\nDisallow: /secret\n".into_response()),
        "/broken" => Some((StatusCode::INTERNAL_SERVER_ERROR, "broken").into_response()),
        _ => None,
    })
    .await;
    // The flag: since 2026 it refuses private addresses, loopback among them.
    let entry = json!({ "command": "uvx", "args": ["mcp-server-fetch", "--allow-private-ips"] });
    let plugged = Plugged::new("fetch", &entry);
    assert_eq!(plugged.tools().await, ["fetch"]);

    let called = plugged.call("fetch", json!({ "url": site.url("/harbour") })).await;
    assert!(!called.is_error && called.text().contains("pier 4 at 14:35"), "{called:#?}");
    let called = plugged.call("fetch/fetch", json!({ "url": site.url("/harbour"), "max_length": 20 })).await;
    assert!(called.text().contains("Content truncated"), "{called:#?}");
    let called = plugged.call("fetch", json!({ "url": site.url("/none") })).await;
    assert!(called.is_error && called.text().contains("status code 404"), "{called:#?}");
    let called = plugged.call("fetch", json!({ "url": site.url("/broken") })).await;
    assert!(called.is_error && called.text().contains("status code 500"), "{called:#?}");
    let called = plugged.call("fetch", json!({ "url": site.url("/secret") })).await;
    assert!(called.is_error && called.text().contains("robots.txt"), "{called:#?}");
    assert!(!site.asked().contains(&"/secret".to_owned()), "{:?}", site.asked());
    let called = plugged.call("fetch", json!({ "url": site.url("/harbour"), "max_length": "20" })).await;
    assert!(called.is_error && called.text().contains("were not accepted"), "{called:#?}");

    let guarded = Plugged::new("fetch", &json!({ "command": "uvx", "args": ["mcp-server-fetch"] }));
    let called = guarded.call("fetch", json!({ "url": site.url("/harbour") })).await;
    assert!(called.is_error && called.text().contains("not a public address"), "{called:#?}");
}

#[tokio::test]
async fn markitdown_reads_a_document() {
    let plugged = Plugged::new("markitdown", &json!({ "command": "uvx", "args": ["markitdown-mcp"] }));
    assert_eq!(plugged.tools().await, ["convert_to_markdown"]);
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../configs/sandbox/fixtures/stations.csv")
        .canonicalize()
        .unwrap();
    let uri = format!("file://{}", fixture.display());
    let called = plugged.call("convert_to_markdown", json!({ "uri": uri })).await;
    let first = fs_err::read_to_string(&fixture).unwrap();
    let heading = first.lines().next().unwrap().split(',').next().unwrap().to_owned();
    assert!(!called.is_error && called.text().contains(&format!("| {heading}")), "{called:#?}");
    let called = plugged.call("convert_to_markdown", json!({ "uri": "file:///none.docx" })).await;
    assert!(called.is_error && called.text().contains("No such file"), "{called:#?}");
}
