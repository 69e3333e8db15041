use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::event::Candidate;
use crate::message::{Message, Part, ToolCall};
use crate::model::{ModelError, ModelRequest, Reply, RetryObserver};
use crate::outcome::FailureKind;
use crate::settings::Budget;

/// Plays its replies in order, whoever asks, and remembers what it was asked.
#[derive(Default)]
struct Script {
    lines: Mutex<VecDeque<Line>>,
    asked: Mutex<Vec<(String, bool)>>,
}

enum Line {
    Says(Reply),
    Fails(ModelError),
    Panics,
    Cancels(CancellationToken),
}

#[async_trait]
impl ChatModel for Script {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        _: &dyn RetryObserver,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        let texts = request.messages.iter().filter_map(|message| match message {
            Message::User { content } => Some(text_of(content)),
            _ => None,
        });
        self.asked.lock().unwrap().push((texts.collect::<Vec<_>>().join("\n"), !request.tools.is_empty()));
        if cancel.is_cancelled() {
            return Err(ModelError::Cancelled);
        }
        let next = self.lines.lock().unwrap().pop_front();
        match next {
            Some(Line::Says(reply)) => Ok(reply),
            Some(Line::Fails(error)) => Err(error),
            Some(Line::Panics) => panic!("the model fell over"),
            Some(Line::Cancels(token)) => {
                token.cancel();
                Err(ModelError::Cancelled)
            }
            None => Err(ModelError::Unavailable("nothing left to say".to_owned())),
        }
    }
}

fn text_of(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::text).collect()
}

fn reply(content: &str, tool_calls: Vec<ToolCall>) -> Line {
    let usage = Usage { input_tokens: 90, output_tokens: 10, ..Usage::default() };
    Line::Says(Reply {
        content: Some(content.to_owned()),
        tool_calls,
        finish_reason: "stop".to_owned(),
        usage,
        ..Reply::default()
    })
}

fn says(answer: &str) -> Line {
    reply(&format!("FINAL ANSWER: {answer}"), Vec::new())
}

fn calls(name: &str, arguments: &serde_json::Value) -> Line {
    let call = ToolCall { id: "c".to_owned(), name: name.to_owned(), arguments: arguments.to_string() };
    reply("I call.", vec![call])
}

fn unavailable() -> Line {
    Line::Fails(ModelError::Unavailable("502".to_owned()))
}

/// No servers at all; counts what is open.
#[derive(Default)]
struct NoServers {
    opened: Mutex<Vec<Option<String>>>,
    open: Mutex<i32>,
    /// Refuses the open of this number, counted from 1.
    fails_at: Option<usize>,
}

#[async_trait]
impl ToolSource for NoServers {
    async fn open(&self, branch: Option<&str>) -> Result<Arc<ToolHost>, StartError> {
        let number = {
            let mut opened = self.opened.lock().unwrap();
            opened.push(branch.map(str::to_owned));
            opened.len()
        };
        if self.fails_at == Some(number) {
            return Err(StartError::Config { server: "bash".to_owned(), message: "no image".to_owned() });
        }
        let host =
            ToolHost::start(&[], &[], &std::collections::BTreeMap::new(), Arc::new(|_| ()), None).await?;
        *self.open.lock().unwrap() += 1;
        Ok(Arc::new(host))
    }

    async fn close(&self, tools: Arc<ToolHost>) {
        tools.close().await;
        *self.open.lock().unwrap() -= 1;
    }
}

#[derive(Default)]
struct Recorder(Mutex<Vec<(Option<String>, AgentEvent)>>);

impl EventSink for Recorder {
    fn emit(&self, event: AgentEvent) {
        self.0.lock().unwrap().push((None, event));
    }

    fn emit_from(&self, branch: &str, event: AgentEvent) {
        self.0.lock().unwrap().push((Some(branch.to_owned()), event));
    }
}

struct Scene {
    script: Arc<Script>,
    worker: Role,
    tools: NoServers,
    sink: Recorder,
    cancel: CancellationToken,
}

