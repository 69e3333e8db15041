use std::time::{Duration, Instant};

use gaia_agent::tools::{CallFailure, ToolHost};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::*;

trials![
    an_answer_of_a_gigabyte_costs_no_gigabyte,
    ten_thousand_tools_over_a_hundred_pages,
    names_that_are_too_long_are_cut_and_stay_apart,
    every_schema_is_offered_as_it_was_published,
    answers_with_wrong_ids_are_nobodys,
    a_second_answer_to_one_call_is_dropped,
    an_answer_after_the_cancel_is_dropped,
    a_server_that_dies_after_its_answer,
    a_server_that_dies_in_the_middle_of_its_answer,
    bytes_that_are_no_utf_8,
    what_a_server_asks_is_declined_and_told,
    a_storm_of_noise_in_a_call_is_bounded,
];

async fn lives(host: &ToolHost) {
    assert_eq!(text(&call(host, "echo", json!({ "text": "still here" })).await), "still here");
}

/// In a process of its own, so that the memory of other tests does not count.
async fn an_answer_of_a_gigabyte_costs_no_gigabyte() {
    let own = std::env::current_exe().unwrap();
    let output = tokio::process::Command::new(own).arg("measure-gigabyte").output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let growth_kib: u64 = told.trim().parse().unwrap_or_else(|_| panic!("{told} {output:?}"));
    // The limit of a line is 16 MiB, and its buffer may be twice as large while it grows.
    assert!(growth_kib < 64 * 1024, "{growth_kib} KiB");
}

/// Prints by how many KiB the peak of this process grew over the call.
pub(crate) async fn measure_gigabyte() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    lives(&host).await;
    let before = peak_kib();
    let output = call(&host, "gigabyte", json!({})).await;
    assert_eq!(output.failure, Some(CallFailure::Protocol), "{}", text(&output));
    assert!(text(&output).contains("over the limit of 16777216"), "{}", text(&output));
    // What there is of it is on disk, up to a limit.
    let mut kept = Kept::default();
    output.whole.as_ref().unwrap().copy_to(&mut kept).unwrap();
    assert_eq!(kept.bytes, 64 * 1024 * 1024);
    assert!(kept.start.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":"), "{:?}", kept.start);
    lives(&host).await;
    host.close().await;
    println!("{}", peak_kib() - before);
}

/// Counts, and keeps the beginning.
#[derive(Default)]
struct Kept {
    bytes: usize,
    start: Vec<u8>,
}

impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes += bytes.len();
        if self.start.is_empty() {
            self.start.extend_from_slice(&bytes[..bytes.len().min(64)]);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn peak_kib() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn ten_thousand_tools_over_a_hundred_pages() {
    let begin = Instant::now();
    let error = start(&[peer("x", &["many", "100", "100"])]).await.unwrap_err().to_string();
    assert!(error.contains("listed more than 1000 tools"), "{error}");
    assert!(begin.elapsed() < PATIENCE);
    let host = start(&[peer("x", &["many", "100", "10"])]).await.unwrap();
    assert_eq!(host.offered().len(), 1_000);
    assert_eq!(names(&host)[999], "tool_99_9");
    host.close().await;
}

async fn names_that_are_too_long_are_cut_and_stay_apart() {
    let host = start(&[peer("x", &["long-names"])]).await.unwrap();
    let names = names(&host);
    assert!(names.iter().all(|name| name.len() <= 64), "{names:?}");
    assert_ne!(names[0], names[1]);
    assert_eq!(names[2], "a_b_c");
    assert_eq!(host.find("x/a.b c").unwrap().model_name, "a_b_c");
    host.close().await;
}

async fn every_schema_is_offered_as_it_was_published() {
    let host = start(&[peer("x", &["schemas"])]).await.unwrap();
    assert_eq!(host.offered().len(), 10, "{:?}", host.hidden());
    let reference = host.find("reference").unwrap();
    assert_eq!(reference.input_schema["properties"]["a"]["$ref"], "#/$defs/A");
    assert!(gaia_agent::tools::validate(r#"{"a": "x"}"#, reference).is_err());
    assert!(gaia_agent::tools::validate(r#"{"a": 1}"#, reference).is_ok());
    let any = host.find("any").unwrap();
    assert!(gaia_agent::tools::validate("{}", any).is_err(), "one of both is needed");
    host.close().await;
}

fn quick() -> gaia_agent::tools::ServerSpec {
    let mut spec = peer("x", &[]);
    spec.tool_timeout = Duration::from_millis(1_500);
    spec
}

async fn answers_with_wrong_ids_are_nobodys() {
    let host = start(&[quick()]).await.unwrap();
    let output = call(&host, "wrong_id", json!({})).await;
    assert_eq!((output.is_error, output.failure), (true, Some(CallFailure::Timeout)), "{}", text(&output));
    lives(&host).await;
    host.close().await;
}

async fn a_second_answer_to_one_call_is_dropped() {
    let host = start(&[quick()]).await.unwrap();
    assert_eq!(text(&call(&host, "twice", json!({})).await), "first");
    lives(&host).await;
    host.close().await;
}

async fn an_answer_after_the_cancel_is_dropped() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &[])], &notices, None).await.unwrap();
    let cancel = CancellationToken::new();
    let trigger = async {
        notices.wait_for("late ").await;
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(call_with(&host, "late", json!({}), &cancel), trigger);
    assert_eq!(output.failure, Some(CallFailure::Cancelled));
    notices.wait_for("answered late").await;
    lives(&host).await;
    host.close().await;
}

async fn a_server_that_dies_after_its_answer() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    // The answer may still be on its way when the end is seen, so either is right; a hang is not.
    let output = call(&host, "die_after", json!({})).await;
    assert!(text(&output) == "last words" || output.failure == Some(CallFailure::Died), "{}", text(&output));
    let output = call(&host, "echo", json!({ "text": "a" })).await;
    assert!(output.failure.is_none() || output.failure == Some(CallFailure::Died));
    lives(&host).await;
    host.close().await;
}

async fn a_server_that_dies_in_the_middle_of_its_answer() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    let output = call(&host, "die_half", json!({})).await;
    assert!(output.is_error && output.failure.is_some(), "{}", text(&output));
    // Where half an answer counts as a broken one, the next call finds the server dead.
    let _ = call(&host, "echo", json!({ "text": "a" })).await;
    lives(&host).await;
    host.close().await;
}

async fn bytes_that_are_no_utf_8() {
    let host = start(&[peer("x", &[])]).await.unwrap();
    assert_eq!(text(&call(&host, "latin1", json!({})).await), "caf\u{fffd}");
    lives(&host).await;
    host.close().await;
}

async fn what_a_server_asks_is_declined_and_told() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &[])], &notices, None).await.unwrap();
    assert_eq!(text(&call(&host, "ask", json!({})).await), "asked");
    for (id, expected) in [
        (5000, r#""action":"decline""#),
        (5001, "this client does not offer sampling"),
        (5002, r#""roots":[]"#),
        (5003, r#""result":{}"#),
    ] {
        let answer = notices.wait_for(&format!("\"id\":{id},")).await.text;
        assert!(answer.contains(expected), "{answer}");
    }
    notices.wait_for("asked for a model's reply (sampling), which was declined").await;
    notices.wait_for("asked a person for input (elicitation), which was declined").await;
    lives(&host).await;
    host.close().await;
}

async fn a_storm_of_noise_in_a_call_is_bounded() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &[])], &notices, None).await.unwrap();
    assert_eq!(text(&call(&host, "storm", json!({})).await), "after the storm");
    lives(&host).await;
    host.close().await;
    assert!(notices.all().len() < 400, "{} notices of 400,000 lines", notices.all().len());
}
