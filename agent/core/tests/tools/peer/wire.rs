use std::io::Write;

use serde_json::{Value, json};

pub(super) fn reply(id: &Value, result: Value) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

pub(super) fn refuse(id: &Value, code: i32, message: &str) {
    send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }));
}

pub(super) fn send(message: &Value) {
    write_line(&message.to_string());
}

pub(super) fn write_line(line: &str) {
    write_bytes(line.as_bytes());
}

pub(super) fn write_bytes(line: &[u8]) {
    let mut out = std::io::stdout().lock();
    // Nobody reads any more when the host has gone.
    let _ = out.write_all(line).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
}
