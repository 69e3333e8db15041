use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gaia_tests::installed;
use gaia_tests::machine::program;
use gaia_tests::made_run::{self, MadeRun, TRUTH};
use serde_json::Value;
use tokio::process::Command;

struct Ended {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

async fn gaia(runs: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(program("gaia"));
    let output = command.arg("export").args(arguments).arg("--runs").arg(runs).output().await.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ended { code: output.status.code(), stdout: output.stdout, stderr }
}

/// What the log of each sample says by itself: how often each type of event is in its last attempt.
fn events(run: &MadeRun, task: &str) -> BTreeMap<String, usize> {
    let text = fs_err::read(run.sample(task).unwrap().join("events.jsonl")).unwrap();
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let kind = event["type"].as_str().unwrap().to_owned();
        if kind == "started" {
            counts.clear();
        }
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

async fn read_by_inspect(log: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("view/read_inspect.py");
    let python = installed::inspect().join("python/bin/python");
    let output = Command::new(python).arg(script).arg(log).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn inspect_reads_its_log_and_counts_what_we_count() {
    let runs = tempfile::tempdir().unwrap();
    let run = made_run::whole(runs.path(), 12, 4, 200).unwrap();
    let out = runs.path().join("log.eval");
    let ended = gaia(runs.path(), &["last", "--format", "inspect", "--out", out.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("holds the truths") && ended.stderr.contains("make them public"),
        "{}",
        ended.stderr
    );
    let log = read_by_inspect(&out).await;
    assert_eq!(
        (&log["status"], &log["model"], &log["asked"]),
        (&"success".into(), &"some-model".into(), &12.into())
    );
    // 0, 3, 6 and 9 are wrong, of which 9 has no answer.
    assert!((log["accuracy"].as_f64().unwrap() - 8.0 / 12.0).abs() < 1e-9);
    let samples = log["samples"].as_array().unwrap();
    assert_eq!(
        (samples.len(), log["summaries"].as_array().unwrap().len(), &log["one"]),
        (12, 12, &true.into())
    );
    for sample in samples {
        let counts = events(&run, sample["id"].as_str().unwrap());
        let roles: Vec<&str> =
            sample["roles"].as_array().unwrap().iter().map(|role| role.as_str().unwrap()).collect();
        let of_role = |role: &str| roles.iter().filter(|found| **found == role).count();
        assert_eq!(roles[..3], ["system", "user", "assistant"]);
        assert_eq!(of_role("assistant"), counts["model_reply"]);
        assert_eq!(of_role("tool"), counts["tool_result"]);
        assert_eq!(sample["calls"], counts["tool_result"]);
        assert_eq!(
            (&sample["replies"], &sample["results"]),
            (&counts["model_reply"].into(), &counts["tool_result"].into())
        );
        let is_right = sample["answer"] == TRUTH;
        assert_eq!(sample["scores"]["gaia_official"], if is_right { "C" } else { "I" });
        assert_eq!((&sample["target"], &sample["input_tokens"]), (&TRUTH.into(), &3600.into()));
    }
}

#[tokio::test]
async fn inspect_reads_hostile_and_partial_runs_too() {
    let runs = tempfile::tempdir().unwrap();
    let hostile = made_run::hostile(runs.path()).unwrap();
    let partial = made_run::partial(runs.path()).unwrap();
    let out = runs.path().join("hostile.eval");
    let arguments = [hostile.id.as_str(), "--format", "inspect", "--out", out.to_str().unwrap()];
    assert_eq!(gaia(runs.path(), &arguments).await.code, Some(0));
    let log = read_by_inspect(&out).await;
    let samples = log["samples"].as_array().unwrap();
    assert_eq!((samples.len(), &samples[2]["images"]), (3, &16.into()));

    // A damaged outcome is an error and not left out in silence.
    let arguments = [partial.id.as_str(), "--format", "inspect"];
    let ended = gaia(runs.path(), &arguments).await;
    assert!(ended.code == Some(1) && ended.stderr.contains("result.json"), "{}", ended.stderr);
    fs_err::remove_file(partial.sample("damaged").unwrap().join("result.json")).unwrap();
    let out = runs.path().join("partial.eval");
    let arguments = [partial.id.as_str(), "--format", "inspect", "--out", out.to_str().unwrap()];
    assert_eq!(gaia(runs.path(), &arguments).await.code, Some(0));
    let log = read_by_inspect(&out).await;
    assert_eq!((&log["status"], &log["asked"]), (&"cancelled".into(), &5.into()));
    assert_eq!(log["samples"].as_array().unwrap().len(), 1);
    assert_eq!(log["samples"][0]["roles"].as_array().unwrap().len(), 6, "of the last attempt only");
}

#[tokio::test]
async fn the_formats_agree_and_hold_no_truth() {
    let runs = tempfile::tempdir().unwrap();
    let run = made_run::whole(runs.path(), 7, 4, 200).unwrap();
    // A truth that nobody handed in.
    for task in fs_err::read_dir(run.path.join("samples")).unwrap() {
        let task = task.unwrap().file_name().into_string().unwrap();
        run.result(&task, Some("an answer"), TRUTH, 4).unwrap();
    }
    let text = async |arguments: &[&str]| {
        let ended = gaia(runs.path(), &[&["last"], arguments].concat()).await;
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        String::from_utf8(ended.stdout).unwrap()
    };
    let document = text(&["--format", "json"]).await;
    let traces = text(&["--format", "otel"]).await;
    let samples = text(&["--format", "csv"]).await;
    assert!(!samples.contains(TRUTH));
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["samples"].as_array().unwrap().len(), 7);
    assert_eq!(document["samples"][0]["correct"], false);
    let turns: usize = document["samples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sample| sample["turns"].as_array().unwrap().len())
        .sum();
    let table = text(&["--format", "csv", "--table", "turns"]).await;
    assert_eq!(table.matches("20261102T090000Z-whole,").count(), turns);
    assert_eq!(turns, 28);
    let call = &document["samples"][0]["turns"][0]["calls"][0];
    assert_eq!((&call["tool"], &call["is_error"]), (&"bash/bash".into(), &false.into()));
    assert!(call["arguments"]["command"].as_str().unwrap().starts_with("ls -la"));
    check_traces(&traces, 7, turns);
}

/// Each line is a trace of its own: one root, every parent in it, nothing that ends before it begins, and as many replies
/// as there are turns.
fn check_traces(text: &str, samples: usize, turns: usize) {
    let (mut ids, mut replies, mut calls) = (BTreeSet::new(), 0, 0);
    assert_eq!(text.lines().count(), samples);
    for line in text.lines() {
        let trace: Value = serde_json::from_str(line).unwrap();
        let spans = trace["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        let own: BTreeSet<&str> = spans.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
        let roots = spans.iter().filter(|span| span["parentSpanId"] == "").count();
        assert_eq!((roots, own.len()), (1, spans.len()));
        for span in spans {
            let hex = |name: &str, length: usize| {
                let id = span[name].as_str().unwrap();
                assert!(id.len() == length && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name} {id}");
            };
            hex("traceId", 32);
            hex("spanId", 16);
            let parent = span["parentSpanId"].as_str().unwrap();
            assert!(parent.is_empty() || own.contains(parent), "{span}");
            let nanoseconds = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
            assert!(nanoseconds("startTimeUnixNano") <= nanoseconds("endTimeUnixNano"), "{span}");
            replies += usize::from(span["name"] == "chat some-model");
            calls += usize::from(span["name"].as_str().unwrap().starts_with("execute_tool "));
            ids.insert((
                span["traceId"].as_str().unwrap().to_owned(),
                span["spanId"].as_str().unwrap().to_owned(),
            ));
        }
    }
    let traces: BTreeSet<&str> = ids.iter().map(|(trace, _)| trace.as_str()).collect();
    assert_eq!((traces.len(), replies, calls), (samples, turns, turns));
}

#[tokio::test]
async fn what_cannot_be_exported_is_said_and_nothing_is_lost() {
    let runs = tempfile::tempdir().unwrap();
    MadeRun::new(runs.path(), "20261101T090000Z-new", &[("one", 1)]).unwrap();
    let out = runs.path().join("kept");
    fs_err::write(&out, "what was there").unwrap();
    let out = out.to_str().unwrap();
    let id = "20261101T090000Z-new";
    for (arguments, expected) in [
        (vec!["2020", "--format", "json"], "no run in"),
        (vec![id, "--format", "inspect", "--out", out, "--overwrite"], "has nothing to export"),
        (vec![id, "--format", "otel", "--out", out, "--overwrite"], "has nothing to export"),
        (vec![id, "--format", "json", "--out", out], "is there already"),
        (vec![id, "--format", "json", "--table", "turns"], "--table is for"),
    ] {
        let ended = gaia(runs.path(), &arguments).await;
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{arguments:?}: {}", ended.stderr);
        assert_eq!(fs_err::read_to_string(out).unwrap(), "what was there");
    }
    let ended = gaia(runs.path(), &[id, "--format", "csv", "--out", out, "--overwrite"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(fs_err::read_to_string(out).unwrap().contains("one,1,1,missing"));
    assert_eq!(fs_err::read_dir(runs.path()).unwrap().count(), 2, "no half-written file stays");
}
