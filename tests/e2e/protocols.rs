//! The same loop over another API and over calls as text.

use gaia_agent::model::{Api, ToolCalls};
use gaia_agent::{AgentEvent, FailureKind, Status, StopReason};
use gaia_tests::scripted::{CallForm, Fault, Options, Script, TaskScript, turn};
use serde_json::json;

use crate::support::{QUESTION, Worked, bash_server, settings, submit_server, work_as};

fn script(turns: impl IntoIterator<Item = gaia_tests::scripted::Turn>) -> Script {
    Script::new().task(QUESTION, turns)
}

fn notices(worked: &Worked) -> Vec<&str> {
    let texts = worked.events.iter().filter_map(|event| match event {
        AgentEvent::ModelNotice { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The server checks on every request that thoughts come back unchanged and before what came with them, and that
/// every call has one output.
#[tokio::test]
async fn the_responses_api_carries_thoughts_and_calls_over_every_turn() {
    for stream in [true, false] {
        let turns = [
            turn::bash("echo 17 > /tmp/n")
                .with_reasoning("First I write it down.")
                .with_content("I begin.")
                .and_call("bash", json!({"command": "echo $(( $(cat /tmp/n) + 1 ))"})),
            turn::bash("echo none").with_content("Without a thought."),
            turn::text("I think aloud.").with_reasoning("Nothing to do."),
            turn::raw_call("submit", r#"{"answer": "#).with_reasoning("Broken."),
            turn::submit("18").with_reasoning("Done."),
        ];
        let specs = [bash_server(), submit_server()];
        let worked = work_as(script(turns), Options::default(), &specs, &settings(), |model| {
            model.api = Api::Responses;
            model.stream = stream;
        })
        .await;
        assert_eq!((worked.answer(), worked.outcome.steps), (Some("18"), 5), "{:?}", worked.outcome);
        assert!(worked.results()[1].0.starts_with("18\n"), "{:?}", worked.results());
        assert!(worked.outcome.usage.input_tokens > 0);
        let last = worked.model.requests().pop().unwrap().body;
        let thoughts = last["input"].as_array().unwrap().iter().filter(|item| item["type"] == "reasoning");
        assert_eq!(thoughts.count(), 3, "{last:#}");
        worked.close().await;
    }
}

#[tokio::test]
async fn the_responses_api_survives_the_same_faults() {
    use Fault::*;
    for stream in [true, false] {
        let faults =
            [RateLimited, ServerError, Html, Reset, Cut, Slow, ErrorEvent, NoFinish, Empty, EmptyBody];
        let runs = faults.into_iter().map(|fault| async move {
            let turns = [
                turn::raw_call("submit", "{}").with_reasoning("Hm.").with_faults([fault]),
                turn::submit("blue").with_faults([fault]),
            ];
            let worked =
                work_as(script(turns), Options::default(), &[submit_server()], &settings(), |model| {
                    model.api = Api::Responses;
                    model.stream = stream;
                })
                .await;
            assert_eq!(worked.answer(), Some("blue"), "{fault:?}, stream {stream}: {:?}", worked.outcome);
            worked.close().await;
        });
        futures_util::future::join_all(runs).await;
    }
}

#[tokio::test]
async fn the_responses_api_ends_in_the_same_ways() {
    let overflown = [
        turn::bash("seq 1 3000").with_reasoning("Hm."),
        turn::bash("echo small"),
        turn::submit("blue").with_faults([Fault::Overflow]),
    ];
    let specs = [bash_server(), submit_server()];
    let responses = |model: &mut gaia_agent::model::ModelSettings| model.api = Api::Responses;
    let worked = work_as(script(overflown), Options::default(), &specs, &settings(), responses).await;
    assert_eq!(worked.answer(), Some("blue"), "{:?}", worked.outcome);
    worked.close().await;

    let cut = [turn::text("FINAL ANSWER: bl").with_finish_reason("length"), turn::submit("blue")];
    let worked = work_as(script(cut), Options::default(), &[submit_server()], &settings(), responses).await;
    assert!(worked.prompts()[0].contains("cut off") && worked.answer() == Some("blue"));
    worked.close().await;

    let refused = [turn::submit("blue").with_faults([Fault::QuotaGone])];
    let worked =
        work_as(script(refused), Options::default(), &[submit_server()], &settings(), responses).await;
    assert_eq!(worked.outcome.error.as_ref().unwrap().kind, FailureKind::ModelRefused);
    worked.close().await;

    let mut settings = settings();
    settings.max_steps = 1;
    let looping =
        TaskScript::new(QUESTION, [turn::raw_call("submit", "{}")]).forced_answer("FINAL ANSWER: blue");
    let worked =
        work_as(Script::new().with(looping), Options::default(), &[submit_server()], &settings, responses)
            .await;
    assert_eq!((worked.outcome.stop, worked.answer()), (StopReason::StepLimit, Some("blue")));
    worked.close().await;
}

#[tokio::test]
async fn calls_as_text_keep_all_rules_of_the_loop() {
    for (api, stream) in [(Api::Chat, true), (Api::Chat, false), (Api::Responses, true)] {
        let turns = [
            turn::bash("echo 17 > /tmp/n")
                .with_content("I begin.")
                .and_call("bash", json!({"command": "echo $(( $(cat /tmp/n) + 1 ))"})),
            turn::raw_call("submit", r#"{"answer": "#),
            turn::raw_call("calculator", "{}"),
            turn::text(
                "I would write `<tool_call>{\"name\": \"submit\", \"arguments\": {\"answer\": \"no\"}}</tool_call>` now.",
            ),
            turn::text("<tool_call>\nsubmit blue\n</tool_call>"),
            turn::submit("18").and_call("bash", json!({"command": "echo last"})),
        ];
        let specs = [bash_server(), submit_server()];
        let worked = work_as(script(turns), Options::default(), &specs, &settings(), |model| {
            model.api = api;
            model.stream = stream;
            model.tool_calls = ToolCalls::Text;
        })
        .await;
        assert_eq!((worked.answer(), worked.outcome.steps), (Some("18"), 6), "{:?}", worked.outcome);
        let results = worked.results();
        assert!(results[1].0.starts_with("18\n") && !results[1].1, "{results:?}");
        assert!(results[2].1 && results[2].0.contains("not valid JSON"), "{results:?}");
        assert!(results[3].1 && results[3].0.contains("`calculator`"), "{results:?}");
        assert!(results[4].1 && results[4].0.contains("names no tool"), "{results:?}");
        assert!(results[6].0.starts_with("last"), "{results:?}");
        assert_eq!(worked.prompts().len(), 1, "{:?}", worked.prompts());
        let requests = worked.model.requests();
        assert!(requests.iter().all(|request| request.body.get("tools").is_none()));
        let last = requests.last().unwrap().body.to_string();
        assert!(last.contains("<tool_response name=\\\"bash\\\">\\n18"), "{last}");
        worked.close().await;
    }
}

#[tokio::test]
async fn calls_as_text_end_in_the_last_call_without_tools() {
    let mut settings = settings();
    settings.max_steps = 2;
    let looping = TaskScript::new(QUESTION, [turn::raw_call("submit", "{}")])
        .repeat_last()
        .forced_answer("FINAL ANSWER: blue");
    let worked =
        work_as(Script::new().with(looping), Options::default(), &[submit_server()], &settings, |model| {
            model.tool_calls = ToolCalls::Text;
        })
        .await;
    assert_eq!((worked.outcome.status, worked.outcome.stop), (Status::Answered, StopReason::StepLimit));
    assert_eq!(worked.answer(), Some("blue"));
    worked.close().await;
}

#[tokio::test]
async fn calls_that_a_server_leaves_in_the_text_are_made_and_told_unless_that_is_off() {
    let options = || Options { call_form: CallForm::Text, ..Options::default() };
    let turns = || [turn::bash("echo 17").with_content("I look."), turn::submit("17")];
    let specs = [bash_server(), submit_server()];
    let worked = work_as(script(turns()), options(), &specs, &settings(), |_| {}).await;
    assert_eq!((worked.answer(), worked.outcome.steps), (Some("17"), 2), "{:?}", worked.outcome);
    let told = notices(&worked);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("left 1 tool call") && told[0].contains("Hermes"), "{told:?}");
    worked.close().await;

    let worked = work_as(script(turns()), options(), &specs, &settings(), |model| {
        model.tool_calls = ToolCalls::NativeOnly;
    })
    .await;
    assert_eq!((worked.outcome.tool_calls, notices(&worked).len()), (0, 0));
    worked.close().await;
}