impl Scene {
    fn new(lines: impl IntoIterator<Item = Line>) -> Self {
        let script = Arc::new(Script { lines: Mutex::new(lines.into_iter().collect()), ..Script::default() });
        let settings = AgentSettings {
            max_steps: 30,
            answer_tool: "submit/submit".to_owned(),
            sample_timeout: Duration::from_secs(60),
            budget: Budget::default(),
            run_budget: None,
            result_bytes: 4096,
            context_window_tokens: None,
            accepted_media: Vec::new(),
            image_limits: Default::default(),
            system_prompt: "system".to_owned(),
        };
        Self {
            worker: Role { model: script.clone(), settings },
            script,
            tools: NoServers::default(),
            sink: Recorder::default(),
            cancel: CancellationToken::new(),
        }
    }

    fn steps(mut self, max_steps: u32) -> Self {
        self.worker.settings.max_steps = max_steps;
        self
    }

    fn role(&self) -> Role {
        self.worker.clone()
    }

    async fn play(&self, strategy: &dyn Strategy) -> Outcome {
        let task =
            Task { id: "t".to_owned(), question: "What is it?".to_owned(), attachment: None, attempt: 1 };
        let work = Work {
            task: &task,
            worker: &self.worker,
            tools: &self.tools,
            sink: &self.sink,
            cancel: &self.cancel,
        };
        let outcome = strategy.work(work).await;
        assert_eq!(*self.tools.open.lock().unwrap(), 0, "tools were left open");
        let events = self.sink.0.lock().unwrap();
        let is =
            |wanted: fn(&AgentEvent) -> bool| events.iter().filter(move |(_, event)| wanted(event)).count();
        assert_eq!(is(|event| matches!(event, AgentEvent::Started { .. })), 1);
        assert_eq!(is(|event| matches!(event, AgentEvent::Finished { .. })), 1);
        assert!(matches!(&events[0], (None, AgentEvent::Started { .. })), "{:?}", events[0]);
        let last = (None, AgentEvent::Finished { outcome: outcome.clone() });
        assert_eq!(*events.last().unwrap(), last);
        outcome
    }

    fn events(&self) -> Vec<(Option<String>, AgentEvent)> {
        self.sink.0.lock().unwrap().clone()
    }

    fn decided(&self) -> (String, Vec<Candidate>, Option<String>) {
        let found = self.events().into_iter().find_map(|(branch, event)| match event {
            AgentEvent::Decided { reason, candidates, answer } => {
                assert_eq!(branch, None);
                Some((reason, candidates, answer))
            }
            _ => None,
        });
        found.expect("a decision")
    }

    /// The branches in the order in which they first appear.
    fn branches(&self) -> Vec<String> {
        let mut seen: Vec<String> = Vec::new();
        for branch in self.events().into_iter().filter_map(|(branch, _)| branch) {
            if !seen.contains(&branch) {
                seen.push(branch);
            }
        }
        seen
    }

    fn asked(&self) -> Vec<(String, bool)> {
        self.script.asked.lock().unwrap().clone()
    }

    fn vote(&self, runs: u32) -> Vote {
        Vote { runs, judge: self.role(), same: equality() }
    }

    fn verify(&self) -> Verify {
        Verify { verifier: self.role(), same: equality() }
    }
}

/// As a scorer would: case and the sign of a currency do not count.
fn equality() -> SameAnswer {
    let plain = |text: &str| text.trim().trim_start_matches('$').to_lowercase();
    Arc::new(move |first, second| plain(first) == plain(second))
}

#[tokio::test]
async fn the_most_frequent_answer_wins_by_the_equality_that_was_handed_in() {
    let scene = Scene::new([says("16"), says("$17"), says("17")]);
    let outcome = scene.play(&scene.vote(3)).await;
    assert_eq!((outcome.status, outcome.answer.as_deref()), (Status::Answered, Some("$17")));
    assert_eq!((outcome.steps, outcome.usage.total()), (3, 300));
    let (reason, candidates, answer) = scene.decided();
    assert_eq!((reason.as_str(), answer.as_deref()), ("2 of 3 runs agree", Some("$17")));
    let answers: Vec<_> = candidates.iter().map(|one| (one.branch.as_str(), one.answer.as_deref())).collect();
    assert_eq!(answers, [("run 1", Some("16")), ("run 2", Some("$17")), ("run 3", Some("17"))]);
    assert_eq!(scene.branches(), ["run 1", "run 2", "run 3"]);
}

