//! Runs on more than one machine: a coordinator, workers and a nats-server, each a process of its own, and what can
//! happen to any of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use gaia_tests::nats::{NatsServer, Wire};
use gaia_tests::scripted::{Options, Script, ScriptedModel, turn};
use serde_json::Value;
use tokio::process::Child;

use crate::crash::{Lives, all_is_readable, outcomes};
use crate::gaia::{Desk, Ended, SHELL_AND_SUBMIT, containers};
use crate::support::eventually;

/// For anything that takes a moment on an idle machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Short, so that a test sees it run out; the workers give three signs of life in it.
const CLAIM_TIMEOUT: &str = "3s";

/// Kills of workers in the one long test.
const KILLS: usize = 50;

const SUBMIT: &str = "\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n";

/// One machine that stands for all: the programs know nothing of each other but the address of the server.
struct Site {
    desk: Desk,
    nats: NatsServer,
    workers: AtomicUsize,
}

/// A worker, which ends with the test.
struct Worker {
    child: Child,
    log: PathBuf,
}

impl Site {
    fn new() -> Self {
        let desk = Desk::new();
        let nats = NatsServer::start(&desk.path().join("jetstream"), &[]).unwrap();
        Self { desk, nats, workers: AtomicUsize::new(0) }
    }

    fn questions(&self, count: usize) -> Vec<(String, String)> {
        let rows: Vec<_> =
            (0..count).map(|n| (format!("task-{n:03}"), format!("What is number {n:03}?"))).collect();
        let lines: Vec<_> =
            rows.iter().map(|(id, question)| (id.as_str(), question.as_str(), 1, "blue")).collect();
        self.desk.dataset(&lines);
        rows
    }

    fn config(&self, base_url: &str, rest: &str) {
        let text = format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{base_url}\"\n[agent]\nanswer_tool = \
             \"submit/submit\"\n{rest}"
        );
        self.desk.write("c.toml", &text);
    }

    fn worker(&self, options: &[&str]) -> Worker {
        self.worker_at(&self.nats.url(), options)
    }

    fn worker_at(&self, url: &str, options: &[&str]) -> Worker {
        let number = self.workers.fetch_add(1, Ordering::Relaxed);
        let log = self.desk.path().join(format!("worker-{number}.log"));
        let stderr = fs_err::File::create(&log).unwrap().into_parts().0;
        let base = ["-v", "worker", "--nats", url, "--config", "c.toml"];
        let child = self.desk.command(&[&base, options].concat()).stderr(stderr).spawn().unwrap();
        Worker { child, log }
    }

    /// `gaia run` or `gaia resume` with this server; its words go to a file.
    fn coordinator(&self, command: &[&str]) -> Child {
        let mut options = fs_err::OpenOptions::new();
        let log = options.create(true).append(true).open(self.desk.path().join("coordinator.log"));
        let log = log.unwrap().into_parts().0;
        let url = self.nats.url();
        let options = ["--nats", &url, "--claim-timeout", CLAIM_TIMEOUT];
        self.desk.command(&[command, &options].concat()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
    }

    fn said(&self) -> String {
        fs_err::read_to_string(self.desk.path().join("coordinator.log")).unwrap()
    }

    async fn ends(&self, mut coordinator: Child, code: i32) -> PathBuf {
        let ended = tokio::time::timeout(LIMIT, coordinator.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("still at work: {}\n{}", self.said(), self.logs()));
        assert_eq!(status.unwrap().code(), Some(code), "{}\n{}", self.said(), self.logs());
        let run = self.desk.runs().pop().unwrap();
        all_is_readable(&run);
        run
    }

    fn logs(&self) -> String {
        let numbers = 0..self.workers.load(Ordering::Relaxed);
        let read = |n| fs_err::read_to_string(self.desk.path().join(format!("worker-{n}.log")));
        numbers.map(|n| format!("--- worker {n}\n{}", read(n).unwrap_or_default())).collect()
    }
}

