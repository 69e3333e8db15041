//! What is left of a client that was killed with a command running: nothing.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};

use crate::installed::Client;
use crate::server::{HttpServer, PATIENCE, Run};
use crate::story::Era;

/// Kills the client while its command runs in the one container of the run.
pub(crate) async fn kill_while_it_works(client: Client, era: Era, target: &[String], run: &Run) {
    let mut command = client.command();
    let mut child = command
        .args(["hold", era.word()])
        .args(target)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the client starts");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("the command runs in time");
    assert_eq!(line.unwrap().expect("the client says so").replace(' ', ""), r#"{"running":true}"#);
    assert_eq!(run.containers().await.len(), 1);
    // SIGKILL, to the client alone.
    child.kill().await.unwrap();
}

async fn over_stdio(client: Client, era: Era) {
    let run = Run::new();
    let target = [vec!["--".to_owned()], run.bash()].concat();
    kill_while_it_works(client, era, &target, &run).await;
    run.containers_gone().await;
}

/// Over HTTP nobody learns of the death at once; the container is idle from the end of the command, 2 s at most.
async fn over_http(client: Client, era: Era) {
    let run = Run::new();
    let command_line = [run.bash(), vec!["--idle-timeout-sec".to_owned(), "1".to_owned()]].concat();
    let server = HttpServer::start(&command_line).await;
    let url = format!("{}{}", server.base, era.path());
    kill_while_it_works(client, era, &[url], &run).await;
    run.containers_gone().await;
    server.stop().await;
}

#[tokio::test]
async fn python_sdk_1_killed_over_stdio() {
    over_stdio(Client::PythonSdk1, Era::Legacy).await;
}

#[tokio::test]
async fn python_sdk_2_killed_over_stdio() {
    over_stdio(Client::PythonSdk2, Era::Auto).await;
}

#[tokio::test]
async fn fastmcp_killed_over_stdio() {
    over_stdio(Client::FastMcp, Era::Auto).await;
}

#[tokio::test]
async fn typescript_sdk_1_killed_over_stdio() {
    over_stdio(Client::TypeScriptSdk1, Era::Legacy).await;
}

#[tokio::test]
async fn typescript_sdk_2_killed_over_stdio() {
    over_stdio(Client::TypeScriptSdk2, Era::Auto).await;
}

#[tokio::test]
async fn python_sdk_1_killed_over_http() {
    over_http(Client::PythonSdk1, Era::Legacy).await;
}

#[tokio::test]
async fn python_sdk_2_killed_over_http() {
    over_http(Client::PythonSdk2, Era::Auto).await;
}
