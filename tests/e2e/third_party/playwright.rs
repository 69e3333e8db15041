//! `@playwright/mcp` with the distribution's Chromium: a whole run in which the model looks at a page.

use axum::response::IntoResponse;
use gaia_tests::scripted::{Options, Script, ScriptedModel, turn};
use serde_json::{Value, json};

use super::Plugged;
use super::site::{Site, page};
use crate::gaia::results;

/// Where a program is on the PATH of the tests.
fn chromium() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|folder| ["chromium", "chromium-browser"].map(|name| folder.join(name)))
        .find(|path| path.is_file());
    found.expect("no Chromium is installed; run `.ci/setup servers`").display().to_string()
}

/// The documented entry and what a machine without a screen needs. Chromium resolves no name, so that nothing of it can
/// reach further than this machine.
fn entry(folder: &std::path::Path) -> Value {
    let config = json!({ "browser": { "launchOptions": { "args": ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"] } } });
    let path = folder.join("playwright.json");
    fs_err::write(&path, config.to_string()).unwrap();
    json!({
        "command": "npx",
        "args": [
            "@playwright/mcp@latest",
            "--headless", "--isolated",
            // As root, as in CI, Chromium does not start with it.
            "--no-sandbox",
            "--executable-path", chromium(),
            "--output-dir", folder.join("out"),
            "--config", path
        ],
        "supports_parallel_tool_calls": false
    })
}

/// A form whose button says hello by script, and a button of 200 by 100 red pixels.
async fn site() -> Site {
    Site::start(|path, _headers| match path {
        "/form" => Some(page(
            "Ferry office",
            r#"<form onsubmit="document.getElementById('out').textContent = 'ticket for ' +
                 document.getElementById('name').value; return false">
               <label>Name <input id="name" aria-label="Name"></label>
               <button id="go">Book</button></form><p id="out">no ticket</p>
               <div style="width:200px;height:100px;background:red"></div>"#,
        )),
        "/favicon.ico" => Some("".into_response()),
        _ => None,
    })
    .await
}

const QUESTION: &str = "Who is the ticket for?";

/// A whole run: the model goes to the page, types, clicks, reads and looks, and submits what it read.
#[tokio::test]
async fn a_model_uses_a_browser_and_is_shown_its_screenshot() {
    let site = site().await;
    let folder = tempfile::tempdir().unwrap();
    let plugged = Plugged::new("playwright", &entry(folder.path()));
    // Chromium gives a navigation up when any program on the machine adds a network interface, as Docker does for a
    // container; a model would try again too.
    let navigate = || turn::call("browser_navigate", json!({ "url": site.url("/form") }));
    let script = Script::new().task(
        QUESTION,
        [
            navigate(),
            navigate(),
            turn::call("browser_type", json!({ "element": "name", "target": "#name", "text": "Ada" })),
            turn::call("browser_click", json!({ "element": "book", "target": "#go" })),
            turn::call("browser_snapshot", json!({})),
            turn::call("browser_take_screenshot", json!({ "type": "png", "scale": "css" })),
            turn::submit("Ada"),
        ],
    );
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    plugged.desk.dataset(&[("t", QUESTION, 1, "Ada")]);
    plugged.desk.write(
        "run.toml",
        &format!(
            "mcp_config = [\"mcp.json\"]\n[dataset]\npath = \"samples\"\n[model]\nname = \"m\"\nbase_url = \"{}\"\naccepts = [\"image/\"]\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
            model.base_url
        ),
    );
    let ended = plugged.desk.gaia(&["run", "run.toml"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let run = plugged.desk.runs().pop().unwrap();
    let result = results(&run).pop().unwrap();
    assert_eq!(
        (&result["status"], &result["score"]["correct"]),
        (&json!("answered"), &json!(true)),
        "{result:#}"
    );

    let last = model.requests().pop().unwrap();
    let said = last.body["messages"].to_string();
    assert!(said.contains("ticket for Ada"), "{said}");
    // The picture itself, in the shape in which a model takes it.
    let urls = image_urls(&last.body["messages"]);
    let [url] = urls.as_slice() else { panic!("{} images", urls.len()) };
    let data = url.strip_prefix("data:image/png;base64,").unwrap_or_else(|| panic!("{url:.60}"));
    assert!(data.starts_with("iVBOR") && data.len() > 2_000, "{} bytes", data.len());
    let stats = model.stats();
    model.close().await;
    assert!(stats.violations.is_empty(), "{:#?}", stats.violations);
    assert_no_browser_left(folder.path()).await;
}

fn image_urls(value: &Value) -> Vec<String> {
    match value {
        Value::Object(object) => {
            let own = object.get("image_url").and_then(|image| image["url"].as_str()).map(str::to_owned);
            own.into_iter().chain(object.values().flat_map(image_urls)).collect()
        }
        Value::Array(list) => list.iter().flat_map(image_urls).collect(),
        _ => Vec::new(),
    }
}

/// All processes of a server go when it does. Chromium's carry the folder of this test in no argument, but its
/// server does, and Chromium ends with it.
async fn assert_no_browser_left(folder: &std::path::Path) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    let folder = folder.display().to_string();
    loop {
        let left: Vec<String> = fs_err::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| fs_err::read_to_string(entry.unwrap().path().join("cmdline")).ok())
            .filter(|line| line.contains(&folder))
            .collect();
        if left.is_empty() {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "left: {left:#?}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn one_call_takes_a_screenshot_and_errors_are_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let plugged = Plugged::new("playwright", &entry(folder.path()));
    let tools = plugged.tools().await;
    assert_eq!(tools.len(), 25, "{tools:?}");
    assert!(tools.iter().all(|tool| tool.starts_with("browser_")), "{tools:?}");
    let called = plugged.call("browser_take_screenshot", json!({ "type": "jpeg", "scale": "css" })).await;
    assert_eq!(called.images.len(), 1, "{called:#?}");
    assert_eq!(called.images[0].0, "image/jpeg");
    // No name resolves: nothing leaves this machine.
    let called = plugged.call("browser_navigate", json!({ "url": "http://example.org/" })).await;
    assert!(called.is_error && called.text().contains("net::ERR_NAME_NOT_RESOLVED"), "{called:#?}");
    let called = plugged.call("browser_click", json!({ "element": "x", "target": "e999" })).await;
    assert!(called.is_error && called.text().contains("e999"), "{called:#?}");
    let ended =
        plugged.desk.gaia(&["call", "pasted.toml", "browser_take_screenshot", "{\"scale\": \"css\"}"]).await;
    assert!(ended.stdout.contains("[image/png, about "), "{ended:#?}");
}
