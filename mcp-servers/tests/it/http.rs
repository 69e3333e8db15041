//! Who is let in over HTTP, and how the server ends.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, StatusCode};
use serde_json::json;

use crate::support::{ERAS, Era, Process, SUBMIT, command, http};

const TOKEN: &str = "0123456789abcdef0123";

fn initialize() -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "raw", "version": "0" } } })
    .to_string()
}

async fn post(url: &str, headers: &[(&str, &str)], body: String) -> StatusCode {
    let mut all = HeaderMap::new();
    for (name, value) in
        [("content-type", "application/json"), ("accept", "application/json, text/event-stream")]
            .iter()
            .chain(headers)
    {
        all.insert(reqwest::header::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    Client::new().post(url).headers(all).body(body).send().await.unwrap().status()
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_on_every_path() {
    let server = http(SUBMIT, &[], &[]).await;
    for path in ["/mcp", "/", "/sandbox/0b7f2d5e-6f0f-4a58-9a38-5a1c5ad8b9a1/mcp"] {
        let url = format!("{}{path}", server.base);
        for headers in [
            &[("host", "evil.example")][..],
            &[("host", "127.0.0.1.evil.example:80")],
            &[("origin", "https://evil.example")],
            &[("origin", "null")],
        ] {
            assert_eq!(post(&url, headers, initialize()).await, StatusCode::FORBIDDEN, "{path} {headers:?}");
        }
    }
    let url = format!("{}/mcp", server.base);
    assert_eq!(post(&url, &[], initialize()).await, StatusCode::OK);
    assert_eq!(post(&url, &[("host", "localhost:1")], initialize()).await, StatusCode::OK);
    assert_eq!(post(&format!("{}/", server.base), &[], initialize()).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn allowed_hosts_and_origins_are_served() {
    let server =
        http(SUBMIT, &["--allowed-host", "box.example", "--allowed-origin", "https://app.example"], &[])
            .await;
    let url = format!("{}/mcp", server.base);
    let status =
        post(&url, &[("host", "box.example"), ("origin", "https://app.example")], initialize()).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn the_bearer_token_is_needed_by_both_eras() {
    let server = http(SUBMIT, &["--token-env", "SUBMIT_TOKEN"], &[("SUBMIT_TOKEN", TOKEN)]).await;
    let url = format!("{}/mcp", server.base);
    assert_eq!(post(&url, &[], initialize()).await, StatusCode::UNAUTHORIZED);
    assert_eq!(
        post(&url, &[("authorization", "Bearer wrong")], initialize()).await,
        StatusCode::UNAUTHORIZED
    );
    for era in ERAS {
        assert!(server.connect_with("/mcp", era, None).await.is_err(), "{era:?}");
        let client = server.connect_with("/mcp", era, Some(TOKEN)).await.unwrap();
        assert_eq!(client.call("submit", json!({ "answer": "17" })).await.is_error, Some(false), "{era:?}");
        client.close().await;
    }
    assert!(!server.process.stderr().contains(TOKEN));
}

#[tokio::test]
async fn an_address_others_can_reach_needs_consent_and_a_token() {
    for (args, part) in [
        (&["--http", "0.0.0.0:0"][..], "--allow-remote"),
        (&["--http", "0.0.0.0:0", "--allow-remote"], "--token-env"),
        (
            &["--http", "[::]:0", "--allow-remote", "--token-env", "GAIA_NO_SUCH_TOKEN"],
            "`GAIA_NO_SUCH_TOKEN`",
        ),
    ] {
        let (code, stdout, stderr) = Process::spawn(command(SUBMIT, args)).end().await;
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(part) && stdout.is_empty(), "{args:?}: {stderr}");
    }
}

#[tokio::test]
async fn a_taken_port_is_exit_code_4() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, _stdout, stderr) = Process::spawn(command(SUBMIT, &["--http", &address])).end().await;
    assert_eq!(code, Some(4));
    assert!(stderr.contains(&format!("failed to listen on `{address}`")), "{stderr}");
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let server = http(SUBMIT, &[], &[]).await;
    let url = format!("{}/mcp", server.base);
    assert_eq!(post(&url, &[], "x".repeat(5 << 20)).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(post(&url, &[], initialize()).await, StatusCode::OK);
}

#[tokio::test]
async fn a_signal_ends_the_server_within_two_seconds_with_clients_connected() {
    for signal in ["TERM", "INT"] {
        let mut server = http(SUBMIT, &[], &[]).await;
        let _legacy = server.connect("/mcp", Era::Legacy).await;
        let _modern = server.connect("/mcp", Era::Modern).await;
        server.process.signal(signal).await;
        assert_eq!(server.process.wait(Duration::from_secs(2)).await, Some(0), "{signal}");
    }
}

#[tokio::test]
async fn on_stdio_a_signal_and_a_closed_stdin_end_the_server() {
    for era in ERAS {
        let (mut server, _client) = crate::support::stdio(SUBMIT, &[], era).await;
        server.signal("TERM").await;
        assert_eq!(server.wait(Duration::from_secs(2)).await, Some(0));

        let (mut server, client) = crate::support::stdio(SUBMIT, &[], era).await;
        client.close().await;
        assert_eq!(server.wait(Duration::from_secs(2)).await, Some(0));
    }
    // Before any request.
    let mut server = Process::spawn(command(SUBMIT, &[]));
    drop(server.child.stdin.take());
    assert_eq!(server.wait(Duration::from_secs(2)).await, Some(0));
}
