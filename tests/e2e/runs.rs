//! Whole runs: the sample set against a scripted model that misbehaves, crashes, and what is left on disk.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use gaia_tests::scripted::{Fault, FaultRate, Options, Script, ScriptedModel, turn};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::gaia::{Desk, Ended, SHELL_AND_SUBMIT, containers, json, results};
use crate::support::eventually;

/// Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

fn configs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs")
}

fn sample_config(base_url: &str) -> String {
    format!(
        r#"
[dataset]
path = "{}"

[model]
name = "scripted"
base_url = "{base_url}"

[agent]
answer_tool = "submit/submit"

[run]
concurrency = 5

{SHELL_AND_SUBMIT}"#,
        configs().join("samples").display()
    )
}

async fn no_container_left(run: &Path) {
    let id = run.file_name().unwrap().to_str().unwrap();
    assert_eq!(containers("gaia.run", id).await, Vec::<String>::new(), "containers of run {id} are left");
}

/// No truth, in any form a file could hold, outside of `score`.
fn truth_stays_out_of_events(run: &Path) {
    for result in results(run) {
        let (task, epoch) = (result["task_id"].as_str().unwrap(), &result["epoch"]);
        let events = run.join("samples").join(task).join(epoch.to_string()).join("events.jsonl");
        let text = fs_err::read_to_string(&events).unwrap();
        assert!(!text.contains("Final answer") && !text.contains("\"truth\""), "{}", events.display());
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            assert!(event["time"].is_string() && event["type"].is_string(), "{line}");
        }
    }
}

