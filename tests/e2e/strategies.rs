//! Whole runs by every strategy: the sample set, models of roles, resuming, labels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gaia_tests::scripted::{Options, Script, ScriptedModel, Stats, TaskScript, Turn, turn};
use serde_json::{Value, json};

use crate::gaia::{Desk, Ended, SHELL_AND_SUBMIT, json as read_json, results};

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/samples")
}

fn rehearsal() -> Script {
    Script::read(&samples().join("rehearsal.jsonl")).unwrap()
}

fn config(dataset: &Path, base_url: &str, more: &str) -> String {
    format!(
        "[dataset]\npath = {dataset:?}\n[model]\nname = \"scripted\"\nbase_url = {base_url:?}\n\
         [agent]\nmax_steps = 40\n{more}\n{SHELL_AND_SUBMIT}"
    )
}

/// A run that has ended, and what its model saw.
struct Run {
    folder: PathBuf,
    ended: Ended,
    stats: Stats,
    _desk: Desk,
}

impl Run {
    /// Of the sample set.
    async fn of_samples(script: Script, strategy: &str) -> Self {
        let model = ScriptedModel::start(script, Options::default()).await.unwrap();
        let desk = Desk::new();
        desk.write("c.toml", &config(&samples(), &model.base_url, ""));
        let ended = desk.gaia(&["run", "c.toml", "--strategy", strategy]).await;
        assert_eq!(ended.code, 0, "{ended:#?}");
        let stats = model.stats();
        model.close().await;
        assert!(stats.violations.is_empty(), "{:#?}", stats.violations);
        let folder = desk.runs().pop().unwrap();
        Self { folder, ended, stats, _desk: desk }
    }

