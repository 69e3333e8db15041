//! The rules of the loop, each with real servers and a model that does what the rule is about.

use gaia_agent::{AgentEvent, FailureKind, Message, Status, StopReason};
use gaia_tests::scripted::{Fault, Script, TaskScript, turn};
use serde_json::json;

use crate::support::{
    QUESTION, bash_server, first_messages, settings, submit_server, text_of, work, work_with,
};

fn script(turns: impl IntoIterator<Item = gaia_tests::scripted::Turn>) -> Script {
    Script::new().task(QUESTION, turns)
}

#[tokio::test]
async fn the_system_prompt_and_the_question_come_first() {
    let worked = work(script([turn::submit("blue")]), &[submit_server()], &settings()).await;
    let [Message::System { content }, Message::User { content: question }] = first_messages(&worked.events)
    else {
        panic!("not a system prompt and a question: {:?}", worked.events);
    };
    assert_eq!((content.as_str(), text_of(question).as_str()), ("You answer questions.", QUESTION));
    worked.close().await;
}

#[tokio::test]
async fn the_answer_is_what_the_answer_tool_took() {
    let worked = work(script([turn::submit("  blue ")]), &[submit_server()], &settings()).await;
    assert_eq!(worked.outcome.status, Status::Answered);
    assert_eq!(worked.outcome.stop, StopReason::AnswerTool);
    assert_eq!(worked.answer(), Some("blue"));
    assert_eq!(worked.outcome.raw_answer.as_deref(), Some("  blue "));
    assert_eq!((worked.outcome.steps, worked.outcome.tool_calls), (1, 1));
    worked.close().await;
}

#[tokio::test]
async fn calls_beside_the_answer_are_still_made_and_answered() {
    let both = turn::bash("echo first")
        .and_call("submit", json!({"answer": "blue"}))
        .and_call("bash", json!({"command": "echo last"}));
    let worked = work(script([both]), &[bash_server(), submit_server()], &settings()).await;
    assert_eq!(worked.answer(), Some("blue"));
    let results = worked.results();
    assert_eq!(results.len(), 3);
    assert!(results[0].0.starts_with("first"), "{results:?}");
    assert!(results[2].0.starts_with("last"), "{results:?}");
    assert_eq!(worked.outcome.tool_calls, 3);
    worked.close().await;
}

#[tokio::test]
async fn two_tools_and_submit_in_one_turn_run_in_order() {
    let all = turn::bash("echo 17 > /tmp/n")
        .and_call("bash", json!({"command": "echo $(( $(cat /tmp/n) + 1 ))"}))
        .and_call("submit", json!({"answer": "18"}));
    let worked = work(script([all]), &[bash_server(), submit_server()], &settings()).await;
    assert!(worked.results()[1].0.starts_with("18\n"), "{:?}", worked.results());
    assert_eq!(worked.answer(), Some("18"));
    worked.close().await;
}

#[tokio::test]
async fn an_empty_answer_does_not_end_the_task() {
    let turns = [turn::submit("   "), turn::submit("blue")];
    let worked = work(script(turns), &[submit_server()], &settings()).await;
    assert!(worked.results()[0].1, "the empty answer is an error: {:?}", worked.results());
    assert_eq!((worked.answer(), worked.outcome.steps), (Some("blue"), 2));
    worked.close().await;
}

/// The submit server's hint of what a scorer trips over is for the model, who may change the answer or insist.
#[tokio::test]
async fn a_hint_about_the_form_of_an_answer_reaches_the_model_once() {
    let servers = [submit_server()];
    let turns = [turn::submit("FINAL ANSWER: 17"), turn::submit("17")];
    let changed = work(script(turns), &servers, &settings()).await;
    let hint = &changed.results()[0];
    assert!(hint.1 && hint.0.contains("leave out the words `final answer`"), "{hint:?}");
    assert_eq!(changed.answer(), Some("17"));
    changed.close().await;
    let insisted = work(script([turn::submit("Stop."), turn::submit("Stop.")]), &servers, &settings()).await;
    let [hint, taken] = &insisted.results()[..] else { panic!("{:?}", insisted.results()) };
    assert!(hint.1 && hint.0.contains("leave out the full stop") && !taken.1, "{hint:?}, {taken:?}");
    assert_eq!(insisted.answer(), Some("Stop."));
    insisted.close().await;
}