#[tokio::test]
async fn the_sample_set_is_answered_in_spite_of_a_tenth_of_the_requests_failing() {
    let script = Script::read(&configs().join("samples/rehearsal.jsonl")).unwrap();
    let rates = ["429=0.04", "500=0.03", "cut=0.03"].map(|rate| rate.parse::<FaultRate>().unwrap());
    let options = Options { faults: rates.to_vec(), retry_after_secs: 0, seed: 7, ..Options::default() };
    let model = ScriptedModel::start(script.clone(), options).await.unwrap();
    let desk = Desk::new();
    desk.write("c.toml", &sample_config(&model.base_url));

    let ended = desk.gaia(&["run", "c.toml", "--json"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let stats = model.stats();
    model.close().await;
    assert!(stats.violations.is_empty(), "{:#?}", stats.violations);
    let faults: u64 = stats.faults.values().sum();
    assert!(faults >= 5, "too few faults to show anything: {:?}", stats.faults);

    let run = desk.runs().pop().unwrap();
    let results = results(&run);
    assert_eq!(results.len(), script.tasks().len());
    for result in &results {
        assert_eq!(result["status"], "answered", "{result:#}");
        assert_eq!(result["score"]["correct"], true, "{result:#}");
    }
    let printed: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(printed.is_object(), "{printed}");
    truth_stays_out_of_events(&run);
    no_container_left(&run).await;
    for file in ["run.json", "report.md", "submission.jsonl", "SUBMISSION_GUIDE.md"] {
        assert!(run.join(file).is_file(), "no {file}");
    }
    let submission = fs_err::read_to_string(run.join("submission.jsonl")).unwrap();
    assert_eq!(submission.lines().count(), results.len());
    for line in submission.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["task_id"].is_string() && line["model_answer"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn the_rehearsal_says_in_every_output_that_it_is_one() {
    let desk = Desk::new();
    let config = configs().join("rehearsal.toml");
    let ended = desk.gaia(&["run", config.to_str().unwrap(), "--limit", "3"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let run = desk.runs().pop().unwrap();
    assert!(ended.stdout.to_lowercase().contains("rehearsal"), "{}", ended.stdout);
    for title in ["Model", "Dataset", "Metric", "Subset", "Num", "Score"] {
        assert!(ended.stdout.contains(title), "no column {title}:\n{}", ended.stdout);
    }
    assert!(fs_err::read_to_string(run.join("report.md")).unwrap().to_lowercase().contains("rehearsal"));
    assert_eq!(json(&run.join("run.json"))["rehearsal"], true);
    let again = desk.gaia(&["report", "last"]).await;
    assert_eq!(again.code, 0, "{again:#?}");
    assert!(again.stdout.to_lowercase().contains("rehearsal"), "{}", again.stdout);
    no_container_left(&run).await;
}

/// Questions that one turn answers, without a sandbox.
fn quick(base_url: &str, concurrency: u32) -> String {
    format!(
        "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{base_url}\"\nmax_retries = 1\n[agent]\nanswer_tool = \"submit/submit\"\n[run]\nconcurrency = {concurrency}\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n"
    )
}

fn rows(count: usize) -> Vec<(String, String)> {
    (0..count).map(|n| (format!("task-{n:02}"), format!("What is number {n:02}?"))).collect()
}

fn dataset(desk: &Desk, rows: &[(String, String)]) {
    let level = |n: usize| u8::try_from(n % 3 + 1).unwrap();
    let rows: Vec<(&str, &str, u8, &str)> = rows
        .iter()
        .enumerate()
        .map(|(n, (id, question))| (id.as_str(), question.as_str(), level(n), "blue"))
        .collect();
    desk.dataset(&rows);
}

#[tokio::test]
async fn a_wrong_or_missing_answer_stays_in_the_denominator() {
    let rows = rows(4);
    let script = Script::new()
        .task(&rows[0].1, [turn::submit("blue")])
        .task(&rows[1].1, [turn::submit("red")])
        .with(
            gaia_tests::scripted::TaskScript::new(&rows[2].1, [turn::text("hm")])
                .repeat_last()
                .forced_answer(" "),
        )
        .task(&rows[3].1, [turn::submit("blue").with_faults([gaia_tests::scripted::Fault::ServerError; 2])]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    desk.write("c.toml", &quick(&model.base_url, 2));
    let ended = desk.gaia(&["run", "c.toml"]).await;
    model.close().await;
    assert_eq!(ended.code, 3, "a sample ended in an error: {ended:#?}");
    let run = desk.runs().pop().unwrap();
    let mut outcomes: Vec<(String, String, bool)> = results(&run)
        .iter()
        .map(|result| {
            let text = |key: &str| result[key].as_str().unwrap().to_owned();
            (text("task_id"), text("status"), result["score"]["correct"].as_bool().unwrap())
        })
        .collect();
    outcomes.sort();
    let expected = [
        ("task-00", "answered", true),
        ("task-01", "answered", false),
        ("task-02", "no_answer", false),
        ("task-03", "error", false),
    ];
    assert_eq!(outcomes, expected.map(|(id, status, correct)| (id.to_owned(), status.to_owned(), correct)));
    assert!(ended.stdout.contains("0.25") || ended.stdout.contains("25.0"), "{}", ended.stdout);
}

#[tokio::test]
async fn a_killed_run_is_resumed_without_repeating_a_finished_sample() {
    let rows = rows(12);
    let slow = rows.iter().fold(Script::new(), |script, (_, question)| {
        script.task(question, [turn::submit("blue").with_latency_ms(150)])
    });
    let model = ScriptedModel::start(slow, Options::default()).await.unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    desk.write("c.toml", &quick(&model.base_url, 2));

    let mut child = desk.command(&["run", "c.toml"]).spawn().unwrap();
    model.wait_until(|stats| stats.ok >= 5).await;
    child.kill().await.unwrap();
    let run = desk.runs().pop().unwrap();
    let committed: Vec<String> =
        results(&run).iter().map(|result| result["task_id"].as_str().unwrap().to_owned()).collect();
    assert!(!committed.is_empty() && committed.len() < 12, "{committed:?}");

    let ended = desk.gaia(&["resume", "last"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert_eq!(results(&run).len(), 12);
    assert_eq!(desk.runs().len(), 1);
    let stats = model.stats();
    for (id, question) in &rows {
        let served: usize =
            stats.tasks[question].turns.values().map(|count| usize::try_from(*count).unwrap()).sum();
        let most = if committed.contains(id) { 1 } else { 2 };
        assert!(served <= most, "{id} was served {served} times");
    }
    model.close().await;
}

#[tokio::test]
async fn a_killed_run_leaves_no_container_even_in_the_middle_of_a_command() {
    let rows = rows(3);
    let script = rows.iter().fold(Script::new(), |script, (_, question)| {
        let sleep = turn::bash("trap '' TERM HUP; echo begun; setsid sleep 300 & sleep 300");
        script.task(question, [sleep, turn::submit("blue")])
    });
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    let config = sample_config(&model.base_url);
    desk.write("c.toml", &config.replace(configs().join("samples").to_str().unwrap(), "samples"));
    let mut child = desk.command(&["run", "c.toml"]).spawn().unwrap();
    let all_run = async {
        loop {
            let Some(run) = desk.runs().pop() else {
                continue_soon().await;
                continue;
            };
            let id = run.file_name().unwrap().to_str().unwrap().to_owned();
            let mut busy = 0;
            for container in containers("gaia.run", &id).await {
                let top =
                    tokio::process::Command::new("docker").args(["top", &container]).output().await.unwrap();
                busy += usize::from(String::from_utf8_lossy(&top.stdout).contains("sleep 300"));
            }
            if busy == rows.len() {
                return id;
            }
            continue_soon().await;
        }
    };
    let id =
        tokio::time::timeout(Duration::from_secs(120), all_run).await.expect("every sample runs its command");
    child.kill().await.unwrap();
    let gone = async {
        while !containers("gaia.run", &id).await.is_empty() {
            continue_soon().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), gone).await.expect("no container is left after 5 seconds");
    model.close().await;
}

/// Between two looks at what another process does.
async fn continue_soon() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test]
async fn a_resume_takes_other_limits_and_refuses_what_would_make_answers_incomparable() {
    let rows = rows(4);
    let script = rows.iter().fold(Script::new(), |script, (id, question)| {
        let fail = turn::submit("blue").with_faults([Fault::RefusedContent]);
        script.task(question, [if id == "task-02" { fail } else { turn::submit("blue") }])
    });
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    desk.write("c.toml", &quick(&model.base_url, 2));
    let ended = desk.gaia(&["run", "c.toml"]).await;
    assert_eq!(ended.code, 3, "{ended:#?}");
    let run = desk.runs().pop().unwrap();
    assert_eq!(results(&run).iter().filter(|result| result["status"] == "error").count(), 1);

    // Nothing of the run changes when it is refused.
    let before = results(&run);
    for (set, named) in [
        ("model.params.temperature=0.5", "model.params"),
        ("model.name=\"other\"", "model: scripted → other"),
        ("agent.result_bytes=5000", "agent.result_bytes"),
        ("model.accepts=[\"image/\"]", "model.accepts"),
    ] {
        let refused = desk.gaia(&["resume", "last", "--rerun", "errors", "--set", set]).await;
        assert_eq!(refused.code, 2, "{set}: {refused:#?}");
        assert!(refused.stderr.contains(named) && refused.stderr.contains("--as-new"), "{set}: {refused:#?}");
    }
    assert_eq!(results(&run).len(), before.len());

    let free = ["--concurrency", "1", "--set", "agent.max_steps=9", "--set", "model.max_retries=0"];
    let ended = desk.gaia(&[&["resume", "last", "--rerun", "task-02"][..], &free].concat()).await;
    assert!(matches!(ended.code, 0 | 3), "{ended:#?}");
    assert_eq!(model.stats().tasks[&rows[0].1].turns.len(), 1, "a finished sample was not asked again");

    let unknown = desk.gaia(&["resume", "last", "--rerun", "task-99"]).await;
    assert_eq!(unknown.code, 2, "{unknown:#?}");
    assert!(unknown.stderr.contains("no task `task-99`"), "{unknown:#?}");

    let ended = desk.gaia(&["resume", "last", "--as-new", "--set", "model.params.temperature=0.5"]).await;
    assert!(matches!(ended.code, 0 | 3), "{ended:#?}");
    let runs = desk.runs();
    assert_eq!(runs.len(), 2);
    assert_eq!(results(&runs[1]).len(), 4, "every question is asked anew");
    assert_eq!(json(&runs[1].join("run.json"))["config"]["model"]["params"]["temperature"], 0.5);
    assert_eq!(results(&run).len(), 4, "the first run is as it was");
    model.close().await;
}

#[tokio::test]
async fn a_resume_takes_another_concurrency_limit_and_address_at_once() {
    let rows = rows(8);
    let script = |latency_ms| {
        rows.iter().fold(Script::new(), |script, (_, question)| {
            script.task(question, [turn::text("hm").with_latency_ms(latency_ms), turn::submit("blue")])
        })
    };
    let first = ScriptedModel::start(script(100), Options::default()).await.unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    desk.write("c.toml", &quick(&first.base_url, 1));
    let mut child = desk.command(&["run", "c.toml"]).spawn().unwrap();
    first.wait_until(|stats| stats.ok >= 5).await;
    child.kill().await.unwrap();
    first.close().await;
    let run = desk.runs().pop().unwrap();
    let committed = results(&run).len();
    assert!((1..8).contains(&committed), "{committed} had an outcome");

    let second = ScriptedModel::start(script(200), Options::default()).await.unwrap();
    let url = format!("model.base_url=\"{}\"", second.base_url);
    let ended = desk
        .gaia(&["resume", "last", "--concurrency", "4", "--set", "agent.max_steps=7", "--set", &url])
        .await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert!(results(&run).iter().all(|result| result["score"]["correct"] == true));
    let stats = second.stats();
    assert_eq!(stats.tasks.len(), 8 - committed, "what had an outcome was not asked again");
    assert!(stats.max_in_flight > 1 && stats.max_in_flight <= 4, "{stats:#?}");
    let record = json(&run.join("run.json"));
    let sessions = record["sessions"].as_array().unwrap();
    assert_eq!((sessions.len(), &sessions[0]["concurrency"]), (2, &1.into()));
    assert_eq!(sessions[1]["concurrency"], 4);
    assert_eq!(sessions[1]["endpoint"], second.base_url);
    assert_eq!(sessions[1]["config"]["agent"]["max_steps"], 7);
    assert_ne!(record["config"]["agent"]["max_steps"], 7, "what the run began with stays");
    second.close().await;
}

#[tokio::test]
async fn the_first_interrupt_lets_running_samples_finish_and_a_resume_does_the_rest() {
    let rows = rows(8);
    let slow = rows.iter().fold(Script::new(), |script, (_, question)| {
        script.task(question, [turn::submit("blue").with_latency_ms(400)])
    });
    let model = ScriptedModel::start(slow, Options::default()).await.unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    desk.write("c.toml", &quick(&model.base_url, 2));
    let child = desk.command(&["run", "c.toml"]).spawn().unwrap();
    model.wait_until(|stats| stats.requests >= 3).await;
    let pid = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = Ended::from(child.wait_with_output().await.unwrap());
    assert_eq!(ended.code, 3, "{ended:#?}");
    let run = desk.runs().pop().unwrap();
    let finished = results(&run).len();
    assert!((1..8).contains(&finished), "{finished} finished");
    let stats = model.stats();
    assert_eq!(
        stats.tasks.values().map(|task| task.turns.len()).sum::<usize>(),
        finished,
        "a running sample was dropped"
    );
    let ended = desk.gaia(&["resume", "last"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert_eq!(results(&run).len(), 8);
    model.close().await;
}

/// What a signal of each kind does: first one, then another, then a third.
#[tokio::test]
async fn the_second_signal_cancels_and_the_third_leaves_at_once() {
    for signal in ["-INT", "-TERM"] {
        let rows = rows(3);
        let script = rows.iter().fold(Script::new(), |script, (_, question)| {
            script.task(question, [turn::submit("blue").with_latency_ms(3_600_000)])
        });
        let model = ScriptedModel::start(script, Options::default()).await.unwrap();
        let desk = Desk::new();
        dataset(&desk, &rows);
        desk.write("c.toml", &quick(&model.base_url, 2));
        // A server that neither closed input nor SIGTERM ends keeps the second signal from being the last.
        let stubborn = desk.write(
            "stubborn.sh",
            &format!(
                "echo $$ >> {}\ntrap '' TERM HUP INT\n\"$1\"\nwhile true; do sleep 0.2; done\n",
                desk.path().join("pids").display()
            ),
        );
        let submit = gaia_tests::machine::program("gaia-mcp-submit");
        let config = quick(&model.base_url, 2).replace(
            "command = \"gaia-mcp-submit\"",
            &format!("command = \"bash\"\nargs = [\"{}\", \"{}\"]", stubborn.display(), submit.display()),
        );
        desk.write("stubborn.toml", &config);

        let (mut child, pid, mut lines) = begun(&desk, "c.toml", &model, 2).await;
        send(signal, &pid);
        said(&mut lines, "running samples finish").await;
        said(&mut lines, "waiting for 2 running samples: task-0").await;
        send(signal, &pid);
        said(&mut lines, "cancelling the running samples").await;
        let rest = the_rest(&mut lines).await;
        assert_eq!(child.wait().await.unwrap().code(), Some(3), "{rest}");
        assert!(rest.contains("3 of 3 samples have no outcome"), "{rest}");
        assert_eq!(results(&desk.runs().pop().unwrap()).len(), 0);

        let asked = model.stats().requests;
        let (mut child, pid, mut lines) = begun(&desk, "stubborn.toml", &model, asked + 2).await;
        for words in ["running samples finish", "cancelling the running samples", "leaving"] {
            send(signal, &pid);
            said(&mut lines, words).await;
        }
        let rest = the_rest(&mut lines).await;
        assert_eq!(child.wait().await.unwrap().code(), Some(3), "{rest}");
        assert!(!rest.contains("Report") && !rest.contains("no outcome"), "it did not leave at once: {rest}");
        let pids = fs_err::read_to_string(desk.path().join("pids")).unwrap();
        assert!(pids.lines().count() > 0);
        let lives = |pid: &str| {
            // Who was killed may stay on the list of processes until its new parent looks.
            let status = fs_err::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            !status.is_empty() && !status.contains("State:\tZ")
        };
        eventually("no server lives on", LIMIT, async || !pids.lines().any(lives)).await;
        model.close().await;
    }
}

/// What was spent is spent, whatever came of it: on samples that were cancelled and on those that were done again.
#[tokio::test]
async fn what_cancelled_samples_cost_is_in_the_totals_and_named_apart() {
    let rows = rows(2);
    let script = Script::new().task(&rows[0].1, [turn::submit("blue").with_usage(100, 10)]).task(
        &rows[1].1,
        [
            turn::text("hm").with_usage(1_000, 100),
            turn::submit("blue").with_usage(2_000, 200).with_latency_ms(3_600_000),
        ],
    );
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    let config = quick(&model.base_url, 2)
        .replace("max_retries = 1", "max_retries = 1\nprice = { input = 1.0, output = 10.0 }");
    desk.write("c.toml", &config);
    let (mut child, pid, mut lines) = begun(&desk, "c.toml", &model, 3).await;
    send("-INT", &pid);
    said(&mut lines, "running samples finish").await;
    send("-INT", &pid);
    the_rest(&mut lines).await;
    assert_eq!(child.wait().await.unwrap().code(), Some(3));
    let run = desk.runs().pop().unwrap();
    let totals = json(&run.join("run.json"))["totals"].clone();
    assert_eq!((&totals["missing"], &totals["answered"]), (&1.into(), &1.into()), "{totals:#}");
    let tokens = |usage: &Value| (usage["input_tokens"].as_u64(), usage["output_tokens"].as_u64());
    assert_eq!(tokens(&totals["usage"]), (Some(1_100), Some(110)), "{totals:#}");
    assert_eq!(tokens(&totals["lost"]["usage"]), (Some(1_000), Some(100)), "{totals:#}");
    let dollars = |value: &Value| (value.as_f64().unwrap() * 1e6).round();
    assert_eq!((dollars(&totals["cost_usd"]), dollars(&totals["lost"]["cost_usd"])), (2_200.0, 2_000.0));
    let lost = "1\u{202f}100 tokens ($0.00200) in attempts that were cancelled, cut off or done again";
    for file in ["report.md", "report.html"] {
        let text = fs_err::read_to_string(run.join(file)).unwrap();
        assert!(text.contains(lost), "{file}:\n{text}");
    }
    let text = fs_err::read_to_string(run.join("report.md")).unwrap();
    assert!(
        text.contains("- Tokens: 1100 in (0 cached), 110 out") && text.contains("- Cost: 0.0022 "),
        "{text}"
    );
    model.close().await;

    // The one that is asked next answers at once; what was spent before stays spent.
    let script = Script::new().task(&rows[1].1, [turn::submit("blue").with_usage(10, 1)]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let ended = desk.gaia(&["resume", "last", "--base-url", &model.base_url]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert!(
        ended.stdout.contains(&format!("Lost: of the 1\u{202f}221 tokens spent, {lost}")),
        "{}",
        ended.stdout
    );
    let totals = json(&run.join("run.json"))["totals"].clone();
    assert_eq!(tokens(&totals["usage"]), (Some(1_110), Some(111)), "{totals:#}");
    assert_eq!(tokens(&totals["lost"]["usage"]), (Some(1_000), Some(100)), "{totals:#}");
    model.close().await;
}

/// Refused before anything is started or pulled for it: neither the image nor the server nor the model is there.
#[tokio::test]
async fn what_makes_a_run_incomparable_is_refused_before_anything_is_started() {
    let rows = rows(1);
    let script = Script::new().task(&rows[0].1, [turn::submit("blue")]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    desk.write("c.toml", &quick(&model.base_url, 1));
    let ended = desk.gaia(&["run", "c.toml"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    model.close().await;
    for (flags, named) in [
        (&["--model", "other"][..], "model: scripted → other"),
        (
            &["--set", "mcp_servers.submit.command=\"no-such-program\""],
            "mcp_servers.submit.command: \"gaia-mcp-submit\" → \"no-such-program\"",
        ),
        (
            &[
                "--set",
                "mcp_servers.bash={ command = \"gaia-mcp-bash\", args = [\"--image\", \"nowhere.invalid/x:1\"] }",
            ],
            "mcp_servers.bash: not set →",
        ),
    ] {
        let refused = desk.gaia(&[&["resume", "last", "--rerun", "task-00"], flags].concat()).await;
        assert_eq!(refused.code, 2, "{flags:?}: {refused:#?}");
        assert!(
            refused.stderr.contains(named) && refused.stderr.contains("--as-new"),
            "{flags:?}: {refused:#?}"
        );
        assert!(!refused.stderr.contains("starting every MCP server"), "{flags:?}: {refused:#?}");
    }
}

type Lines = tokio::io::Lines<BufReader<tokio::process::ChildStderr>>;

/// A run whose model has been asked so often.
async fn begun(
    desk: &Desk,
    config: &str,
    model: &ScriptedModel,
    requests: u64,
) -> (tokio::process::Child, String, Lines) {
    let mut child = desk.command(&["run", config]).spawn().unwrap();
    model.wait_until(|stats| stats.requests >= requests).await;
    let pid = child.id().unwrap().to_string();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    (child, pid, lines)
}

fn send(signal: &str, pid: &str) {
    assert!(std::process::Command::new("kill").args([signal, pid]).status().unwrap().success());
}

async fn said(lines: &mut Lines, words: &str) {
    let waiting = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(words) {
                return;
            }
        }
        panic!("it never said `{words}`");
    };
    tokio::time::timeout(Duration::from_secs(30), waiting)
        .await
        .unwrap_or_else(|_| panic!("it has not said `{words}`"));
}

async fn the_rest(lines: &mut Lines) -> String {
    let mut rest = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        rest.push_str(&line);
        rest.push('\n');
    }
    rest
}

#[tokio::test]
async fn two_processes_cannot_work_on_one_run() {
    let rows = rows(2);
    let slow = rows.iter().fold(Script::new(), |script, (_, question)| {
        script.task(question, [turn::submit("blue").with_latency_ms(3_000)])
    });
    let model = ScriptedModel::start(slow, Options::default()).await.unwrap();
    let desk = Desk::new();
    dataset(&desk, &rows);
    desk.write("c.toml", &quick(&model.base_url, 2));
    let child = desk.command(&["run", "c.toml"]).spawn().unwrap();
    model.wait_until(|stats| stats.requests >= 1).await;
    let second = desk.gaia(&["resume", "last"]).await;
    assert_eq!(second.code, 2, "{second:#?}");
    assert!(
        second.stderr.contains(&child.id().unwrap().to_string()),
        "the owner is not named: {}",
        second.stderr
    );
    let first = Ended::from(child.wait_with_output().await.unwrap());
    assert_eq!(first.code, 0, "{first:#?}");
    model.close().await;
}

#[tokio::test]
async fn secrets_are_in_no_file_and_no_output() {
    let rows = rows(1);
    let script = Script::new().task(&rows[0].1, [turn::submit("blue")]);
    let key = "sk-gaia-test-5f1c9a";
    let options =
        Options { api_key: gaia_tests::scripted::ApiKey::Required(key.to_owned()), ..Options::default() };
    let model = ScriptedModel::start(script, options).await.unwrap();
    let token = "token-gaia-test-77aa";
    let desk = Desk::new().with_variable("MODEL_KEY", key).with_variable("SERVER_TOKEN", token);
    dataset(&desk, &rows);
    let text = quick(&model.base_url, 1).replace("max_retries", "api_key_env = \"MODEL_KEY\"\nmax_retries");
    desk.write("c.toml", &format!("{text}env = {{ TOKEN = \"${{SERVER_TOKEN}}\" }}\n"));
    let ended = desk.gaia(&["-vv", "run", "c.toml"]).await;
    model.close().await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let mut texts = vec![ended.stdout, ended.stderr];
    let mut folders = vec![desk.path().join("runs")];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                texts.push(String::from_utf8_lossy(&fs_err::read(&path).unwrap()).into_owned());
            }
        }
    }
    assert!(texts.len() > 5);
    for text in texts {
        assert!(!text.contains(key) && !text.contains(token), "a secret is in:\n{text}");
    }
}

#[tokio::test]
async fn pairs_are_scored_line_by_line_as_the_vectors_say() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scorer/tests/vectors/scorer_vectors.jsonl");
    let desk = Desk::new();
    let mut command = desk.command(&["score", "--pairs", vectors.to_str().unwrap()]);
    let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let expected = fs_err::read_to_string(&vectors).unwrap();
    let mut count = 0;
    for wanted in expected.lines() {
        let wanted: Value = serde_json::from_str(wanted).unwrap();
        let line = lines.next_line().await.unwrap().expect("a line for each pair");
        let scored: Value = serde_json::from_str(&line).unwrap();
        for key in ["pred", "truth", "correct", "kind"] {
            assert_eq!(scored[key], wanted[key], "{key} of {wanted}");
        }
        assert!(scored["reason"].is_string(), "{scored}");
        count += 1;
    }
    assert_eq!(lines.next_line().await.unwrap(), None);
    assert!(count > 20_000, "{count} vectors");
    assert!(child.wait().await.unwrap().success());
}