    fn events(&self, task_id: &str) -> Vec<Value> {
        let path = self.folder.join("samples").join(task_id).join("1/events.jsonl");
        let text = fs_err::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Every sample is right, its figures are those of its events, and the events are in order.
    fn check(&self) {
        let results = results(&self.folder);
        assert_eq!(results.len(), rehearsal().tasks().len());
        for result in &results {
            assert_eq!(result["status"], "answered", "{result:#}");
            assert_eq!(result["score"]["correct"], true, "{result:#}");
            let events = self.events(result["task_id"].as_str().unwrap());
            let of_type =
                |name: &str| events.iter().filter(|event| event["type"] == name).collect::<Vec<_>>();
            let replies = of_type("model_reply");
            assert_eq!(result["steps"], replies.len(), "{result:#}");
            let tokens =
                |name: &str| replies.iter().map(|reply| reply["usage"][name].as_u64().unwrap()).sum::<u64>();
            for name in ["input_tokens", "output_tokens"] {
                assert_eq!(result["usage"][name], tokens(name), "{result:#}");
            }
            assert_eq!(result["tool_calls"], of_type("tool_result").len(), "{result:#}");
            in_order(&events);
        }
        let record = read_json(&self.folder.join("run.json"));
        assert_eq!(
            record["totals"]["usage"]["input_tokens"].as_u64().unwrap(),
            sum(&results, "input_tokens")
        );
        assert_eq!(
            self.stats.requests,
            results.iter().map(|result| result["steps"].as_u64().unwrap()).sum::<u64>()
        );
    }

    fn label(&self) -> String {
        let report = fs_err::read_to_string(self.folder.join("report.md")).unwrap();
        let line = report.lines().find_map(|line| line.strip_prefix("- Answers: ")).unwrap();
        for output in [&self.ended.labels(), &report] {
            assert!(output.contains(&format!("official, {line}")), "no label `{line}`:\n{output}");
        }
        let guide = fs_err::read_to_string(self.folder.join("SUBMISSION_GUIDE.md")).unwrap();
        assert!(guide.contains(line), "{guide}");
        line.to_owned()
    }
}

fn sum(results: &[Value], name: &str) -> u64 {
    results.iter().map(|result| result["usage"][name].as_u64().unwrap()).sum()
}

/// One beginning, one end, and every event of a role between the beginning and the end of its branch.
fn in_order(events: &[Value]) {
    // A server's last words come when it is closed.
    let told: Vec<&Value> = events.iter().filter(|event| event["type"] != "server_notice").collect();
    assert_eq!(told[0]["type"], "started");
    assert_eq!(told.last().unwrap()["type"], "finished");
    let mut open: BTreeMap<String, bool> = BTreeMap::new();
    for event in events {
        let Some(branch) = event.get("branch").and_then(Value::as_str) else { continue };
        // The planner says one thing at a time; a server's last words may come when its run is over.
        if branch == "planner" || event["type"] == "server_notice" {
            continue;
        }
        match event["type"].as_str().unwrap() {
            "branch_started" => {
                assert_eq!(open.insert(branch.to_owned(), true), None, "{branch} began twice")
            }
            "branch_ended" => {
                assert!(open.insert(branch.to_owned(), false).is_some(), "{branch} never began")
            }
            "model_reply" | "tool_result" => {
                assert!(open.contains_key(branch), "{event} before its branch began");
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn vote_answers_the_sample_set() {
    let run = Run::of_samples(rehearsal(), "vote").await;
    run.check();
    assert_eq!(run.label(), "vote of 3 runs");
    let record = read_json(&run.folder.join("run.json"));
    assert_eq!(record["strategy"], json!({ "name": "vote", "runs": 3 }));
    assert_eq!(record["config"]["strategy"]["name"], "vote");
    let task = &rehearsal().tasks()[0].task_id.clone();
    let decided = run.events(task).into_iter().find(|event| event["type"] == "decided").unwrap();
    assert_eq!(decided["reason"], "2 of 2 runs agree", "{decided:#}");
    let branches: Vec<&Value> =
        decided["candidates"].as_array().unwrap().iter().map(|candidate| &candidate["branch"]).collect();
    assert_eq!(branches, ["run 1", "run 2"]);
    // Each has a container of its own: what the first wrote is not there for the second.
    let csv = run._desk.gaia(&["export", "last", "--format", "csv"]).await.stdout;
    assert!(csv.lines().skip(1).all(|line| line.contains(",vote of 3 runs,")), "{csv}");
    let figures = run._desk.gaia(&["report", "last", "--json"]).await.stdout;
    let figures: Value = serde_json::from_str(&figures).unwrap();
    assert_eq!(figures["figures"]["metrics"][0]["of"], "vote of 3 runs", "{figures:#}");
}

#[tokio::test]
async fn verify_answers_the_sample_set() {
    let run = Run::of_samples(rehearsal(), "verify").await;
    run.check();
    assert_eq!(run.label(), "single run, verified");
    for task in rehearsal().tasks() {
        let decided = run.events(&task.task_id).into_iter().find(|event| event["type"] == "decided").unwrap();
        assert_eq!(decided["reason"], "the verifier agrees", "{decided:#}");
    }
}

#[tokio::test]
async fn plan_answers_the_sample_set() {
    let mut script = Script::new();
    for task in rehearsal().tasks() {
        script = script.with(task.clone().forced_answer("1. Look at the file. 2. Hand in the answer."));
    }
    let run = Run::of_samples(script, "plan").await;
    run.check();
    assert_eq!(run.label(), "single run with plans");
    let task = &rehearsal().tasks()[0].task_id.clone();
    let events = run.events(task);
    let planned =
        events.iter().position(|event| event["branch"] == "planner" && event["type"] == "model_reply");
    let told = &events[planned.unwrap() + 1];
    assert!(
        told["type"] == "prompted" && told["text"].as_str().unwrap().contains("Hand in the answer"),
        "{told}"
    );
}

/// Each question is handed on as it is, and what comes back is the answer.
fn delegated() -> Script {
    let mut script = Script::new();
    for task in rehearsal().tasks() {
        let part = format!("Part of {}", task.task_id);
        let manager = [turn::call("ask", json!({ "question": part })), turn::submit("${answer}")];
        script = script.with(TaskScript { turns: manager.to_vec(), ..task.clone() });
        let mut turns: Vec<Turn> = task.turns.clone();
        turns.pop();
        turns.push(turn::call("report", json!({ "report": "I computed it.\nANSWER: ${answer}" })));
        script = script.with(TaskScript { task_id: part.clone(), question: part, turns, ..task.clone() });
    }
    script
}

#[tokio::test]
async fn delegate_answers_the_sample_set() {
    let run = Run::of_samples(delegated(), "delegate").await;
    run.check();
    assert_eq!(run.label(), "single run with helpers");
    for task in rehearsal().tasks() {
        let events = run.events(&task.task_id);
        let own: Vec<&Value> = events.iter().filter(|event| event.get("branch").is_none()).collect();
        let asked = own.iter().find(|event| event["type"] == "tool_result").unwrap();
        assert_eq!((&asked["tool"], &asked["is_error"]), (&json!("gaia/ask"), &json!(false)), "{asked:#}");
        let helper = events.iter().find(|event| event["type"] == "branch_started").unwrap();
        assert_eq!(helper["branch"], "helper 1");
        assert_eq!(helper["tools"], json!(["bash/bash", "gaia/report", "gaia/recall"]), "no answer tool");
    }
}

/// Another model at the same endpoint asks in the same line; one with a limit of its own has its own.
#[tokio::test]
async fn a_role_at_the_same_endpoint_shares_its_pace() {
    for (more, most) in [("", 1), ("max_concurrent_requests = 3\n", 4)] {
        let rows: Vec<_> =
            (0..6).map(|number| (format!("task-{number}"), format!("Where is number {number}?"))).collect();
        let script = rows.iter().fold(Script::new(), |script, (_, question)| {
            let turns = (0..4).map(|_| turn::raw_call("submit", "{}")).chain([turn::submit("here")]);
            script.with(TaskScript::new(question, turns).forced_answer("1. Look."))
        });
        let options = Options { latency: std::time::Duration::from_millis(100), ..Options::default() };
        let model = ScriptedModel::start(script, options).await.unwrap();
        let desk = Desk::new();
        let dataset: Vec<_> =
            rows.iter().map(|(id, question)| (id.as_str(), question.as_str(), 1, "here")).collect();
        desk.dataset(&dataset);
        desk.write(
            "c.toml",
            &format!(
                "[dataset]\npath = \"samples\"\n[model]\nname = \"worker\"\nbase_url = {:?}\nmax_concurrent_requests = 1\n\
                 [run]\nconcurrency = 6\n[strategy]\nname = \"plan\"\nreplan_every = 1\n[strategy.planner]\nname = \"thinker\"\n{more}\
                 [mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
                model.base_url
            ),
        );
        let ended = desk.gaia(&["run", "c.toml"]).await;
        assert_eq!(ended.code, 0, "{ended:#?}");
        let names = |name: &str| model.requests().iter().filter(|asked| asked.body["model"] == name).count();
        assert!(names("worker") >= 30 && names("thinker") >= 6, "{} {}", names("worker"), names("thinker"));
        let stats = model.stats();
        match most {
            1 => assert_eq!(stats.max_in_flight, 1, "{stats:?}"),
            most => assert!((2..=most).contains(&stats.max_in_flight), "{stats:?}"),
        }
        model.close().await;
    }
}

/// Answers differ from run to run, so that the vote is tied; the judge is another model at another endpoint.
#[tokio::test]
async fn a_tie_goes_to_the_judges_own_model_and_its_answer_is_one_of_the_candidates() {
    let random = [turn::bash("echo ANSWER: $RANDOM$RANDOM"), turn::submit("${answer}")];
    let model =
        ScriptedModel::start(Script::new().task("Which number?", random), Options::default()).await.unwrap();
    let judging = TaskScript::new("Which number?", [turn::text("hm")]).forced_answer("FINAL ANSWER: none");
    let judge = ScriptedModel::start(Script::new().with(judging), Options::default()).await.unwrap();
    let desk = Desk::new().with_variable("JUDGE_KEY", "judge-key-0123456789");
    desk.dataset(&[("a", "Which number?", 1, "42")]);
    let strategy = format!(
        "[strategy]\nname = \"vote\"\nruns = 2\n[strategy.judge]\nname = \"wise\"\nbase_url = {:?}\napi_key_env = \"JUDGE_KEY\"",
        judge.base_url
    );
    desk.write("c.toml", &config(Path::new("samples"), &model.base_url, &strategy));
    let ended = desk.gaia(&["run", "c.toml"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let asked = judge.requests();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].body["model"], "wise");
    assert!(asked[0].body.get("tools").is_none());
    assert!(model.requests().iter().all(|request| request.body["model"] == "scripted"));
    let run = desk.runs().pop().unwrap();
    let result = results(&run).pop().unwrap();
    let events = fs_err::read_to_string(run.join("samples/a/1/events.jsonl")).unwrap();
    let decided: Value = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|event| event["type"] == "decided")
        .unwrap();
    assert!(decided["reason"].as_str().unwrap().contains("the judge named none"), "{decided:#}");
    assert_eq!(decided["answer"], decided["candidates"][0]["answer"]);
    assert_eq!(decided["answer"], result["answer"]);
    assert_eq!(result["steps"], 5, "two runs of two turns and the judge");
    assert!(!fs_err::read_to_string(run.join("run.json")).unwrap().contains("judge-key"));
    for server in [model, judge] {
        server.close().await;
    }
}

#[tokio::test]
async fn another_strategy_is_another_run_and_bad_ones_are_told_before_anything_starts() {
    let script = Script::new().task("What?", [turn::submit("42")]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    desk.dataset(&[("a", "What?", 1, "42")]);
    let servers = "[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n";
    let head = format!(
        "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = {:?}\n",
        model.base_url
    );
    desk.write("c.toml", &format!("{head}{servers}"));
    assert_eq!(desk.gaia(&["run", "c.toml"]).await.code, 0);
    let resumed = desk.gaia(&["resume", "last", "--set", "strategy.name=vote"]).await;
    assert_eq!(resumed.code, 2, "{resumed:#?}");
    assert!(resumed.stderr.contains("strategy: not set →"), "{}", resumed.stderr);
    let anew = desk.gaia(&["resume", "last", "--set", "strategy.name=vote", "--as-new"]).await;
    assert_eq!(anew.code, 0, "{anew:#?}");
    assert!(anew.stdout.contains("official, vote of 3 runs"), "{}", anew.stdout);

    for (strategy, words) in [
        ("name = \"swarm\"", "unknown value"),
        ("name = \"vote\"\nruns = 0", "`strategy.runs` must be at least 1"),
        ("name = \"vote\"\nruns = 30", "needs `agent.max_steps` of at least 60"),
        ("[strategy.judge]\nnme = \"x\"", "did you mean `name`"),
        ("[strategy.judge]\nrehearsal = true", "belongs into `[model]`"),
        ("[strategy.judge]\napi_key_env = \"sk-abc/1\"", "must be the NAME"),
        ("name = \"vote\"\n[strategy.judge]\napi_key_env = \"NO_SUCH_KEY\"", "`NO_SUCH_KEY` is not set"),
    ] {
        let runs = desk.runs().len();
        desk.write("bad.toml", &format!("{head}[strategy]\n{strategy}\n{servers}"));
        let ended = desk.gaia(&["run", "bad.toml"]).await;
        assert_eq!(ended.code, 2, "{strategy}: {ended:#?}");
        assert!(ended.stderr.contains(words), "{strategy}: {}", ended.stderr);
        assert_eq!(desk.runs().len(), runs);
    }
    model.close().await;
}

#[tokio::test]
async fn epochs_are_told_apart_from_single_answers_in_every_output() {
    let script = Script::new().task("What?", [turn::submit("42")]).task("Which?", [turn::submit("41")]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    desk.dataset(&[("a", "What?", 1, "42"), ("b", "Which?", 2, "42")]);
    desk.write(
        "c.toml",
        &format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = {:?}\n\
             [mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
            model.base_url
        ),
    );
    let ended = desk.gaia(&["run", "c.toml", "--epochs", "2"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    model.close().await;
    let run = desk.runs().pop().unwrap();
    let report = fs_err::read_to_string(run.join("report.md")).unwrap();
    for of in ["mean of 2 epochs, each a single run", "pass@2", "pass^2", "majority vote of 2 epochs"] {
        assert!(ended.labels().contains(&format!("official, {of} ")), "no `{of}`:\n{}", ended.stdout);
        // As Markdown has it.
        assert!(report.contains(of), "no `{of}`:\n{report}");
    }
    let guide = fs_err::read_to_string(run.join("SUBMISSION_GUIDE.md")).unwrap();
    assert!(guide.contains("of 2 epochs the first one") && guide.contains("pass@2"), "{guide}");
}
