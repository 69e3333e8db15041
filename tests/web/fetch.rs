//! mcp-server-fetch and gaia-mcp-fetch get the same calls over the same site.

use std::path::Path;

use serde_json::{Value, json};

use crate::peer::{Called, Peer};
use crate::site::{Asked, Reply, Site, html, page, redirect, status};

const LATIN: &[u8] =
    b"<html><head><meta charset=iso-8859-1></head><body><p>caf\xe9 cr\xe8me</p></body></html>";

fn layouts() -> Vec<(String, String, Vec<String>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/layouts");
    let mut found: Vec<_> = fs_err::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs_err::read_to_string(&path).unwrap();
            let facts = text.split("<!-- facts: ").nth(1).unwrap().split(" -->").next().unwrap();
            let facts = facts.split(" | ").map(ToOwned::to_owned).collect();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), text, facts)
        })
        .collect();
    found.sort();
    found
}

fn answer(asked: &Asked) -> Reply {
    let long: String = (0..400).map(|number| format!("line {number} of a long text\n")).collect();
    match asked.target.as_str() {
        "/robots.txt" => page("text/plain", "User-agent: *\nDisallow: /denied\n"),
        "/data.json" => page("application/json", r#"{"tower": "Varn", "height": 31}"#),
        "/text" => page("text/plain; charset=utf-8", "plain text é"),
        "/long" => page("text/plain", long),
        "/latin" => page("text/html; charset=iso-8859-1", LATIN),
        "/moved" => redirect("/data.json"),
        "/denied/x" => html("<p>secret"),
        "/gone" => status(404),
        "/broken" => status(500),
        "/empty" => html("<html><body></body></html>"),
        target => match layouts().into_iter().find(|(name, ..)| target == format!("/layout/{name}")) {
            Some((_, text, _)) => html(&text),
            None => status(404),
        },
    }
}

async fn both() -> (Site, Peer, Peer) {
    let site = Site::start(answer).await;
    let theirs = Peer::uvx(&["mcp-server-fetch", "--allow-private-ips"]).await;
    let ours = Peer::ours("gaia-mcp-fetch", &["--allow-private-ips"], &[]).await;
    (site, theirs, ours)
}

/// The part of a schema that every model provider takes: the rest stands in our descriptions.
fn plain(schema: &Value) -> Value {
    let kept = ["type", "minimum", "maximum", "minLength"];
    let kept = kept.iter().filter_map(|name| Some(((*name).to_owned(), schema.get(*name)?.clone())));
    Value::Object(kept.collect())
}

#[tokio::test]
async fn the_tool_has_the_same_parameters_and_bounds() {
    let (_site, mut theirs, mut ours) = both().await;
    let (reference, own) = (theirs.tools().await.remove(0), ours.tools().await.remove(0));
    assert_eq!((reference["name"].as_str(), own["name"].as_str()), (Some("fetch"), Some("fetch")));
    assert_eq!(own["inputSchema"]["required"], reference["inputSchema"]["required"]);
    for (name, schema) in reference["inputSchema"]["properties"].as_object().unwrap() {
        let mine = &own["inputSchema"]["properties"][name];
        assert_eq!(plain(mine), plain(schema), "{name}");
        if let Some(default) = schema.get("default") {
            assert!(mine["description"].as_str().unwrap().contains(&format!("default {default}")), "{name}");
        }
    }
    for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
        assert_eq!(own["annotations"][hint], reference["annotations"][hint], "{hint}");
    }
    let prompts = |reply: Value| {
        let prompt = reply["result"]["prompts"][0].clone();
        (prompt["name"].clone(), prompt["description"].clone(), prompt["arguments"][0]["name"].clone())
    };
    let (reference, own) =
        (theirs.ask("prompts/list", json!({})).await, ours.ask("prompts/list", json!({})).await);
    assert_eq!(prompts(own), prompts(reference));
}

/// Everything but HTML is the same to the letter.
#[tokio::test]
async fn texts_notices_and_errors_are_equal_to_the_letter() {
    let (site, mut theirs, mut ours) = both().await;
    for (path, extra) in [
        ("/data.json", json!({})),
        ("/moved", json!({})),
        ("/text", json!({})),
        ("/text", json!({ "raw": true })),
        ("/latin", json!({ "raw": true })),
        ("/long", json!({})),
        ("/long", json!({ "max_length": 100 })),
        ("/long", json!({ "max_length": 100, "start_index": 100 })),
        ("/long", json!({ "start_index": 5_000 })),
        ("/long", json!({ "start_index": 999_999 })),
        ("/empty", json!({})),
        ("/gone", json!({})),
        ("/broken", json!({})),
        ("/denied/x", json!({})),
        ("/layout/article", json!({ "raw": true, "max_length": 300 })),
    ] {
        let mut arguments = json!({ "url": site.url(path) });
        arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let (reference, own) =
            (theirs.call("fetch", arguments.clone()).await, ours.call("fetch", arguments.clone()).await);
        assert_eq!(own.texts, reference.texts, "{arguments}");
        assert_eq!(own.is_error, reference.is_error, "{arguments}");
    }
    for arguments in [
        json!({}),
        json!({ "url": "" }),
        json!({ "url": site.url("/text"), "max_length": 0 }),
        json!({ "url": site.url("/text"), "max_length": "10" }),
        json!({ "url": site.url("/text"), "start_index": -1 }),
        json!({ "url": site.url("/text"), "raw": "yes" }),
        json!({ "url": "ftp://a.example/" }),
    ] {
        let own: Called = ours.call("fetch", arguments.clone()).await;
        let reference = theirs.call("fetch", arguments.clone()).await;
        assert!(own.is_error && reference.is_error, "{arguments}: {own:?} {reference:?}");
    }
}

