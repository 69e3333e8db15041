//! A run played again from what it kept, and where a change first shows.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use gaia_tests::scripted::{Options, Script, ScriptedModel};
use serde_json::Value;

use crate::gaia::{Desk, Ended, SHELL_AND_SUBMIT};

/// The first samples of the bundled set, so many as `limit`, run once; then the model is gone.
async fn recorded(limit: usize) -> (Desk, PathBuf) {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/samples");
    let script = Script::read(&samples.join("rehearsal.jsonl")).unwrap();
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    let config = format!(
        "[dataset]\npath = \"{}\"\nlimit = {limit}\n[model]\nname = \"scripted\"\nbase_url = \"{}\"\n[agent]\n\
         answer_tool = \"submit/submit\"\n[run]\nconcurrency = 6\n{SHELL_AND_SUBMIT}",
        samples.display(),
        model.base_url
    );
    desk.write("c.toml", &config);
    let ended = desk.gaia(&["run", "c.toml"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    model.close().await;
    let run = desk.runs().pop().unwrap();
    (desk, run)
}

/// In a network namespace without so much as a loopback, and with an engine that is not there.
async fn cut_off(desk: &Desk, arguments: &[&str]) -> Ended {
    let own = desk.command(arguments);
    let own = own.as_std();
    let mut command = tokio::process::Command::new("unshare");
    // As an ordinary user, a network of one's own takes users of one's own.
    command.args(["--map-root-user", "--net"]).arg(own.get_program()).args(own.get_args());
    command.current_dir(desk.path()).env_clear().stdin(Stdio::null());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    command.output().await.unwrap().into()
}

fn events(run: &Path, task: &str) -> PathBuf {
    run.join("samples").join(task).join("1/events.jsonl")
}

/// A task of the run whose log holds this text.
fn task_with(run: &Path, text: &str) -> String {
    let tasks = fs_err::read_dir(run.join("samples")).unwrap();
    let names = tasks.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    let found =
        names.into_iter().find(|name| fs_err::read_to_string(events(run, name)).unwrap().contains(text));
    found.unwrap_or_else(|| panic!("no log holds `{text}`"))
}

fn differences(ended: &Ended) -> Vec<(String, String)> {
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let different = report["different"].as_array().unwrap();
    different.iter().map(|found| (text(&found["task_id"]), text(&found["what"]))).collect()
}

#[tokio::test]
async fn a_run_of_24_samples_is_replayed_without_network_or_engine_to_the_last_byte() {
    let (desk, run) = recorded(24).await;
    let before = snapshot(&run);
    let ended = cut_off(&desk, &["replay", "last", "--json"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["same"], differences(&ended).len()), (&24.into(), 0), "{report:#}");
    assert_eq!(snapshot(&run), before, "a replay changes nothing");

    // What stands in every request and in no event: the model is named, and what it is told beside the conversation.
    for (set, what, now) in [
        ("model.name=\"another\"", "request body, model.name", "another"),
        ("model.params.temperature=0.5", "request body, model.params", "{ temperature = 0.5 }"),
    ] {
        let ended = cut_off(&desk, &["replay", "last", "--json", "--set", set]).await;
        assert_eq!(ended.code, 6, "{ended:#?}");
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        let first = &report["different"][0];
        assert_eq!((&first["step"], &first["what"], &first["now"]), (&1.into(), &what.into(), &now.into()));
        assert_eq!(report["different"].as_array().unwrap().len(), 24, "{set}");
    }
    let refused =
        cut_off(&desk, &["replay", "last", "--set", "mcp_servers.bash.enabled_tools=[\"x\"]"]).await;
    assert!(refused.code == 2 && refused.stderr.contains("--tools live"), "{refused:#?}");

    // A change of the loop shows in the first place that it touches, in those samples that it touches.
    let ended = cut_off(&desk, &["replay", "last", "--json", "--set", "agent.max_steps=2"]).await;
    assert_eq!(ended.code, 6, "{ended:#?}");
    let found = differences(&ended);
    assert!(!found.is_empty() && found.len() < 24, "{found:?}");
    assert!(found.iter().all(|(_, what)| what == "model_call.type"), "{found:?}");

    // A task that is not there is no task that is the same.
    let ended = cut_off(&desk, &["replay", "last", "--task", "nosuch"]).await;
    assert!(ended.code == 2 && ended.stderr.contains("no task `nosuch`"), "{ended:#?}");

    // The prompt.
    let task = task_with(&run, "tool_result");
    edit(&events(&run, &task), "You are", "You were");
    // The result of a call.
    let other = task_with(&run, "ANSWER: ");
    // The scorer, or what it was told: a verdict that the answer does not deserve.
    let result = run.join("samples").join(task_with(&run, "finished")).join("1/result.json");
    let ended = cut_off(&desk, &["replay", "last", "--task", &task, "--json"]).await;
    assert_eq!(
        (ended.code, differences(&ended)[0].1.as_str()),
        (6, "started.messages[0].content"),
        "{ended:#?}"
    );
    edit(&events(&run, &task), "You were", "You are");
    edit_result(&events(&run, &other), "ANSWER: ", "ANSWER:  ");
    let ended = cut_off(&desk, &["replay", "last", "--task", &other, "--json"]).await;
    assert_eq!(ended.code, 6, "{ended:#?}");
    assert_eq!(
        differences(&ended)[0].1,
        "model_call.request",
        "what the model was asked is not what it is asked"
    );
    edit_result(&events(&run, &other), "ANSWER:  ", "ANSWER: ");
    edit(&result, "\"correct\": true", "\"correct\": false");
    let ended = cut_off(&desk, &["replay", "last", "--json"]).await;
    assert_eq!(ended.code, 6, "{ended:#?}");
    assert_eq!(differences(&ended).len(), 1, "{ended:#?}");
    assert_eq!(differences(&ended)[0].1, "score");
}

/// Every file of a run with its content.
pub(crate) fn snapshot(run: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut files, mut folders) = (Vec::new(), vec![run.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push((path.clone(), fs_err::read(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

/// Every place of a text in the results of calls.
fn edit_result(path: &Path, from: &str, to: &str) {
    let text = fs_err::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| match line.contains("\"type\":\"tool_result\"") {
        true => line.replace(from, to) + "\n",
        false => line.to_owned() + "\n",
    });
    let edited: String = lines.collect();
    assert_ne!(edited, text, "no result in {} has `{from}`", path.display());
    fs_err::write(path, edited).unwrap();
}

/// Every place of a text in a file.
fn edit(path: &Path, from: &str, to: &str) {
    let text = fs_err::read_to_string(path).unwrap();
    assert!(text.contains(from), "{} has no `{from}`", path.display());
    fs_err::write(path, text.replace(from, to)).unwrap();
}

#[tokio::test]
async fn one_side_alone_can_be_played_by_the_real_thing() {
    let (desk, run) = recorded(2).await;
    // Real tools print other durations than those of then: the first difference is in a result, and nowhere else.
    let ended = desk.gaia(&["replay", "last", "--tools", "live", "--json"]).await;
    assert!(matches!(ended.code, 0 | 6), "{ended:#?}");
    for (task, what) in differences(&ended) {
        assert!(what.starts_with("tool_result."), "{task}: {what}");
    }

    // The same model behind another port, asked for real; the recording answers its calls.
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/samples");
    let script = Script::read(&samples.join("rehearsal.jsonl")).unwrap();
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let set = format!("model.base_url=\"{}\"", model.base_url);
    let ended = desk.gaia(&["replay", "last", "--model", "live", "--set", &set, "--json"]).await;
    let stats = model.stats();
    model.close().await;
    assert!(stats.ok >= 4, "the model was not asked: {stats:#?}");
    assert!(stats.violations.is_empty(), "{:#?}", stats.violations);
    // It makes up new ids for its calls, and counts tokens by bytes of which durations are some.
    for (task, what) in differences(&ended) {
        assert!(what.starts_with("model_reply."), "{task}: {what}");
    }
    assert!(run.is_dir());
}
