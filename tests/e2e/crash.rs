//! What can happen to a run from outside: killed at any instant, a full disk, an engine that restarts, a model that
//! is gone for a while. In the end there are the results of a run that nothing happened to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gaia_sandbox::Engine;
use gaia_tests::machine::sandbox_image;
use gaia_tests::scripted::{Options, Script, ScriptedModel, Stats, turn};
use serde_json::{Value, json};

use crate::gaia::{Desk, Ended, SHELL_AND_SUBMIT, containers, json, results};
use crate::private_engine::PrivateEngine;
use crate::support::eventually;

/// Kills of one test; there are two, which run side by side.
const KILLS: usize = 100;

/// A session of the sample set takes longer than this even on a quick machine, so most kills meet one at work.
const LONGEST_LIFE: Duration = Duration::from_millis(2_200);

/// From a kill to the last container gone, on a machine where others kill too.
const REMOVAL_LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_run_killed_a_hundred_times_at_random_ends_with_the_results_of_one_that_was_not() {
    kill_and_resume(0x9a1a).await;
}

#[tokio::test]
async fn a_hundred_more_kills_at_other_instants_change_nothing_either() {
    kill_and_resume(0x2026).await;
}

async fn kill_and_resume(seed: u64) {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/samples");
    let script = Script::read(&samples.join("rehearsal.jsonl")).unwrap();
    let desk = Desk::new();
    let undisturbed = {
        let model = ScriptedModel::start(script.clone(), Options::default()).await.unwrap();
        desk.write("c.toml", &config(&samples, &model.base_url));
        let ended = desk.gaia(&["run", "c.toml"]).await;
        assert_eq!(ended.code, 0, "{ended:#?}");
        model.close().await;
        outcomes(&desk.runs().pop().unwrap())
    };
    assert_eq!(undisturbed.len(), script.tasks().len());

    let mut lives = Lives(seed);
    let mut kills = 0;
    let mut runs = 0;
    while kills < KILLS {
        // One model for each run: what it counts is the work of this run alone.
        let model = ScriptedModel::start(script.clone(), Options::default()).await.unwrap();
        desk.write("c.toml", &config(&samples, &model.base_url));
        let known = desk.runs();
        let mut served_when_committed = BTreeMap::new();
        let run = loop {
            let run = desk.runs().into_iter().find(|run| !known.contains(run));
            let arguments = match &run {
                Some(run) => vec!["resume", run.to_str().unwrap()],
                None => vec!["run", "c.toml"],
            };
            let mut child = desk.command(&arguments).spawn().unwrap();
            let life = if kills < KILLS { lives.next() } else { Duration::MAX };
            if tokio::time::timeout(life, child.wait()).await.is_ok() {
                let ended = Ended::from(child.wait_with_output().await.unwrap());
                assert_eq!(ended.code, 0, "seed {seed:#x}, {kills} kills: {ended:#?}");
                break run.or_else(|| desk.runs().into_iter().find(|run| !known.contains(run))).unwrap();
            }
            child.kill().await.unwrap();
            kills += 1;
            if let Some(run) = desk.runs().into_iter().find(|run| !known.contains(run)) {
                let stats = model.stats();
                for result in results(&run) {
                    let task = result["task_id"].as_str().unwrap().to_owned();
                    let served = served(&stats, &task);
                    served_when_committed.entry(task).or_insert(served);
                }
            }
        };
        runs += 1;
        let stats = model.stats();
        model.close().await;
        let context = format!("seed {seed:#x}, {kills} kills, run {runs}");
        assert!(stats.violations.is_empty(), "{context}: {:#?}", stats.violations);
        assert_eq!(outcomes(&run), undisturbed, "{context}");
        for (task, before) in served_when_committed {
            assert_eq!(served(&stats, &task), before, "{context}: `{task}` had an outcome and ran again");
        }
        all_is_readable(&run);
        let id = run.file_name().unwrap().to_str().unwrap();
        eventually("no container is left", REMOVAL_LIMIT, async || {
            containers("gaia.run", id).await.is_empty()
        })
        .await;
    }
}

