//! The window: what is dropped when, and how the model gets at it again.

use gaia_agent::{AgentEvent, AgentSettings, Status, StopReason};
use gaia_tests::scripted::{CapturedRequest, Fault, Options, Script, TaskScript, Turn, turn};
use serde_json::json;

use crate::support::{QUESTION, Worked, bash_server, settings, submit_server, work, work_with};

/// About 12,500 bytes of output that no two commands have in common.
fn babble(turn: usize, part: usize) -> String {
    format!("seq -f 'line {turn}.{part}.%g of a report without any news' 1 260")
}

/// Four calls and 50 KB of output, with a fact in the middle of it in some turns.
fn noisy(number: usize, fact: Option<&str>) -> Turn {
    let command = |part: usize| match fact {
        Some(fact) if part == 2 => format!("{}; echo '{fact}'; seq 1 40", babble(number, part)),
        _ => babble(number, part),
    };
    (1..4)
        .fold(turn::bash(&command(0)), |turn, part| turn.and_call("bash", json!({"command": command(part)})))
}

fn compactions(worked: &Worked) -> Vec<(usize, Option<&str>)> {
    let found = worked.events.iter().filter_map(|event| match event {
        AgentEvent::Compacted { call_ids, summary, .. } => Some((call_ids.len(), summary.as_deref())),
        _ => None,
    });
    found.collect()
}

/// Two hundred turns, or as many as a shorter version of the same test takes.
async fn long_task(turns: usize) -> Worked {
    const WINDOW_TOKENS: u64 = 32_000;
    let mut script: Vec<Turn> = (0..turns)
        .map(|number| {
            let fact = match number {
                1 => Some("the first code word is HERON"),
                4 => Some("the second code word is OTTER"),
                _ => None,
            };
            noisy(number, fact)
        })
        .collect();
    script.push(turn::call("recall", json!({"pattern": "first code word is"})));
    // The third of the four calls of the fifth turn.
    script.push(turn::call("recall", json!({"call": 4 * 4 + 3, "pattern": "code word"})));
    script.push(turn::call("recall", json!({"call": 4 * 4 + 3, "offset": 12_000})));
    script.push(turn::submit("HERON OTTER"));
    let task = TaskScript::new(QUESTION, script).forced_answer("Notes: two code words were seen.");
    let options = Options { window_tokens: Some(WINDOW_TOKENS), ..Options::default() };
    let mut settings = settings();
    settings.max_steps = 400;
    settings.sample_timeout = std::time::Duration::from_secs(1_200);
    settings.context_window_tokens = Some(WINDOW_TOKENS);
    work_with(Script::new().with(task), options, &[bash_server(), submit_server()], &settings, true).await
}

#[tokio::test]
async fn two_hundred_turns_of_fifty_kilobytes_fit_a_small_window_and_lose_no_fact() {
    let worked = long_task(200).await;
    assert_eq!((worked.outcome.status, worked.answer()), (Status::Answered, Some("HERON OTTER")));
    assert_eq!(worked.outcome.stop, StopReason::AnswerTool);
    assert_eq!(worked.outcome.tool_calls, 200 * 4 + 4);
    let results = worked.results();
    let recalled: Vec<&str> = results[800..803].iter().map(|(text, _)| text.as_str()).collect();
    assert!(recalled[0].starts_with("call 7, offset ") && recalled[0].contains("HERON"), "{}", recalled[0]);
    assert!(recalled[1].starts_with("call 19, offset ") && recalled[1].contains("OTTER"), "{}", recalled[1]);
    assert!(recalled[2].contains("OTTER") && recalled[2].contains("of call 19"), "{}", recalled[2]);
    let stats = worked.model.stats();
    assert_eq!(stats.overflows, 0, "a known window is never overrun");
    let summaries = compactions(&worked).iter().filter(|(_, summary)| summary.is_some()).count();
    assert!(summaries >= 2, "{summaries} summaries");
    worked.close().await;
}

