//! A server that does on demand what servers do to hosts. Written without an SDK: an SDK would not let it.

mod calls;
mod wire;

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use calls::{NAMES, call};
use wire::{refuse, reply, send};

/// Whether `change` was called, after which there is one tool more.
pub(crate) static CHANGED: AtomicBool = AtomicBool::new(false);

/// `arguments`: the mode, then what it needs.
pub(crate) fn serve(arguments: &[String]) -> ExitCode {
    let mode = arguments.first().map_or("normal", String::as_str);
    match mode {
        // Busy with something before it reads; then it is a server of the mode that follows.
        "slow" => {
            std::thread::sleep(Duration::from_millis(arguments[1].parse().unwrap()));
            return serve(&arguments[2..]);
        }
        "flood" => return flood("x\n"),
        "flood-braces" => return flood("{\n"),
        "flood-messages" => {
            return flood(
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"busy\"}}\n",
            );
        }
        "flood-line" => return flood("x"),
        "exit" => {
            eprintln!("reading the database");
            eprintln!(
                "cannot open the database; the key is {}",
                std::env::var("SECRET_KEY").unwrap_or_default()
            );
            return ExitCode::from(4);
        }
        "chatty" => {
            println!("Welcome to the server!");
            println!(r#"{{"level":"info","msg":"listening"}}"#);
        }
        _ => {}
    }
    eprintln!("ready in mode {mode}");
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        // Said in the order of the lines, which tells what was sent before what.
        if message["method"] == "notifications/cancelled" {
            eprintln!("cancelled {}", message["params"]["requestId"]);
        }
        let mode = mode.to_owned();
        let arguments = arguments.to_vec();
        // Side by side, so that a hanging call stops nobody else.
        std::thread::spawn(move || answer(&mode, &arguments, &message));
    }
    ExitCode::SUCCESS
}

/// Writes as fast as it is read, and reads nothing.
fn flood(piece: &str) -> ExitCode {
    let block = piece.repeat(64 * 1024 / piece.len());
    let mut out = std::io::stdout().lock();
    while out.write_all(block.as_bytes()).is_ok() {}
    ExitCode::SUCCESS
}

fn answer(mode: &str, arguments: &[String], message: &Value) {
    let id = &message["id"];
    let params = &message["params"];
    match (message["method"].as_str().unwrap_or_default(), mode) {
        (_, "silent") => {}
        ("initialize", "exits-on-initialize") | ("server/discover", "exits-on-discover") => exit(3),
        ("initialize", "wrong-id") => reply(&json!(999), json!({})),
        ("initialize", "garbled") => wire::write_line("{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{"),
        ("initialize", "modern" | "modern-change") => refuse(id, -32022, "only 2026-07-28 is spoken here"),
        ("initialize", _) => reply(
            id,
            json!({
                "protocolVersion": match mode {
                    "future" => json!("2099-01-01"),
                    "past" => json!("2024-11-05"),
                    _ => params["protocolVersion"].clone(),
                },
                "capabilities": match mode {
                    "resources" => json!({ "tools": {}, "resources": {} }),
                    _ => json!({ "tools": {} }),
                },
                "serverInfo": { "name": "peer", "version": "1" },
            }),
        ),
        ("server/discover", "modern" | "modern-change" | "exits-on-initialize") => reply(
            id,
            json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": { "listChanged": mode == "modern-change" } },
                "ttlMs": 0,
                "cacheScope": "private",
            }),
        ),
        ("server/discover", _) => refuse(id, -32601, "method not found"),
        ("tools/list", "silent-list") => {}
        ("tools/list", "dies-on-list") => exit(5),
        ("resources/read", _) => read(id, params),
        ("subscriptions/listen", "modern-change") => {
            *LISTENER.lock().unwrap() = id.clone();
            send(&json!({
                "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": {
                    "notifications": params["notifications"],
                    "_meta": { "io.modelcontextprotocol/subscriptionId": id },
                },
            }));
            eprintln!("somebody listens");
        }
        ("tools/list", _) => list(mode, arguments, id, params),
        ("tools/call", _) => call(id, params),
        ("notifications/cancelled", _) => calls::answer_late(&params["requestId"]),
        // An answer to something that was asked of the host.
        ("", _) if !id.is_null() => eprintln!("the host answered {message}"),
        (method, _) if !id.is_null() => refuse(id, -32601, &format!("unknown method {method}")),
        _ => {}
    }
}

