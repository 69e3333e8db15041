use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gaia_agent::tools::{CallFailure, Server, ToolHost};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::*;

trials![
    a_server_that_dies_is_restarted_three_times_and_no_call_repeated,
    a_server_that_died_between_calls,
    calls_that_die_together_restart_once,
    a_grandchild_is_killed_on_close,
    a_grandchild_is_killed_when_its_server_dies,
    a_server_that_ignores_the_end_is_killed,
    a_server_has_time_to_clean_up,
    a_dropped_host_leaves_nothing,
    a_shared_server_outlives_its_hosts,
];

async fn pid(host: &ToolHost) -> u32 {
    text(&call(host, "pid", json!({})).await).parse().unwrap()
}

async fn a_server_that_dies_is_restarted_three_times_and_no_call_repeated() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &[])], &notices, None).await.unwrap();
    for restart in 1..=3 {
        let before = pid(&host).await;
        let output = call(&host, "die", json!({})).await;
        assert_eq!((output.is_error, output.failure), (true, Some(CallFailure::Died)));
        let words = text(&output);
        assert!(words.starts_with("Server `x` died during this call, which was not repeated"), "{words}");
        assert!(words.contains("It was restarted") && words.contains("exited with code 7"), "{words}");
        assert!(words.contains("out of luck"), "{words}");
        notices.wait_for(&format!("restarted ({restart} of at most 3 times)")).await;
        assert_ne!(pid(&host).await, before);
    }
    let output = call(&host, "die", json!({})).await;
    assert!(
        text(&output).contains("not restarted: it has been restarted 3 times already"),
        "{}",
        text(&output)
    );
    let output = call(&host, "echo", json!({ "text": "a" })).await;
    assert_eq!(output.failure, Some(CallFailure::Died));
    assert!(text(&output).contains("had died before this call, which was not made"), "{}", text(&output));
    let died = notices.all().iter().filter(|notice| notice.text.contains("out of luck")).count();
    assert!(died >= 4, "{died}");
    host.close().await;
}

async fn a_server_that_died_between_calls() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &[])], &notices, None).await.unwrap();
    let before = pid(&host).await;
    let killed = std::process::Command::new("kill").args(["-9", &before.to_string()]).status().unwrap();
    assert!(killed.success());
    gone(before).await;
    let output = call(&host, "echo", json!({ "text": "a" })).await;
    assert_eq!(output.failure, Some(CallFailure::Died));
    assert!(text(&output).contains("was killed by signal 9"), "{}", text(&output));
    assert_eq!(text(&call(&host, "echo", json!({ "text": "b" })).await), "b");
    host.close().await;
}

async fn calls_that_die_together_restart_once() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &[])], &notices, None).await.unwrap();
    let die = async {
        notices.wait_for("hanging ").await;
        call(&host, "die", json!({})).await
    };
    let (hanging, died) = tokio::join!(call(&host, "hang", json!({})), die);
    assert_eq!((hanging.failure, died.failure), (Some(CallFailure::Died), Some(CallFailure::Died)));
    let restarts = notices.all().iter().filter(|notice| notice.text.starts_with("restarted (")).count();
    assert_eq!(restarts, 1);
    assert_eq!(text(&call(&host, "echo", json!({ "text": "b" })).await), "b");
    host.close().await;
}

async fn a_grandchild_is_killed_on_close() {
    let host = start(&[wrapped_peer("x", "\"$@\"", &[])]).await.unwrap();
    let server = pid(&host).await;
    let grandchild: u32 = text(&call(&host, "grandchild", json!({})).await).parse().unwrap();
    assert!(runs(grandchild) && runs(server));
    host.close().await;
    gone(grandchild).await;
    gone(server).await;
}

async fn a_grandchild_is_killed_when_its_server_dies() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    let grandchild: u32 = text(&call(&host, "grandchild", json!({})).await).parse().unwrap();
    assert_eq!(call(&host, "die", json!({})).await.failure, Some(CallFailure::Died));
    gone(grandchild).await;
    host.close().await;
}

async fn a_server_that_ignores_the_end_is_killed() {
    // The shell ignores SIGTERM and goes on after its server has ended with its input.
    let script = "trap '' TERM; \"$@\"; while :; do sleep 1; done";
    let host =
        start(&[wrapped_peer("a", script, &[]), wrapped_peer("b", script, &["named", "b"])]).await.unwrap();
    let server = pid(&host).await;
    let begin = Instant::now();
    host.close().await;
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(4) && took < Duration::from_secs(6), "{took:?}");
    gone(server).await;
}

async fn a_server_has_time_to_clean_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cleaned");
    let script = format!("\"$@\"; sleep 1.5; touch {}", file.display());
    let host = start(&[wrapped_peer("x", &script, &[])]).await.unwrap();
    host.close().await;
    assert!(file.exists());
}

async fn a_dropped_host_leaves_nothing() {
    let host = start(&[wrapped_peer("x", "\"$@\"; exit 0", &[])]).await.unwrap();
    let server = pid(&host).await;
    let grandchild: u32 = text(&call(&host, "grandchild", json!({})).await).parse().unwrap();
    drop(host);
    gone(server).await;
    gone(grandchild).await;
}

async fn a_shared_server_outlives_its_hosts() {
    let notices = Notices::default();
    let shared = Server::start(&peer("shared", &[]), &BTreeMap::new(), notices.sink()).await.unwrap();
    let shared = Arc::new(shared);
    let mut pids = Vec::new();
    for _ in 0..2 {
        let own = [peer("own", &["named", "own_tool"])];
        let host =
            ToolHost::start(&own, std::slice::from_ref(&shared), &BTreeMap::new(), notices.sink(), None)
                .await
                .unwrap();
        assert!(host.find("own/own_tool").is_some());
        pids.push(pid(&host).await);
        host.close().await;
    }
    assert_eq!(pids[0], pids[1]);
    assert!(runs(pids[0]));
    let clash = [peer("shared", &["named", "a"])];
    let error =
        ToolHost::start(&clash, std::slice::from_ref(&shared), &BTreeMap::new(), notices.sink(), None)
            .await
            .unwrap_err();
    assert!(error.to_string().contains("two MCP servers are called `shared`"), "{error}");

    let host = ToolHost::start(&[], std::slice::from_ref(&shared), &BTreeMap::new(), notices.sink(), None)
        .await
        .unwrap();
    shared.close().await;
    gone(pids[0]).await;
    let tool = host.find("echo").unwrap();
    let output = host.call(tool, serde_json::Map::new(), &CancellationToken::new()).await;
    assert!(text(&output).contains("it has been closed"), "{}", text(&output));
}
