//! The scripted model as a program.

// Clippy knows test functions, but not the helpers of a test program.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// Ending is due at once; a busy machine may take its time.
const END: Duration = Duration::from_secs(20);

async fn start(arguments: &[&str]) -> (Child, BufReader<ChildStdout>, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs_err::write(
        file.path(),
        json!({"task_id": "t", "match": "q", "turns": [{"content": "hello"}]}).to_string(),
    )
    .unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_gaia-scripted-model"))
        .arg("--script")
        .arg(file.path())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).await.unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    let base_url = line["base_url"].as_str().unwrap().to_owned();
    (child, stdout, base_url)
}

async fn ends(mut child: Child, mut stdout: BufReader<ChildStdout>) {
    assert!(timeout(END, child.wait()).await.expect("still running").unwrap().success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "", "more than one line on stdout");
}

#[tokio::test]
async fn it_serves_and_ends_with_its_standard_input() {
    let (mut child, stdout, base_url) = start(&["--fault", "429=0", "--latency-ms", "1"]).await;
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "q"}]});
    let reply =
        reqwest::Client::new().post(format!("{base_url}/chat/completions")).json(&body).send().await.unwrap();
    let reply: Value = reply.json().await.unwrap();
    assert_eq!(reply["choices"][0]["message"]["content"], "hello");
    drop(child.stdin.take());
    ends(child, stdout).await;
}

#[tokio::test]
async fn it_ends_at_a_signal_even_while_a_reply_is_silent() {
    for signal in ["-TERM", "-INT"] {
        let (child, stdout, base_url) = start(&["--fault", "silent=1", "--on-stdin-end", "ignore"]).await;
        let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "q"}]});
        let url = format!("{base_url}/chat/completions");
        let response = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
        let id = child.id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().await.unwrap().success());
        ends(child, stdout).await;
        assert!(response.bytes().await.is_err());
    }
}

#[tokio::test]
async fn a_bad_script_or_fault_is_refused() {
    let run = async |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_gaia-scripted-model")).args(arguments).output().await.unwrap()
    };
    let output = run(&["--script", "/no/such/script.jsonl"]).await;
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/script.jsonl"));
    let output = run(&["--script", "x", "--fault", "tea=0.1"]).await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown variant `tea`"));
}
