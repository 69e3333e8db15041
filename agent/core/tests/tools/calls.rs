use std::time::{Duration, Instant};

use gaia_agent::message::{Image, Part};
use gaia_agent::tools::{CallFailure, validate};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::*;

trials![
    results_of_every_kind,
    a_hanging_call_times_out_and_the_next_one_works,
    a_cancelled_call_comes_back_at_once_and_the_server_hears_of_it,
    progress_keeps_a_call_alive_up_to_a_cap,
    calls_run_side_by_side,
    calls_beyond_the_limit_wait_for_their_turn,
    fifteen_megabytes_arrive,
    an_answer_over_the_limit_is_an_error_at_once,
    answers_that_are_none,
    noise_logs_and_changes_become_notices,
    a_modern_server_is_listened_to_for_changes,
    the_environment_is_minimal,
    arguments_are_checked_by_the_published_schema,
];

async fn results_of_every_kind() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    let output = call(&host, "echo", json!({ "text": "grüß 👋" })).await;
    assert_eq!((text(&output).as_str(), output.is_error, output.failure), ("grüß 👋", false, None));

    let output = call(&host, "x/image", json!({})).await;
    let image = Image { media_type: "image/png".to_owned(), data: "iVBORw0KGgo=".to_owned() };
    assert_eq!(output.content, [Part::Text { text: "a picture".to_owned() }, Part::Image(image)]);

    let output = call(&host, "structured", json!({})).await;
    assert_eq!(output.structured, Some(json!({ "answer": "42" })));
    assert_eq!(text(&output), "{\n  \"answer\": \"42\"\n}");

    let output = call(&host, "fail", json!({})).await;
    assert_eq!((text(&output).as_str(), output.is_error, output.failure), ("no such file", true, None));

    let output = call(&host, "refuse", json!({})).await;
    assert_eq!((output.is_error, output.failure), (true, Some(CallFailure::Protocol)));
    assert_eq!(text(&output), "The call of `refuse` on server `x` failed: not today (MCP error -32000)");
    assert!(
        host.find("echo").unwrap().annotations.read_only && !host.find("fail").unwrap().annotations.read_only
    );
    host.close().await;
}

async fn a_hanging_call_times_out_and_the_next_one_works() {
    let mut spec = peer("x", &[]);
    spec.tool_timeout = Duration::from_millis(700);
    let notices = Notices::default();
    let host = start_with(&[spec], &notices, None).await.unwrap();
    let begin = Instant::now();
    let output = call(&host, "hang", json!({})).await;
    assert_eq!((output.is_error, output.failure), (true, Some(CallFailure::Timeout)));
    assert!(
        text(&output).starts_with("`hang` on server `x` gave no result within 0.7 s"),
        "{}",
        text(&output)
    );
    assert!(begin.elapsed() < Duration::from_secs(5) && output.duration >= Duration::from_millis(700));
    notices.wait_for("cancelled ").await;
    assert_eq!(text(&call(&host, "echo", json!({ "text": "still here" })).await), "still here");
    host.close().await;
}

async fn a_cancelled_call_comes_back_at_once_and_the_server_hears_of_it() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &[])], &notices, None).await.unwrap();
    let cancel = CancellationToken::new();
    let trigger = async {
        notices.wait_for("hanging ").await;
        cancel.cancel();
        Instant::now()
    };
    let (output, cancelled_at) = tokio::join!(call_with(&host, "hang", json!({}), &cancel), trigger);
    assert_eq!((output.is_error, output.failure), (true, Some(CallFailure::Cancelled)));
    assert!(cancelled_at.elapsed() < Duration::from_secs(3));
    notices.wait_for("cancelled ").await;
    // A token that is cancelled before the call: nothing is sent.
    let output = call_with(&host, "die", json!({}), &cancel).await;
    assert_eq!(output.failure, Some(CallFailure::Cancelled));
    assert_eq!(text(&call(&host, "echo", json!({ "text": "alive" })).await), "alive");
    host.close().await;
}

async fn progress_keeps_a_call_alive_up_to_a_cap() {
    let mut spec = peer("x", &[]);
    spec.tool_timeout = Duration::from_millis(1_000);
    let host = start(&[spec]).await.unwrap();
    let output = call(&host, "progress", json!({ "steps": 6, "pause_ms": 300 })).await;
    assert_eq!(text(&output), "arrived");
    assert!(output.duration > Duration::from_millis(1_500));
    let output = call(&host, "progress", json!({ "steps": 100, "pause_ms": 300 })).await;
    assert_eq!(output.failure, Some(CallFailure::Timeout));
    assert!(output.duration >= Duration::from_secs(5) && output.duration < Duration::from_secs(9));
    host.close().await;
}

async fn calls_run_side_by_side() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    let cancel = CancellationToken::new();
    let quick = async {
        let outputs = futures_util::future::join_all((0..50).map(|number| {
            let host = &host;
            async move { text(&call(host, "echo", json!({ "text": number.to_string() })).await) }
        }));
        let outputs = outputs.await;
        cancel.cancel();
        outputs
    };
    let (hanging, outputs) = tokio::join!(call_with(&host, "hang", json!({}), &cancel), quick);
    assert_eq!(outputs, (0..50).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(hanging.failure, Some(CallFailure::Cancelled));
    host.close().await;
}

