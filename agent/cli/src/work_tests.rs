use gaia_agent::model::ModelError;

use std::num::NonZeroUsize;

use super::*;
use crate::console::Chatter;
use crate::control::Sandboxes;
use crate::queue::InProcessQueue;
use crate::sample::tests::{context, sample, says};
use crate::schedule::{Limits, Starts};
use crate::store::RunDirectory;

const TASKS: [&str; 4] = ["a", "b", "c", "d"];

const GO_ON: StopRules = StopRules {
    on_error: OnError::GoOn,
    budget: RunBudgetConfig { tokens: None, cost_usd: None, time: None },
};

/// Runs the four tasks one at a time; returns how it stopped and which have an outcome.
async fn work(
    script: Vec<Result<gaia_agent::model::Reply, ModelError>>,
    rules: StopRules,
    interrupt: &Interrupt,
) -> (Stopped, Vec<&'static str>) {
    let runs = tempfile::tempdir().unwrap();
    let (context, _lock) = context(runs.path(), &TASKS, script);
    let run: RunDirectory = context.run.clone();
    let pending = TASKS.iter().map(|task| Pending { sample: Arc::new(sample(task)), epoch: 1 }).collect();
    let queue = Arc::new(InProcessQueue::new(pending));
    let limits = Limits { worked_on: NonZeroUsize::MIN, ahead: 1, starts: Starts::Allowed };
    let sandboxes = Sandboxes { permits: context.sandboxes.clone(), configured: None };
    let controls = Arc::new(Controls::new(limits, sandboxes, None));
    let console = Console::new(Chatter::Quiet);
    let spent = Spent::default();
    let stopped =
        work_through(Arc::new(context), queue, &controls, rules, spent, interrupt, &console).await.unwrap();
    let has_outcome = |task: &&str| {
        run.sample(&SampleKey { task_id: (*task).into(), epoch: 1 }).result().unwrap().is_some()
    };
    (stopped, TASKS.into_iter().filter(has_outcome).collect())
}

fn unavailable() -> Result<gaia_agent::model::Reply, ModelError> {
    Err(ModelError::Unavailable("502".into()))
}

#[tokio::test]
async fn an_error_is_an_outcome_and_the_run_goes_on() {
    let script = vec![says("1"), unavailable(), says("3"), says("4")];
    let (stopped, done) = work(script, GO_ON, &Interrupt::default()).await;
    assert!(matches!(stopped, Stopped::Done), "{stopped:?}");
    assert_eq!(done, TASKS);
}

#[tokio::test]
async fn the_first_error_ends_the_run_when_errors_are_not_ignored() {
    let script = vec![says("1"), unavailable(), says("3"), says("4")];
    let rules = StopRules { on_error: OnError::Stop, ..GO_ON };
    let (stopped, done) = work(script, rules, &Interrupt::default()).await;
    assert!(matches!(&stopped, Stopped::Early(reason) if reason.contains("`b`")), "{stopped:?}");
    assert_eq!(done, ["a", "b"]);
}

#[tokio::test]
async fn a_provider_that_refuses_ends_the_run_and_burns_no_sample() {
    let script = vec![says("1"), Err(ModelError::Refused("no quota left".into())), says("3")];
    let (stopped, done) = work(script, GO_ON, &Interrupt::default()).await;
    assert!(matches!(&stopped, Stopped::Early(reason) if reason.contains("no quota left")), "{stopped:?}");
    assert_eq!(done, ["a"]);
}

#[tokio::test]
async fn the_budget_of_the_run_ends_it() {
    let budget = RunBudgetConfig { tokens: Some(200), ..RunBudgetConfig::default() };
    let script = vec![says("1"), says("2"), says("3"), says("4")];
    let (stopped, done) = work(script, StopRules { budget, ..GO_ON }, &Interrupt::default()).await;
    assert!(
        matches!(&stopped, Stopped::Early(reason) if reason.contains("`run.budget.tokens` = 200")),
        "{stopped:?}"
    );
    assert_eq!(done, ["a", "b"]);
}

#[tokio::test]
async fn the_time_of_the_run_is_looked_at_before_a_sample_starts() {
    let budget = RunBudgetConfig { time: Some(Duration::ZERO), ..RunBudgetConfig::default() };
    let (stopped, done) = work(vec![says("1")], StopRules { budget, ..GO_ON }, &Interrupt::default()).await;
    assert!(
        matches!(&stopped, Stopped::Early(reason) if reason.contains("`run.budget.time`")),
        "{stopped:?}"
    );
    assert!(done.is_empty(), "{done:?}");
}

#[test]
fn who_is_waited_for_is_told_oldest_first() {
    let now = Instant::now();
    let running = |count: usize| {
        let key = |n: usize| SampleKey { task_id: format!("t{n}"), epoch: 1 };
        let ages = (0..count).rev().map(|n| (key(n), now - Duration::from_secs(10 * n as u64 + 1)));
        waited_for(&ages.collect::<Vec<_>>())
    };
    assert_eq!(running(0), None);
    assert_eq!(running(1).unwrap(), "waiting for 1 running samples: t0 (for 1 s)");
    let many = running(5).unwrap();
    assert!(
        many.starts_with("waiting for 5 running samples: t4 (for 41 s), t3") && many.ends_with("and 2 more")
    );
}

#[tokio::test]
async fn after_a_signal_nothing_new_starts() {
    let interrupt = Interrupt::default();
    interrupt.drain.cancel();
    let (stopped, done) = work(vec![says("1")], GO_ON, &interrupt).await;
    assert!(matches!(stopped, Stopped::Interrupted), "{stopped:?}");
    assert!(done.is_empty());
}
