//! Agents that are not the loop: their tools, limits, trajectory, answer and score are ours.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use gaia_tests::installed::clients;
use gaia_tests::machine::program;
use gaia_tests::scripted::{Options, Script, ScriptedModel, turn};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::gaia::{Desk, Ended, SHELL_AND_SUBMIT, containers, json as read_json, results};

const QUESTION: &str = "What is in the file?";
const TRUTH: &str = "seventeen";

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/external_agent/agent.py")
}

/// The agent over the SDK.
fn python(how: &str) -> String {
    format!("command:{} {} {how}", clients().join("python-2/bin/python").display(), script().display())
}

/// One sample with a file, and servers in containers. There is a key in the environment, and one in a `.env`.
fn desk(more: &str) -> Desk {
    let desk = Desk::new()
        .with_variable("OPENAI_API_KEY", "sk-key-of-the-model-0123")
        .with_variable("OTHER_SECRET", "other-secret-0123456789")
        .with_variable("AGENT_KEY", "agent-key-0123456789")
        .with_variable("GAIA_PROGRAM", &program("gaia").display().to_string())
        .with_variable("PYTHONDONTWRITEBYTECODE", "1");
    let row = json!({
        "task_id": "a", "Question": QUESTION, "Level": 1, "Final answer": TRUTH, "file_name": "a.txt",
    });
    desk.write("samples/2023/validation/metadata.jsonl", &row.to_string());
    desk.write("samples/2023/validation/a.txt", &format!("{TRUTH}\n"));
    desk.write(
        "c.toml",
        &format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"gpt-5.1\"\napi_key_env = \"OPENAI_API_KEY\"\n\
             [external]\nenv_vars = [\"AGENT_KEY\", \"GAIA_PROGRAM\", \"PYTHONDONTWRITEBYTECODE\"]\n{more}\n{SHELL_AND_SUBMIT}"
        ),
    );
    desk
}

/// What came of the one sample.
struct Sample {
    ended: Ended,
    result: Value,
    events: Vec<Value>,
    run: PathBuf,
}

impl Sample {
    async fn of(desk: &Desk, agent: &str) -> Self {
        let ended = desk.gaia(&["run", "c.toml", "--agent", agent]).await;
        Self::read(desk, ended)
    }

    fn read(desk: &Desk, ended: Ended) -> Self {
        let run = desk.runs().pop().unwrap_or_else(|| panic!("no run: {ended:#?}"));
        let result = results(&run).pop().unwrap_or_default();
        let events = fs_err::read_to_string(run.join("samples/a/1/events.jsonl")).unwrap();
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        // A server's last words come when it is closed.
        let events: Vec<Value> = events.filter(|event| event["type"] != "server_notice").collect();
        assert_eq!(events[0]["type"], "started", "{events:#?}");
        assert_eq!(events.last().unwrap()["type"], "finished", "{events:#?}");
        Self { ended, result, events, run }
    }

    fn of_type(&self, name: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["type"] == name).collect()
    }

    /// What the program wrote to one of its streams.
    fn wrote(&self, stream: &str) -> String {
        let ended = self.of_type("program_ended");
        let name = ended[0][stream].as_str().unwrap_or_else(|| panic!("no {stream}: {ended:#?}"));
        let kept = fs_err::read(self.run.join("samples/a/1/files").join(name)).unwrap();
        String::from_utf8(zstd::decode_all(kept.as_slice()).unwrap()).unwrap()
    }

    async fn nothing_is_left(&self) {
        let id = self.run.file_name().unwrap().to_str().unwrap();
        assert_eq!(containers("gaia.run", id).await, Vec::<String>::new());
    }
}

/// The names of all fields, at any depth but for what a tool says.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect())
        }
        Value::Array(values) => Value::Array(values.iter().take(1).map(shape).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Value::Null,
    }
}