#[tokio::test]
async fn runs_stop_when_no_vote_can_change_the_outcome() {
    let scene = Scene::new([says("7"), says("7")]);
    let outcome = scene.play(&scene.vote(3)).await;
    assert_eq!((outcome.answer.as_deref(), outcome.steps), (Some("7"), 2));
    assert_eq!(scene.decided().0, "2 of 2 runs agree");
}

#[tokio::test]
async fn a_tie_is_for_the_judge_who_sees_the_work_and_has_no_tools() {
    let scene = Scene::new([says("red"), says("blue"), says("green"), says("Blue")]);
    let outcome = scene.play(&scene.vote(3)).await;
    assert_eq!((outcome.answer.as_deref(), outcome.steps), (Some("blue"), 4));
    let (reason, _, _) = scene.decided();
    assert_eq!(reason, "3 answers have 1 of 3 votes each; the judge chose");
    let (text, with_tools) = scene.asked().pop().unwrap();
    assert!(!with_tools && text.contains("What is it?") && text.contains("An answer: green"), "{text}");
    assert!(text.contains("you: FINAL ANSWER: red"), "the work is shown: {text}");
    assert_eq!(scene.branches(), ["run 1", "run 2", "run 3", "judge"]);
}

#[tokio::test]
async fn a_judge_that_invents_an_answer_or_fails_leaves_the_earliest() {
    for (last, words) in [(says("violet"), "named none"), (unavailable(), "no judgement (502)")] {
        let scene = Scene::new([says("red"), says("blue"), last]);
        let outcome = scene.play(&scene.vote(2)).await;
        assert_eq!((outcome.status, outcome.answer.as_deref()), (Status::Answered, Some("red")));
        assert!(scene.decided().0.contains(words), "{:?}", scene.decided());
    }
}

#[tokio::test]
async fn a_run_that_fails_or_crashes_takes_no_answer_with_it() {
    for (fault, kind) in
        [(unavailable(), FailureKind::ModelUnavailable), (Line::Panics, FailureKind::Internal)]
    {
        let scene = Scene::new([says("red"), fault, says("red")]);
        let outcome = scene.play(&scene.vote(3)).await;
        assert_eq!((outcome.status, outcome.answer.as_deref()), (Status::Answered, Some("red")));
        let failures: Vec<_> = scene
            .events()
            .into_iter()
            .filter_map(|(branch, event)| match event {
                AgentEvent::BranchEnded { outcome } => Some((branch?, outcome.error?.kind)),
                _ => None,
            })
            .collect();
        assert_eq!(failures, [("run 2".to_owned(), kind)]);
    }
    let mut scene = Scene::new([says("red"), says("red")]);
    scene.tools.fails_at = Some(1);
    let outcome = scene.play(&scene.vote(3)).await;
    assert_eq!(outcome.answer.as_deref(), Some("red"), "servers that do not start are a failed run");
}

#[tokio::test]
async fn when_every_run_fails_the_outcome_says_why() {
    let scene = Scene::new([unavailable(), unavailable()]);
    let outcome = scene.play(&scene.vote(2)).await;
    assert_eq!(outcome.status, Status::Error);
    assert_eq!(outcome.error.unwrap().kind, FailureKind::ModelUnavailable);
    assert_eq!(scene.decided().2, None);
}

#[tokio::test]
async fn a_key_that_is_refused_ends_the_vote_and_cancelling_leaves_no_outcome() {
    let refused = || Line::Fails(ModelError::Refused("401".to_owned()));
    let scene = Scene::new([refused()]);
    let outcome = scene.play(&scene.vote(3)).await;
    assert_eq!(outcome.error.unwrap().kind, FailureKind::ModelRefused);
    assert_eq!(scene.asked().len(), 1, "no second run tries the same key");

    let cancel = CancellationToken::new();
    let mut scene = Scene::new([says("red"), Line::Cancels(cancel.clone())]);
    scene.cancel = cancel;
    let outcome = scene.play(&scene.vote(3)).await;
    assert_eq!((outcome.stop, outcome.error.unwrap().kind), (StopReason::Cancelled, FailureKind::Cancelled));
}

