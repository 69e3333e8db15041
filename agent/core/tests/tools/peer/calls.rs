use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::wire::{refuse, reply, send, write_bytes, write_line};
use super::{CHANGED, LISTENER, exit};

/// The tools of the modes that name none.
pub(super) const NAMES: [&str; 31] = [
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
    "die_after",
    "die_half",
    "gigabyte",
    "kinds",
    "hologram",
    "empty",
    "wrong_id",
    "twice",
    "late",
    "latin1",
    "ask",
    "leak",
    "storm",
];

/// The call of `late` that waits.
static LATE: Mutex<Value> = Mutex::new(Value::Null);

pub(super) fn answer_late(cancelled: &Value) {
    if !cancelled.is_null() && *LATE.lock().unwrap() == *cancelled {
        reply(cancelled, json!({ "content": [{ "type": "text", "text": "too late" }] }));
        eprintln!("answered late");
    }
}

pub(super) fn call(id: &Value, params: &Value) {
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
            exit(7)
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
        "die_after" => {
            text("last words".to_owned());
            exit(7)
        }
        "die_half" => {
            let mut out = std::io::stdout().lock();
            let _ = write!(out, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"te"#);
            let _ = out.flush();
            exit(7)
        }
        "gigabyte" => {
            let mut out = std::io::stdout().lock();
            let block = "x".repeat(1 << 20);
            let _ =
                write!(out, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#);
            for _ in 0..1024 {
                let _ = out.write_all(block.as_bytes());
            }
            let _ = writeln!(out, r#""}}]}}}}"#);
        }
        "kinds" => reply(
            id,
            json!({ "content": [
                { "type": "text", "text": "words" },
                { "type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo=" },
                { "type": "audio", "mimeType": "audio/wav", "data": "UklGRg==" },
                { "type": "resource", "resource": { "uri": "res://t", "mimeType": "text/plain", "text": "embedded words" } },
                { "type": "resource", "resource": { "uri": "res://b", "mimeType": "application/zip", "blob": "AAAA" } },
                { "type": "resource", "resource": { "uri": "res://i", "mimeType": "image/png", "blob": "iVBORw0KGgo=" } },
                { "type": "resource_link", "uri": "res://notes", "name": "notes", "mimeType": "text/plain" },
            ], "structuredContent": { "n": 1 } }),
        ),
        "hologram" => reply(
            id,
            json!({ "content": [{ "type": "hologram", "beam": 7 }, { "type": "text", "text": "beside it" }] }),
        ),
        "empty" => reply(id, json!({ "content": [] })),
        "wrong_id" => {
            for wrong in [json!(987_654), json!("not-yours"), Value::Null] {
                reply(&wrong, json!({ "content": [{ "type": "text", "text": "for nobody" }] }));
            }
        }
        "twice" => {
            text("first".to_owned());
            text("second".to_owned());
        }
        // Answers when it is told that nobody waits any more.
        "late" => {
            *LATE.lock().unwrap() = id.clone();
            eprintln!("late {id}");
        }
        "latin1" => write_bytes(
            &[
                br#"{"jsonrpc":"2.0","id":"#,
                id.to_string().as_bytes(),
                br#","result":{"content":[{"type":"text","text":"caf"#,
                b"\xe9",
                br#""}]}}"#,
            ]
            .concat(),
        ),
        "ask" => {
            for (number, (method, params)) in [
                ("elicitation/create", json!({ "message": "your name?", "requestedSchema": { "type": "object", "properties": {} } })),
                ("sampling/createMessage", json!({ "messages": [], "maxTokens": 1 })),
                ("roots/list", json!({})),
                ("ping", json!({})),
            ]
            .into_iter()
            .enumerate()
            {
                send(&json!({ "jsonrpc": "2.0", "id": 5000 + number, "method": method, "params": params }));
            }
            text("asked".to_owned());
        }
        "leak" => {
            let secret = std::env::var("SECRET_KEY").unwrap_or_default();
            eprintln!("stderr says {secret}");
            println!("stdout says {secret}");
            send(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {
                "level": "error", "data": { "log": secret },
            } }));
            match arguments["how"].as_str().unwrap_or_default() {
                "error" => refuse(id, -32000, &format!("refused with {secret}")),
                "die" => exit(9),
                _ => reply(
                    id,
                    json!({
                        "content": [
                            { "type": "text", "text": format!("the key is {secret}") },
                            { "type": "resource", "resource": { "uri": "res://k", "text": secret } },
                            { "type": "resource_link", "uri": format!("res://{secret}"), "name": "k" },
                        ],
                        "structuredContent": { "key": secret },
                        "isError": true,
                    }),
                ),
            }
        }
        "storm" => {
            let noise = "busy\n".repeat(200_000);
            write_bytes(noise.trim_end().as_bytes());
            eprintln!("{noise}");
            text("after the storm".to_owned());
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
            let listener = LISTENER.lock().unwrap().clone();
            let params = match listener {
                Value::Null => json!({}),
                id => json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": id } }),
            };
            send(
                &json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params }),
            );
            text("changed".to_owned());
        }
        name => refuse(id, -32602, &format!("unknown tool {name}")),
    }
}
