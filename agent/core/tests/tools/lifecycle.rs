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
    two_hundred_starts_leave_no_process,
    a_hundred_samples_share_one_process,
    a_shared_server_is_restarted_for_whoever_needs_it,
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

/// In a process of its own, whose children are all of these starts.
async fn two_hundred_starts_leave_no_process() {
    let own = std::env::current_exe().unwrap();
    let output = tokio::process::Command::new(own).arg("measure-starts").output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "200 started, 0 left", "{output:?}");
}

/// Starts and ends servers in every way there is, and prints how many processes are left.
pub(crate) async fn measure_starts() {
    let mut started = 0;
    for round in 0..10 {
        let one = |index: usize| async move {
            let name = format!("s{index}");
            match index % 4 {
                // Dies by itself, is dropped, never gets ready, or is closed.
                0 => drop(start(&[peer(&name, &["exit"])]).await.unwrap_err()),
                1 => drop(start(&[peer(&name, &["named", "a"])]).await.unwrap()),
                2 => {
                    let mut spec = peer(&name, &["silent"]);
                    spec.startup_timeout = Duration::from_millis(100);
                    drop(start(&[spec]).await.unwrap_err());
                }
                _ => start(&[peer(&name, &["named", "a"])]).await.unwrap().close().await,
            }
        };
        started += futures_util::future::join_all((0..20).map(|index| one(round * 20 + index))).await.len();
    }
    let own = std::process::id();
    let children = || {
        let stats = fs_err::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| fs_err::read_to_string(entry.unwrap().path().join("stat")).ok());
        let of_ours = |stat: &String| {
            stat.rsplit(')').next().unwrap().split_whitespace().nth(1) == Some(&own.to_string())
        };
        stats.filter(of_ours).count()
    };
    // A dropped host is ended in the background.
    let emptied = async {
        while children() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(10), emptied).await;
    println!("{started} started, {} left", children());
}

async fn a_hundred_samples_share_one_process() {
    let notices = Notices::default();
    let shared = Server::start(&peer("shared", &[]), &BTreeMap::new(), notices.sink()).await.unwrap();
    let shared = Arc::new(shared);
    let sample = |number: usize| {
        let (shared, notices) = (shared.clone(), notices.clone());
        async move {
            let host =
                ToolHost::start(&[], std::slice::from_ref(&shared), &BTreeMap::new(), notices.sink(), None)
                    .await
                    .unwrap();
            let own = text(&call(&host, "echo", json!({ "text": number.to_string() })).await);
            assert_eq!(own, number.to_string());
            let pid = pid(&host).await;
            host.close().await;
            pid
        }
    };
    let pids = futures_util::future::join_all((0..100).map(sample)).await;
    let distinct: std::collections::BTreeSet<u32> = pids.into_iter().collect();
    assert_eq!(distinct.len(), 1, "{distinct:?}");
    assert!(runs(*distinct.first().unwrap()));
    shared.close().await;
}

/// One sample's restart is not counted against the next: each host pays for its own.
async fn a_shared_server_is_restarted_for_whoever_needs_it() {
    let notices = Notices::default();
    let shared =
        Arc::new(Server::start(&peer("shared", &[]), &BTreeMap::new(), notices.sink()).await.unwrap());
    for _ in 0..5 {
        let host =
            ToolHost::start(&[], std::slice::from_ref(&shared), &BTreeMap::new(), notices.sink(), None)
                .await
                .unwrap();
        let output = call(&host, "die", json!({})).await;
        assert!(text(&output).contains("It was restarted"), "{}", text(&output));
        assert_eq!(text(&call(&host, "echo", json!({ "text": "a" })).await), "a");
        host.close().await;
    }
    shared.close().await;
}
