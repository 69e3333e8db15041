//! A server that does on demand what servers do to hosts. Written without an SDK: an SDK would not let it.

use std::io::{BufRead, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

/// The tools of the modes that name none.
const NAMES: [&str; 18] = [
    "echo",
    "hang",
    "die",
    "image",
    "structured",
    "fail",
    "big",
    "env",
    "noise",
    "log",
    "progress",
    "grandchild",
    "pid",
    "refuse",
    "surrogate",
    "garbled",
    "nothing",
    "change",
];

/// Whether `change` was called, after which there is one tool more.
static CHANGED: AtomicBool = AtomicBool::new(false);

/// `arguments`: the mode, then what it needs.
pub(crate) fn serve(arguments: &[String]) -> ExitCode {
    let mode = arguments.first().map_or("normal", String::as_str);
    match mode {
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
        let mode = mode.to_owned();
        let arguments = arguments.to_vec();
        // Side by side, so that a hanging call stops nobody else.
        std::thread::spawn(move || answer(&mode, &arguments, &message));
    }
    ExitCode::SUCCESS
}

fn answer(mode: &str, arguments: &[String], message: &Value) {
    let id = &message["id"];
    let params = &message["params"];
    match (message["method"].as_str().unwrap_or_default(), mode) {
        (_, "silent") => {}
        ("initialize", "modern") => refuse(id, -32022, "only 2026-07-28 is spoken here"),
        ("initialize", _) => reply(
            id,
            json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "peer", "version": "1" },
            }),
        ),
        ("server/discover", "modern") => reply(
            id,
            json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {} },
                "ttlMs": 0,
                "cacheScope": "private",
            }),
        ),
        ("server/discover", _) => refuse(id, -32601, "method not found"),
        ("tools/list", "silent-list") => {}
        ("tools/list", _) => list(mode, arguments, id, params),
        ("tools/call", _) => call(id, params),
        ("notifications/cancelled", _) => eprintln!("cancelled {}", params["requestId"]),
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

fn call(id: &Value, params: &Value) {
    let arguments = &params["arguments"];
    let text = |text: String| reply(id, json!({ "content": [{ "type": "text", "text": text }] }));
    match params["name"].as_str().unwrap_or_default() {
        "echo" => text(arguments["text"].as_str().unwrap_or_default().to_owned()),
        "hang" => {
            eprintln!("hanging {id}");
            loop {
                std::thread::park();
            }
        }
        "die" => {
            eprintln!("out of luck");
            #[allow(clippy::exit, reason = "a sudden end is the behaviour under test")]
            std::process::exit(7);
        }
        "image" => reply(
            id,
            json!({ "content": [
                { "type": "text", "text": "a picture" },
                { "type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo=" },
            ] }),
        ),
        "structured" => reply(id, json!({ "content": [], "structuredContent": { "answer": "42" } })),
        "fail" => {
            reply(id, json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true }))
        }
        "big" => text("x".repeat(arguments["bytes"].as_u64().unwrap() as usize)),
        "env" => text(std::env::vars().map(|(name, value)| format!("{name}={value}\n")).collect()),
        "noise" => {
            println!("DEBUG calling noise");
            text("done".to_owned());
        }
        "log" => {
            send(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {
                "level": "warning", "data": "disk almost full",
            } }));
            text("logged".to_owned());
        }
        "progress" => {
            for step in 1..=arguments["steps"].as_u64().unwrap() {
                // The pace is the behaviour under test.
                std::thread::sleep(Duration::from_millis(arguments["pause_ms"].as_u64().unwrap()));
                send(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {
                    "progressToken": params["_meta"]["progressToken"], "progress": step,
                } }));
            }
            text("arrived".to_owned());
        }
        "grandchild" => {
            #[allow(clippy::zombie_processes, reason = "leaving a child behind is the behaviour under test")]
            let child = Command::new("sleep").arg("300").stdin(Stdio::null()).spawn().unwrap();
            text(child.id().to_string());
        }
        "pid" => text(std::process::id().to_string()),
        "refuse" => refuse(id, -32000, "not today"),
        "surrogate" => write_line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"a\ud800\u0000b"}}]}}}}"#
        )),
        "garbled" => write_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[}}}}"#)),
        "nothing" => reply(id, json!({ "surprise": true })),
        "change" => {
            CHANGED.store(true, Ordering::SeqCst);
            send(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
            text("changed".to_owned());
        }
        name => refuse(id, -32602, &format!("unknown tool {name}")),
    }
}

fn reply(id: &Value, result: Value) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn refuse(id: &Value, code: i32, message: &str) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }));
}

fn send(message: &Value) {
    write_line(&message.to_string());
}

fn write_line(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody reads any more when the host has gone.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
}
