//! Commands that run on after the call that started them. These tests need Docker and fail without it.

use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::support::{BASH, Era, PATIENCE, Process, command, fact, image, stdio, text};

#[tokio::test]
async fn a_background_task_is_read_and_killed() {
    let (_server, client) = stdio(BASH, &["--image", &image()], Era::Legacy).await;
    let command = "echo first; read line < /tmp/go; echo second $line; sleep 4005";
    client.call("bash", json!({ "command": "mkfifo /tmp/go" })).await;
    let started = client.call("bash", json!({ "command": command, "run_in_background": true })).await;
    let id = fact(&started, "task_id").clone();
    assert!(text(&started).contains(&format!("[task {id} runs in the background;")), "{}", text(&started));
    let output = client.call("bash_output", json!({ "task_id": id, "wait": 20 })).await;
    assert_eq!(text(&output), format!("first\n[task {id} is running]"));
    client.call("bash", json!({ "command": "echo now > /tmp/go" })).await;
    let output = client.call("bash_output", json!({ "task_id": id, "wait": 20 })).await;
    assert_eq!(text(&output), format!("second now\n[task {id} is running]"));
    assert_eq!(fact(&output, "output"), text(&output));
    let again = client.call("bash_output", json!({ "task_id": id, "offset": 0 })).await;
    assert!(text(&again).starts_with("first\nsecond now\n"), "{}", text(&again));
    let killed = client.call("kill_shell", json!({ "task_id": id })).await;
    assert!(text(&killed).starts_with(&format!("[task {id} ended: ")), "{}", text(&killed));
    let output = client.call("bash_output", json!({ "task_id": id })).await;
    assert_eq!(fact(&output, "running"), false);
    let unknown = client.call("bash_output", json!({ "task_id": 4_000_000 })).await;
    assert_eq!(unknown.is_error, Some(true));
    client.close().await;
}

#[tokio::test]
async fn a_background_task_takes_input_until_it_is_closed() {
    let (_server, client) = stdio(BASH, &["--image", &image()], Era::Legacy).await;
    let read_to_end = "while read line; do echo got $line; done; echo over";
    let started = client.call("bash", json!({ "command": read_to_end, "run_in_background": true })).await;
    let id = fact(&started, "task_id").clone();
    let written = client.call("bash_input", json!({ "task_id": id, "chars": "one\ntwo\n" })).await;
    assert_eq!(text(&written), format!("[wrote 8 bytes to task {id}]"));
    // A look may come between the two lines, and no more than that.
    let mut seen = String::new();
    for _look in 0..2 {
        if !seen.contains("got two") {
            let output = client.call("bash_output", json!({ "task_id": id, "wait": 20 })).await;
            assert!(text(&output).ends_with(&format!("[task {id} is running]")), "{}", text(&output));
            seen.push_str(text(&output));
        }
    }
    assert!(seen.contains("got two"), "{seen}");
    let closed = client.call("bash_input", json!({ "task_id": id, "eof": true })).await;
    assert_eq!(text(&closed), format!("[wrote 0 bytes to task {id} and closed its input]"));
    // The first look may see its last words, the second its end.
    let mut running = true;
    for _look in 0..2 {
        if running {
            let output = client.call("bash_output", json!({ "task_id": id, "wait": 20 })).await;
            running = fact(&output, "running") == true;
        }
    }
    assert!(!running, "it ends when its input is closed");
    let whole = client.call("bash_output", json!({ "task_id": id, "offset": 0 })).await;
    assert!(text(&whole).starts_with("got one\ngot two\nover\n[task "), "{}", text(&whole));
    let late = client.call("bash_input", json!({ "task_id": id, "chars": "x" })).await;
    assert!(late.is_error == Some(true) && text(&late).contains("has ended"), "{}", text(&late));
    let empty = client.call("bash_input", json!({ "task_id": id })).await;
    assert!(text(&empty).starts_with("`chars` is empty"), "{}", text(&empty));
    client.close().await;
}

/// A client that asks for no progress, which rmcp's always does.
struct Silent {
    process: Process,
    output: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    id: u64,
}

impl Silent {
    async fn start(args: &[&str]) -> Self {
        let mut process = Process::spawn(command(BASH, &[&["--image", &image()], args].concat()));
        let output = BufReader::new(process.child.stdout.take().unwrap()).lines();
        let mut client = Self { process, output, id: 0 };
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "silent", "version": "0" } });
        client.request("initialize", hello).await;
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.process.child.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let id = self.id;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await.expect("an answer in time");
        let answer: Value = serde_json::from_str(&line.unwrap().expect("an answer")).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answer["result"].clone()
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> CallToolResult {
        let result = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        serde_json::from_value(result).unwrap()
    }
}

