use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;

use async_trait::async_trait;
use gaia_agent::model::{ChatModel, ModelError, ModelRequest, Reply, RetryObserver};
use gaia_agent::strategy::{React, Role};
use gaia_agent::tools::{CallOrder, Protocol, Redactor, Scope, TransportSpec};
use gaia_agent::{AgentSettings, Budget};
use serde_json::Value;

use super::*;
use crate::console::{Chatter, Console};
use crate::dataset::Annotator;
use crate::store::{RunLock, test_record};

/// Plays its replies in order, then says that it is unavailable.
pub(crate) struct Script(Mutex<VecDeque<Result<Reply, ModelError>>>);

#[async_trait]
impl ChatModel for Script {
    async fn reply(
        &self,
        _: ModelRequest<'_>,
        _: &dyn RetryObserver,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        if cancel.is_cancelled() {
            return Err(ModelError::Cancelled);
        }
        let next = self.0.lock().unwrap().pop_front();
        next.unwrap_or_else(|| Err(ModelError::Unavailable("nothing left to say".into())))
    }
}

pub(crate) fn says(answer: &str) -> Result<Reply, ModelError> {
    Ok(Reply {
        content: Some(format!("FINAL ANSWER: {answer}")),
        finish_reason: "stop".into(),
        usage: Usage { input_tokens: 90, output_tokens: 10, ..Usage::default() },
        ..Reply::default()
    })
}

pub(crate) fn sample(task_id: &str) -> Sample {
    Sample {
        task_id: task_id.into(),
        question: "What is it?".into(),
        level: 2,
        truth: Some("the-hidden-truth".into()),
        file: None,
        file_name: None,
        annotator: Annotator::default(),
    }
}

pub(crate) fn context(
    runs: &Path,
    tasks: &[&str],
    script: Vec<Result<Reply, ModelError>>,
) -> (SampleContext, RunLock) {
    let samples: Vec<_> = tasks.iter().map(|task| (*task, 2)).collect();
    let record = test_record(&samples);
    let (run, lock) = RunDirectory::create(runs, &record).unwrap();
    let context = SampleContext {
        run_id: record.id,
        run,
        performer: Performer::Loop {
            strategy: Arc::new(React),
            worker: Role {
                model: Arc::new(Script(Mutex::new(script.into()))),
                settings: AgentSettings {
                    max_steps: 5,
                    answer_tool: "submit/submit".into(),
                    sample_timeout: Duration::from_secs(60),
                    budget: Budget::default(),
                    run_budget: None,
                    result_bytes: 1024,
                    context_window_tokens: None,
                    accepted_media: Vec::new(),
                    image_limits: Default::default(),
                    system_prompt: "system".into(),
                },
            },
        },
        servers: Vec::new(),
        shared_servers: Vec::new(),
        sandboxes: Arc::new(Semaphore::new(3)),
        closing: TaskTracker::new(),
        begin: Begin::Anew,
        secrets: Arc::default(),
        progress: Arc::new(Progress::new(Console::new(Chatter::Quiet))),
        feed: None,
        telemetry: None,
    };
    (context, lock)
}

async fn run(context: &SampleContext, cancel: &CancellationToken) -> SampleEnd {
    let opened = open(context, &sample("a"), 1, Begin::Anew).await;
    let ready = tokio::spawn(std::future::ready(opened));
    run_sample(context, &sample("a"), 1, ready, cancel).await.unwrap()
}

fn events(context: &SampleContext, task_id: &str) -> String {
    let key = SampleKey { task_id: task_id.into(), epoch: 1 };
    fs_err::read_to_string(context.run.sample(&key).path().join("events.jsonl")).unwrap()
}

fn attempts(events: &str) -> Vec<u64> {
    let lines = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["type"] == "started").map(|line| line["attempt"].as_u64().unwrap()).collect()
}

fn stored(context: &SampleContext, task_id: &str) -> Option<SampleResult> {
    context.run.sample(&SampleKey { task_id: task_id.into(), epoch: 1 }).result().unwrap()
}

#[tokio::test]
async fn an_answer_is_scored_and_committed_and_the_truth_stays_out_of_the_events() {
    let runs = tempfile::tempdir().unwrap();
    let (context, _lock) = context(runs.path(), &["a"], vec![says("42")]);
    let end = run(&context, &CancellationToken::new()).await;
    let result = stored(&context, "a").unwrap();
    assert_eq!(end, SampleEnd::Committed(Box::new(result.clone())));
    assert_eq!((result.status, result.answer.as_deref()), (Status::Answered, Some("42")));
    let score = result.score.unwrap();
    assert!(!score.correct);
    assert_eq!(score.truth, "the-hidden-truth");
    assert!(!events(&context, "a").contains("the-hidden-truth"));
}