/// The bytes of a request up to the end of its messages, which is what a provider caches.
fn prefix(request: &CapturedRequest) -> String {
    let messages = request.body["messages"].to_string();
    format!("{}{}", request.body["tools"], messages.trim_end_matches(']'))
}

#[tokio::test]
async fn each_request_begins_with_the_bytes_of_the_one_before_until_room_is_made() {
    let mut turns: Vec<Turn> = (0..6).map(|number| turn::bash(&babble(number, 0))).collect();
    turns.push(turn::text("thinking aloud"));
    turns.push(turn::submit("blue"));
    let mut settings = settings();
    settings.context_window_tokens = Some(20_000);
    let worked =
        work(Script::new().task(QUESTION, turns), &[bash_server(), submit_server()], &settings).await;
    assert_eq!(worked.answer(), Some("blue"));
    let requests = worked.model.requests();
    let broken: Vec<usize> = (1..requests.len())
        .filter(|at| !prefix(&requests[*at]).starts_with(&prefix(&requests[*at - 1])))
        .collect();
    let compacted = compactions(&worked);
    assert_eq!((compacted.len(), broken.len()), (1, 1), "{compacted:?}, broken at {broken:?}");
    // Tools, system prompt and question stay even then.
    let shared = prefix(&requests[0]);
    assert!(requests.iter().all(|request| prefix(request).starts_with(&shared)));
    worked.close().await;
}

#[tokio::test]
async fn an_unknown_window_is_learnt_from_the_overflow() {
    let turns: Vec<Turn> =
        (0..12).map(|number| turn::bash(&babble(number, 0))).chain([turn::submit("blue")]).collect();
    let options = Options { window_tokens: Some(16_000), ..Options::default() };
    let worked = work_with(
        Script::new().task(QUESTION, turns),
        options,
        &[bash_server(), submit_server()],
        &settings(),
        true,
    )
    .await;
    assert_eq!((worked.answer(), worked.outcome.stop), (Some("blue"), StopReason::AnswerTool));
    assert_eq!(worked.model.stats().overflows, 1, "the second time it is known");
    worked.close().await;
}

#[tokio::test]
async fn output_that_was_cut_is_read_on_through_recall() {
    let mut settings: AgentSettings = settings();
    settings.result_bytes = 2_000;
    let turns = [
        turn::bash("seq 1 3000"),
        turn::call("recall", json!({"call": 1, "offset": 5_000})),
        turn::call("recall", json!({"call": 9})),
        turn::raw_call("recall", r#"{"number": 1}"#),
        turn::submit("blue"),
    ];
    let worked =
        work(Script::new().task(QUESTION, turns), &[bash_server(), submit_server()], &settings).await;
    let results = worked.results();
    assert!(results[0].0.contains("`recall`, under call 1"), "{}", results[0].0);
    assert!(results[1].0.contains("\n1250\n") && !results[1].1, "{}", results[1].0);
    assert!(results[2].1 && results[2].0.contains("call 9"), "{}", results[2].0);
    assert!(
        results[3].1 && results[3].0.contains("number") && results[3].0.contains("pattern"),
        "{}",
        results[3].0
    );
    worked.close().await;
}

#[tokio::test]
async fn a_summary_that_fails_is_replaced_by_what_is_left_of_the_turns() {
    let mut turns: Vec<Turn> = (0..4).map(|number| turn::bash(&format!("echo found {number}"))).collect();
    turns.push(turn::submit("blue").with_faults([Fault::Overflow; 1]));
    // A summary is asked for without tools and meets the first turn's faults.
    let task = TaskScript::new(QUESTION, turns).forced_answer(" ");
    let worked = work(Script::new().with(task), &[bash_server(), submit_server()], &settings()).await;
    assert_eq!(worked.answer(), Some("blue"));
    let compacted = compactions(&worked);
    assert_eq!(compacted.len(), 1);
    assert!(compacted[0].1.unwrap().contains("found 1"), "{compacted:?}");
    let last = worked.model.requests().pop().unwrap().body["messages"].to_string();
    assert!(last.contains("Earlier turns were dropped") && last.contains("found 1"), "{last}");
    worked.close().await;
}
