//! The questions on the frozen web, through `gaia run` and the preset, with our servers and with those whose places they
//! take.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use gaia_tests::frozen::FrozenWeb;
use gaia_tests::installed::servers;
use gaia_tests::machine::{program, sandbox_image};
use gaia_tests::scripted::{Options, Script, ScriptedModel};
use serde_json::Value;
use tokio::process::Command;

fn configs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").canonicalize().unwrap()
}

struct Run {
    folder: tempfile::TempDir,
    correct: Vec<String>,
    asked: usize,
    events: String,
    report: String,
}

/// Runs a preset on the frozen web.
async fn run(config: &Path, script: &str, web: &FrozenWeb, variables: &[(&str, &str)]) -> Run {
    let samples = configs().join("web-samples");
    let script = Script::read(&samples.join(script)).unwrap();
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("gaia"));
    let base_url = model.base_url.clone();
    command.args([
        "run",
        config.to_str().unwrap(),
        "--dataset",
        samples.to_str().unwrap(),
        "--base-url",
        &base_url,
    ]);
    command.args(["--model", "scripted", "--set", "model.params.temperature=0"]);
    command.current_dir(folder.path()).env_clear().kill_on_drop(true).stdin(Stdio::null());
    for name in ["PATH", "HOME", "DOCKER_HOST"] {
        if let Ok(value) = std::env::var(name) {
            command.env(name, value);
        }
    }
    command.env("GAIA_SANDBOX_IMAGE", sandbox_image()).env("OPENAI_API_KEY", "sk-test");
    command.env("HTTP_PROXY", web.url()).env("NO_PROXY", "127.0.0.1");
    command.envs(variables.iter().copied());
    let ended = command.output().await.unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{stderr}");
    let runs = fs_err::read_dir(folder.path().join("runs")).unwrap().map(|entry| entry.unwrap().path());
    let run = runs.filter(|path| path.join("run.json").is_file()).last().unwrap();
    let (mut correct, mut asked, mut events) = (Vec::new(), 0, String::new());
    for task in fs_err::read_dir(run.join("samples")).unwrap() {
        let attempt = task.unwrap().path().join("1");
        let result: Value =
            serde_json::from_str(&fs_err::read_to_string(attempt.join("result.json")).unwrap()).unwrap();
        asked += 1;
        if result["score"]["correct"] == true {
            correct.push(result["answer"].as_str().unwrap().to_owned());
        } else {
            events.push_str(&format!("WRONG {result}\n"));
        }
        events.push_str(&fs_err::read_to_string(attempt.join("events.jsonl")).unwrap());
    }
    let report = fs_err::read_to_string(run.join("report.md")).unwrap();
    Run { folder, correct, asked, events, report }
}