fn list(mode: &str, arguments: &[String], id: &Value, params: &Value) {
    let named = |names: &[String]| names.iter().map(|name| tool(name)).collect::<Vec<_>>();
    let page: usize = params["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    match mode {
        "named" => reply(id, json!({ "tools": named(&arguments[1..]) })),
        "pages" => {
            let pages: usize = arguments[1].parse().unwrap();
            let names: Vec<String> = (0..3).map(|index| format!("tool_{page}_{index}")).collect();
            // An empty cursor at the end, as some servers send it.
            let next = if page + 1 < pages { (page + 1).to_string() } else { String::new() };
            reply(id, json!({ "tools": named(&names), "nextCursor": next }));
        }
        "many" => {
            let (pages, each): (usize, usize) =
                (arguments[1].parse().unwrap(), arguments[2].parse().unwrap());
            let names: Vec<String> = (0..each).map(|index| format!("tool_{page}_{index}")).collect();
            let next = (page + 1 < pages).then(|| (page + 1).to_string());
            reply(id, json!({ "tools": named(&names), "nextCursor": next }));
        }
        "long-names" => reply(
            id,
            json!({ "tools": named(&["n".repeat(300), format!("{}x", "n".repeat(300)), "a.b c".to_owned()]) }),
        ),
        "schemas" => reply(id, json!({ "tools": zoo() })),
        "circle" => reply(id, json!({ "tools": named(&[format!("t{page}")]), "nextCursor": "1" })),
        "zoo" => reply(
            id,
            json!({ "tools": [
                tool("good"),
                tool("good"),
                { "name": "", "inputSchema": { "type": "object" } },
                { "name": "no_schema" },
                { "name": "array", "inputSchema": { "type": "array" } },
                { "name": "broken", "inputSchema": { "type": "object", "properties": { "a": { "type": 7 } } } },
                { "name": "bare", "inputSchema": {} },
            ] }),
        ),
        _ => {
            let mut names = NAMES.to_vec();
            if CHANGED.load(Ordering::SeqCst) {
                names.push("fresh");
            }
            reply(
                id,
                json!({ "tools": named(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()) }),
            );
        }
    }
}

fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": format!("does {name}"),
        "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
        "annotations": { "readOnlyHint": name == "echo" },
    })
}

/// Schemas as real servers publish them; each is to be offered as it is.
fn zoo() -> Vec<Value> {
    let deep = (0..60).fold(
        json!({ "type": "string" }),
        |inner, _| json!({ "type": "object", "properties": { "a": inner } }),
    );
    let schemas = [
        (
            "reference",
            json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/A" } }, "$defs": { "A": { "type": "integer" } } }),
        ),
        ("recursive", json!({ "type": "object", "properties": { "a": { "$ref": "#" } } })),
        (
            "any",
            json!({ "type": "object", "anyOf": [{ "required": ["a"] }, { "required": ["b"] }], "properties": { "a": {}, "b": {} } }),
        ),
        (
            "one",
            json!({ "oneOf": [{ "type": "object", "properties": { "a": { "const": 1 } } }, { "type": "object" }] }),
        ),
        ("untyped", json!({ "properties": { "a": { "type": ["string", "null"] } } })),
        (
            "draft7",
            json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "definitions": { "B": {} } }),
        ),
        (
            "dates",
            json!({ "type": "object", "properties": { "when": { "type": "string", "format": "date-time" } } }),
        ),
        ("odd_names", json!({ "type": "object", "properties": { "a b": {}, "\u{e9}": {}, "$filter": {} } })),
        ("true_schema", json!({ "type": "object", "properties": { "a": true } })),
        ("deep", deep),
    ];
    schemas.into_iter().map(|(name, schema)| json!({ "name": name, "inputSchema": schema })).collect()
}

/// The request that listens for changes.
pub(crate) static LISTENER: std::sync::Mutex<Value> = std::sync::Mutex::new(Value::Null);

fn read(id: &Value, params: &Value) {
    let uri = &params["uri"];
    let contents = match uri.as_str().unwrap_or_default() {
        "res://notes" => json!([{ "uri": uri, "mimeType": "text/plain", "text": "remember the milk" }]),
        "res://picture" => json!([{ "uri": uri, "mimeType": "image/png", "blob": "iVBORw0KGgo=" }]),
        "res://both" => json!([
            { "uri": "res://a", "text": "first" },
            { "uri": "res://b", "mimeType": "application/zip", "blob": "AAAA" },
        ]),
        "res://die" => exit(7),
        "res://hang" => return,
        _ => return refuse(id, -32602, "no such resource"),
    };
    reply(id, json!({ "contents": contents }));
}

pub(crate) fn exit(code: i32) -> ! {
    #[allow(clippy::exit, reason = "a sudden end is the behaviour under test")]
    std::process::exit(code)
}