#[tokio::test]
async fn a_cancelled_sample_has_no_outcome() {
    let runs = tempfile::tempdir().unwrap();
    let (context, _lock) = context(runs.path(), &["a"], vec![says("42")]);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let end = run(&context, &cancel).await;
    assert_eq!(end, SampleEnd::Cancelled);
    assert_eq!(stored(&context, "a"), None);
}

#[tokio::test]
async fn a_refusal_of_the_provider_is_not_held_against_the_sample() {
    let runs = tempfile::tempdir().unwrap();
    let refusal = Err(ModelError::Refused("bad key".into()));
    let (context, _lock) = context(runs.path(), &["a"], vec![refusal]);
    let end = run(&context, &CancellationToken::new()).await;
    assert!(matches!(&end, SampleEnd::Refused(text) if text.contains("bad key")), "{end:?}");
    assert_eq!(stored(&context, "a"), None);
}

#[tokio::test]
async fn an_unavailable_model_ends_the_sample_in_an_error_that_is_not_tried_again() {
    let runs = tempfile::tempdir().unwrap();
    let first = Err(ModelError::Unavailable("502".into()));
    let (context, _lock) = context(runs.path(), &["a"], vec![first, says("42")]);
    run(&context, &CancellationToken::new()).await;
    let error = stored(&context, "a").unwrap().error.unwrap();
    assert_eq!(error.kind, FailureKind::ModelUnavailable);
    assert_eq!(attempts(&events(&context, "a")), [1]);
}

#[tokio::test]
async fn a_server_that_never_starts_ends_in_an_error_after_two_attempts() {
    let runs = tempfile::tempdir().unwrap();
    let (mut context, _lock) = context(runs.path(), &["a"], vec![says("42")]);
    context.servers = vec![ServerSpec {
        name: "ghost".into(),
        transport: TransportSpec::Stdio {
            command: "/nonexistent/server".into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
        },
        scope: Scope::Sample,
        enabled_tools: None,
        disabled_tools: Vec::new(),
        startup_timeout: Duration::from_secs(10),
        tool_timeout: Duration::from_secs(10),
        required: true,
        protocol: Protocol::Auto,
        call_order: CallOrder::AsDeclared,
        max_concurrent_calls: None,
        redactor: Redactor::default(),
        prefix: None,
    }];
    run(&context, &CancellationToken::new()).await;
    let result = stored(&context, "a").unwrap();
    assert_eq!(result.status, Status::Error);
    let error = result.error.unwrap();
    assert_eq!(error.kind, FailureKind::Server);
    assert!(error.message.contains("ghost"), "{}", error.message);
    assert_eq!(result.score.map(|score| score.correct), Some(false));
    assert_eq!(attempts(&events(&context, "a")), [1, 2]);
}

#[test]
fn a_staged_folder_holds_the_own_attachment_only_and_goes_away() {
    let dataset = tempfile::tempdir().unwrap();
    fs_err::write(dataset.path().join("own.txt"), "mine").unwrap();
    fs_err::write(dataset.path().join("other.txt"), "not mine").unwrap();
    let mut sample = sample("a");
    sample.file = Some(dataset.path().join("own.txt"));
    sample.file_name = Some("own.txt".into());
    let staged = Staged::of("run", &sample).unwrap();
    let files = staged.files.clone();
    let names: Vec<_> = fs_err::read_dir(&files).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["own.txt"]);
    let attachment = staged.attachment.clone().unwrap();
    assert_eq!(attachment.sandbox_path, "/shared_files/own.txt");
    assert_eq!(fs_err::read_to_string(attachment.host_path).unwrap(), "mine");
    staged.remove();
    assert!(!files.exists());
}

#[test]
fn what_a_killed_session_left_is_removed_and_nothing_of_other_runs() {
    let killed = format!("killed-{}", std::process::id());
    let other = format!("other-{}", std::process::id());
    let left = Staged::of(&killed, &sample("a")).unwrap().folder.keep();
    let kept = Staged::of(&other, &sample("a")).unwrap();
    remove_staged_leftovers(&killed).unwrap();
    assert!(!left.exists() && kept.files.exists());
}

#[test]
fn the_parts_of_the_time_never_exceed_the_whole() {
    let task = Timing { wall: 9.0, model: 3.0, tool: 8.0 };
    let parts = timing(Duration::from_secs(10), Duration::from_secs(1), task);
    assert_eq!((parts.wall, parts.sandbox, parts.overhead), (10.0, 1.0, 0.0));
}