impl Worker {
    fn said(&self) -> String {
        fs_err::read_to_string(&self.log).unwrap()
    }

    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    fn signal_to_end(&self) {
        let pid = self.child.id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    async fn ends(mut self) -> i32 {
        tokio::time::timeout(LIMIT, self.child.wait()).await.unwrap().unwrap().code().unwrap_or(-1)
    }
}

fn events(run: &Path, task: &str) -> Vec<Value> {
    let text = fs_err::read_to_string(run.join("samples").join(task).join("1/events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Numbers of the attempts that a trajectory holds.
fn attempts(run: &Path, task: &str) -> Vec<u64> {
    let events = events(run, task);
    let started = events.iter().filter(|event| event["type"] == "started");
    started.map(|event| event["attempt"].as_u64().unwrap()).collect()
}

fn all_right(run: &Path, count: usize) {
    let outcomes = outcomes(run);
    assert_eq!(outcomes.len(), count);
    for (task, outcome) in &outcomes {
        assert_eq!(outcome["score"]["correct"], true, "{task}: {outcome:#}");
    }
}

async fn no_container_left(run: &Path) {
    let id = run.file_name().unwrap().to_str().unwrap().to_owned();
    eventually("no container is left", LIMIT, async || containers("gaia.run", &id).await.is_empty()).await;
}

/// Two turns for each question.
fn slow(rows: &[(String, String)], latency_ms: u64) -> Script {
    rows.iter().fold(Script::new(), |script, (_, question)| {
        let think = turn::text("Let me see.").with_latency_ms(latency_ms);
        script.task(question, [think, turn::submit("blue").with_latency_ms(latency_ms)])
    })
}

fn sample_set() -> (PathBuf, Script) {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/samples");
    let script = Script::read(&samples.join("rehearsal.jsonl")).unwrap();
    (samples, script)
}

#[tokio::test]
async fn three_workers_make_of_the_sample_set_what_one_machine_makes() {
    let (samples, script) = sample_set();
    let model = ScriptedModel::start(script.clone(), Options::default()).await.unwrap();
    let site = Site::new();
    site.config(&model.base_url, &format!("[run]\nconcurrency = 6\n{SHELL_AND_SUBMIT}"));
    let dataset = format!("dataset.path={:?}", samples.to_str().unwrap());
    let alone = site.desk.gaia(&["run", "c.toml", "--set", &dataset, "--out", "alone"]).await;
    assert_eq!(alone.code, 0, "{alone:#?}");
    let alone = fs_err::read_dir(site.desk.path().join("alone")).unwrap().next().unwrap().unwrap().path();

    let workers: Vec<_> = (0..3).map(|_| site.worker(&["--concurrency", "2"])).collect();
    let coordinator = site.coordinator(&["run", "c.toml", "--set", &dataset]);
    let run = site.ends(coordinator, 0).await;
    assert_eq!(outcomes(&run), outcomes(&alone));
    assert_eq!(outcomes(&run).len(), script.tasks().len());
    for worker in &workers {
        eventually("each worker did its part", LIMIT, async || worker.said().contains("is done")).await;
    }
    let stats = model.stats();
    assert!(stats.violations.is_empty(), "{:#?}", stats.violations);
    model.close().await;
    // Trajectories and what they name are whole: the run can be played again from them alone.
    let replayed = site.desk.gaia(&["replay", "last"]).await;
    assert_eq!(replayed.code, 0, "{replayed:#?}");
    no_container_left(&run).await;
    for worker in workers {
        worker.signal_to_end();
        assert_eq!(worker.ends().await, 0);
    }
}

#[tokio::test]
async fn the_sample_of_a_killed_worker_is_begun_anew_by_another_and_its_half_stays() {
    let site = Site::new();
    let rows = site.questions(1);
    let model = ScriptedModel::start(slow(&rows, 1_500), Options::default()).await.unwrap();
    site.config(&model.base_url, SUBMIT);
    let first = site.worker(&[]);
    let coordinator = site.coordinator(&["run", "c.toml"]);
    model.wait_until(|stats| stats.ok >= 1).await;
    // Its first turn has arrived at the coordinator.
    eventually("the first turn is written", LIMIT, async || {
        let run = site.desk.runs().pop().unwrap();
        fs_err::read_to_string(run.join("samples/task-000/1/events.jsonl"))
            .is_ok_and(|text| text.contains("model_reply"))
    })
    .await;
    first.kill().await;
    let _second = site.worker(&[]);
    let run = site.ends(coordinator, 0).await;
    all_right(&run, 1);
    assert_eq!(attempts(&run, "task-000"), [1, 2]);
    let ends = events(&run, "task-000").iter().filter(|event| event["type"] == "finished").count();
    assert_eq!(ends, 1);
    model.close().await;
}

#[tokio::test]
async fn a_worker_that_was_cut_off_does_not_commit_what_another_has_begun_anew() {
    let site = Site::new();
    let rows = site.questions(2);
    // The second keeps the run open until the worker is back.
    let script = slow(&rows[..1], 2_500).task(
        &rows[1].1,
        [turn::text("Let me see.").with_latency_ms(20_000), turn::submit("blue").with_latency_ms(1_000)],
    );
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    site.config(&model.base_url, SUBMIT);
    let wire = Wire::to(site.nats.port()).await.unwrap();
    let cut_off = site.worker_at(&wire.url(), &["--concurrency", "1"]);
    let coordinator = site.coordinator(&["run", "c.toml"]);
    eventually("the first sample is begun", LIMIT, async || {
        site.desk.runs().pop().is_some_and(|run| run.join("samples/task-000/1/events.jsonl").is_file())
    })
    .await;
    wire.cut();
    let _other = site.worker(&["--concurrency", "2"]);
    let committed = async || {
        site.desk.runs().pop().is_some_and(|run| run.join("samples/task-000/1/result.json").is_file())
    };
    eventually("another worker ends the sample", LIMIT, committed).await;
    let run = site.desk.runs().pop().unwrap();
    let result = fs_err::read_to_string(run.join("samples/task-000/1/result.json")).unwrap();
    wire.mend();
    eventually("the worker sees that it is not its own any more", LIMIT, async || {
        let said = cut_off.said();
        said.contains("does not count") || said.contains("ran out")
    })
    .await;
    let run = site.ends(coordinator, 0).await;
    all_right(&run, 2);
    assert_eq!(fs_err::read_to_string(run.join("samples/task-000/1/result.json")).unwrap(), result);
    assert_eq!(attempts(&run, "task-000"), [1, 2]);
    model.close().await;
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_costs_nothing() {
    let mut site = Site::new();
    let rows = site.questions(20);
    let model = ScriptedModel::start(slow(&rows, 300), Options::default()).await.unwrap();
    site.config(&model.base_url, SUBMIT);
    let _workers = [site.worker(&["--concurrency", "2"]), site.worker(&["--concurrency", "2"])];
    let coordinator = site.coordinator(&["run", "c.toml"]);
    for at_least in [6, 20] {
        model.wait_until(|stats| stats.ok >= at_least).await;
        site.nats.kill().unwrap();
        site.nats.start_again().unwrap();
    }
    let run = site.ends(coordinator, 0).await;
    all_right(&run, 20);
    model.close().await;
}

#[tokio::test]
async fn a_coordinator_that_is_killed_finds_everything_when_it_resumes() {
    let site = Site::new();
    let rows = site.questions(16);
    let model = ScriptedModel::start(slow(&rows, 400), Options::default()).await.unwrap();
    site.config(&model.base_url, SUBMIT);
    let _workers = [site.worker(&["--concurrency", "2"]), site.worker(&["--concurrency", "2"])];
    let mut coordinator = site.coordinator(&["run", "c.toml"]);
    model.wait_until(|stats| stats.ok >= 8).await;
    coordinator.kill().await.unwrap();
    // The workers go on without it.
    model.wait_until(|stats| stats.ok >= 20).await;
    let resumed = site.coordinator(&["resume", "last"]);
    let run = site.ends(resumed, 0).await;
    all_right(&run, 16);
    let stats = model.stats();
    for (id, question) in &rows {
        assert_eq!(attempts(&run, id), [1], "{id}");
        assert_eq!(stats.tasks[question].turns.values().sum::<u64>(), 2, "{id} was asked twice");
    }
    model.close().await;
}

#[tokio::test]
async fn a_sample_that_kills_its_workers_ends_in_an_error() {
    let site = Site::new();
    let rows = site.questions(4);
    let model = ScriptedModel::start(slow(&rows, 50), Options::default()).await.unwrap();
    // A server that takes its host down when it is started for that sample.
    let trap = "\n[mcp_servers.trap]\ncommand = \"sh\"\nargs = [\"-c\", \"[ \\\"$GAIA_SAMPLE_ID\\\" != task-002 ] || kill \
                -9 $PPID; exec gaia-mcp-fetch\"]\nenabled_tools = [\"fetch\"]\n";
    let bin = gaia_tests::machine::program("gaia");
    let path = format!("{}:{}", bin.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let site = Site { desk: site.desk.with_variable("PATH", &path), ..site };
    site.config(&model.base_url, &format!("{SUBMIT}{trap}"));
    let mut coordinator = site.coordinator(&["run", "c.toml"]);
    let mut worker = site.worker(&["--concurrency", "1"]);
    let mut deaths = 0;
    let status = loop {
        tokio::select! {
            status = coordinator.wait() => break status.unwrap(),
            _ = worker.child.wait() => {
                deaths += 1;
                worker = site.worker(&["--concurrency", "1"]);
            }
            () = tokio::time::sleep(LIMIT) => panic!("still at work: {}\n{}", site.said(), site.logs()),
        }
    };
    assert_eq!(status.code(), Some(3), "{}", site.said());
    assert_eq!(deaths, 3);
    let run = site.desk.runs().pop().unwrap();
    let outcomes = outcomes(&run);
    assert_eq!(outcomes["task-002"]["status"], "error", "{outcomes:#?}");
    assert!(outcomes["task-002"]["error"]["message"].as_str().unwrap().contains("begun 3 times"));
    for task in ["task-000", "task-001", "task-003"] {
        assert_eq!(outcomes[task]["score"]["correct"], true);
    }
    model.close().await;
}

#[tokio::test]
async fn a_worker_without_a_variable_refuses_the_run_by_its_name_and_one_that_has_it_works() {
    let site = Site::new();
    let rows = site.questions(2);
    let model = ScriptedModel::start(slow(&rows, 20), Options::default()).await.unwrap();
    let text = "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\napi_key_env = \"FLEET_KEY\"\nbase_url = ";
    site.desk.write(
        "c.toml",
        &format!("{text}\"{}\"\n[agent]\nanswer_tool = \"submit/submit\"\n{SUBMIT}", model.base_url),
    );
    let without = site.worker(&[]);
    let url = site.nats.url();
    let command = ["run", "c.toml", "--nats", &url];
    let coordinator = site.desk.command(&command).env("FLEET_KEY", "sk-fleet-secret-1").spawn().unwrap();
    eventually("the worker says what is missing", LIMIT, async || without.said().contains("FLEET_KEY")).await;
    let listed = site.desk.gaia(&["workers", "--nats", &url, "--json"]).await;
    assert!(listed.code == 0 && listed.stdout.contains("FLEET_KEY"), "{listed:#?}");
    let table = site.desk.gaia(&["workers", "--nats", &url]).await;
    assert!(table.stdout.contains("0/4") && table.stdout.contains("FLEET_KEY"), "{}", table.stdout);
    let log = fs_err::File::create(site.desk.path().join("with.log")).unwrap().into_parts().0;
    let mut with = site
        .desk
        .command(&["worker", "--nats", &url, "--trust-coordinator"])
        .env("FLEET_KEY", "sk-fleet-secret-1")
        .stderr(log)
        .spawn()
        .unwrap();
    let output = tokio::time::timeout(LIMIT, coordinator.wait_with_output()).await.unwrap();
    let ended = Ended::from(output.unwrap());
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert!(ended.stderr.contains("FLEET_KEY"), "the coordinator tells of it: {}", ended.stderr);
    all_right(&site.desk.runs().pop().unwrap(), 2);
    with.kill().await.unwrap();
    model.close().await;
    // Nothing that went over the server, and lies in its files, holds the key.
    site_holds_no(&site.desk.path().join("jetstream"), b"sk-fleet-secret-1");
}

fn site_holds_no(folder: &Path, secret: &[u8]) {
    let files = crate::replay::snapshot(folder);
    assert!(!files.is_empty());
    for (path, content) in files {
        assert!(!content.windows(secret.len()).any(|part| part == secret), "{}", path.display());
    }
}

#[tokio::test]
async fn a_worker_of_another_version_says_both_versions() {
    let site = Site::new();
    let rows = site.questions(1);
    let model = ScriptedModel::start(slow(&rows, 20), Options::default()).await.unwrap();
    site.config(&model.base_url, SUBMIT);
    let coordinator = site.coordinator(&["run", "c.toml"]);
    let client = async_nats::connect(site.nats.url()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    eventually("the run is offered", LIMIT, async || context.get_key_value("GAIA_RUNS").await.is_ok()).await;
    let runs = context.get_key_value("GAIA_RUNS").await.unwrap();
    let mut watch = runs.watch_with_history(">").await.unwrap();
    let entry = watch.next().await.unwrap().unwrap();
    let mut offer: Value = serde_json::from_slice(&entry.value).unwrap();
    let own = offer["program_version"].as_str().unwrap().to_owned();
    offer["program_version"] = "99.0.0".into();
    // As if a coordinator of that version had offered it.
    runs.put(&entry.key, offer.to_string().into()).await.unwrap();
    let worker = site.worker(&[]);
    eventually("the worker refuses", LIMIT, async || {
        let said = worker.said();
        said.contains("99.0.0") && said.contains(&format!("this worker is gaia {own}"))
    })
    .await;
    eventually("the coordinator tells", LIMIT, async || site.said().contains("99.0.0")).await;
    runs.put(&entry.key, entry.value).await.unwrap();
    let run = site.ends(coordinator, 0).await;
    all_right(&run, 1);
    model.close().await;
}

#[tokio::test]
async fn a_worker_that_is_told_to_end_finishes_what_it_can_and_hands_back_the_rest() {
    let site = Site::new();
    let rows = site.questions(2);
    let script = slow(&rows[..1], 700)
        .task(&rows[1].1, [turn::text("Let me see.").with_latency_ms(8_000), turn::submit("blue")]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    site.config(&model.base_url, SUBMIT);
    let first = site.worker(&["--concurrency", "2", "--drain-timeout", "4s"]);
    // Handed back, a sample waits for nobody's claim to run out: this one never would.
    let url = site.nats.url();
    let options = ["run", "c.toml", "--nats", &url, "--claim-timeout", "1h"];
    let log = fs_err::File::create(site.desk.path().join("coordinator.log")).unwrap().into_parts().0;
    let coordinator = site.desk.command(&options).stderr(log).spawn().unwrap();
    model.wait_until(|stats| stats.requests >= 2).await;
    first.signal_to_end();
    let began = std::time::Instant::now();
    assert_eq!(first.ends().await, 0);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let run = site.desk.runs().pop().unwrap();
    eventually("the short one was finished", LIMIT, async || {
        run.join("samples/task-000/1/result.json").is_file()
    })
    .await;
    let _second = site.worker(&[]);
    let run = site.ends(coordinator, 0).await;
    all_right(&run, 2);
    assert_eq!(attempts(&run, "task-000"), [1]);
    model.close().await;
}

#[tokio::test]
async fn fifty_random_kills_of_workers_lose_no_sample_and_commit_none_twice() {
    let (samples, script) = sample_set();
    let site = Site::new();
    let dataset = format!("dataset.path={:?}", samples.to_str().unwrap());
    let model = ScriptedModel::start(script.clone(), Options::default()).await.unwrap();
    site.config(&model.base_url, &format!("[run]\nconcurrency = 6\n{SHELL_AND_SUBMIT}"));
    let alone = site.desk.gaia(&["run", "c.toml", "--set", &dataset, "--out", "alone"]).await;
    assert_eq!(alone.code, 0, "{alone:#?}");
    let alone = fs_err::read_dir(site.desk.path().join("alone")).unwrap().next().unwrap().unwrap().path();
    let undisturbed = outcomes(&alone);
    let client = async_nats::connect(site.nats.url()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let mut lives = Lives(0x57a7);
    let mut kills = 0;
    while kills < KILLS {
        let mut workers: Vec<_> = (0..3).map(|_| site.worker(&["--concurrency", "2"])).collect();
        let known = site.desk.runs();
        let mut coordinator =
            site.coordinator(&["run", "c.toml", "--set", &dataset, "--max-deliveries", "1000"]);
        let bucket = async {
            loop {
                if let Some(run) = site.desk.runs().into_iter().find(|run| !known.contains(run)) {
                    let id = run.file_name().unwrap().to_str().unwrap().to_owned();
                    if let Ok(store) = context.get_key_value(format!("GAIA_{id}")).await {
                        return store;
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let states = tokio::time::timeout(LIMIT, bucket).await.unwrap();
        let mut watch = states.watch_with_history(">").await.unwrap();
        let commits: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
        let counted = commits.clone();
        let counting = tokio::spawn(async move {
            while let Some(Ok(entry)) = watch.next().await {
                if entry.value.windows(11).any(|part| part == b"\"committed\"") {
                    *counted.lock().unwrap().entry(entry.key).or_default() += 1;
                }
            }
        });
        let status = loop {
            tokio::select! {
                status = coordinator.wait() => break status.unwrap(),
                () = tokio::time::sleep(lives.next()), if kills < KILLS => {
                    let victim = workers.remove(kills % workers.len());
                    victim.kill().await;
                    kills += 1;
                    workers.push(site.worker(&["--concurrency", "2"]));
                }
                () = tokio::time::sleep(LIMIT), if kills >= KILLS => {
                    panic!("still at work: {}\n{}", site.said(), site.logs())
                }
            }
        };
        assert_eq!(status.code(), Some(0), "{kills} kills: {}", site.said());
        let run = site.desk.runs().into_iter().find(|run| !known.contains(run)).unwrap();
        assert_eq!(outcomes(&run), undisturbed, "{kills} kills");
        all_is_readable(&run);
        for worker in workers {
            worker.kill().await;
        }
        no_container_left(&run).await;
        counting.abort();
        let commits = commits.lock().unwrap();
        assert!(commits.len() > undisturbed.len() / 2, "hardly any commit was seen: {commits:?}");
        assert!(commits.values().all(|count| *count == 1), "{commits:?}");
    }
    let stats = model.stats();
    assert!(stats.violations.is_empty(), "{:#?}", stats.violations);
    model.close().await;
}