/// Idle replies: the loop nudges twice and then asks a last time.
fn idle() -> Line {
    reply("I am thinking.", Vec::new())
}

#[tokio::test]
async fn the_steps_of_all_runs_stay_within_those_of_the_task() {
    for max_steps in [6, 7, 12, 13] {
        // What each run says last is its answer: all differ, so that no vote is decided early.
        let look = |number: usize| {
            let call = ToolCall { id: "c".to_owned(), name: "look".to_owned(), arguments: "{}".to_owned() };
            reply(&format!("{number}"), vec![call])
        };
        let scene = Scene::new((0..100).map(look)).steps(max_steps);
        let outcome = scene.play(&scene.vote(3)).await;
        assert!(outcome.steps <= max_steps + 1, "{} steps of {max_steps}", outcome.steps);
        assert!(outcome.steps >= max_steps - 3, "{} steps of {max_steps}", outcome.steps);
        assert_eq!(u64::from(outcome.steps) * 100, outcome.usage.total(), "every reply is counted");
        assert_eq!(scene.asked().len(), outcome.steps as usize);
        assert!(outcome.tool_calls > 0);
    }
}

#[tokio::test]
async fn tokens_and_money_are_shared_too() {
    let mut scene = Scene::new((0..100).map(|_| calls("look", &json!({}))));
    let price = crate::settings::Price { input: 1_000.0, cached: 0.0, output: 1_000.0, reasoning: 0.0 };
    scene.worker.settings.budget = Budget { tokens: Some(900), cost_usd: None, price: Some(price) };
    let outcome = scene.play(&scene.vote(3)).await;
    // Each of the three may go over its third by the reply that meets the limit and by the last call.
    assert!(outcome.usage.total() <= 900 + 3 * 200, "{:?}", outcome.usage);
    let cost = outcome.usage.total() as f64 / 1_000.0;
    assert!((outcome.cost_usd.unwrap() - cost).abs() < 1e-9, "{outcome:?}");
}

#[tokio::test]
async fn a_verifier_that_agrees_ends_it() {
    let scene = Scene::new([says("Blue"), says("blue")]);
    let outcome = scene.play(&scene.verify()).await;
    assert_eq!((outcome.answer.as_deref(), outcome.steps), (Some("Blue"), 2));
    assert_eq!(scene.decided().0, "the verifier agrees");
    assert_eq!(scene.branches(), ["worker", "verifier"]);
    let (text, _) = scene.asked().pop().unwrap();
    assert!(text.contains("What is it?") && text.contains("answered this question with: Blue"), "{text}");
    let opened = scene.tools.opened.lock().unwrap().clone();
    assert_eq!(opened, [Some("worker".to_owned()), Some("verifier".to_owned())], "each has tools of its own");
}

#[tokio::test]
async fn a_verifier_that_disagrees_sends_back_once_and_the_worker_has_the_last_word() {
    for (second, expected) in [("green", "green"), ("red", "red"), ("blue", "blue")] {
        let scene = Scene::new([says("blue"), says("red"), says(second)]);
        let outcome = scene.play(&scene.verify()).await;
        assert_eq!((outcome.answer.as_deref(), outcome.steps), (Some(expected), 3));
        let (text, _) = scene.asked().pop().unwrap();
        assert!(text.contains("Your answer `blue` was checked") && text.contains("came to `red`"), "{text}");
        assert_eq!(scene.decided().0, "the verifier disagreed, and the worker looked again");
    }
}

#[tokio::test]
async fn whatever_goes_wrong_after_the_first_answer_it_stays() {
    for (lines, words) in [
        (vec![unavailable()], "no answer of its own"),
        (vec![Line::Panics], "no answer of its own"),
        (vec![says("red"), unavailable()], "no second answer"),
        (vec![says("red"), Line::Panics], "no second answer"),
        (vec![says("red"), idle(), idle(), idle(), reply("", Vec::new())], "no second answer"),
    ] {
        let scene = Scene::new([says("blue")].into_iter().chain(lines));
        let outcome = scene.play(&scene.verify()).await;
        assert_eq!((outcome.status, outcome.answer.as_deref()), (Status::Answered, Some("blue")));
        assert_eq!(outcome.error, None);
        assert!(scene.decided().0.contains(words), "{:?}", scene.decided());
    }
}

