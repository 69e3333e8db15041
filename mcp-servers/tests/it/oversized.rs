//! A request too long to read is answered, and the next one served.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::{PATIENCE, Process, SUBMIT, command};

#[tokio::test]
async fn a_line_over_the_limit_is_answered_with_an_error() {
    let mut server = Process::spawn(command(SUBMIT, &[]));
    let mut input = server.child.stdin.take().unwrap();
    let mut output = BufReader::new(server.child.stdout.take().unwrap()).lines();
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "raw", "version": "0" } });
    let answer = "x".repeat(16 << 20);
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        // The order of the Python SDK: the id comes last.
        json!({ "method": "tools/call", "params": { "name": "submit", "arguments": { "answer": answer } },
            "jsonrpc": "2.0", "id": "long" }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" }),
    ];
    let writing = async {
        for message in messages {
            input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        }
    };
    let reading = async {
        let mut answers: Vec<Value> = Vec::new();
        while answers.len() < 3 {
            let line = output.next_line().await.unwrap().expect("an answer to each request");
            answers.push(serde_json::from_str(&line).unwrap());
        }
        answers
    };
    let both = async { tokio::join!(writing, reading).1 };
    let answers = tokio::time::timeout(PATIENCE, both).await.expect("answers in time");
    let find = |id: Value| answers.iter().find(|answer| answer["id"] == id).expect("an answer to the id");
    assert_eq!(find(json!("long"))["error"]["code"], -32600);
    assert_eq!(
        find(json!("long"))["error"]["message"],
        "the request is longer than 16 MiB; send less at a time"
    );
    assert!(find(json!(3))["result"].is_object());
}