#[tokio::test]
async fn the_preset_with_our_servers_answers_all_questions() {
    let samples = configs().join("web-samples");
    let web = FrozenWeb::start(&samples).await.unwrap();
    let index = samples.join("index.jsonl");
    let cache = tempfile::tempdir().unwrap();
    let variables = [
        ("GAIA_SEARCH_ENGINE", "fixture"),
        ("GAIA_SEARCH_FIXTURE", index.to_str().unwrap()),
        ("GAIA_WEB_CACHE", cache.path().to_str().unwrap()),
    ];
    let run = run(&configs().join("gaia-web.toml"), "rehearsal.jsonl", &web, &variables).await;
    assert!(run.asked >= 10);
    let wrong: Vec<&str> = run.events.lines().filter(|line| line.starts_with("WRONG")).collect();
    assert_eq!(run.correct.len(), run.asked, "{wrong:#?}");
    // What the servers did is in the trajectory, and the truth is not.
    for part in
        [r#"\"request\":{\"url\":\"http://"#, r#"\"integrity\":\"block-list: built-in block-list version"#]
    {
        assert!(run.events.contains(part), "{part}");
    }
    assert!(run.events.contains("result_left_out"), "the page with all answers is not among the results");
    assert!(!run.events.contains("answers.example/mirror/gaia-benchmark/2023.html\\\",\\\"title"));
    assert!(!run.report.contains("## Contaminated"), "{}", run.report);
    drop(run.folder);
}

#[tokio::test]
async fn a_copy_of_a_question_reaches_trajectory_and_report() {
    let samples = tempfile::tempdir().unwrap();
    for part in ["2023/validation/metadata.jsonl", "index.jsonl", "rehearsal.jsonl"] {
        let to = samples.path().join(part);
        fs_err::create_dir_all(to.parent().unwrap()).unwrap();
        fs_err::copy(configs().join("web-samples").join(part), to).unwrap();
    }
    let questions = fs_err::read_to_string(samples.path().join("2023/validation/metadata.jsonl")).unwrap();
    let first: Value = serde_json::from_str(questions.lines().next().unwrap()).unwrap();
    let page = samples.path().join("www/wiki.varn.example/Greyhead_Light");
    fs_err::create_dir_all(page.parent().unwrap()).unwrap();
    let body = format!(
        "<p>{}</p><table><tr><td>Architect<td>Ana Bolt<tr><td>x<td>y</table>",
        first["Question"].as_str().unwrap()
    );
    fs_err::write(page, body).unwrap();
    let web = FrozenWeb::start(samples.path()).await.unwrap();
    let index = samples.path().join("index.jsonl");
    let variables = [("GAIA_SEARCH_ENGINE", "fixture"), ("GAIA_SEARCH_FIXTURE", index.to_str().unwrap())];
    let run = run(&configs().join("gaia-web.toml"), "rehearsal.jsonl", &web, &variables).await;
    assert!(run.events.contains(r#"\"contaminated\":{\"url\":\"http://wiki.varn.example/Greyhead_Light\""#));
    let section = run.report.split("## Contaminated").nth(1).expect("the report says it");
    assert!(section.contains(first["task_id"].as_str().unwrap()), "{section}");
    assert!(section.contains(r"http://wiki.varn.example/Greyhead\_Light"), "{section}");
}

#[tokio::test]
async fn the_same_questions_with_the_reference_servers_in_their_places() {
    let samples = configs().join("web-samples");
    let web = FrozenWeb::start(&samples).await.unwrap();
    let preset = fs_err::read_to_string(configs().join("gaia-web.toml")).unwrap();
    let bin = servers().join("bin");
    let preload = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/brave_stand_in.cjs");
    // The tables of our two servers give way to those of the others; all else stays.
    let start = preset.find("# One for each question: it knows").unwrap();
    let end = preset.find("[mcp_servers.submit]").unwrap();
    let theirs = format!(
        "[mcp_servers.fetch]\ncommand = \"{bin}/uvx\"\nargs = [\"mcp-server-fetch\", \"--proxy-url\", \"{proxy}\", \
         \"--ignore-robots-txt\"]\nscope = \"run\"\nstartup_timeout_sec = 120\n\n[mcp_servers.search]\ncommand = \"{bin}/npx\"\n\
         args = [\"-y\", \"@brave/brave-search-mcp-server\"]\nenabled_tools = [\"brave_web_search\"]\nscope = \"run\"\n\
         startup_timeout_sec = 120\n[mcp_servers.search.env]\nBRAVE_API_KEY = \"key-of-the-test\"\nBRAVE_STAND_IN = \"{proxy}\"\n\
         NODE_OPTIONS = \"--require {preload}\"\n\n",
        bin = bin.display(),
        proxy = web.url(),
        preload = preload.display()
    );
    let desk = tempfile::tempdir().unwrap();
    let config = desk.path().join("reference.toml");
    fs_err::write(&config, format!("{}{theirs}{}", &preset[..start], &preset[end..])).unwrap();
    let run = run(&config, "rehearsal-reference.jsonl", &web, &[]).await;
    println!("with the reference servers: {} of {} correct", run.correct.len(), run.asked);
    assert!(
        web.asked().iter().any(|asked| asked.contains("/res/v1/web/search")),
        "the stand-in was searched"
    );
    // The pages in HTML; not the documents, the data of the application, and the page whose encoding only it names.
    for answer in ["Ana Bolt", "3 October 1968", "1207", "87", "96"] {
        assert!(run.correct.iter().any(|given| given == answer), "{answer}: {:?}", run.correct);
    }
    assert!(run.correct.len() < run.asked, "else the questions do not tell the servers apart");
}
