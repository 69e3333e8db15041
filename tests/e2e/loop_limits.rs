//! What happens when something runs out: one last call without tools, and never a lost answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gaia_agent::tools::ToolHost;
use gaia_agent::{AgentEvent, Budget, FailureKind, Status, StopReason, Task};
use gaia_tests::scripted::{Fault, Options, Script, ScriptedModel, TaskScript, turn};
use tokio_util::sync::CancellationToken;

use crate::support::{QUESTION, Recorder, bash_server, chat, settings, submit_server, work, work_with};

fn looping(forced: &str) -> Script {
    Script::new().with(
        TaskScript::new(QUESTION, [turn::raw_call("submit", "{}").with_usage(600, 400)])
            .repeat_last()
            .forced_answer(forced),
    )
}

#[tokio::test]
async fn a_model_that_loops_to_the_step_limit_is_asked_for_its_answer() {
    let mut settings = settings();
    settings.max_steps = 5;
    let worked = work(looping("The boat was blue.\nFINAL ANSWER: blue"), &[submit_server()], &settings).await;
    assert_eq!((worked.outcome.status, worked.outcome.stop), (Status::Answered, StopReason::StepLimit));
    assert_eq!((worked.answer(), worked.outcome.steps), (Some("blue"), 6));
    assert!(worked.prompts().last().unwrap().starts_with("The step limit"), "{:?}", worked.prompts());
    worked.close().await;
}

#[tokio::test]
async fn the_last_reply_counts_as_a_whole_when_it_has_no_marker() {
    let mut settings = settings();
    settings.max_steps = 1;
    let worked = work(looping(" blue \n"), &[submit_server()], &settings).await;
    assert_eq!(worked.answer(), Some("blue"));
    worked.close().await;
}

#[tokio::test]
async fn an_empty_last_reply_is_no_answer_and_not_an_error() {
    let mut settings = settings();
    settings.max_steps = 1;
    let worked = work(looping("FINAL ANSWER:"), &[submit_server()], &settings).await;
    assert_eq!((worked.outcome.status, worked.outcome.stop), (Status::NoAnswer, StopReason::StepLimit));
    assert_eq!((worked.answer(), &worked.outcome.error), (None, &None));
    worked.close().await;
}

#[tokio::test]
async fn tokens_and_money_run_out() {
    let price =
        gaia_agent::settings::Price { input: 1_000.0, cached: 0.0, output: 1_000.0, reasoning: 1_000.0 };
    for (budget, reason) in [
        (Budget { tokens: Some(2_500), ..Budget::default() }, StopReason::TokenLimit),
        (Budget { cost_usd: Some(2.5), price: Some(price), ..Budget::default() }, StopReason::CostLimit),
    ] {
        let mut settings = settings();
        settings.budget = budget;
        let worked = work(looping("FINAL ANSWER: blue"), &[submit_server()], &settings).await;
        // 1,000 tokens or one dollar a turn: the third turn passes the limit, the fourth is the last call.
        assert_eq!((worked.outcome.stop, worked.outcome.steps, worked.answer()), (reason, 4, Some("blue")));
        worked.close().await;
    }
}

#[tokio::test]
async fn time_that_runs_out_in_the_middle_of_a_call_ends_the_call_and_keeps_the_answer() {
    let task = TaskScript::new(
        QUESTION,
        [turn::bash("sleep 100").and_call("bash", serde_json::json!({"command": "echo never"}))],
    )
    .forced_answer("FINAL ANSWER: blue");
    let mut settings = settings();
    settings.sample_timeout = Duration::from_secs(4);
    let worked = work(Script::new().with(task), &[bash_server(), submit_server()], &settings).await;
    assert_eq!((worked.outcome.stop, worked.answer()), (StopReason::TimeLimit, Some("blue")));
    let results = worked.results();
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(results.iter().all(|(_, is_error)| *is_error), "{results:?}");
    assert!(results[1].0.contains("not called"), "{results:?}");
    assert!(worked.outcome.timing.wall < 20.0, "{:?}", worked.outcome.timing);
    worked.close().await;
}

#[tokio::test]
async fn time_that_runs_out_while_the_model_thinks_leads_to_the_last_call() {
    let late = turn::submit("late").with_faults([Fault::Silent]);
    let task = TaskScript::new(QUESTION, [late]).forced_answer("FINAL ANSWER: blue");
    let mut settings = settings();
    settings.sample_timeout = Duration::from_secs(1);
    let worked = work(Script::new().with(task), &[submit_server()], &settings).await;
    assert_eq!(
        (worked.outcome.stop, worked.answer()),
        (StopReason::TimeLimit, Some("blue")),
        "{:?}",
        worked.outcome
    );
    worked.close().await;
}

