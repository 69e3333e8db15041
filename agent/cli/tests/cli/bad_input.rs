//! Whatever is wrong is said before any sample runs, with the documented exit code, and leaves nothing behind.

use crate::support::{Ended, Place, SHELL_SERVER, config, endpoint};

/// A server entry of which only the command matters.
const GHOST: &str = "[mcp_servers.submit]\ncommand = \"gaia-no-such-server\"\n";

/// `gaia run run.toml` with this config; no run may be left, not even in part.
fn run(place: &Place, config: &str, extra: &[&str]) -> Ended {
    place.write("run.toml", config);
    let arguments: Vec<&str> = ["run", "run.toml"].into_iter().chain(extra.iter().copied()).collect();
    let ended = place.gaia(&arguments);
    assert!(!place.path("runs").exists(), "something was written: {ended:#?}");
    ended
}

fn place() -> Place {
    let place = Place::new();
    place.write_dataset();
    place
}

#[test]
fn toml_that_is_none() {
    run(&place(), "[dataset\n", &[]).fails_with(2, &["error: ", "run.toml"]);
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_a_suggestion() {
    let text = config("http://127.0.0.1:9/v1", GHOST) + "[agent]\nmax_step = 5\n";
    run(&place(), &text, &[]).fails_with(2, &["run.toml:", "max_step", "max_steps"]);
}

#[test]
fn an_absent_config() {
    let place = place();
    place.gaia(&["run", "absent.toml"]).fails_with(2, &["absent.toml"]);
}

#[test]
fn a_key_variable_that_is_not_set() {
    let text = config("http://127.0.0.1:9/v1", GHOST)
        .replace("name = \"m\"", "name = \"m\"\napi_key_env = \"SOME_KEY_VARIABLE\"");
    run(&place(), &text, &[]).fails_with(2, &["SOME_KEY_VARIABLE"]);
}

#[test]
fn a_dataset_without_metadata() {
    let place = Place::new();
    place.write("data/readme.txt", "nothing here");
    run(&place, &config("http://127.0.0.1:9/v1", GHOST), &[]).fails_with(2, &["no metadata", "data"]);
}

#[test]
fn a_task_that_does_not_exist() {
    let text = config("http://127.0.0.1:9/v1", GHOST);
    run(&place(), &text, &["--task", "task-9"]).fails_with(2, &["`task-9`"]);
}

#[test]
fn an_endpoint_that_cannot_be_reached() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/v1");
    run(&place(), &config(&url, SHELL_SERVER), &[])
        .fails_with(4, &["failed to reach the model endpoint", &url, "hint:"]);
}

#[test]
fn a_server_whose_command_is_not_found() {
    run(&place(), &config(&endpoint(), GHOST), &[]).fails_with(4, &["`submit`", "gaia-no-such-server"]);
}

#[test]
fn a_server_that_dies_at_its_start_is_shown_with_its_stderr() {
    let server = "[mcp_servers.submit]\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"echo the disk is full >&2; exit 3\"]\n";
    run(&place(), &config(&endpoint(), server), &[]).fails_with(4, &["`submit`", "the disk is full"]);
}

#[test]
fn a_model_server_that_dies_is_shown_with_its_stderr() {
    let text = config("", GHOST).replace("base_url = \"\"\n", "")
        + "[model.server]\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"echo no script >&2; exit 3\"]\n";
    run(&place(), &text, &[]).fails_with(4, &["model server", "no script"]);
}

#[test]
fn a_command_line_that_is_none() {
    let place = Place::new();
    place.gaia(&["run", "--limit", "many"]).fails_with(2, &["--limit"]);
    place.gaia(&["run", "--set", "novalue"]).fails_with(2, &["KEY=VALUE"]);
    place.gaia(&["fly"]).fails_with(2, &["fly"]);
}

#[test]
fn a_run_that_does_not_exist() {
    let place = Place::new();
    for command in [["report", "last"], ["resume", "last"], ["score", "2025"]] {
        place.gaia(&command).fails_with(2, &["there is no run in", "--out"]);
    }
}

#[test]
fn an_answer_tool_that_is_not_offered() {
    let text = config(&endpoint(), SHELL_SERVER) + "[agent]\nanswer_tool = \"submit/secret\"\n";
    run(&place(), &text, &[]).fails_with(2, &["`submit/secret`", "submit/submit, submit/fail"]);
}

#[test]
fn an_allow_list_entry_that_matches_nothing() {
    let server = SHELL_SERVER.replace("disabled_tools = [\"secret\"]", "disabled_tools = [\"secrets\"]");
    run(&place(), &config(&endpoint(), &server), &[]).fails_with(2, &["`submit`", "secrets"]);
}