/// How long a session lives before it is killed.
pub(crate) struct Lives(pub(crate) u64);

impl Lives {
    /// The next of an even spread (splitmix64).
    pub(crate) fn next(&mut self) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        LONGEST_LIFE.mul_f64((mixed >> 11) as f64 / (1u64 << 53) as f64)
    }
}

fn config(samples: &Path, base_url: &str) -> String {
    format!(
        "[dataset]\npath = \"{}\"\n[model]\nname = \"scripted\"\nbase_url = \"{base_url}\"\n[agent]\nanswer_tool = \
         \"submit/submit\"\n[run]\nconcurrency = 6\n{SHELL_AND_SUBMIT}",
        samples.display()
    )
}

/// What must not depend on what happened on the way; times and tokens (output holds durations) do.
pub(crate) fn outcomes(run: &Path) -> BTreeMap<String, Value> {
    let kept = |result: &Value| {
        let keys =
            ["epoch", "level", "status", "answer", "raw_answer", "steps", "tool_calls", "score", "error"];
        keys.map(|key| (key, result[key].clone()))
    };
    let outcome = |result: &Value| {
        let task = result["task_id"].as_str().unwrap().to_owned();
        (task, json!(BTreeMap::from(kept(result))))
    };
    results(run).iter().map(outcome).collect()
}

fn served(stats: &Stats, task: &str) -> u64 {
    stats.tasks.get(task).map_or(0, |task| task.turns.values().sum::<u64>() + task.forced)
}

/// Every file of a run that ended is whole, and nothing half written is left beside them.
pub(crate) fn all_is_readable(run: &Path) {
    let mut folders = vec![run.to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(!name.starts_with('.'), "half a file is left: {}", path.display());
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".jsonl") {
                for line in fs_err::read_to_string(&path).unwrap().lines() {
                    serde_json::from_str::<Value>(line).unwrap_or_else(|error| {
                        panic!("{}: {error}: {line}", path.display());
                    });
                }
                seen += 1;
            } else if name.ends_with(".json") {
                json(&path);
                seen += 1;
            }
        }
    }
    assert!(seen > 2, "only {seen} files");
}