#[tokio::test]
async fn an_overflow_is_compacted_and_tried_once_more() {
    let turns = [
        turn::bash("seq 1 3000"),
        turn::bash("echo small"),
        turn::submit("blue").with_faults([Fault::Overflow]),
    ];
    let script = Script::new().task(QUESTION, turns);
    let worked = work(script, &[bash_server(), submit_server()], &settings()).await;
    assert_eq!(worked.answer(), Some("blue"));
    let compacted =
        worked.events.iter().filter(|event| matches!(event, AgentEvent::Compacted { .. })).count();
    assert_eq!(compacted, 1);
    worked.close().await;
}

#[tokio::test]
async fn a_window_that_cannot_be_saved_leads_to_the_last_call() {
    // Nothing is old enough to be dropped before the last call, which needs all but the question dropped.
    let script = Script::new().with(
        TaskScript::new(
            QUESTION,
            [turn::bash("seq 1 3000"), turn::submit("never").with_faults([Fault::Overflow, Fault::Overflow])],
        )
        .forced_answer("FINAL ANSWER: blue"),
    );
    let worked =
        work_with(script, Options::default(), &[bash_server(), submit_server()], &settings(), true).await;
    assert_eq!((worked.outcome.stop, worked.answer()), (StopReason::ContextLimit, Some("blue")));
    worked.close().await;
}

#[tokio::test]
async fn a_provider_that_never_recovers_is_an_error_and_its_words_are_no_answer() {
    let faults = [Fault::ServerError; 5];
    let script = Script::new().task(QUESTION, [turn::submit("blue").with_faults(faults)]);
    let worked = work(script, &[submit_server()], &settings()).await;
    let failure = worked.outcome.error.as_ref().unwrap();
    assert_eq!((worked.outcome.status, failure.kind), (Status::Error, FailureKind::ModelUnavailable));
    assert!(
        failure.message.contains("after 5 attempts") && failure.message.contains("HTTP 500"),
        "{}",
        failure.message
    );
    assert_eq!((worked.answer(), &worked.outcome.raw_answer), (None, &None));
    worked.close().await;
}

#[tokio::test]
async fn a_cancelled_task_ends_at_once_with_an_outcome() {
    let script = Script::new().task(QUESTION, [turn::submit("late").with_latency_ms(60_000)]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let settings = settings();
    let tools =
        ToolHost::start(&[submit_server()], &[], &BTreeMap::new(), Arc::new(|_| {}), Some("submit/submit"))
            .await
            .unwrap();
    let task = Task { id: "t".to_owned(), question: QUESTION.to_owned(), attachment: None, attempt: 1 };
    let (sink, cancel, chat) = (Recorder::default(), CancellationToken::new(), chat(&model.base_url, true));
    let running = gaia_agent::run_task(&task, chat.as_ref(), &tools, &settings, &sink, &cancel);
    let (outcome, ()) = tokio::join!(running, async {
        model.wait_until(|stats| stats.requests == 1).await;
        cancel.cancel();
    });
    assert_eq!((outcome.status, outcome.stop), (Status::Error, StopReason::Cancelled));
    assert_eq!(outcome.error.unwrap().kind, FailureKind::Cancelled);
    tools.close().await;
    model.close().await;
}

#[tokio::test]
async fn the_model_is_told_when_little_is_left_and_each_reply_says_what_it_cost() {
    let price =
        gaia_agent::settings::Price { input: 1_000.0, cached: 0.0, output: 1_000.0, reasoning: 1_000.0 };
    let mut settings = settings();
    settings.budget = Budget { cost_usd: Some(10.0), price: Some(price), ..Budget::default() };
    let worked = work(looping("FINAL ANSWER: blue"), &[submit_server()], &settings).await;
    let told: Vec<&str> =
        worked.prompts().into_iter().filter(|text| text.starts_with("Little is left")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("2.00 of 10.00 US dollars") && told[0].contains("`submit`"), "{told:?}");
    let costs: Vec<Option<f64>> = worked
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::ModelReply { cost_usd, .. } => Some(*cost_usd),
            _ => None,
        })
        .collect();
    // The last call has a bill of its own.
    assert_eq!(costs[..10], [Some(1.0); 10]);
    assert!((costs.iter().flatten().sum::<f64>() - worked.outcome.cost_usd.unwrap()).abs() < 1e-9);
    worked.close().await;
}

#[tokio::test]
async fn a_budget_that_the_run_has_spent_ends_a_sample_with_its_answer() {
    let mut settings = settings();
    let shared = gaia_agent::SharedBudget::new(Some(10_000), None, 8_500, 0.0);
    settings.run_budget = Some(Arc::new(shared));
    let worked = work(looping("FINAL ANSWER: blue"), &[submit_server()], &settings).await;
    assert_eq!(
        (worked.outcome.stop, worked.outcome.steps, worked.answer()),
        (StopReason::RunLimit, 3, Some("blue"))
    );
    assert!(worked.prompts().last().unwrap().starts_with("The budget of the whole run"));
    worked.close().await;
}
