//! Whole runs without a container: a fixed model, and servers of a few lines of shell.

use serde_json::Value;

use crate::support::{Place, SHELL_SERVER, config, endpoint};

fn place() -> Place {
    let place = Place::new();
    place.write_dataset();
    place.write("run.toml", &config(&endpoint(), SHELL_SERVER));
    place
}

fn only_run(place: &Place) -> std::path::PathBuf {
    let mut runs = fs_err::read_dir(place.path("runs")).unwrap();
    let run = runs.next().unwrap().unwrap().path();
    assert!(runs.next().is_none());
    run
}

#[test]
fn a_run_prints_the_table_and_leaves_a_report_and_a_submission() {
    let place = place();
    let ended = place.gaia(&["run", "run.toml", "--concurrency", "2"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for text in ["level 1", "level 3", "overall", "100.0%", "33.3%", "Report: "] {
        assert!(ended.stdout.contains(text), "no `{text}` in {}", ended.stdout);
    }
    // Two of the three have the last word on stderr: one line for each sample that ended.
    assert_eq!(ended.stderr.lines().filter(|line| line.starts_with("[")).count(), 3, "{}", ended.stderr);
    let run = only_run(&place);
    let record: Value = serde_json::from_slice(&fs_err::read(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(record["totals"]["correct"], 1);
    assert_eq!(record["totals"]["usage"]["input_tokens"], 30);
    assert!(record["ended"].is_string());
    let submission = fs_err::read_to_string(run.join("submission.jsonl")).unwrap();
    assert_eq!(submission.lines().count(), 3);
    assert!(fs_err::read_to_string(run.join("report.md")).unwrap().contains("task-3"));

    let name = run.file_name().unwrap().to_str().unwrap();
    for which in ["last", name, &format!("runs/{name}")] {
        let report = place.gaia(&["report", which, "--format", "json"]);
        let report: Value = serde_json::from_str(&report.stdout).unwrap();
        assert_eq!(report["figures"]["metrics"][0]["subsets"][3]["num"], 3);
    }
    assert_eq!(place.gaia(&["export", "last", "--format", "submission"]).stdout, submission);
    assert_eq!(place.gaia(&["export", "last", "--format", "csv"]).stdout.matches("\r\n").count(), 4);
}

#[test]
fn a_resume_runs_what_is_missing_and_nothing_else() {
    let place = place();
    assert_eq!(place.gaia(&["run", "run.toml"]).code, Some(0));
    let run = only_run(&place);
    let result = |task: &str| run.join("samples").join(task).join("1/result.json");
    let kept = fs_err::metadata(result("task-1")).unwrap().modified().unwrap();
    fs_err::remove_file(result("task-2")).unwrap();
    // Until then it is not for the leaderboard, unless somebody insists; and then with every row.
    let export = ["export", "last", "--format", "submission"];
    place.gaia(&export).fails_with(3, &["not ready", "1 samples have no outcome", "--partial"]);
    assert_eq!(place.gaia(&[&export[..], &["--partial"]].concat()).stdout.lines().count(), 3);

    let ended = place.gaia(&["resume", "last", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(shown["figures"]["totals"]["missing"], 0);
    assert_eq!(fs_err::metadata(result("task-1")).unwrap().modified().unwrap(), kept, "it ran again");
    let events = fs_err::read_to_string(run.join("samples/task-2/1/events.jsonl")).unwrap();
    assert_eq!(events.matches("\"type\":\"started\"").count(), 2);
    let record: Value = serde_json::from_slice(&fs_err::read(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(record["sessions"].as_array().unwrap().len(), 2);

    // The run in the place of a config is the same, and takes no other questions.
    fs_err::remove_file(result("task-3")).unwrap();
    let folder = run.to_str().unwrap();
    place.gaia(&["run", folder, "--level", "1"]).fails_with(2, &["which has its questions", "`--level`"]);
    place.gaia(&["run", folder, "--model", "other"]).fails_with(2, &["model: m → other"]);
    let ended = place.gaia(&["run", folder, "--concurrency", "3"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(result("task-3").is_file());
    assert_eq!(fs_err::metadata(result("task-1")).unwrap().modified().unwrap(), kept, "it ran again");
    assert_eq!(only_run(&place), run);

    place.gaia(&["resume", "last", "--set", "model.name=\"other\""]).fails_with(2, &["model: m → other"]);
    place.write("data/2023/validation/metadata.jsonl", "{\"task_id\": \"x\", \"Question\": \"?\", \"Level\": 1, \"Final answer\": \"1\", \"file_name\": \"\"}\n");
    place.gaia(&["resume", "last"]).fails_with(2, &["has changed"]);
}

#[test]
fn a_score_follows_the_truth_of_today() {
    let place = place();
    assert_eq!(place.gaia(&["run", "run.toml"]).code, Some(0));
    let rows = fs_err::read_to_string(place.path("data/2023/validation/metadata.jsonl")).unwrap();
    let corrected = rows.replace("\"Final answer\": \"2\"", "\"Final answer\": \"1\"");
    assert_ne!(rows, corrected);
    place.write("data/2023/validation/metadata.jsonl", &corrected);
    let ended = place.gaia(&["score", "last"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stdout.contains("66.7%"), "{}", ended.stdout);
}

#[test]
fn a_dry_run_checks_everything_and_writes_nothing() {
    let place = place();
    let ended = place.gaia(&["run", "run.toml", "--dry-run", "--level", "1,2"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stdout.contains("2 samples: 1 of level 1, 1 of level 2"), "{}", ended.stdout);
    assert!(ended.stdout.contains("submit/submit, submit/fail"), "{}", ended.stdout);
    assert!(!place.path("runs").exists());
}

#[test]
fn tools_are_listed_and_called_by_either_name() {
    let place = place();
    let ended = place.gaia(&["tools", "run.toml", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let tools: Value = serde_json::from_str(&ended.stdout).unwrap();
    let hidden = tools.as_array().unwrap().iter().find(|tool| tool["tool"] == "submit/secret").unwrap();
    assert!(hidden["hidden"].as_str().unwrap().contains("disabled_tools"), "{hidden}");

    for name in ["submit", "submit/submit"] {
        let ended = place.gaia(&["call", "run.toml", name, "{\"answer\": \"1\"}"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "taken\n"), "{ended:#?}");
    }
    let ended = place.gaia(&["call", "run.toml", "fail"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), "it broke\n"), "{ended:#?}");
    place.gaia(&["call", "run.toml", "absent"]).fails_with(2, &["`absent`", "submit/submit"]);
}

#[test]
fn a_run_in_use_is_refused_with_the_pid_of_its_user() {
    let place = place();
    assert_eq!(place.gaia(&["run", "run.toml"]).code, Some(0));
    let lock = fs_err::OpenOptions::new().write(true).open(only_run(&place).join("lock")).unwrap();
    lock.file().lock().unwrap();
    fs_err::write(lock.path(), "4711\n").unwrap();
    place.gaia(&["resume", "last"]).fails_with(2, &["in use by another process (pid 4711)"]);
    place.gaia(&["score", "last"]).fails_with(2, &["(pid 4711)"]);
}
