//! mcp-server-fetch and gaia-mcp-fetch get the same calls over the same site.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use gaia_tests::installed::servers;
use serde_json::{Value, json};

use crate::peer::{Called, Peer};
use crate::site::{Asked, Reply, Site, html, page, redirect, status};

const LATIN: &[u8] =
    b"<html><head><meta charset=iso-8859-1></head><body><p>caf\xe9 cr\xe8me</p></body></html>";

/// A saved page and what stands on it.
struct Layout {
    name: String,
    /// Words that stand together, and what belongs on one line: written by hand in `facts.toml`, and all that another
    /// parser finds (`layout_texts.py`). Neither knows what our server returns.
    runs: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Menus, footers and the like, as that parser finds them.
    surroundings: Vec<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("web/layouts")
}

fn layouts() -> Vec<Layout> {
    let script = folder().join("../layout_texts.py");
    let found = Command::new(servers().join("python/bin/python")).arg(script).arg(folder()).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let written: Value =
        toml::from_str(&fs_err::read_to_string(folder().join("facts.toml")).unwrap()).unwrap();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&found), names(&written));
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let layout = |name: &String| {
        let (found, written) = (&found[name], &written[name]);
        let rows = [&written["rows"], &found["rows"]];
        Layout {
            name: name.clone(),
            runs: [texts(&written["facts"]), texts(&found["runs"])].concat(),
            rows: rows.iter().flat_map(|rows| rows.as_array().into_iter().flatten()).map(texts).collect(),
            surroundings: texts(&found["surroundings"]),
        }
    };
    written.as_object().unwrap().keys().map(layout).collect()
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
        target => match target.strip_prefix("/layout/").map(|name| folder().join(format!("{name}.html"))) {
            Some(path) => html(&fs_err::read_to_string(path).unwrap()),
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

/// Letters and digits only: spaces, marks of Markdown and of tables, and where links lead are no difference.
fn bare(text: &str) -> String {
    let mut parts = text.split("](");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(part.split_once(')').map_or(part, |(_address, rest)| rest));
    }
    let shown = shown.replace("<br>", " ").to_lowercase();
    shown.chars().filter(|character| character.is_alphanumeric()).collect()
}

/// What a server made of a page.
struct Shown {
    text: String,
    lines: Vec<String>,
}

impl Shown {
    fn new(text: &str) -> Self {
        Self { text: bare(text), lines: text.lines().map(bare).collect() }
    }

    fn has(&self, run: &str) -> bool {
        self.text.contains(&bare(run))
    }

    fn has_row(&self, cells: &[String]) -> bool {
        let cells: Vec<String> = cells.iter().map(|cell| bare(cell)).collect();
        self.lines.iter().any(|line| {
            let mut rest = line.as_str();
            cells.iter().all(|cell| {
                let after = rest.find(cell.as_str()).map(|at| &rest[at + cell.len()..]);
                rest = after.unwrap_or_default();
                after.is_some()
            })
        })
    }
}

/// The stated measure: recall of all that stands on each of the saved layouts outside of its menus, and of what belongs
/// together there; and, the other way round, how much of the menus is in the way.
#[tokio::test]
async fn on_every_layout_no_fact_is_lost_that_the_reference_server_keeps() {
    let (site, mut theirs, mut ours) = both().await;
    let (mut all, mut by_theirs, mut by_ours) = (0, 0, 0);
    let (mut surroundings, mut in_theirs, mut in_ours) = (0, 0, 0);
    let mut missed: Vec<String> = Vec::new();
    let layouts = layouts();
    assert!(layouts.len() >= 20);
    for Layout { name, runs, rows, surroundings: around } in layouts {
        let arguments = json!({ "url": site.url(&format!("/layout/{name}")), "max_length": 100_000 });
        let reference = Shown::new(&theirs.call("fetch", arguments.clone()).await.text());
        let own = Shown::new(&ours.call("fetch", arguments).await.text());
        let runs = runs.iter().filter(|run| bare(run).len() > 1);
        let kept = runs.map(|run| (run.clone(), reference.has(run), own.has(run)));
        let rows = rows.iter().map(|row| (row.join(" | "), reference.has_row(row), own.has_row(row)));
        for (what, theirs, ours) in kept.chain(rows) {
            assert!(ours || !theirs, "{name}: `{what}` is lost");
            missed.extend((!ours).then(|| format!("{name}: {what}")));
            (all, by_theirs, by_ours) =
                (all + 1, by_theirs + usize::from(theirs), by_ours + usize::from(ours));
        }
        // Shorter ones may also stand in the text.
        for run in around.iter().filter(|run| bare(run).len() >= 8) {
            surroundings += 1;
            in_theirs += usize::from(reference.has(run));
            in_ours += usize::from(own.has(run));
        }
    }
    println!("facts: {all}, kept by mcp-server-fetch: {by_theirs}, by gaia-mcp-fetch: {by_ours}");
    println!("menus: {surroundings}, left in by mcp-server-fetch: {in_theirs}, by gaia-mcp-fetch: {in_ours}");
    assert!(all > 500, "{all}");
    assert_eq!(by_ours, all, "{missed:#?}");
    assert!(in_ours * 10 <= in_theirs, "{in_ours} and {in_theirs} of {surroundings}");
}

#[test]
fn the_measure_sees_what_is_lost() {
    let shown = Shown::new("| Height | 31 m |\n| Built | 1877 |\n[Ana Bolt](http://a.example/31m) kept it");
    let row =
        |cells: &[&str]| shown.has_row(&cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
    assert!(row(&["Height", "31 m"]) && !row(&["Height", "1877"]) && !row(&["31 m", "Height"]));
    assert!(shown.has("Ana Bolt kept it") && !shown.has("a.example"));
}
