//! What a hundred samples at a time take in memory. `tests/examples/line_bench.rs` has a container for each as well.

use std::path::Path;
use std::time::Duration;

use gaia_tests::machine::used;
use gaia_tests::scripted::{Options, Script, ScriptedModel, turn};
use serde_json::Value;

use crate::gaia::{Desk, Ended, results};

const SAMPLES: usize = 120;
const AT_ONCE: usize = 100;
const TURNS: usize = 5;

/// What a sample says a turn, and has in its conversation from then on.
const SAID_BYTES: usize = 4 * 1024;

const LIMIT_KILOBYTES: u64 = 100 * 1000;

#[tokio::test]
async fn a_hundred_samples_at_a_time_take_less_than_a_hundred_megabytes() {
    let questions: Vec<String> = (0..SAMPLES).map(|number| format!("What is number {number:03}?")).collect();
    let script = questions.iter().fold(Script::new(), |script, question| {
        // Each is told that its answer is empty, and goes on.
        let empty =
            turn::raw_call("submit", r#"{"answer": ""}"#).with_content(&"word ".repeat(SAID_BYTES / 5));
        let turns = std::iter::repeat_n(empty, TURNS - 1).chain([turn::submit("blue")]);
        script.task(question, turns)
    });
    // Long enough for all to be under way at the same time.
    let options = Options { latency: Duration::from_secs(1), ..Options::default() };
    let model = ScriptedModel::start(script, options).await.unwrap();
    let desk = Desk::new();
    let ids: Vec<String> = (0..SAMPLES).map(|number| format!("task-{number:03}")).collect();
    let rows: Vec<_> = ids
        .iter()
        .zip(&questions)
        .map(|(id, question)| (id.as_str(), question.as_str(), 1, "blue"))
        .collect();
    desk.dataset(&rows);
    desk.write(
        "c.toml",
        &format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = {:?}\n[run]\nconcurrency = {AT_ONCE}\n\
             [mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
            model.base_url
        ),
    );
    let child = desk.command(&["run", "c.toml"]).spawn().unwrap();
    let pid = child.id().unwrap();
    // Whatever comes after this is less.
    model.wait_until(|stats| stats.ok as usize >= SAMPLES * TURNS - 1).await;
    let peak_kilobytes = used(pid).unwrap().peak_kilobytes;
    let ended = Ended::from(child.wait_with_output().await.unwrap());
    assert_eq!(ended.code, 0, "{ended:#?}");
    let runs = desk.runs();
    let run = runs.first().unwrap();
    let results = results(run);
    assert_eq!(results.iter().filter(|result| result["answer"] == "blue").count(), SAMPLES);
    let spans: Vec<(String, String)> = ids.iter().map(|id| span(run, id)).collect();
    let at_work = |now: &String| spans.iter().filter(|(begun, ended)| begun <= now && now < ended).count();
    let most = spans.iter().map(|(begun, _)| at_work(begun)).max().unwrap();
    assert!(most >= AT_ONCE * 9 / 10, "at most {most} were at work at the same time");
    assert!(peak_kilobytes < LIMIT_KILOBYTES, "{peak_kilobytes} kB");
    model.close().await;
}

/// When the loop began with a sample and when it was done, as its events say.
fn span(run: &Path, id: &str) -> (String, String) {
    let text = fs_err::read_to_string(run.join("samples").join(id).join("1/events.jsonl")).unwrap();
    let of_type = |name: &str| {
        let mut events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let event = events.find(|event| event["type"] == name).unwrap();
        event["time"].as_str().unwrap().to_owned()
    };
    (of_type("started"), of_type("finished"))
}