#[tokio::test]
async fn the_prompt_gives_the_same_text() {
    let (site, mut theirs, mut ours) = both().await;
    for path in ["/denied/x", "/data.json", "/gone"] {
        let params = json!({ "name": "fetch", "arguments": { "url": site.url(path) } });
        let texts = |reply: Value| {
            reply["result"]["messages"][0]["content"]["text"].as_str().unwrap().trim().to_owned()
        };
        let reference = texts(theirs.ask("prompts/get", params.clone()).await);
        assert_eq!(texts(ours.ask("prompts/get", params).await), reference, "{path}");
    }
    for wrong in [json!({ "name": "fetch" }), json!({ "name": "none", "arguments": {} })] {
        for peer in [&mut theirs, &mut ours] {
            assert_eq!(peer.ask("prompts/get", wrong.clone()).await["error"]["code"], -32602, "{wrong}");
        }
    }
    for peer in [&mut theirs, &mut ours] {
        let unknown = peer.ask("tools/call", json!({ "name": "none", "arguments": {} })).await;
        assert_eq!(unknown["error"]["code"], -32602);
    }
}

#[tokio::test]
async fn private_addresses_are_refused_by_both() {
    let site = Site::start(answer).await;
    let mut theirs = Peer::uvx(&["mcp-server-fetch", "--ignore-robots-txt"]).await;
    let mut ours = Peer::ours("gaia-mcp-fetch", &["--ignore-robots-txt"], &[]).await;
    let arguments = json!({ "url": site.url("/text") });
    let (reference, own) =
        (theirs.call("fetch", arguments.clone()).await, ours.call("fetch", arguments).await);
    let start = format!(
        "Error executing tool fetch: Refused to fetch {}: 127.0.0.1 resolves to 127.0.0.1, which is not a public address",
        site.url("/text")
    );
    assert!(reference.text().starts_with(&start), "{reference:?}");
    assert!(own.text().starts_with(&start), "{own:?}");
    assert_eq!(site.asked().len(), 0);
}

/// Letters and digits only: marks of Markdown and of tables are no difference.
fn bare(text: &str) -> String {
    let words = text.replace("<br>", " ").to_lowercase();
    let words = words.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    format!(" {} ", words.collect::<Vec<_>>().join(" "))
}

/// The stated measure: recall of the facts that each of the saved layouts lists, found word by word in what the tool
/// returns for it.
#[tokio::test]
async fn on_every_layout_no_fact_is_lost_that_the_reference_server_keeps() {
    let (site, mut theirs, mut ours) = both().await;
    let (mut kept_by_theirs, mut kept_by_ours, mut all) = (0, 0, 0);
    let mut without_surroundings = 0;
    let mut missed: Vec<String> = Vec::new();
    let layouts = layouts();
    assert!(layouts.len() >= 20);
    for (name, _, facts) in layouts {
        let arguments = json!({ "url": site.url(&format!("/layout/{name}")), "max_length": 100_000 });
        let reference = bare(&theirs.call("fetch", arguments.clone()).await.text());
        let shown = ours.call("fetch", arguments).await.text();
        let own = bare(&shown);
        for fact in &facts {
            let (in_theirs, in_ours) = (reference.contains(&bare(fact)), own.contains(&bare(fact)));
            assert!(in_ours || !in_theirs, "{name}: `{fact}` is lost:\n{shown}");
            missed.extend((!in_ours).then(|| format!("{name}: {fact}")));
            kept_by_theirs += usize::from(in_theirs);
            kept_by_ours += usize::from(in_ours);
            all += 1;
        }
        without_surroundings += usize::from(!shown.contains("Footer link 7"));
    }
    println!("facts: {all}, kept by mcp-server-fetch: {kept_by_theirs}, by gaia-mcp-fetch: {kept_by_ours}");
    assert_eq!(kept_by_ours, all, "{missed:?}");
    // A page with next to no content is shown whole, with its menus.
    assert!(without_surroundings >= 15, "{without_surroundings}");
}