#[tokio::test]
async fn a_silent_client_gets_a_task_in_place_of_a_timeout() {
    let mut client = Silent::start(&["--answer-within-sec", "1"]).await;
    let quick = client.call("bash", json!({ "command": "mkfifo /tmp/go; echo quick" })).await;
    assert!(text(&quick).starts_with("quick\n[exit 0 · "), "{}", text(&quick));

    let slow = "echo early; read line < /tmp/go; cd /tmp; echo late $line; exit 3";
    let running = client.call("bash", json!({ "command": slow })).await;
    let id = fact(&running, "task_id").clone();
    let expected = format!(
        "[still running after 1 s, now as task {id}; call bash_output with this task_id and a wait for the result, or \
         kill_shell to end it]"
    );
    assert_eq!((text(&running), running.is_error), (expected.as_str(), Some(false)));
    assert_eq!(fact(&running, "output"), text(&running));

    let waiting = client.call("bash_output", json!({ "task_id": id })).await;
    assert!(text(&waiting).starts_with("(its output comes when it ends)\n[task "), "{}", text(&waiting));
    assert_eq!(fact(&waiting, "running"), true);
    let input = client.call("bash_input", json!({ "task_id": id, "chars": "x" })).await;
    assert!(text(&input).contains("takes no input"), "{}", text(&input));

    // A task leaves no state behind, so that it cannot be the last to do so.
    let go = json!({ "command": "echo now > /tmp/go", "run_in_background": true });
    client.call("bash", go).await;
    for _again in 0..2 {
        let ended = client.call("bash_output", json!({ "task_id": id, "wait": 20 })).await;
        assert!(text(&ended).starts_with("early\nlate now\n[exit 3 · "), "{}", text(&ended));
        assert_eq!((fact(&ended, "running"), fact(&ended, "exit_code")), (&json!(false), &json!(3)));
    }
    let after = client.call("bash", json!({ "command": "pwd" })).await;
    assert!(text(&after).starts_with("/tmp\n"), "it is the shell's own command: {}", text(&after));
}

#[tokio::test]
async fn a_handed_over_command_can_be_killed() {
    let mut client = Silent::start(&["--answer-within-sec", "1"]).await;
    let running = client.call("bash", json!({ "command": "echo early; sleep 4007" })).await;
    let id = fact(&running, "task_id").clone();
    let killed = client.call("kill_shell", json!({ "task_id": id })).await;
    assert!(text(&killed).starts_with(&format!("[task {id} ended: killed · ")), "{}", text(&killed));
    let ended = client.call("bash_output", json!({ "task_id": id })).await;
    assert!(text(&ended).starts_with("early\n[cancelled after "), "{}", text(&ended));
    // Its time limit holds too.
    let limited = client.call("bash", json!({ "command": "sleep 4008", "timeout": 2 })).await;
    let ended = client.call("bash_output", json!({ "task_id": fact(&limited, "task_id"), "wait": 20 })).await;
    assert!(text(&ended).contains("[timed out after 2 s; "), "{}", text(&ended));
}

#[tokio::test]
async fn a_server_ends_in_time_while_a_handed_over_command_runs() {
    let mut client = Silent::start(&["--answer-within-sec", "1"]).await;
    client.call("bash", json!({ "command": "sleep 4009" })).await;
    drop(client.process.child.stdin.take());
    assert_eq!(client.process.wait(std::time::Duration::from_secs(2)).await, Some(0));
}

#[tokio::test]
async fn without_the_limit_a_silent_client_waits_to_the_end() {
    let mut client = Silent::start(&["--answer-within-sec", "0"]).await;
    let ended = client.call("bash", json!({ "command": "sleep 2; echo done" })).await;
    assert!(text(&ended).starts_with("done\n[exit 0 · "), "{}", text(&ended));
}

#[tokio::test]
async fn a_client_that_takes_progress_is_not_handed_a_task() {
    let (_server, client) =
        stdio(BASH, &["--image", &image(), "--answer-within-sec", "1"], Era::Legacy).await;
    let ended = client.call("bash", json!({ "command": "sleep 2; echo done" })).await;
    assert!(text(&ended).starts_with("done\n[exit 0 · "), "{}", text(&ended));
    client.close().await;
}
