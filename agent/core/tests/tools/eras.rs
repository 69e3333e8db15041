use std::time::{Duration, Instant};

use gaia_agent::tools::Protocol;
use serde_json::json;

use crate::support::*;

trials![
    a_server_that_exits_on_initialize_is_asked_in_the_modern_era,
    a_server_that_exits_on_discover_is_spoken_to_in_the_legacy_era,
    a_slow_starter_of_either_era,
    the_era_is_remembered,
    older_versions_are_spoken,
    an_unknown_version_is_told_and_tried,
    an_answer_with_a_wrong_id_ends_the_start,
    an_answer_that_is_cut_ends_the_start,
    a_server_that_dies_while_it_lists,
    a_flood_does_not_stretch_the_start,
];

fn version(host: &gaia_agent::tools::ToolHost) -> String {
    host.servers().next().unwrap().info().unwrap().protocol_version
}

async fn a_server_that_exits_on_initialize_is_asked_in_the_modern_era() {
    let host = start(&[peer("x", &["exits-on-initialize"])]).await.unwrap();
    assert_eq!(version(&host), "2026-07-28");
    assert_eq!(text(&call(&host, "echo", json!({ "text": "hi" })).await), "hi");
    host.close().await;
    let mut spec = peer("x", &["exits-on-initialize"]);
    spec.protocol = Protocol::Legacy;
    let error = start(&[spec]).await.unwrap_err().to_string();
    assert!(error.contains("exited with code 3 before it was ready"), "{error}");
}

async fn a_server_that_exits_on_discover_is_spoken_to_in_the_legacy_era() {
    let host = start(&[peer("x", &["exits-on-discover"])]).await.unwrap();
    assert_eq!(version(&host), "2025-11-25");
    host.close().await;
    let mut spec = peer("x", &["exits-on-discover"]);
    spec.protocol = Protocol::Modern;
    let error = start(&[spec]).await.unwrap_err().to_string();
    assert!(error.contains("exited with code 3 before it was ready"), "{error}");
}

/// Twelve seconds: rmcp's own automatic mode gives up after ten.
async fn a_slow_starter_of_either_era() {
    let slow = |name: &str, mode: &[&str]| {
        let mut spec = peer(name, &[&["slow", "12000"], mode].concat());
        spec.startup_timeout = Duration::from_secs(60);
        spec
    };
    // The modern one is started twice: its first answer is that it knows no `initialize`.
    let host = start(&[slow("old", &["named", "a"]), slow("new", &["modern"])]).await.unwrap();
    let versions: Vec<_> = host.servers().map(|server| server.info().unwrap().protocol_version).collect();
    assert_eq!(versions, ["2025-11-25", "2026-07-28"]);
    assert_eq!(text(&call(&host, "echo", json!({ "text": "hi" })).await), "hi");
    host.close().await;
}

/// A server that was found to be modern is not asked in the legacy era again when it is restarted.
async fn the_era_is_remembered() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &["modern"])], &notices, None).await.unwrap();
    let starts = || notices.all().iter().filter(|notice| notice.text == "ready in mode modern").count();
    assert_eq!(starts(), 2);
    let output = call(&host, "die", json!({})).await;
    assert!(text(&output).contains("It was restarted"), "{}", text(&output));
    assert_eq!((starts(), version(&host).as_str()), (3, "2026-07-28"));
    host.close().await;
}

async fn older_versions_are_spoken() {
    let host = start(&[peer("x", &["past"])]).await.unwrap();
    assert_eq!(version(&host), "2024-11-05");
    assert_eq!(text(&call(&host, "echo", json!({ "text": "hi" })).await), "hi");
    host.close().await;
}

/// Whether it works is the server's affair; that the version is unknown is told.
async fn an_unknown_version_is_told_and_tried() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &["future"])], &notices, None).await.unwrap();
    notices.wait_for("speaks version `2099-01-01` of the protocol, which is not known here").await;
    assert_eq!(text(&call(&host, "echo", json!({ "text": "hi" })).await), "hi");
    host.close().await;
}

async fn an_answer_with_a_wrong_id_ends_the_start() {
    let begin = Instant::now();
    let error = start(&[peer("x", &["wrong-id"])]).await.unwrap_err().to_string();
    assert!(error.contains("expected 0, got 999"), "{error}");
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}

async fn an_answer_that_is_cut_ends_the_start() {
    let mut spec = peer("x", &["garbled"]);
    spec.startup_timeout = Duration::from_secs(20);
    let begin = Instant::now();
    let error = start(&[spec]).await.unwrap_err().to_string();
    assert!(error.contains("the answer is not valid JSON-RPC"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

async fn a_server_that_dies_while_it_lists() {
    let error = start(&[peer("x", &["dies-on-list"])]).await.unwrap_err().to_string();
    assert!(error.contains("exited with code 5 before it was ready"), "{error}");
}

/// Four kinds of flood: lines that are noise at first sight, lines that begin as messages do (which cost most to
/// tell from one), messages of the protocol, and one line without an end.
async fn a_flood_does_not_stretch_the_start() {
    for mode in ["flood", "flood-braces", "flood-messages", "flood-line"] {
        let mut spec = peer("x", &[mode]);
        spec.startup_timeout = Duration::from_secs(3);
        let notices = Notices::default();
        let begin = Instant::now();
        let error = start_with(&[spec], &notices, None).await.unwrap_err().to_string();
        // Three seconds, and at most five to end the process.
        assert!(begin.elapsed() < Duration::from_secs(12), "{mode}: {:?}", begin.elapsed());
        assert!(error.contains("no answer to its first request within 3 s"), "{mode}: {error}");
        assert!(notices.all().len() < 300, "{mode}: {}", notices.all().len());
    }
}
