//! What is wrong is said before any sample runs, with its exit code, and nothing is half-written.

use gaia_tests::scripted::{Options, Script, ScriptedModel, turn};

use crate::gaia::Desk;

const SUBMIT: &str = r#"
[mcp_servers.submit]
command = "gaia-mcp-submit"
"#;

/// A config that would run, but for what a test adds to it.
fn config(base_url: &str, servers: &str) -> String {
    format!(
        "[dataset]\npath = \"samples\"\n\n[model]\nname = \"m\"\nbase_url = \"{base_url}\"\n\n[agent]\nanswer_tool = \"submit/submit\"\n{servers}"
    )
}

/// Runs `gaia run c.toml` on a good dataset and checks code, text, and that there is no trace of a run.
async fn check(desk: Desk, config: &str, code: i32, words: &[&str]) {
    desk.dataset(&[("t1", "What is one and one?", 1, "2")]);
    desk.write("c.toml", config);
    refused(&desk, code, words).await;
}

async fn refused(desk: &Desk, code: i32, words: &[&str]) {
    let ended = desk.gaia(&["run", "c.toml"]).await;
    assert_eq!(ended.code, code, "{ended:#?}");
    for word in words {
        assert!(ended.stderr.contains(word), "no `{word}` in:\n{}", ended.stderr);
    }
    assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    assert!(!desk.path().join("runs").exists(), "a runs folder was made");
}

const NOWHERE: &str = "http://127.0.0.1:9/v1";

#[tokio::test]
async fn bad_toml_is_shown_with_its_place_and_a_caret() {
    check(Desk::new(), "[model]\nname = \"x\n", 2, &["c.toml:2:", "^"]).await;
}

#[tokio::test]
async fn an_unknown_key_is_shown_with_its_place_and_the_key_that_was_meant() {
    let text = config(NOWHERE, SUBMIT).replace("answer_tool", "max_stepz = 5\nanswer_tool");
    check(Desk::new(), &text, 2, &["c.toml:9:1", "max_stepz", "^", "max_steps"]).await;
}

#[tokio::test]
async fn a_wrong_type_is_shown_with_its_place() {
    let text = config(NOWHERE, SUBMIT).replace("answer_tool", "max_steps = \"many\"\nanswer_tool");
    check(Desk::new(), &text, 2, &["c.toml:9:", "^", "agent.max_steps"]).await;
}

/// The key itself in the place of its variable's name is in no error, wherever it was written.
#[tokio::test]
async fn a_key_in_the_place_of_its_name_is_not_repeated() {
    for key in ["sk-live-Abc123", "abcdef0123456789abcdef"] {
        let text = config(NOWHERE, SUBMIT)
            .replace("name = \"m\"", &format!("name = \"m\"\napi_key_env = \"{key}\""));
        let desk = Desk::new();
        desk.dataset(&[("t1", "What is one and one?", 1, "2")]);
        desk.write("c.toml", &text);
        desk.write("plain.toml", &config(NOWHERE, SUBMIT));
        let set = format!("model.api_key_env={key}");
        for arguments in [&["run", "c.toml"][..], &["run", "plain.toml", "--set", &set]] {
            let ended = desk.gaia(arguments).await;
            assert_eq!(ended.code, 2, "{ended:#?}");
            assert!(ended.stderr.contains("must be the NAME of an environment variable"), "{}", ended.stderr);
            assert!(!ended.stderr.contains(key), "{}", ended.stderr);
        }
    }
}

#[tokio::test]
async fn more_at_a_time_than_a_process_can_hold_is_refused() {
    let desk = Desk::new();
    desk.dataset(&[("t1", "What is one and one?", 1, "2")]);
    desk.write("c.toml", &config(NOWHERE, SUBMIT));
    let most = usize::MAX.to_string();
    for (flags, word) in [
        (["--concurrency", "4097"], "`run.concurrency` must be at most 4096"),
        (["--set", "run.sandboxes=0"], "`run.sandboxes` must be at least 1"),
        (["--set", "run.model_calls=5000"], "`run.model_calls` must be at most 4096"),
        (["--concurrency", &most], "concurrency"),
    ] {
        let ended = desk.gaia(&[&["run", "c.toml"][..], &flags].concat()).await;
        assert!(ended.code == 2 && ended.stderr.contains(word), "{flags:?}: {ended:#?}");
    }
}