#[tokio::test]
async fn an_agent_over_the_python_sdk_leaves_the_same_kind_of_record_as_the_loop() {
    let calls = [turn::bash("cat /shared_files/* && echo $((6 * 7))"), turn::submit(TRUTH)];
    let model = ScriptedModel::start(Script::new().task(QUESTION, calls), Options::default()).await.unwrap();
    let by_loop = desk("");
    let ended = by_loop.gaia(&["run", "c.toml", "--base-url", &model.base_url]).await;
    let by_loop = Sample::read(&by_loop, ended);
    model.close().await;
    assert_eq!(by_loop.ended.code, 0, "{:#?}", by_loop.ended);

    for how in ["http", "stdio"] {
        let desk = desk("");
        let sample = Sample::of(&desk, &python(how)).await;
        assert_eq!(sample.ended.code, 0, "{how}: {:#?}\n{:#?}", sample.ended, sample.events);
        assert_eq!((&sample.result["status"], &sample.result["answer"]), (&json!("answered"), &json!(TRUTH)));
        assert_eq!(sample.result["score"]["correct"], true);
        assert_eq!(sample.result["tool_calls"], by_loop.result["tool_calls"]);
        assert_eq!(shape(&sample.result), shape(&by_loop.result), "{how}");
        // Every kind of event but those about a model, which is not ours.
        for name in ["started", "tool_started", "tool_result", "finished"] {
            let (theirs, ours) = (sample.of_type(name), by_loop.of_type(name));
            assert_eq!(theirs.len(), ours.len(), "{how}: {name}");
            for (theirs, ours) in theirs.iter().zip(ours) {
                let (mut theirs, mut ours) = (shape(theirs), shape(ours));
                if name == "started" {
                    // The system prompt is the loop's.
                    theirs["messages"] = Value::Null;
                    ours["messages"] = Value::Null;
                }
                assert_eq!(theirs, ours, "{how}: {name}");
            }
        }
        let tools = |sample: &Sample| -> Vec<Value> {
            sample.of_type("tool_result").iter().map(|event| event["tool"].clone()).collect()
        };
        assert_eq!(tools(&sample), tools(&by_loop));
        assert_eq!(sample.events[0]["tools"], by_loop.events[0]["tools"]);
        assert_eq!(sample.result["timing"]["tool"].as_f64().map(|time| time > 0.0), Some(true));

        let said: Value = serde_json::from_str(sample.wrote("stderr").lines().next().unwrap()).unwrap();
        assert_eq!(said["tools"], json!(["bash", "submit", "recall"]), "{said:#}");
        let names: Vec<&str> =
            said["environment"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert!(names.contains(&"AGENT_KEY") && names.contains(&"GAIA_FILES_DIR"), "{names:?}");
        assert!(!names.contains(&"OPENAI_API_KEY") && !names.contains(&"OTHER_SECRET"), "{names:?}");

        let record = read_json(&sample.run.join("run.json"));
        assert_eq!(
            (&record["model"], &record["strategy"]["name"]),
            (&json!("command python"), &json!("agent"))
        );
        let labels = sample.ended.labels();
        assert!(labels.contains("official, single run of another agent official,"), "{labels}");
        let all = fs_err::read_to_string(sample.run.join("samples/a/1/events.jsonl")).unwrap();
        assert!(!all.contains(&format!("\"truth\":\"{TRUTH}\"")));
        sample.nothing_is_left().await;
    }
}

#[tokio::test]
async fn an_answer_that_is_only_printed_counts_by_its_marker() {
    let desk = desk("");
    let sample = Sample::of(&desk, &python("print")).await;
    assert_eq!((&sample.result["status"], &sample.result["answer"]), (&json!("answered"), &json!(TRUTH)));
    assert_eq!(sample.events.last().unwrap()["outcome"]["stop"], "answer_text");
    assert_eq!(sample.result["raw_answer"], format!("I read the file.\nFINAL ANSWER: {TRUTH}\n"));
}

#[tokio::test]
async fn an_agent_that_dies_is_an_error_with_its_last_words() {
    let desk = desk("");
    let sample = Sample::of(&desk, &python("die")).await;
    assert_eq!(sample.ended.code, 3, "{:#?}", sample.ended);
    assert_eq!(
        (&sample.result["status"], &sample.result["error"]["kind"]),
        (&json!("error"), &json!("agent"))
    );
    let message = sample.result["error"]["message"].as_str().unwrap();
    assert!(message.contains("exited with code 3") && message.contains("something broke"), "{message}");
    assert_eq!(sample.result["tool_calls"], 1, "what it did before is kept");
    assert_eq!(sample.of_type("tool_result").len(), 1);
    sample.nothing_is_left().await;
}

#[tokio::test]
async fn an_agent_that_ends_without_an_answer_has_none() {
    let desk = desk("");
    let sample = Sample::of(&desk, &python("quiet")).await;
    assert_eq!(sample.ended.code, 0, "no answer is an outcome: {:#?}", sample.ended);
    assert_eq!((&sample.result["status"], &sample.result["answer"]), (&json!("no_answer"), &Value::Null));
    assert_eq!(sample.result["score"]["correct"], false);
}

#[tokio::test]
async fn tool_calls_are_limited_but_the_answer_is_still_taken() {
    let desk = desk("[agent]\nmax_steps = 4");
    let sample = Sample::of(&desk, &python("many")).await;
    // The tenth call was to read the file: it was refused, and the words of the refusal were handed in.
    assert_eq!(sample.result["status"], "answered", "{:#}", sample.result);
    assert!(sample.result["answer"].as_str().unwrap().contains("used up"), "{:#}", sample.result);
    let refused = sample.of_type("tool_result").into_iter().filter(|event| event["is_error"] == true);
    let refused: Vec<&str> = refused.map(|event| event["content"][0]["text"].as_str().unwrap()).collect();
    assert!(
        refused.len() >= 6 && refused[0].contains("the 4 tool calls of this task are used up"),
        "{refused:?}"
    );
    assert_eq!(sample.of_type("limit_reached").len(), 1);
    let late = sample.wrote("stderr").lines().last().unwrap().to_owned();
    assert!(late.contains("the task is over") && late.contains("true"), "{late}");
}

/// Whatever is run by a shell, with children that would live on.
fn shell(line: &str) -> String {
    format!("command:sh -c {}", shlex_quoted(line))
}

fn shlex_quoted(line: &str) -> String {
    format!("'{}'", line.replace('\'', "'\\''"))
}

#[tokio::test]
async fn time_that_is_over_ends_an_agent_with_everything_it_started() {
    let desk = desk("[agent]\nsample_timeout = \"3s\"");
    let lock = desk.path().join("lock");
    let line = format!("trap '' TERM; (trap '' TERM; exec flock {} sleep 600) & sleep 600", lock.display());
    let sample = Sample::of(&desk, &shell(&line)).await;
    assert_eq!((&sample.result["status"], &sample.result["error"]), (&json!("no_answer"), &Value::Null));
    assert_eq!(sample.events.last().unwrap()["outcome"]["stop"], "time_limit");
    assert_eq!(sample.of_type("program_ended")[0]["exit"], "was ended: its time was over");
    let free = std::process::Command::new("flock").arg("-n").arg(&lock).arg("true").status().unwrap();
    assert!(free.success(), "a grandchild lives on");
}

#[tokio::test]
async fn a_silent_one_a_flooding_one_and_one_that_is_not_there() {
    let desk = desk("");
    let sample = Sample::of(&desk, &shell("exit 0")).await;
    assert_eq!(sample.result["status"], "no_answer");
    let ended = sample.of_type("program_ended")[0].clone();
    assert_eq!((&ended["exit"], &ended["stdout_bytes"]), (&json!("exited with code 0"), &json!(0)));

    let flood = "yes spam | head -c 300000000; yes eggs | head -c 100000000 >&2; echo; echo 'FINAL ANSWER: seventeen'";
    let sample = Sample::of(&desk, &shell(flood)).await;
    assert_eq!((&sample.result["status"], &sample.result["answer"]), (&json!("answered"), &json!(TRUTH)));
    let ended = sample.of_type("program_ended")[0].clone();
    assert_eq!(ended["stderr_bytes"], 100_000_000);
    for stream in ["stdout", "stderr"] {
        let kept = sample.wrote(stream);
        assert!(kept.len() < 600_000 && kept.contains("bytes left out"), "{stream}: {} bytes", kept.len());
    }
    let raw = sample.result["raw_answer"].as_str().unwrap();
    assert!(raw.len() <= 16 * 1024 && raw.ends_with("FINAL ANSWER: seventeen\n"), "{} bytes", raw.len());

    let sample = Sample::of(&desk, "command:no-such-agent --now").await;
    assert_eq!(sample.result["error"]["kind"], "agent");
    let message = sample.result["error"]["message"].as_str().unwrap();
    assert!(message.contains("failed to start the program of the agent `no-such-agent`"), "{message}");
}

#[tokio::test]
async fn placeholders_hold_the_question_and_the_ways_to_files_and_tools() {
    let desk = desk("");
    let check = r#"test "$1" = "$GAIA_QUESTION" && test "$(cat "$2")" = seventeen && test "$2" = "$GAIA_FILE" \
        && test "$(ls "$3")" = a.txt && grep -q "$4" "$5" && test "$(cat)" = "$1" && echo "FINAL ANSWER: seventeen""#;
    let line = format!(
        "{} agent {{question}} {{file}} {{files_dir}} {{mcp_url}} {{mcp_config}}",
        shell(&check.replace("\\\n", " "))
    );
    let sample = Sample::of(&desk, &line).await;
    assert_eq!(
        (&sample.result["status"], &sample.result["answer"]),
        (&json!("answered"), &json!(TRUTH)),
        "{:#?}",
        sample.events
    );
}

#[tokio::test]
async fn an_agent_that_has_answered_and_stays_is_ended() {
    let desk = desk("");
    let sample = Sample::of(&desk, &python("linger")).await;
    assert_eq!(sample.result["answer"], TRUTH, "what was handed in counts over what was printed");
    assert_eq!(sample.of_type("program_ended")[0]["exit"], "was ended: it had answered");
}

/// Types lines into the terminal of a person.
async fn typed(desk: &Desk, lines: &str) -> Sample {
    let mut command = desk.command(&["run", "c.toml", "--agent", "human"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).await.unwrap();
    drop(stdin);
    let ended = child.wait_with_output().await.unwrap().into();
    Sample::read(desk, ended)
}

#[tokio::test]
async fn a_person_is_shown_the_question_has_the_tools_and_types_the_answer() {
    let desk = desk("");
    let lines = "/tools\n/call bash {\"command\": \"cat /shared_files/a.txt\"}\n/quit\n\nseventeen\n";
    let sample = typed(&desk, lines).await;
    assert_eq!(sample.ended.code, 0, "{:#?}", sample.ended);
    assert_eq!((&sample.result["status"], &sample.result["answer"]), (&json!("answered"), &json!(TRUTH)));
    assert_eq!(sample.result["score"]["correct"], true);
    let shown = &sample.ended.stderr;
    for words in
        [QUESTION, "/shared_files/a.txt", "submit {answer}", "seventeen\n[exit 0", "there is no `/quit`"]
    {
        assert!(shown.contains(words), "no `{words}`:\n{shown}");
    }
    let tools: Vec<&Value> = sample.of_type("tool_result").iter().map(|event| &event["tool"]).collect();
    assert_eq!(tools, ["bash/bash", "submit/submit"]);
    let record = read_json(&sample.run.join("run.json"));
    assert_eq!(record["model"], "human");
}

#[tokio::test]
async fn a_person_who_leaves_can_come_back() {
    let desk = desk("");
    let sample = typed(&desk, "/call bash {\"command\": \"true\"}\n").await;
    assert_eq!(sample.ended.code, 3, "{:#?}", sample.ended);
    assert_eq!(sample.result, Value::Null, "nothing is committed");
    let mut command = desk.command(&["resume", "last"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"seventeen\n").await.unwrap();
    let ended = child.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(results(&sample.run)[0]["answer"], TRUTH);
}

#[tokio::test]
async fn what_is_no_agent_is_told_before_anything_starts() {
    let desk = desk("");
    for (agent, words) in [
        ("claude -p", "must be `command:PROGRAM ARGS`"),
        ("command:", "names no program"),
        ("command:a 'b", "quote that is not closed"),
    ] {
        let ended = desk.gaia(&["run", "c.toml", "--agent", agent]).await;
        assert_eq!(ended.code, 2, "{agent}: {ended:#?}");
        assert!(
            ended.stderr.contains("`external.agent`") && ended.stderr.contains(words),
            "{}",
            ended.stderr
        );
    }
    let ended =
        desk.gaia(&["run", "c.toml", "--set", "external.agent=human", "--set", "strategy.name=vote"]).await;
    assert_eq!(ended.code, 2, "{ended:#?}");
    assert!(ended.stderr.contains("is for gaia's own loop"), "{}", ended.stderr);
    assert!(desk.runs().is_empty());
}
