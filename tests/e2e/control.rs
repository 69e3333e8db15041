//! A run that is told what to do while it works, and one that says everything that happens.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use gaia_tests::scripted::{Options, Script, ScriptedModel, turn};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::gaia::{Desk, Ended, json, results};
use crate::support::eventually;

/// Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn rows(count: usize) -> Vec<(String, String)> {
    (0..count).map(|n| (format!("task-{n:02}"), format!("What is number {n:02}?"))).collect()
}

/// A desk whose questions are answered by one turn each, which takes `latency_ms(number)`.
async fn desk(count: usize, concurrency: usize, latency_ms: impl Fn(usize) -> u64) -> (Desk, ScriptedModel) {
    let rows = rows(count);
    let script = rows.iter().enumerate().fold(Script::new(), |script, (n, (_, question))| {
        script.task(question, [turn::submit("blue").with_latency_ms(latency_ms(n))])
    });
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    let lines: Vec<_> =
        rows.iter().map(|(id, question)| (id.as_str(), question.as_str(), 1, "blue")).collect();
    desk.dataset(&lines);
    desk.write(
        "c.toml",
        &format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{}\"\n[agent]\nanswer_tool = \
             \"submit/submit\"\n[run]\nconcurrency = {concurrency}\n[mcp_servers.submit]\ncommand = \
             \"gaia-mcp-submit\"\n",
            model.base_url
        ),
    );
    (desk, model)
}

