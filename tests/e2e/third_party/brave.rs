//! Both servers for Brave's search, against a stand-in for its API.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::Plugged;
use super::site::{self, Site};

const KEY: &str = "brave-key-of-the-test";

/// Answers as the API does, and counts.
async fn api() -> Site {
    Site::start(|path, headers| {
        if headers.get("x-subscription-token").is_none_or(|token| token != KEY) {
            let body = json!({ "type": "ErrorResponse", "error": { "status": 422, "code": "SUBSCRIPTION_TOKEN_INVALID",
                "detail": "The provided subscription token is invalid." } });
            return Some(site::json(StatusCode::UNPROCESSABLE_ENTITY, &body));
        }
        let query = path.contains("q=harbour");
        let result = json!({ "title": "Harbour of Aldwick", "url": "https://example.org/harbour",
            "description": "Pier 4 is the ferry's." });
        let results = if query { json!([result]) } else { json!([]) };
        let body = match path.split('?').next().unwrap() {
            "/res/v1/web/search" => json!({ "type": "search", "web": { "type": "search", "results": results } }),
            "/res/v1/news/search" => json!({ "type": "news", "results": results }),
            _ => return None,
        };
        Some(site::json(StatusCode::OK, &body))
    })
    .await
}

/// The documented entry, with a module in front that sends requests for the API to the stand-in.
fn entry(package: &[&str], key: &str, api: &Site) -> Value {
    let preload = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/third_party/brave_stand_in.cjs");
    let preload = preload.canonicalize().unwrap();
    let args: Vec<&str> = [&["-y"], package].concat();
    json!({
        "command": "npx",
        "args": args,
        "env": {
            "BRAVE_API_KEY": key,
            "NODE_OPTIONS": format!("--require {}", preload.display()),
            "BRAVE_STAND_IN": api.url(""),
        }
    })
}

#[tokio::test]
async fn the_official_server_searches_and_passes_the_apis_errors_on() {
    let api = api().await;
    let package = ["@brave/brave-search-mcp-server", "--transport", "stdio"];
    let plugged = Plugged::new("brave-search", &entry(&package, KEY, &api));
    let tools = plugged.tools().await;
    assert_eq!(tools.len(), 8, "{tools:?}");
    let called = plugged.call("brave_web_search", json!({ "query": "harbour", "count": 5 })).await;
    assert!(!called.is_error && called.text().contains("https://example.org/harbour"), "{called:#?}");
    assert!(api.asked().iter().any(|path| path.contains("count=5")), "{:?}", api.asked());
    let called = plugged.call("brave_news_search", json!({ "query": "harbour" })).await;
    assert!(!called.is_error && called.text().contains("Harbour of Aldwick"), "{called:#?}");
    let called = plugged.call("brave_web_search", json!({ "query": "nothing" })).await;
    assert!(called.text().contains("No web results found"), "{called:#?}");
    let called = plugged.call("brave_web_search", json!({ "query": "x", "count": 50 })).await;
    assert!(called.is_error && called.text().contains("were not accepted"), "{called:#?}");

    let wrong = Plugged::new("brave-search", &entry(&package, "YOUR_API_KEY_HERE", &api));
    let called = wrong.call("brave_web_search", json!({ "query": "harbour" })).await;
    assert!(called.is_error && called.text().contains("SUBSCRIPTION_TOKEN_INVALID"), "{called:#?}");
}

/// It says why on stderr and ends; so does the error of the host.
#[tokio::test]
async fn without_a_key_the_official_server_does_not_start_and_says_why() {
    let entry = json!({ "command": "npx", "args": ["-y", "@brave/brave-search-mcp-server"] });
    let plugged = Plugged::new("brave-search", &entry);
    let ended = plugged.desk.gaia(&["tools", "pasted.toml"]).await;
    assert_eq!(ended.code, 4, "{ended:#?}");
    assert!(ended.stderr.contains("A Brave API key is required"), "{ended:#?}");
}

#[tokio::test]
async fn the_older_server_searches_too() {
    let api = api().await;
    let package = ["@modelcontextprotocol/server-brave-search"];
    let plugged = Plugged::new("brave-search", &entry(&package, KEY, &api));
    assert_eq!(plugged.tools().await, ["brave_web_search", "brave_local_search"]);
    let called = plugged.call("brave_web_search", json!({ "query": "harbour" })).await;
    assert!(!called.is_error && called.text().contains("Title: Harbour of Aldwick"), "{called:#?}");
    let wrong = Plugged::new("brave-search", &entry(&package, "YOUR_API_KEY_HERE", &api));
    let called = wrong.call("brave_web_search", json!({ "query": "harbour" })).await;
    assert!(called.is_error && called.text().contains("422"), "{called:#?}");
}

/// Both at once: neither takes the other's place.
#[tokio::test]
async fn two_servers_with_the_same_tools_keep_apart() {
    let api = api().await;
    let plugged =
        Plugged::new("brave", &entry(&["@brave/brave-search-mcp-server", "--transport", "stdio"], KEY, &api));
    let old =
        json!({ "servers": { "old": entry(&["@modelcontextprotocol/server-brave-search"], KEY, &api) } });
    plugged.desk.write("old.json", &old.to_string());
    plugged.desk.write("pasted.toml", "mcp_config = [\"mcp.json\", \"old.json\"]\n");
    let called = plugged.call("old__brave_web_search", json!({ "query": "harbour" })).await;
    assert!(called.text().starts_with("Title: "), "{called:#?}");
    let called = plugged.call("brave__brave_web_search", json!({ "query": "harbour" })).await;
    assert!(called.text().starts_with('{'), "{called:#?}");
    let ended = plugged.desk.gaia(&["call", "pasted.toml", "brave_web_search", "{}"]).await;
    assert_eq!(ended.code, 2, "{ended:#?}");
}
