//! What all samples share at an endpoint: the pace, and the end of a run whose key or quota is gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gaia_agent::model::{
    ChatModel, Endpoint, EndpointLimits, ModelError, ModelRequest, Reply, RetryObserver, connect,
};
use gaia_agent::{Message, Part};
use gaia_tests::scripted::{Fault, Options, Script, ScriptedModel, turn};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::gaia::{Desk, Ended, results};
use crate::support::{QUESTION, model_settings};

const SAMPLES: usize = 6;

fn questions() -> Vec<String> {
    (0..SAMPLES).map(|number| format!("Which colour has boat number {number}?")).collect()
}

fn desk(base_url: &str) -> Desk {
    let desk = Desk::new();
    let questions = questions();
    let ids: Vec<String> = (0..SAMPLES).map(|number| format!("task-{number}")).collect();
    let rows: Vec<_> = ids
        .iter()
        .zip(&questions)
        .map(|(id, question)| (id.as_str(), question.as_str(), 1, "blue"))
        .collect();
    desk.dataset(&rows);
    desk.write(
        "c.toml",
        &format!(
            r#"
[dataset]
path = "samples"

[model]
name = "scripted"
base_url = "{base_url}"

[run]
concurrency = 2

[mcp_servers.submit]
command = "gaia-mcp-submit"
"#
        ),
    );
    desk
}

/// The third sample meets the end of the key or the quota; nobody is blamed, and nobody asks again.
#[tokio::test]
async fn a_run_pauses_when_key_or_quota_is_gone_and_resume_finishes_it() {
    for (fault, words) in [
        (Fault::Unauthorized, "api_key_env"),
        (Fault::PaymentRequired, "Insufficient Balance"),
        (Fault::QuotaGone, "the quota is used up"),
    ] {
        let script = questions().iter().enumerate().fold(Script::new(), |script, (number, question)| {
            let first = turn::raw_call("submit", "{}");
            let first = if number == 2 { first.with_faults([fault]) } else { first };
            script.task(question, [first, turn::submit("blue")])
        });
        let model = ScriptedModel::start(script, Options::default()).await.unwrap();
        let desk = desk(&model.base_url);
        let ended = desk.gaia(&["run", "c.toml"]).await;
        assert_eq!(ended.code, 3, "{fault:?}: {ended:#?}");
        for expected in [words, "the run pauses", "gaia resume"] {
            assert!(ended.stderr.contains(expected), "{fault:?}, no `{expected}`: {}", ended.stderr);
        }
        let run = desk.runs().pop().unwrap();
        let before = results(&run);
        assert!(before.len() < SAMPLES, "{fault:?}: {before:?}");
        assert!(before.iter().all(|result| result["status"] == "answered"), "{fault:?}: {before:?}");
        let stats = model.stats();
        assert_eq!(stats.requests, stats.ok + 1, "{fault:?}: asked again after the refusal: {stats:?}");

        let ended = desk.gaia(&["resume", "last"]).await;
        assert_eq!(ended.code, 0, "{fault:?}: {ended:#?}");
        let after = results(&run);
        assert_eq!(after.len(), SAMPLES, "{fault:?}");
        assert!(after.iter().all(|result| result["answer"] == "blue"), "{fault:?}: {after:?}");
        model.close().await;
    }
}

/// The server goes away, or a proxy answers in its place; nobody is blamed, and the samples that were not begun stay so.
#[tokio::test]
async fn a_run_pauses_when_the_endpoint_is_dead_and_resume_finishes_it() {
    let questions = || questions().into_iter().enumerate();
    let all_well = questions().fold(Script::new(), |script, (_, question)| {
        script.task(&question, [turn::raw_call("submit", "{}").with_latency_ms(50), turn::submit("blue")])
    });
    let all_down = questions().fold(Script::new(), |script, (_, question)| {
        script.task(&question, [turn::submit("blue").with_faults([Fault::Unavailable; 3])])
    });
    // Where nobody listens, no request can be at fault, and one sample at a time is enough to see it.
    for (script, words, concurrency) in
        [(all_well, "it cannot be reached", "1"), (all_down, "it has answered none of the last", "5")]
    {
        let model = ScriptedModel::start(script.clone(), Options::default()).await.unwrap();
        let desk = desk(&model.base_url);
        let begun = ["run", "c.toml", "--concurrency", concurrency, "--set", "model.max_retries=2"];
        let child = desk.command(&begun).spawn().unwrap();
        let mut model = Some(model);
        if concurrency == "1" {
            let server = model.take().unwrap();
            server.wait_until(|stats| stats.ok >= 2).await;
            server.close().await;
        }
        let ended = Ended::from(child.wait_with_output().await.unwrap());
        assert_eq!(ended.code, 3, "{ended:#?}");
        for expected in [words, "the run pauses", "gaia resume"] {
            assert!(ended.stderr.contains(expected), "no `{expected}`: {}", ended.stderr);
        }
        let run = desk.runs().pop().unwrap();
        let before = results(&run);
        assert!(before.len() < SAMPLES, "{before:?}");
        assert!(before.iter().all(|result| result["status"] == "answered"), "{before:?}");

        let model = match model {
            Some(model) => model,
            None => ScriptedModel::start(script, Options::default()).await.unwrap(),
        };
        let base_url = format!("model.base_url={:?}", model.base_url);
        let ended = desk.gaia(&["resume", "last", "--set", &base_url, "--set", "model.max_retries=4"]).await;
        assert_eq!(ended.code, 0, "{ended:#?}");
        let after = results(&run);
        assert_eq!(after.len(), SAMPLES);
        assert!(after.iter().all(|result| result["answer"] == "blue"), "{after:?}");
        model.close().await;
    }
}