#[tokio::test]
async fn a_check_keeps_to_what_the_answer_left() {
    let scene = Scene::new((0..100).map(|_| calls("look", &json!({})))).steps(20);
    let outcome = scene.play(&scene.verify()).await;
    assert_eq!(outcome.status, Status::Answered, "the forced reply is an answer: {outcome:?}");
    assert!(outcome.steps <= 21, "{} steps", outcome.steps);
    assert_eq!(scene.asked().len(), outcome.steps as usize);

    let scene = Scene::new([says("blue")]).steps(2);
    let outcome = scene.play(&scene.verify()).await;
    assert_eq!((outcome.answer.as_deref(), outcome.steps), (Some("blue"), 1));
    assert!(scene.decided().0.contains("nothing is left"), "{:?}", scene.decided());
}

#[tokio::test]
async fn a_plan_comes_first_and_again_after_so_many_turns() {
    let look = || calls("look", &json!({}));
    let plan = |text: &str| reply(text, Vec::new());
    let lines = [plan("PLAN A"), look(), look(), plan("PLAN B"), look(), look(), plan("PLAN C"), says("42")];
    let scene = Scene::new(lines);
    let outcome = scene.play(&Plan { planner: scene.role(), every_turns: 2 }).await;
    assert_eq!((outcome.answer.as_deref(), outcome.steps, outcome.tool_calls), (Some("42"), 8, 4));
    let with_tools: Vec<bool> = scene.asked().iter().map(|(_, with_tools)| *with_tools).collect();
    assert_eq!(with_tools, [false, true, true, false, true, true, false, true]);
    let asked = scene.asked();
    assert!(asked[1].0.contains("PLAN A") && asked[7].0.contains("PLAN C"), "{asked:#?}");
    assert!(asked[3].0.contains("you called: look"), "the planner sees the work: {}", asked[3].0);
    assert_eq!(scene.branches(), ["planner"]);
    // The reply of the planner is its own, what the worker is told of it is the worker's.
    let events = scene.events();
    let planned = events.iter().position(|(branch, event)| {
        branch.as_deref() == Some("planner") && matches!(event, AgentEvent::ModelReply { .. })
    });
    let after = &events[planned.unwrap() + 1];
    assert!(
        matches!(after, (None, AgentEvent::Prompted { text, .. }) if text.contains("PLAN A")),
        "{after:?}"
    );
}

#[tokio::test]
async fn work_goes_on_without_a_plan_that_cannot_be_had_but_a_refused_key_is_told() {
    let scene = Scene::new([unavailable(), says("42")]);
    let outcome = scene.play(&Plan { planner: scene.role(), every_turns: 5 }).await;
    assert_eq!(outcome.answer.as_deref(), Some("42"));
    let scene = Scene::new([Line::Fails(ModelError::Refused("401".to_owned()))]);
    let outcome = scene.play(&Plan { planner: scene.role(), every_turns: 5 }).await;
    assert_eq!(outcome.error.unwrap().kind, FailureKind::ModelRefused);
}

#[tokio::test]
async fn plans_are_steps_and_never_more_than_there_are() {
    let scene = Scene::new((0..100).map(|_| calls("look", &json!({})))).steps(5);
    let outcome = scene.play(&Plan { planner: scene.role(), every_turns: 1 }).await;
    assert_eq!(outcome.steps, 6, "five and the last call");
    assert_eq!(scene.asked().len(), 6);
}

fn delegate(scene: &Scene) -> Delegate {
    Delegate { helper: scene.role(), helper_steps: 10 }
}