async fn status(desk: &Desk) -> Value {
    let ended = desk.gaia(&["ctl", "last", "status", "--json"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

async fn order(desk: &Desk, words: &[&str]) -> Ended {
    let ended = desk.gaia(&[&["ctl", "last"][..], words].concat()).await;
    assert_eq!(ended.code, 0, "{words:?}: {ended:#?}");
    assert_eq!(ended.stdout, "", "{ended:#?}");
    ended
}

#[tokio::test]
async fn a_run_is_paused_resumed_and_made_wider_and_narrower_while_it_works() {
    let (desk, model) = desk(24, 2, |_| 300).await;
    let child = desk.command(&["run", "c.toml"]).spawn().unwrap();
    model.wait_until(|stats| stats.requests >= 2).await;
    let run = desk.runs().pop().unwrap();
    let mode = std::os::unix::fs::MetadataExt::mode(&fs_err::metadata(run.join("control")).unwrap());
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");

    let said = order(&desk, &["pause"]).await;
    assert!(said.stderr.contains("no new sample starts"), "{said:#?}");
    eventually("what ran has ended", LIMIT, async || {
        status(&desk).await["running"].as_array().unwrap().is_empty()
    })
    .await;
    let paused = status(&desk).await;
    assert_eq!((&paused["state"], &paused["concurrency"]), (&"paused".into(), &2.into()), "{paused:#}");
    let done = usize::try_from(paused["done"].as_u64().unwrap()).unwrap();
    assert_eq!(paused["waiting"].as_u64().unwrap() as usize, 24 - done, "{paused:#}");
    assert!((2..12).contains(&done), "{paused:#}");
    assert_eq!((model.stats().requests as usize, results(&run).len()), (done, done));
    let again = desk.gaia(&["ctl", "last", "pause"]).await;
    assert_eq!(again.code, 2, "{again:#?}");
    assert!(again.stderr.contains("paused already"), "{again:#?}");

    order(&desk, &["concurrency", "6"]).await;
    assert_eq!(model.stats().max_in_flight, 2);
    order(&desk, &["resume"]).await;
    model.wait_until(|stats| stats.max_in_flight == 6).await;
    order(&desk, &["concurrency", "1"]).await;
    eventually("one at a time", LIMIT, async || {
        let status = status(&desk).await;
        let running = status["running"].as_array().unwrap();
        let table = desk.gaia(&["ctl", "last", "status"]).await.stdout;
        assert!(table.contains("of at most 1"), "{table}");
        running.len() == 1
    })
    .await;
    let ended = Ended::from(child.wait_with_output().await.unwrap());
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert_eq!((results(&run).len(), model.stats().max_in_flight), (24, 6));
    assert!(ended.stderr.contains("paused: no new sample starts"), "the run says so too: {}", ended.stderr);
    let changes = json(&run.join("run.json"))["sessions"][0]["changes"].clone();
    let changes: Vec<&str> =
        changes.as_array().unwrap().iter().map(|change| change["what"].as_str().unwrap()).collect();
    assert!(
        changes.len() == 4 && changes[1].starts_with("concurrency 2 → 6"),
        "the run remembers: {changes:#?}"
    );

    assert!(!run.join("control").exists());
    let nobody = desk.gaia(&["ctl", "last", "pause"]).await;
    assert_eq!(nobody.code, 2, "{nobody:#?}");
    for words in ["no process works on the run", "gaia resume"] {
        assert!(nobody.stderr.contains(words), "{nobody:#?}");
    }
    model.close().await;
}

#[tokio::test]
async fn a_cancelled_task_has_no_outcome_and_a_resume_runs_it() {
    let (desk, model) = desk(8, 2, |n| if n == 0 { 3_600_000 } else { 50 }).await;
    let child = desk.command(&["run", "c.toml"]).spawn().unwrap();
    model.wait_until(|stats| stats.ok >= 3).await;
    let unknown = desk.gaia(&["ctl", "last", "cancel", "task-99"]).await;
    assert!(unknown.code == 2 && unknown.stderr.contains("no task `task-99`"), "{unknown:#?}");
    let said = order(&desk, &["cancel", "task-00"]).await;
    assert!(said.stderr.contains("gaia resume"), "{said:#?}");
    let ended = Ended::from(child.wait_with_output().await.unwrap());
    assert_eq!(ended.code, 3, "{ended:#?}");
    assert!(ended.stderr.contains("1 of 8 samples have no outcome"), "{ended:#?}");
    let run = desk.runs().pop().unwrap();
    let outcomes = results(&run);
    assert_eq!(outcomes.len(), 7);
    assert!(outcomes.iter().all(|result| result["task_id"] != "task-00" && result["status"] == "answered"));

    // The next session asks for it again; killed, it leaves its socket, which is no obstacle to the one after it.
    let mut child = desk.command(&["resume", "last"]).spawn().unwrap();
    model.wait_until(|stats| stats.requests >= 9).await;
    child.kill().await.unwrap();
    assert!(run.join("control").exists());
    let nobody = desk.gaia(&["ctl", "last", "status"]).await;
    assert!(nobody.code == 2 && nobody.stderr.contains("no process works on the run"), "{nobody:#?}");
    let child = desk.command(&["resume", "last"]).spawn().unwrap();
    model.wait_until(|stats| stats.requests >= 10).await;
    let status = status(&desk).await;
    assert_eq!(status["running"][0]["task_id"], "task-00", "{status:#}");
    assert_eq!(status["running"][0]["doing"], "model", "{status:#}");
    order(&desk, &["cancel", "task-00"]).await;
    let ended = Ended::from(child.wait_with_output().await.unwrap());
    assert_eq!(ended.code, 3, "{ended:#?}");
    model.close().await;
}

/// Every event of a sample as its log has it.
fn logged(run: &Path, task: &str) -> Vec<Value> {
    let path = run.join("samples").join(task).join("1/events.jsonl");
    fs_err::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn everything_that_happens_is_told_at_once_and_in_order() {
    let (desk, model) = desk(5, 2, |n| if n == 4 { 3_600_000 } else { 20 }).await;
    let mut child = desk.command(&["run", "c.toml", "--events"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut events: Vec<Value> = Vec::new();
    // It comes while the run works: the last sample is cancelled only once its question is told.
    while let Some(line) = lines.next_line().await.unwrap() {
        let event: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        if event["task_id"] == "task-04" && event["type"] == "model_call" {
            order(&desk, &["cancel", "task-04"]).await;
        }
        events.push(event);
    }
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).await.unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(3), "{stderr}");
    assert!(stderr.contains("Report: ") && stderr.contains("overall"), "the table is for people: {stderr}");

    let run = desk.runs().pop().unwrap();
    assert!(events.iter().all(|event| event["time"].is_string()));
    assert_eq!((&events[0]["type"], &events[0]["requested"]), (&"run_started".into(), &5.into()));
    let last = events.last().unwrap();
    assert_eq!((&last["type"], &last["exit_code"]), (&"run_ended".into(), &3.into()));
    assert_eq!((&last["totals"]["correct"], &last["totals"]["missing"]), (&4.into(), &1.into()));
    let changed = events.iter().find(|event| event["type"] == "run_changed").unwrap();
    assert!(changed["what"].as_str().unwrap().contains("cancelled task `task-04`"), "{changed}");
    for (task, _) in rows(5) {
        let mut of_task: Vec<Value> =
            events.iter().filter(|event| event["task_id"] == task.as_str()).cloned().collect();
        let end = of_task.pop().unwrap();
        assert_eq!(end["type"], "sample_ended", "{end:#}");
        if task == "task-04" {
            assert_eq!((&end["status"], &end["correct"]), (&Value::Null, &Value::Null));
        } else {
            assert_eq!((&end["status"], &end["correct"]), (&"answered".into(), &true.into()));
        }
        assert!(end.get("truth").is_none());
        for event in &mut of_task {
            let event = event.as_object_mut().unwrap();
            assert_eq!(event.shift_remove("epoch"), Some(1.into()));
            event.shift_remove("task_id");
        }
        assert_eq!(of_task, logged(&run, &task), "{task}: what is told is what is kept");
    }
    model.close().await;
}

#[tokio::test]
async fn a_reader_that_goes_away_does_not_hurt_the_run() {
    let (desk, model) = desk(6, 1, |_| 20).await;
    let mut command = desk.command(&["run", "c.toml", "--events"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next_line().await.unwrap().unwrap();
    drop(lines);
    let ended = Ended::from(child.wait_with_output().await.unwrap());
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert_eq!(results(&desk.runs().pop().unwrap()).len(), 6);
    assert!(ended.stderr.contains("Report: "), "{ended:#?}");
    model.close().await;
}