/// What an export cannot do is said by the names that the user gave.
#[tokio::test]
async fn an_export_refuses_flags_that_it_has_no_use_for_and_places_that_are_none() {
    let desk = Desk::new();
    let runs = desk.path().join("runs");
    let run = gaia_tests::made_run::partial(&runs).unwrap();
    let run = run.path.to_str().unwrap();
    desk.write("file", "");
    fs_err::create_dir(desk.path().join("folder")).unwrap();
    for (arguments, words) in [
        (&["--format", "csv", "--key", "age1x"][..], &["--key is for --format sealed"][..]),
        (&["--format", "inspect", "--key", "age1x"], &["--key is for --format sealed"]),
        (&["--format", "json", "--partial"], &["--partial is for --format submission"]),
        (&["--format", "sealed", "--partial"], &["--partial is for --format submission"]),
        (&["--format", "csv", "--out", "folder"], &["`folder` is a folder", "--out"]),
        (&["--format", "csv", "--out", "folder", "--overwrite"], &["`folder` is a folder", "--out"]),
        (&["--format", "csv", "--out", "nowhere/x.csv"], &["`nowhere/x.csv`", "its folder is not there"]),
        (&["--format", "parquet", "--out", "file/x.parquet"], &["`file/x.parquet`", "not a directory"]),
    ] {
        let ended = desk.gaia(&[&["export", run], arguments].concat()).await;
        assert_eq!(ended.code, 2, "{arguments:?}: {ended:#?}");
        for word in words {
            assert!(ended.stderr.contains(word), "no `{word}` in {ended:#?}");
        }
        assert!(!ended.stderr.contains(".tmp") && !ended.stderr.contains("os error"), "{ended:#?}");
    }
    let left = fs_err::read_dir(desk.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: std::collections::BTreeSet<_> = left.collect();
    assert_eq!(left.len(), 3, "something was written: {left:?}");
}

#[tokio::test]
async fn a_missing_key_variable_is_named() {
    let text = config(NOWHERE, SUBMIT)
        .replace("name = \"m\"", "name = \"m\"\napi_key_env = \"GAIA_TEST_NO_SUCH_KEY\"");
    check(Desk::new(), &text, 2, &["GAIA_TEST_NO_SUCH_KEY"]).await;
}

#[tokio::test]
async fn a_budget_of_money_needs_a_price_from_somewhere() {
    let text = format!("{}\n[agent.budget]\ncost_usd = 1.0\n", config(NOWHERE, SUBMIT));
    let words =
        ["`agent.budget.cost_usd` needs a price", "`m` at `http://127.0.0.1:9/v1`", "`model.catalog`"];
    check(Desk::new(), &text, 2, &words).await;
}

#[tokio::test]
async fn a_missing_variable_of_a_server_is_named_with_its_place() {
    let text = config(
        NOWHERE,
        "\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\nargs = [\"${NO_SUCH_THING}\"]\n",
    );
    check(Desk::new(), &text, 2, &["NO_SUCH_THING", "c.toml:"]).await;
}

#[tokio::test]
async fn a_config_that_does_not_exist_is_named() {
    let desk = Desk::new();
    refused(&desk, 2, &["c.toml"]).await;
}

#[tokio::test]
async fn a_dataset_without_metadata_says_what_was_looked_for() {
    let desk = Desk::new();
    desk.write("samples/readme.txt", "nothing here");
    desk.write("c.toml", &config(NOWHERE, SUBMIT));
    refused(&desk, 2, &["metadata.parquet", "metadata.jsonl", "samples"]).await;
}

#[tokio::test]
async fn a_bad_row_is_named_by_file_line_and_task() {
    let desk = Desk::new();
    desk.write(
        "samples/2023/validation/metadata.jsonl",
        "{\"task_id\": \"a\", \"Question\": \"q\", \"Level\": 1, \"Final answer\": \"1\", \"file_name\": \"\"}\n{\"task_id\": \"b\", \"Question\": \"q\", \"Level\": 7, \"Final answer\": \"1\", \"file_name\": \"\"}\n",
    );
    desk.write("c.toml", &config(NOWHERE, SUBMIT));
    refused(&desk, 2, &["metadata.jsonl", "2", "`b`", "7"]).await;
}

#[tokio::test]
async fn a_command_that_is_not_found_names_both_places() {
    let text = config(NOWHERE, &format!("{SUBMIT}\n[mcp_servers.tool]\ncommand = \"no-such-mcp-server\"\n"));
    check(Desk::new(), &text, 4, &["`tool`", "no-such-mcp-server", "PATH"]).await;
}

#[tokio::test]
async fn a_server_that_dies_at_its_start_is_shown_with_its_own_words() {
    let server = "\n[mcp_servers.tool]\ncommand = \"sh\"\nargs = [\"-c\", \"echo the licence has expired >&2; exit 3\"]\n";
    check(
        Desk::new(),
        &config(NOWHERE, &format!("{SUBMIT}{server}")),
        4,
        &["`tool`", "the licence has expired", "3"],
    )
    .await;
}

#[tokio::test]
async fn an_allow_list_entry_that_matches_nothing_is_an_error_with_the_nearest_name() {
    let server = SUBMIT.to_owned() + "enabled_tools = [\"submitt\"]\n";
    check(Desk::new(), &config(NOWHERE, &server), 2, &["submitt", "`submit`"]).await;
}

#[tokio::test]
async fn an_answer_tool_that_no_server_has_is_an_error() {
    let text = config(NOWHERE, SUBMIT).replace("submit/submit", "submit/answer");
    check(Desk::new(), &text, 2, &["submit/answer", "submit/submit"]).await;
}

const BASH: &str = "\n[mcp_servers.bash]\ncommand = \"gaia-mcp-bash\"\n";

#[tokio::test]
async fn without_docker_the_run_does_not_start() {
    let desk = Desk::new().with_variable("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    let server = format!(
        "{SUBMIT}{BASH}args = [\"--image\", \"python:3.11\"]\nenv = {{ DOCKER_HOST = \"${{DOCKER_HOST}}\" }}\n"
    );
    check(desk, &config(NOWHERE, &server), 4, &["`bash`", "/nonexistent/docker.sock", "Docker"]).await;
}

#[tokio::test]
async fn an_absent_image_is_named_with_the_way_to_get_it() {
    let server =
        format!("{SUBMIT}{BASH}args = [\"--image\", \"gaia-no-such-image:1\", \"--pull\", \"never\"]\n");
    check(Desk::new(), &config(NOWHERE, &server), 4, &["gaia-no-such-image:1", "docker pull"]).await;
}

#[tokio::test]
async fn a_model_endpoint_that_nobody_answers_ends_the_run_without_results_for_it() {
    // Only a call shows it: the run starts, the sample errs, the exit code says that something is missing.
    let desk = Desk::new();
    desk.dataset(&[("t1", "What is one and one?", 1, "2")]);
    desk.write("c.toml", &config(NOWHERE, SUBMIT).replace("name = \"m\"", "name = \"m\"\nmax_retries = 0"));
    let ended = desk.gaia(&["run", "c.toml"]).await;
    assert!([3, 4].contains(&ended.code), "{ended:#?}");
    assert!(ended.stderr.contains("127.0.0.1:9") || ended.stderr.contains("connect"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_refused_key_stops_the_run_instead_of_burning_through_it() {
    let script = Script::new().task("", [turn::submit("2")]);
    let options =
        Options { api_key: gaia_tests::scripted::ApiKey::Required("right".to_owned()), ..Options::default() };
    let model = ScriptedModel::start(script, options).await.unwrap();
    let desk = Desk::new().with_variable("WRONG_KEY", "wrong");
    let rows: Vec<(String, String)> = (0..12).map(|n| (format!("t{n}"), format!("Question {n}?"))).collect();
    let rows: Vec<(&str, &str, u8, &str)> =
        rows.iter().map(|(id, question)| (id.as_str(), question.as_str(), 1, "2")).collect();
    desk.dataset(&rows);
    let text =
        config(&model.base_url, SUBMIT).replace("name = \"m\"", "name = \"m\"\napi_key_env = \"WRONG_KEY\"");
    desk.write("c.toml", &format!("{text}\n[run]\nconcurrency = 2\n"));
    let ended = desk.gaia(&["run", "c.toml"]).await;
    assert!([3, 4].contains(&ended.code), "{ended:#?}");
    assert!(ended.stderr.contains("WRONG_KEY") || ended.stderr.contains("api_key_env"), "{}", ended.stderr);
    assert!(model.stats().unauthorized <= 4, "{:?}", model.stats());
    model.close().await;
}