#[tokio::test]
async fn a_helper_reports_to_the_manager_and_is_not_offered_the_answer_tool() {
    let lines = [
        calls("ask", &json!({ "question": "How tall is it?" })),
        calls("report", &json!({ "report": "It is 17 m tall, says the plate." })),
        says("17"),
    ];
    let scene = Scene::new(lines);
    let outcome = scene.play(&delegate(&scene)).await;
    assert_eq!((outcome.answer.as_deref(), outcome.steps, outcome.tool_calls), (Some("17"), 3, 2));
    assert_eq!(outcome.usage.total(), 300);
    let events = scene.events();
    let started = events.iter().find_map(|(branch, event)| match event {
        AgentEvent::BranchStarted { tools, messages } => {
            Some((branch.clone(), tools.clone(), messages.clone()))
        }
        _ => None,
    });
    let (branch, tools, messages) = started.unwrap();
    assert_eq!(branch.as_deref(), Some("helper 1"));
    assert_eq!(tools, ["gaia/report", "gaia/recall"]);
    let Message::User { content } = &messages[1] else { panic!("{messages:?}") };
    assert_eq!(text_of(content), "How tall is it?", "a context of its own");
    let result = events.iter().find_map(|(branch, event)| match event {
        AgentEvent::ToolResult { tool, content, is_error, .. } if branch.is_none() => {
            Some((tool.clone(), text_of(content), *is_error))
        }
        _ => None,
    });
    let report = "It is 17 m tall, says the plate.".to_owned();
    assert_eq!(result, Some(("gaia/ask".to_owned(), report, false)));
    assert_eq!(scene.tools.opened.lock().unwrap().len(), 1, "helpers share the manager's tools");
}

#[tokio::test]
async fn a_helper_that_fails_is_an_error_to_the_manager_who_goes_on() {
    for fault in [unavailable(), Line::Panics] {
        let scene = Scene::new([calls("ask", &json!({ "question": "x" })), fault, says("17")]);
        let outcome = scene.play(&delegate(&scene)).await;
        assert_eq!(outcome.answer.as_deref(), Some("17"));
        let failed = scene.events().into_iter().any(|(branch, event)| {
            branch.is_none()
                && matches!(&event, AgentEvent::ToolResult { tool, is_error: true, content, .. }
                    if tool == "gaia/ask" && text_of(content).contains("the helper failed"))
        });
        assert!(failed, "{:#?}", scene.events());
    }
}

#[tokio::test]
async fn helpers_draw_on_the_managers_limits() {
    let turn = |number: usize| match number % 7 {
        0 => calls("ask", &json!({ "question": "again" })),
        _ => calls("look", &json!({})),
    };
    for max_steps in [4, 9, 30] {
        let scene = Scene::new((0..200).map(turn)).steps(max_steps);
        let outcome = scene.play(&delegate(&scene)).await;
        assert!(outcome.steps <= max_steps + 1, "{} steps of {max_steps}", outcome.steps);
        assert_eq!(scene.asked().len(), outcome.steps as usize);
        assert_eq!(u64::from(outcome.steps) * 100, outcome.usage.total());
    }
    let scene = Scene::new([calls("ask", &json!({ "question": "x" })), says("17")]).steps(3);
    let outcome = scene.play(&delegate(&scene)).await;
    assert_eq!(outcome.answer.as_deref(), Some("17"));
    let told = scene.asked().len();
    assert_eq!(told, 2, "too little was left for a helper");
}

#[tokio::test]
async fn several_questions_of_one_turn_share_what_is_left() {
    let ask = |id: &str| ToolCall {
        id: id.to_owned(),
        name: "ask".to_owned(),
        arguments: r#"{"question":"x"}"#.to_owned(),
    };
    let first = reply("", ["a", "b", "c", "d"].map(ask).to_vec());
    let scene = Scene::new([first].into_iter().chain((0..100).map(|_| calls("look", &json!({}))))).steps(12);
    let outcome = scene.play(&delegate(&scene)).await;
    assert!(outcome.steps <= 13, "{} steps", outcome.steps);
    assert!(scene.branches().len() >= 2, "{:?}", scene.branches());
}

#[tokio::test]
async fn one_run_is_the_loop_as_it_is() {
    let scene = Scene::new([says("42")]);
    let outcome = scene.play(&React).await;
    assert_eq!(outcome.answer.as_deref(), Some("42"));
    assert!(scene.branches().is_empty());
    let mut scene = Scene::new([]);
    scene.tools.fails_at = Some(1);
    let outcome = scene.play(&React).await;
    assert_eq!(outcome.error.unwrap().kind, FailureKind::Server);
}
