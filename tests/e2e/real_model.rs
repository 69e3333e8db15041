//! Samples through the whole line with a real, if tiny, model. It answers next to nothing; what counts is that
//! every sample ends in one outcome with a clean trajectory, and that its calls reached the tools.

use std::collections::BTreeMap;
use std::path::Path;

use gaia_agent::{AgentEvent, Outcome, Status};
use serde_json::Value;

use crate::gaia::{Desk, SHELL_AND_SUBMIT, results};
use crate::llama::{CONTEXT_TOKENS, Llama};

const SAMPLES: usize = 10;

#[tokio::test]
async fn a_real_model_ends_ten_samples_cleanly_streaming() {
    ended_cleanly("react", SAMPLES, "stream = true").await;
}

#[tokio::test]
async fn a_real_model_ends_ten_samples_cleanly_in_whole_replies() {
    ended_cleanly("react", SAMPLES, "stream = false").await;
}

#[tokio::test]
async fn a_real_model_plans_and_delegates_and_ends_its_samples_cleanly() {
    for strategy in ["plan", "delegate"] {
        ended_cleanly(strategy, 2, "stream = true").await;
    }
}

async fn ended_cleanly(strategy: &str, samples: usize, delivery: &str) {
    let llama = Llama::start().await;
    // A helper takes two, and the manager one before and one after.
    let max_steps = if strategy == "delegate" { 4 } else { 2 };
    let desk = Desk::new();
    let dataset = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/samples");
    let config = format!(
        r#"
[dataset]
path = "{}"
limit = {samples}

[model]
name = "smol"
base_url = "{}"
{delivery}
context_window = {CONTEXT_TOKENS}
max_retries = 2

[model.params]
tool_choice = "required"
temperature = 0
max_tokens = 48

[agent]
max_steps = {max_steps}
answer_tool = "submit/submit"

[strategy]
name = "{strategy}"
helper_steps = 2

[run]
concurrency = 1

{SHELL_AND_SUBMIT}"#,
        dataset.display(),
        llama.base_url
    );
    desk.write("c.toml", &config);
    let ended = desk.gaia(&["run", "c.toml"]).await;
    llama.close().await;

    let run = desk.runs().pop().unwrap_or_else(|| panic!("no run: {ended:#?}"));
    let results = results(&run);
    assert_eq!(results.len(), samples, "a sample has no outcome: {ended:#?}");
    let errors: Vec<&Value> = results.iter().filter(|result| result["status"] == "error").collect();
    assert_eq!(ended.code, if errors.is_empty() { 0 } else { 3 }, "{ended:#?}");
    assert!(errors.is_empty(), "this model never fails for good: {errors:#?}");
    let mut calls = 0;
    for result in &results {
        let task = result["task_id"].as_str().unwrap();
        let outcome = clean_trajectory(&run.join("samples").join(task).join("1/events.jsonl"));
        assert_eq!(result["status"], serde_json::to_value(outcome.status).unwrap(), "{task}");
        assert_eq!(result["answer"], serde_json::to_value(&outcome.answer).unwrap(), "{task}");
        assert_eq!(outcome.answer.is_some(), outcome.status == Status::Answered, "{task}");
        assert!(outcome.usage.input_tokens > 0 && outcome.usage.output_tokens > 0, "{task}: {outcome:?}");
        calls += outcome.tool_calls;
    }
    // The grammar that forces a call lets text come first, and this model often writes until it is cut off.
    assert!(samples < SAMPLES || calls >= 3, "only {calls} forced calls in {samples} samples");
}

/// Each event is one of ours, begin and end stand where they belong, and every call has exactly one result before
/// whoever made it is asked again.
fn clean_trajectory(path: &Path) -> Outcome {
    let text = fs_err::read_to_string(path).unwrap();
    let events: Vec<(String, AgentEvent)> = text
        .lines()
        .map(|line| {
            let branch =
                serde_json::from_str::<Value>(line).unwrap()["branch"].as_str().unwrap_or("").to_owned();
            (branch, serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")))
        })
        .collect();
    assert!(matches!(events.first(), Some((_, AgentEvent::Started { .. }))), "{text}");
    // By role.
    let mut open: BTreeMap<&str, BTreeMap<&str, u32>> = BTreeMap::new();
    let mut finished = 0;
    for (branch, event) in &events {
        let open = open.entry(branch).or_default();
        match event {
            AgentEvent::ModelCall { .. } | AgentEvent::Finished { .. } => {
                assert!(
                    open.values().all(|results| *results == 1),
                    "calls without one result: {open:?}\n{text}"
                );
                open.clear();
                finished += u32::from(matches!(event, AgentEvent::Finished { .. }));
            }
            AgentEvent::ModelReply { tool_calls, .. } => {
                open.extend(tool_calls.iter().map(|call| (call.id.as_str(), 0)));
                assert_eq!(open.len(), tool_calls.len(), "two calls under one id\n{text}");
            }
            AgentEvent::ToolResult { call_id, .. } => {
                *open.get_mut(call_id.as_str()).unwrap_or_else(|| panic!("no call `{call_id}`\n{text}")) += 1;
            }
            _ => {}
        }
    }
    assert_eq!(finished, 1, "{text}");
    match events.last() {
        Some((_, AgentEvent::Finished { outcome })) => outcome.clone(),
        other => panic!("the last event is {other:?}"),
    }
}
