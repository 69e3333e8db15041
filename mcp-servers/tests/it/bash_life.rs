//! From start to end: what must be there, and that no container is left.

use std::time::Duration;

use rmcp::model::CallToolRequestParams;
use serde_json::json;

use crate::support::{
    BASH, CONTAINER_ID, Client, Era, Process, command, container_exists, container_gone, image, owned_by,
    stdio, text,
};

/// The process ends within this time.
const END: Duration = Duration::from_secs(2);
/// The container may outlive it by a moment on a busy machine.
const GONE: Duration = Duration::from_secs(5);

async fn shell() -> (Process, Client, String) {
    let (server, client) = stdio(BASH, &["--image", &image()], Era::Legacy).await;
    let result = client.call("bash", json!({ "command": CONTAINER_ID })).await;
    let container = text(&result).lines().next().unwrap().to_owned();
    assert!(container_exists(&container).await, "{container}");
    (server, client, container)
}

/// Starts a command that runs for long and returns once it runs.
async fn busy(client: &Client) {
    let peer = client.service.peer().clone();
    let request = |command: &str| {
        let arguments = json!({ "command": command }).as_object().unwrap().clone();
        CallToolRequestParams::new("bash").with_arguments(arguments)
    };
    client.call("bash", json!({ "command": "mkfifo /tmp/started" })).await;
    let long = request("echo x > /tmp/started; trap '' TERM HUP; setsid sleep 5001 & sleep 5002");
    tokio::spawn(async move { drop(peer.call_tool(long).await) });
    client.call("bash", json!({ "command": "cat /tmp/started" })).await;
}

#[tokio::test]
async fn closed_stdin_removes_the_container() {
    let (mut server, client, container) = shell().await;
    client.close().await;
    assert_eq!(server.wait(END).await, Some(0));
    container_gone(&container, GONE).await;
}

#[tokio::test]
async fn a_client_that_dies_in_the_middle_of_a_command_leaves_nothing() {
    let (mut server, client, container) = shell().await;
    busy(&client).await;
    // Both pipes close at once, as when the client's process is killed.
    drop(client);
    server.wait(END).await;
    container_gone(&container, GONE).await;
}

#[tokio::test]
async fn a_signal_in_the_middle_of_a_command_leaves_nothing() {
    for signal in ["TERM", "INT"] {
        let (mut server, client, container) = shell().await;
        busy(&client).await;
        server.signal(signal).await;
        assert_eq!(server.wait(END).await, Some(0), "{signal}");
        container_gone(&container, GONE).await;
    }
}

#[tokio::test]
async fn a_killed_server_leaves_nothing() {
    let (mut server, client, container) = shell().await;
    busy(&client).await;
    server.signal("KILL").await;
    server.wait(END).await;
    container_gone(&container, GONE).await;
}

#[tokio::test]
async fn a_server_killed_while_it_starts_its_container_leaves_nothing() {
    let image = image();
    // From before anything is created to after the guest has reported in.
    for milliseconds in (0..600).step_by(40) {
        let mut server = Process::spawn(command(BASH, &["--image", &image]));
        let pid = server.child.id().unwrap();
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        server.signal("KILL").await;
        server.wait(END).await;
        let gone = async {
            // Twice, some time apart: a creation may have been under way.
            for _ in 0..2 {
                while !owned_by(pid).await.is_empty() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        tokio::time::timeout(GONE, gone)
            .await
            .unwrap_or_else(|_| panic!("killed after {milliseconds} ms, a container is left"));
    }
}

#[tokio::test]
async fn without_docker_it_says_so_and_ends_with_4() {
    let mut server = command(BASH, &["--image", &image()]);
    server.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    let (code, stdout, stderr) = Process::spawn(server).end().await;
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stdout.is_empty(), "{stdout}");
    assert!(
        stderr.contains("error: failed to connect to Docker at") && stderr.contains("hint: "),
        "{stderr}"
    );
}

#[tokio::test]
async fn without_the_image_it_says_so_and_ends_with_4() {
    let (code, stdout, stderr) =
        Process::spawn(command(BASH, &["--image", "gaia-no-such-image:none", "--pull", "never"])).end().await;
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stdout.is_empty(), "{stdout}");
    assert!(stderr.contains("failed to find image `gaia-no-such-image:none`"), "{stderr}");
}

#[tokio::test]
async fn a_check_tries_one_container() {
    let (code, stdout, stderr) = Process::spawn(command(BASH, &["--image", &image(), "--check"])).end().await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.is_empty() && stderr.contains("ok: a container of image"), "{stderr}");
}

#[tokio::test]
async fn a_wrong_command_line_is_exit_code_2() {
    for args in [
        &["--image", "x", "--timeout-sec", "601"][..],
        &["--image", "x", "--network", "maybe"],
        &["--image", "x", "--memory", "lots"],
        &["--image", "x", "--files-dir", "/nonexistent"],
        &["--answer-within-sec", "601"],
        &["surplus"],
    ] {
        let (code, stdout, stderr) = Process::spawn(command(BASH, args)).end().await;
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
        assert!(stdout.is_empty() && !stderr.is_empty(), "{args:?}");
    }
}