#[tokio::test]
async fn broken_arguments_go_back_as_an_error_and_are_never_replaced() {
    for (arguments, words) in [
        (r#"{"answer": "#, "JSON"),
        (r#"["blue"]"#, "object"),
        (r#"{"reply": "blue"}"#, "answer"),
        (r#"{"answer": 5}"#, "answer"),
        ("", "answer"),
    ] {
        let turns = [turn::raw_call("submit", arguments), turn::submit("blue")];
        let worked = work(script(turns), &[submit_server()], &settings()).await;
        let (text, is_error) = &worked.results()[0];
        assert!(*is_error && text.contains(words), "{arguments:?} gave {text:?}");
        assert!(
            !worked.events.iter().any(|event| matches!(event, AgentEvent::ToolStarted { step: 1, .. })),
            "{arguments:?} reached the server"
        );
        assert_eq!((worked.answer(), worked.outcome.steps), (Some("blue"), 2));
        worked.close().await;
    }
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_names_that_exist() {
    let turns = [turn::raw_call("calculator", "{}"), turn::submit("blue")];
    let worked = work(script(turns), &[submit_server()], &settings()).await;
    let (text, is_error) = &worked.results()[0];
    assert!(*is_error && text.contains("`calculator`") && text.contains("submit"), "{text}");
    worked.close().await;
}

#[tokio::test]
async fn an_answer_in_the_text_counts_by_its_last_marker() {
    let text = "The template is FINAL ANSWER: [YOUR FINAL ANSWER].\n**FINAL ANSWER:** [blue]";
    let worked = work(script([turn::text(text)]), &[submit_server()], &settings()).await;
    assert_eq!(worked.outcome.stop, StopReason::AnswerText);
    assert_eq!(worked.answer(), Some("blue"));
    assert_eq!(worked.outcome.raw_answer.as_deref(), Some(text));
    worked.close().await;
}

#[tokio::test]
async fn a_model_that_never_submits_is_nudged_twice_and_then_asked_once_more() {
    let idle = TaskScript::new(QUESTION, [turn::text("I am thinking about boats.")])
        .repeat_last()
        .forced_answer("FINAL ANSWER: blue");
    let worked = work(Script::new().with(idle), &[submit_server()], &settings()).await;
    assert_eq!(worked.outcome.stop, StopReason::Idle);
    assert_eq!((worked.answer(), worked.outcome.steps), (Some("blue"), 4));
    let prompts = worked.prompts();
    assert_eq!(prompts.len(), 3);
    assert!(prompts[..2].iter().all(|nudge| nudge.contains("`submit`")), "{prompts:?}");
    assert!(prompts[2].contains("FINAL ANSWER"), "{prompts:?}");
    let last = worked.model.requests().pop().unwrap();
    assert!(last.body.get("tools").is_none(), "the last call offers tools");
    worked.close().await;
}

#[tokio::test]
async fn work_between_two_silent_turns_starts_the_count_of_nudges_anew() {
    let turns = [
        turn::text("hm"),
        turn::text("hm hm"),
        turn::raw_call("submit", "{}"),
        turn::text("still thinking"),
        turn::text("and thinking"),
        turn::submit("blue"),
    ];
    let worked = work(script(turns), &[submit_server()], &settings()).await;
    assert_eq!((worked.outcome.stop, worked.answer()), (StopReason::AnswerTool, Some("blue")));
    worked.close().await;
}

#[tokio::test]
async fn a_reply_that_was_cut_off_is_no_answer() {
    let turns = [turn::text("FINAL ANSWER: bl").with_finish_reason("length"), turn::submit("blue")];
    let worked = work(script(turns), &[submit_server()], &settings()).await;
    assert_eq!(worked.answer(), Some("blue"));
    assert!(worked.prompts()[0].contains("cut off"), "{:?}", worked.prompts());
    worked.close().await;
}

#[tokio::test]
async fn long_output_is_bounded_with_head_and_tail() {
    let turns = [turn::bash("seq 1 100000"), turn::submit("blue")];
    let worked = work(script(turns), &[bash_server(), submit_server()], &settings()).await;
    let (text, _) = &worked.results()[0];
    assert!(text.len() <= 17 * 1024, "{} bytes", text.len());
    assert!(text.starts_with("1\n2\n3\n") && text.contains("\n100000\n"), "{text}");
    assert!(text.contains("omitted") && text.contains(".log"), "{text}");
    worked.close().await;
}

#[tokio::test]
async fn each_fault_that_passes_is_survived_streaming_and_not() {
    use Fault::*;
    let faults = [
        RateLimited,
        RateLimitedFraction,
        RateLimitedDate,
        RateLimitedHtml,
        ServerError,
        Html,
        Unavailable,
        NumericCode,
        Reset,
        Cut,
        Silent,
        Slow,
        ErrorEvent,
        NoDone,
        NoFinish,
        Empty,
        EmptyBody,
    ];
    for stream in [true, false] {
        // `Silent` without streaming would wait for the request timeout.
        let played = faults.into_iter().filter(|fault| stream || *fault != Silent);
        let runs = played.map(|fault| async move {
            let turns = [
                turn::raw_call("submit", "{}").with_faults([fault]),
                turn::submit("blue").with_faults([fault]),
            ];
            let worked =
                work_with(script(turns), Default::default(), &[submit_server()], &settings(), stream).await;
            assert_eq!(worked.answer(), Some("blue"), "{fault:?}, stream {stream}: {:?}", worked.outcome);
            let retries =
                worked.events.iter().filter(|event| matches!(event, AgentEvent::ModelRetry { .. })).count();
            let harmless = matches!(fault, Slow | NoDone);
            assert_eq!(retries, if harmless { 0 } else { 2 }, "{fault:?}, stream {stream}");
            worked.close().await;
        });
        futures_util::future::join_all(runs).await;
    }
}

#[tokio::test]
async fn what_cannot_get_better_is_not_tried_again() {
    for (fault, kind, words) in [
        (Fault::Unauthorized, FailureKind::ModelRefused, "api_key_env"),
        (Fault::ModelNotFound, FailureKind::ModelRefused, "model.name"),
        (Fault::RefusedContent, FailureKind::ContentRefused, "declined"),
    ] {
        let turns = [turn::submit("blue").with_faults([fault])];
        let worked = work(script(turns), &[submit_server()], &settings()).await;
        assert_eq!((worked.outcome.status, worked.outcome.stop), (Status::Error, StopReason::Error));
        let failure = worked.outcome.error.as_ref().unwrap();
        assert_eq!(failure.kind, kind, "{fault:?}");
        assert!(failure.message.contains(words), "{fault:?}: {}", failure.message);
        assert_eq!(worked.answer(), None);
        assert_eq!(worked.model.stats().requests, 1, "{fault:?}");
        worked.close().await;
    }
}

#[tokio::test]
async fn arguments_with_one_meaning_are_repaired_and_reach_the_server() {
    for arguments in
        ["{\"answer\": \"blue\",}", "```json\n{\"answer\": \"blue\"}\n```", r#""{\"answer\": \"blue\"}""#]
    {
        let worked =
            work(script([turn::raw_call("submit", arguments)]), &[submit_server()], &settings()).await;
        assert_eq!(worked.outcome.steps, 1, "{arguments:?}: {:?}", worked.results());
        assert_eq!(worked.answer(), Some("blue"));
        worked.close().await;
    }
}

#[tokio::test]
async fn a_model_that_goes_in_circles_is_told() {
    let turns = [
        turn::bash("echo same"),
        turn::bash("echo same"),
        turn::bash("echo other"),
        turn::bash("echo same"),
        turn::submit("blue"),
    ];
    let worked = work(script(turns), &[bash_server(), submit_server()], &settings()).await;
    let prompts = worked.prompts();
    assert_eq!(prompts.len(), 1, "{prompts:?}");
    assert!(prompts[0].contains("`bash`") && prompts[0].contains("3 times"), "{prompts:?}");
    let told = worked.events.iter().position(|event| matches!(event, AgentEvent::Prompted { step: 4, .. }));
    assert!(told.is_some());
    worked.close().await;
}
