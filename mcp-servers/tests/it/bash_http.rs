//! Whose container it is, over HTTP.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;

use crate::support::{BASH, CONTAINER_ID, Client, ERAS, Era, HttpServer, container_gone, http, image, text};

const ONE: &str = "/sandbox/0b7f2d5e-6f0f-4a58-9a38-5a1c5ad8b9a1/mcp";
const OTHER: &str = "/sandbox/5d1a9c1e-3c39-4c7c-8f0e-2b7f6e6a1d42/mcp";
const GONE: Duration = Duration::from_secs(5);

async fn server(args: &[&str]) -> HttpServer {
    let image = image();
    http(BASH, &[&["--image", &image], args].concat(), &[]).await
}

async fn first_line(client: &Client, command: &str) -> String {
    let result = client.call("bash", json!({ "command": command })).await;
    assert_eq!(result.is_error, Some(false), "{}", text(&result));
    text(&result).lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn each_legacy_session_has_a_container_that_ends_with_it() {
    let server = server(&[]).await;
    let first = server.connect("/mcp", Era::Legacy).await;
    let second = server.connect("/mcp", Era::Legacy).await;
    first_line(&first, "cd /tmp && export FRUIT=pear").await;
    assert_eq!(first_line(&first, "echo $PWD $FRUIT").await, "/tmp pear");
    assert_eq!(first_line(&second, "echo $PWD $FRUIT").await, "/workspace");
    let container = first_line(&first, CONTAINER_ID).await;
    assert_ne!(first_line(&second, CONTAINER_ID).await, container);
    // Sends DELETE.
    first.close().await;
    container_gone(&container, GONE).await;
    assert_eq!(first_line(&second, "echo alive").await, "alive");
}

#[tokio::test]
async fn the_url_names_the_container_of_a_client_without_sessions() {
    let server = server(&[]).await;
    let client = server.connect(ONE, Era::Modern).await;
    first_line(&client, "cd /tmp && export FRUIT=pear").await;
    assert_eq!(first_line(&client, "echo $PWD $FRUIT").await, "/tmp pear");
    let container = first_line(&client, CONTAINER_ID).await;
    client.close().await;
    for era in ERAS {
        let again = server.connect(ONE, era).await;
        assert_eq!(first_line(&again, CONTAINER_ID).await, container, "{era:?}");
        again.close().await;
    }
    let other = server.connect(OTHER, Era::Modern).await;
    assert_ne!(first_line(&other, CONTAINER_ID).await, container);

    let delete = |path: &str| reqwest::Client::new().delete(format!("{}{path}", server.base)).send();
    assert_eq!(delete(ONE).await.unwrap().status(), StatusCode::NO_CONTENT);
    container_gone(&container, GONE).await;
    assert_eq!(delete(ONE).await.unwrap().status(), StatusCode::NOT_FOUND);
    assert_eq!(delete("/sandbox/guessable/mcp").await.unwrap().status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_client_without_session_and_name_is_told_a_url() {
    let server = server(&[]).await;
    let client = server.connect("/mcp", Era::Modern).await;
    assert!(client.tools().await.iter().any(|tool| tool.name == "bash"));
    let result = client.call("bash", json!({ "command": "true" })).await;
    assert_eq!(result.is_error, Some(true));
    let path = text(&result).split_whitespace().find(|word| word.starts_with("/sandbox/")).expect("a URL");
    let named = server.connect(path, Era::Modern).await;
    assert_eq!(first_line(&named, "echo ok").await, "ok");
}

#[tokio::test]
async fn the_token_names_the_container_of_a_client_without_sessions() {
    // Any token will do when the server asks for none, so long as nobody can guess it.
    let open = server(&[]).await;
    let (one, other) = ("f7c3bc1d-808e-4f70-a6c5-0e1d8a3b4c5d", "1b4e28ba-2fa1-41d2-883f-0016d3cca427");
    let image = image();
    let args = ["--image", &image, "--token-env", "SANDBOX_TOKENS"];
    let tokens = format!("{one} {other}");
    let closed = http(BASH, &args, &[("SANDBOX_TOKENS", &tokens)]).await;
    for server in [&open, &closed] {
        let first = server.connect_with("/mcp", Era::Modern, Some(one)).await.unwrap();
        first_line(&first, "cd /tmp && export FRUIT=pear").await;
        let container = first_line(&first, CONTAINER_ID).await;
        let again = server.connect_with("/mcp", Era::Modern, Some(one)).await.unwrap();
        assert_eq!(first_line(&again, "echo $PWD $FRUIT").await, "/tmp pear");
        assert_eq!(first_line(&again, CONTAINER_ID).await, container);
        let second = server.connect_with("/mcp", Era::Modern, Some(other)).await.unwrap();
        assert_ne!(first_line(&second, CONTAINER_ID).await, container);
        // The URL is more particular, and a session has a container of its own.
        let by_url = server.connect_with(ONE, Era::Modern, Some(one)).await.unwrap();
        assert_ne!(first_line(&by_url, CONTAINER_ID).await, container);
        let session = server.connect_with("/mcp", Era::Legacy, Some(one)).await.unwrap();
        assert_ne!(first_line(&session, CONTAINER_ID).await, container);
        assert!(!server.process.stderr().contains(one));
    }
    let guessable = open.connect_with("/mcp", Era::Modern, Some("secret")).await.unwrap();
    let result = guessable.call("bash", json!({ "command": "true" })).await;
    assert_eq!(result.is_error, Some(true), "{}", text(&result));
    assert!(closed.connect_with("/mcp", Era::Modern, Some(&"x".repeat(40))).await.is_err());
}

#[tokio::test]
async fn an_idle_container_is_removed_and_the_client_told() {
    let server = server(&["--idle-timeout-sec", "1"]).await;
    for (path, era) in [("/mcp", Era::Legacy), (ONE, Era::Modern)] {
        let client = server.connect(path, era).await;
        let container = first_line(&client, CONTAINER_ID).await;
        container_gone(&container, GONE + Duration::from_secs(2)).await;
        assert_eq!(
            first_line(&client, "true").await,
            "sandbox was reset: it was idle for 1 s; files, processes and variables of before are gone"
        );
        // A running call is not idle.
        assert_eq!(first_line(&client, "sleep 2; echo done").await, "done");
    }
}

#[tokio::test]
async fn containers_are_capped() {
    let server = server(&["--max-containers", "1"]).await;
    let first = server.connect(ONE, Era::Modern).await;
    first_line(&first, "true").await;
    let second = server.connect(OTHER, Era::Modern).await;
    let result = second.call("bash", json!({ "command": "true" })).await;
    assert_eq!(result.is_error, Some(true));
    assert!(text(&result).starts_with("all 1 containers of this server are in use"), "{}", text(&result));
    let removed = reqwest::Client::new().delete(format!("{}{ONE}", server.base)).send().await.unwrap();
    assert_eq!(removed.status(), StatusCode::NO_CONTENT);
    assert_eq!(first_line(&second, "echo mine").await, "mine");
}

#[tokio::test]
async fn a_signal_removes_all_containers() {
    let mut server = server(&[]).await;
    let legacy = server.connect("/mcp", Era::Legacy).await;
    let modern = server.connect(ONE, Era::Modern).await;
    let containers = [first_line(&legacy, CONTAINER_ID).await, first_line(&modern, CONTAINER_ID).await];
    server.process.signal("TERM").await;
    assert_eq!(server.process.wait(Duration::from_secs(2)).await, Some(0));
    for container in containers {
        container_gone(&container, GONE).await;
    }
}