#[tokio::test]
async fn a_sample_lost_in_its_middle_goes_on_from_its_last_whole_turn() {
    let rows: Vec<_> = (0..3).map(|n| (format!("task-{n:02}"), format!("What is number {n:02}?"))).collect();
    // The answer is right only if every command has run once in the sandbox that answers.
    let script = rows.iter().fold(Script::new(), |script, (_, question)| {
        let step = || turn::bash("echo x >> count; wc -l < count").with_latency_ms(300);
        let mut turns: Vec<_> = (0..5).map(|_| step()).collect();
        turns.push(turn::bash("echo ANSWER: $(wc -l < count)").with_latency_ms(300));
        turns.push(turn::submit("${answer}").with_latency_ms(300));
        script.task(question, turns)
    });
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    let lines: Vec<_> = rows.iter().map(|(id, question)| (id.as_str(), question.as_str(), 1, "5")).collect();
    desk.dataset(&lines);
    let text = light_config(&model.base_url)
        .replace("[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n", SHELL_AND_SUBMIT);
    desk.write("c.toml", &text);
    for at_least in [3, 5] {
        let arguments: &[&str] = if desk.runs().is_empty() {
            &["run", "c.toml"]
        } else {
            &["resume", "last", "--continue-samples"]
        };
        let mut child = desk.command(arguments).spawn().unwrap();
        let is_there = |stats: &Stats| {
            rows.iter().all(|(_, question)| {
                stats.tasks.get(question).is_some_and(|task| task.turns.keys().any(|turn| *turn >= at_least))
            })
        };
        model.wait_until(is_there).await;
        child.kill().await.unwrap();
    }
    let run = desk.runs().pop().unwrap();
    let ended = desk.gaia(&["resume", "last", "--continue-samples"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let stats = model.stats();
    model.close().await;
    assert!(stats.violations.is_empty(), "{:#?}", stats.violations);
    for (task, outcome) in &outcomes(&run) {
        assert!(outcome["score"]["correct"] == true && outcome["steps"] == 7, "{task}: {outcome:#}");
    }
    for (id, question) in &rows {
        let turns = &stats.tasks[question].turns;
        // The turn in flight at each kill is asked again, and no other.
        assert!(turns.values().sum::<u64>() <= 7 + 2, "{id}: {turns:?}");
        assert_eq!(turns[&0], 1, "{id} began anew: {turns:?}");
        let events = run.join("samples").join(id).join("1/events.jsonl");
        let events = fs_err::read_to_string(&events).unwrap();
        let replies = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let tokens: BTreeMap<u64, u64> = replies
            .filter(|event| event["type"] == "model_reply")
            .map(|event| (event["step"].as_u64().unwrap(), event["usage"]["input_tokens"].as_u64().unwrap()))
            .collect();
        let result = results(&run).into_iter().find(|result| result["task_id"] == **id).unwrap();
        let counted = result["usage"]["input_tokens"].as_u64().unwrap();
        assert_eq!(counted, tokens.values().sum::<u64>(), "{id}: tokens of earlier sessions count");
    }
    let replayed = desk.gaia(&["replay", "last"]).await;
    assert_eq!(replayed.code, 0, "{replayed:#?}");
}

/// Questions and their script without a shell; `weight` bytes are thought aloud in each turn.
fn light(count: usize, weight: usize, latency_ms: u64) -> (Vec<(String, String)>, Script) {
    let rows: Vec<_> =
        (0..count).map(|n| (format!("task-{n:02}"), format!("What is number {n:02}?"))).collect();
    let script = rows.iter().fold(Script::new(), |script, (_, question)| {
        let turn = || turn::text(&"x".repeat(weight)).with_latency_ms(latency_ms);
        script.task(question, [turn(), turn::submit("blue").with_latency_ms(latency_ms)])
    });
    (rows, script)
}

fn dataset(desk: &Desk, rows: &[(String, String)]) {
    let rows: Vec<_> =
        rows.iter().map(|(id, question)| (id.as_str(), question.as_str(), 1, "blue")).collect();
    desk.dataset(&rows);
}

fn light_config(base_url: &str) -> String {
    format!(
        "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{base_url}\"\n[agent]\nanswer_tool = \
         \"submit/submit\"\n[run]\nconcurrency = 3\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n"
    )
}

/// A file system of a few pages, which can be made larger.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(path: PathBuf, size: &str) -> Self {
        fs_err::create_dir(&path).unwrap();
        let disk = Self(path);
        disk.mount(&format!("size={size}"));
        disk
    }

    fn grow(&self, size: &str) {
        self.mount(&format!("remount,size={size}"));
    }

    fn mount(&self, options: &str) {
        let path = self.0.to_str().unwrap();
        let ended = as_root(&["mount", "-t", "tmpfs", "-o", options, "tmpfs", path]);
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let ended = as_root(&["chmod", "777", path]);
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        as_root(&["umount", "-l", self.0.to_str().unwrap()]);
    }
}

fn as_root(arguments: &[&str]) -> std::process::Output {
    let is_root = std::os::unix::fs::MetadataExt::uid(&fs_err::metadata("/proc/self").unwrap()) == 0;
    let sudo: &[&str] = if is_root { &[] } else { &["sudo", "-n"] };
    let all = [sudo, arguments].concat();
    std::process::Command::new(all[0]).args(&all[1..]).output().unwrap()
}