struct Deaf;

impl RetryObserver for Deaf {
    fn retrying(&self, _attempt: u32, _reason: &str, _wait: Duration) {}
}

async fn ask(model: &dyn ChatModel) -> Result<Reply, ModelError> {
    ask_with(model, &Deaf).await
}

async fn ask_with(model: &dyn ChatModel, observer: &dyn RetryObserver) -> Result<Reply, ModelError> {
    let messages = [Message::User { content: vec![Part::Text { text: QUESTION.to_owned() }] }];
    model.reply(ModelRequest { messages: &messages, tools: &[] }, observer, &CancellationToken::new()).await
}

#[tokio::test]
async fn the_number_of_requests_under_way_finds_what_the_endpoint_takes() {
    const TAKEN: u64 = 6;
    const CALLERS: usize = 24;
    let options =
        Options { max_in_flight: Some(TAKEN), latency: Duration::from_millis(20), ..Options::default() };
    let script = Script::new().task(QUESTION, [turn::text("blue")]);
    let server = ScriptedModel::start(script, options).await.unwrap();
    let mut settings = model_settings(&server.base_url, false);
    settings.max_retries = 20;
    let model = connect(settings, Arc::new(Endpoint::new(EndpointLimits::default()))).unwrap();
    let callers = (0..CALLERS).map(|_| async {
        for _ in 0..5 {
            ask(model.as_ref()).await.unwrap();
        }
    });
    futures_util::future::join_all(callers).await;
    let stats = server.stats();
    assert_eq!(stats.ok, 5 * CALLERS as u64);
    assert!(stats.crowded_out > 0, "the limit was never found: {stats:?}");
    // All callers at once would be refused 18 times in the first round alone, and as often in those after it.
    assert!(stats.crowded_out < 40 && stats.max_in_flight < CALLERS as u64, "{stats:?}");
    server.close().await;
}

/// Says when the first attempt has failed.
#[derive(Default)]
struct Failed(Notify);

impl RetryObserver for Failed {
    fn retrying(&self, _attempt: u32, _reason: &str, _wait: Duration) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_named_time_holds_every_caller() {
    let script = Script::new().task(QUESTION, [turn::text("blue").with_faults([Fault::RateLimited])]);
    let server = ScriptedModel::start(script, Options::default()).await.unwrap();
    let endpoint = Arc::new(Endpoint::new(EndpointLimits::default()));
    let one = connect(model_settings(&server.base_url, true), endpoint.clone()).unwrap();
    let other = connect(model_settings(&server.base_url, true), endpoint).unwrap();
    let failed = Failed::default();
    let (first, held) = tokio::join!(ask_with(one.as_ref(), &failed), async {
        failed.0.notified().await;
        ask(other.as_ref()).await
    });
    first.unwrap();
    let held = held.unwrap();
    assert!(held.queued >= Duration::from_millis(900), "{:?}", held.queued);
    server.close().await;
}

#[tokio::test]
async fn configured_limits_are_kept() {
    let script = Script::new().task(QUESTION, [turn::text("blue")]);
    let server = ScriptedModel::start(script, Options::default()).await.unwrap();
    // Ten at once, then one in 1.2 seconds.
    let limits =
        EndpointLimits { requests_per_minute: Some(60), concurrent_requests: Some(3), ..Default::default() };
    let model = connect(model_settings(&server.base_url, false), Arc::new(Endpoint::new(limits))).unwrap();
    let began = Instant::now();
    let replies = futures_util::future::join_all((0..12).map(|_| ask(model.as_ref()))).await;
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    assert!(began.elapsed() >= Duration::from_millis(2_300), "{:?}", began.elapsed());
    assert!(server.stats().max_in_flight <= 3, "{:?}", server.stats());
    server.close().await;
}