async fn calls_beyond_the_limit_wait_for_their_turn() {
    let mut spec = peer("x", &[]);
    spec.max_concurrent_calls = std::num::NonZeroUsize::new(2);
    let notices = Notices::default();
    let host = start_with(&[spec], &notices, None).await.unwrap();
    let tokens: Vec<_> = (0..4).map(|_| CancellationToken::new()).collect();
    let calls = tokens.iter().map(|token| call_with(&host, "hang", json!({}), token));
    let letting_go = async {
        // Whoever waits never comes to the server once it is cancelled.
        tokens[3].cancel();
        notices.wait_for("hanging ").await;
        tokens[0].cancel();
        notices.wait_for("cancelled ").await;
        let seen = || notices.all().iter().filter(|notice| notice.text.contains("hanging ")).count();
        while seen() < 3 {
            tokio::task::yield_now().await;
        }
        tokens[1].cancel();
        tokens[2].cancel();
    };
    let (outputs, ()) = tokio::join!(futures_util::future::join_all(calls), letting_go);
    assert!(outputs.iter().all(|output| output.failure == Some(CallFailure::Cancelled)), "{outputs:#?}");
    let texts: Vec<String> = notices.all().into_iter().map(|notice| notice.text).collect();
    let place = |part: &str, number: usize| {
        texts.iter().enumerate().filter(|(_, text)| text.contains(part)).nth(number).map(|(place, _)| place)
    };
    assert!(
        place("hanging ", 2) > place("cancelled ", 0),
        "the third came before the first was gone: {texts:#?}"
    );
    assert_eq!(place("hanging ", 3), None, "{texts:#?}");
    host.close().await;
}

async fn fifteen_megabytes_arrive() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    let output = call(&host, "big", json!({ "bytes": 15_000_000 })).await;
    assert_eq!((text(&output).len(), output.is_error), (15_000_000, false));
    host.close().await;
}

async fn an_answer_over_the_limit_is_an_error_at_once() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &[])], &notices, None).await.unwrap();
    let output = call(&host, "big", json!({ "bytes": 40_000_000 })).await;
    assert_eq!((output.is_error, output.failure), (true, Some(CallFailure::Protocol)));
    assert!(text(&output).contains("over the limit of 16777216; ask for less"), "{}", text(&output));
    assert_eq!(text(&call(&host, "echo", json!({ "text": "alive" })).await), "alive");
    host.close().await;
}

async fn answers_that_are_none() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    assert_eq!(text(&call(&host, "surrogate", json!({})).await), "a\u{fffd}\0b");
    for tool in ["garbled", "nothing"] {
        let output = call(&host, tool, json!({})).await;
        assert_eq!((output.is_error, output.failure), (true, Some(CallFailure::Protocol)), "{tool}");
    }
    host.close().await;
}

async fn noise_logs_and_changes_become_notices() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &[])], &notices, None).await.unwrap();
    assert_eq!(text(&call(&host, "noise", json!({})).await), "done");
    notices.wait_for("DEBUG calling noise").await;
    assert_eq!(text(&call(&host, "log", json!({})).await), "logged");
    let log = notices.wait_for("disk almost full").await;
    assert_eq!((log.server.as_str(), log.level), ("x", gaia_agent::event::NoticeLevel::Warning));
    assert_eq!(text(&call(&host, "change", json!({})).await), "changed");
    notices.wait_for("changed its tools: added `fresh`; the model's tools stay as they were offered").await;
    assert!(host.find("fresh").is_none());
    host.close().await;
}

async fn a_modern_server_is_listened_to_for_changes() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &["modern-change"])], &notices, None).await.unwrap();
    notices.wait_for("somebody listens").await;
    assert_eq!(text(&call(&host, "change", json!({})).await), "changed");
    notices.wait_for("changed its tools: added `fresh`; the model's tools stay as they were offered").await;
    host.close().await;
}

async fn the_environment_is_minimal() {
    let mut spec = peer("x", &[]);
    env_of(&mut spec).insert("MY_KEY".to_owned(), "my-value".to_owned());
    let host = start(&[spec]).await.unwrap();
    let environment = text(&call(&host, "env", json!({})).await);
    let names: Vec<&str> =
        environment.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert!(
        environment.contains("MY_KEY=[redacted: MY_KEY]\n")
            && environment.contains("GAIA_SAMPLE_ID=sample-1\n")
    );
    let allowed = [
        "HOME",
        "LOGNAME",
        "PATH",
        "SHELL",
        "USER",
        "LANG",
        "LC_ALL",
        "TERM",
        "TMPDIR",
        "TZ",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "MY_KEY",
        "GAIA_SAMPLE_ID",
    ];
    let others: Vec<_> = names.iter().filter(|name| !allowed.contains(name)).collect();
    assert!(others.is_empty(), "{others:?}");
    host.close().await;
}

async fn arguments_are_checked_by_the_published_schema() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    let tool = host.find("echo").unwrap();
    assert!(validate(r#"{"text": "a"}"#, tool).is_ok() && validate("", tool).is_ok());
    let error = validate(r#"{"text": 1}"#, tool).unwrap_err();
    assert!(error.contains("`text`: 1 is not of type \"string\""), "{error}");
    host.close().await;
}