#[tokio::test]
async fn a_full_disk_ends_the_run_in_words_and_a_resume_does_the_rest() {
    let (rows, script) = light(12, 60_000, 0);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    desk.write("c.toml", &light_config(&model.base_url));
    let disk = SmallDisk::new(desk.path().join("runs"), "400k");
    let ended = desk.gaia(&["run", "c.toml"]).await;
    assert_eq!(ended.code, 1, "{ended:#?}");
    assert!(ended.stderr.contains("No space left") && ended.stderr.contains("gaia resume"), "{ended:#?}");
    let run = desk.runs().pop().unwrap();
    let committed: Vec<String> = outcomes(&run).into_keys().collect();
    assert!(!committed.is_empty() && committed.len() < rows.len(), "{committed:?}");
    let before = model.stats();

    // Still full: it says so again and takes nothing away.
    let again = desk.gaia(&["resume", "last"]).await;
    assert_ne!(again.code, 0, "{again:#?}");
    for task in &committed {
        assert!(outcomes(&run).contains_key(task), "{task} lost its outcome");
    }

    disk.grow("40m");
    let ended = desk.gaia(&["resume", "last"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let outcomes = outcomes(&run);
    assert_eq!(outcomes.len(), rows.len());
    assert!(outcomes.values().all(|outcome| outcome["score"]["correct"] == true), "{outcomes:#?}");
    let after = model.stats();
    for (id, question) in rows.iter().filter(|(id, _)| committed.contains(id)) {
        assert_eq!(served(&after, question), served(&before, question), "{id} ran again");
    }
    all_is_readable(&run);
    model.close().await;
}

#[tokio::test]
async fn a_model_that_is_gone_for_a_while_costs_time_and_no_sample() {
    let (rows, script) = light(12, 10, 50);
    let model = ScriptedModel::start(script.clone(), Options::default()).await.unwrap();
    let address = model.base_url.trim_start_matches("http://").trim_end_matches("/v1").parse().unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    desk.write("c.toml", &light_config(&model.base_url));
    let child = desk.command(&["run", "c.toml"]).spawn().unwrap();
    model.wait_until(|stats| stats.ok >= 5).await;
    model.close().await;
    let run = desk.runs().pop().unwrap();
    eventually("a request is tried again", Duration::from_secs(60), async || {
        let events = rows.iter().map(|(id, _)| run.join("samples").join(id).join("1/events.jsonl"));
        let texts = events.filter_map(|path| fs_err::read_to_string(path).ok());
        texts.filter(|text| text.contains("\"model_retry\"")).count() >= 3
    })
    .await;
    let model =
        ScriptedModel::start(script, Options { listen: address, ..Options::default() }).await.unwrap();
    let ended = Ended::from(child.wait_with_output().await.unwrap());
    assert_eq!(ended.code, 0, "{ended:#?}");
    let outcomes = outcomes(&run);
    assert_eq!(outcomes.len(), rows.len());
    for (task, outcome) in &outcomes {
        assert!(outcome["score"]["correct"] == true && outcome["steps"] == 2, "{task}: {outcome:#}");
    }
    model.close().await;
}

#[tokio::test]
async fn an_engine_that_restarts_costs_no_sample_and_leaves_no_container() {
    let source = Engine::connect().await.unwrap();
    let mut engine = PrivateEngine::start(&source, &sandbox_image()).await;
    let rows: Vec<_> = (0..6).map(|n| (format!("task-{n:02}"), format!("What is number {n:02}?"))).collect();
    // Each turn prints the answer, since what is asked while there is no engine cannot be answered.
    let script = rows.iter().fold(Script::new(), |script, (_, question)| {
        let mut turns: Vec<_> =
            (0..12).map(|_| turn::bash("echo ANSWER: blue").with_latency_ms(500)).collect();
        turns.push(turn::submit("${answer}"));
        script.task(question, turns)
    });
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new().with_variable("DOCKER_HOST", &engine.address());
    dataset(&desk, &rows);
    let servers = SHELL_AND_SUBMIT.replace("enabled_tools", "env_vars = [\"DOCKER_HOST\"]\nenabled_tools");
    let text = light_config(&model.base_url)
        .replace("[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n", &servers);
    desk.write("c.toml", &text);
    let child = desk.command(&["run", "c.toml"]).spawn().unwrap();
    model.wait_until(|stats| stats.ok >= 12).await;
    engine.signal("TERM");
    engine.wait();
    let private = engine.resume().await;
    let ended = Ended::from(child.wait_with_output().await.unwrap());
    assert_eq!(ended.code, 0, "{ended:#?}");
    let run = desk.runs().pop().unwrap();
    let outcomes = outcomes(&run);
    assert_eq!(outcomes.len(), rows.len());
    for (task, outcome) in &outcomes {
        assert!(outcome["score"]["correct"] == true && outcome["steps"] == 13, "{task}: {outcome:#}");
    }
    eventually("no container is left", REMOVAL_LIMIT, async || {
        private.list(&gaia_sandbox::LabelFilter::default()).await.unwrap().is_empty()
    })
    .await;
    model.close().await;
}

/// The process of this name that `parent` started itself.
fn child_of(parent: u32, name: &str) -> Option<u32> {
    let tasks = fs_err::read_dir(format!("/proc/{parent}/task")).ok()?;
    let children = tasks.filter_map(|task| fs_err::read_to_string(task.ok()?.path().join("children")).ok());
    let ids: Vec<u32> = children
        .flat_map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
        .collect();
    ids.into_iter().find(|id| {
        let line = fs_err::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
        program.ends_with(name.as_bytes())
    })
}

#[tokio::test]
async fn a_server_of_all_samples_that_is_killed_costs_calls_and_no_sample() {
    let rows: Vec<_> = (0..6).map(|n| (format!("task-{n:02}"), format!("What is number {n:02}?"))).collect();
    // Each turn prints the answer, since what was asked of the killed server is lost.
    let script = rows.iter().fold(Script::new(), |script, (_, question)| {
        let mut turns: Vec<_> =
            (0..8).map(|_| turn::bash("sleep 0.2; echo ANSWER: blue").with_latency_ms(100)).collect();
        turns.push(turn::submit("${answer}"));
        script.task(question, turns)
    });
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    let text = light_config(&model.base_url)
        .replace("[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n", SHELL_AND_SUBMIT);
    desk.write("c.toml", &text);
    let child = desk.command(&["run", "c.toml"]).spawn().unwrap();
    for at_least in [8, 24] {
        model.wait_until(|stats| stats.ok >= at_least).await;
        let server = child_of(child.id().unwrap(), "gaia-mcp-bash").expect("one server for all samples");
        let killed =
            std::process::Command::new("kill").args(["-KILL", &server.to_string()]).status().unwrap();
        assert!(killed.success());
    }
    let ended = Ended::from(child.wait_with_output().await.unwrap());
    assert_eq!(ended.code, 0, "{ended:#?}");
    let stats = model.stats();
    model.close().await;
    assert!(stats.violations.is_empty(), "{:#?}", stats.violations);
    let run = desk.runs().pop().unwrap();
    let outcomes = outcomes(&run);
    assert_eq!(outcomes.len(), rows.len());
    for (task, outcome) in &outcomes {
        assert!(outcome["score"]["correct"] == true && outcome["steps"] == 9, "{task}: {outcome:#}");
    }
    let logs = rows.iter().map(|(id, _)| run.join("samples").join(id).join("1/events.jsonl"));
    let told: usize = logs
        .map(|log| fs_err::read_to_string(log).unwrap())
        .map(|log| {
            log.lines().filter(|line| line.contains("tool_result") && line.contains("was restarted")).count()
        })
        .sum();
    assert!(told >= 2, "the model was told {told} times");
    assert!(json(&run.join("run.json"))["host"]["docker_version"].is_string(), "the engine is named");
    let id = run.file_name().unwrap().to_str().unwrap();
    eventually("no container is left", REMOVAL_LIMIT, async || containers("gaia.run", id).await.is_empty())
        .await;
}
