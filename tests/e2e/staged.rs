//! `gaia run --staged` against a scripted model: where it stops, what it says, and how it goes on.

use gaia_tests::scripted::{Options, Script, ScriptedModel, turn};
use serde_json::{Value, json};

use crate::gaia::{Desk, json, results};

/// Four tasks of each level, asked by a model that is right on so many of each.
async fn bench(right: [usize; 3]) -> (Desk, ScriptedModel) {
    let desk = Desk::new();
    let mut script = Script::new();
    let mut rows = Vec::new();
    for (level, right) in (1..=3u8).zip(right) {
        for number in 0..4 {
            let question = format!("What is number {number} of level {level}?");
            script = script.task(&question, [turn::submit(if number < right { "blue" } else { "red" })]);
            rows.push((format!("task-{level}-{number}"), question, level));
        }
    }
    let rows: Vec<(&str, &str, u8, &str)> =
        rows.iter().map(|(id, question, level)| (id.as_str(), question.as_str(), *level, "blue")).collect();
    desk.dataset(&rows);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    desk.write(
        "c.toml",
        &format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{}\"\nprice = {{ input = 1.0, output = 2.0 }}\n\
             [run]\nconcurrency = 3\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
            model.base_url
        ),
    );
    (desk, model)
}

fn stages(record: &Value) -> Vec<(&str, u64, bool)> {
    let stages = record["staged"]["stages"].as_array().unwrap();
    let stage = |stage: &'_ Value| (stage["correct"].as_u64().unwrap(), stage["passed"].as_bool().unwrap());
    stages.iter().map(|value| (value["name"].as_str().unwrap(), stage(value).0, stage(value).1)).collect()
}

#[tokio::test]
async fn a_weak_level_one_ends_the_run_and_a_resume_with_another_threshold_goes_on() {
    let (desk, model) = bench([2, 1, 4]).await;
    let ended = desk.gaia(&["run", "c.toml", "--staged", "--json"]).await;
    assert_eq!(ended.code, 0, "a stage that stops is no failure: {ended:#?}");
    assert!(
        ended
            .stderr
            .contains("stopped early: 50.0% of level 1 is right (2 of 4), and level 2 begins above 60.0%"),
        "{}",
        ended.stderr
    );
    let run = desk.runs().pop().unwrap();
    // Two of each level, and the rest of level 1.
    assert_eq!(results(&run).len(), 8);
    let record = json(&run.join("run.json"));
    assert_eq!(stages(&record), [("quick check", 5, true), ("level 1", 2, false)]);
    let report = fs_err::read_to_string(run.join("report.md")).unwrap();
    assert!(
        report.contains("- Stage quick check: 6 of 6 answered, one needed, right or wrong (5 right): passed"),
        "{report}"
    );
    let stopped = &record["staged"]["stopped"];
    assert_eq!(stopped["withheld"], json!(["task-2-2", "task-2-3", "task-3-2", "task-3-3"]));
    assert!(
        stopped["saved"]["cost_usd"].as_f64().unwrap() > 0.0 && stopped["saved"]["samples"] == 4,
        "{stopped}"
    );
    assert_eq!(
        (&record["totals"]["requested"], &record["totals"]["withheld"], &record["totals"]["missing"]),
        (&json!(8), &json!(4), &json!(0))
    );

    // The score is of what was asked, and both numbers are said.
    let printed: Value = serde_json::from_str(&ended.stdout).unwrap();
    let overall = printed["figures"]["metrics"][0]["subsets"].as_array().unwrap().last().unwrap();
    assert_eq!((&overall["num"], &overall["correct"]), (&json!(8), &json!(5)));
    let table = desk.gaia(&["report", "last"]).await.stdout;
    for part in [
        "Not run: 2 of level 2, 2 of level 3",
        "of the 8 that were asked",
        "of all 12 that were selected 5 are right (41.7%)",
    ] {
        assert!(table.contains(part), "no `{part}`: {table}");
    }
    for file in ["report.md", "report.html"] {
        assert!(
            fs_err::read_to_string(run.join(file)).unwrap().contains("2 of level 2, 2 of level 3"),
            "{file}"
        );
    }
    let refused = desk.gaia(&["export", "last", "--format", "submission"]).await;
    assert!(refused.code == 3 && refused.stderr.contains("4 samples were not run"), "{refused:#?}");

    // The same threshold ends it at once; a lower one goes on until level 2, which is too weak for level 3.
    let again = desk.gaia(&["resume", "last"]).await;
    assert_eq!((again.code, results(&run).len()), (0, 8), "{again:#?}");
    let on = desk.gaia(&["resume", "last", "--set", "run.staged.level_1=0.4"]).await;
    assert_eq!(on.code, 0, "{on:#?}");
    assert!(on.stderr.contains("25.0% of level 2 is right (1 of 4)"), "{}", on.stderr);
    assert_eq!(results(&run).len(), 10);
    let record = json(&run.join("run.json"));
    assert_eq!(stages(&record), [("quick check", 5, true), ("level 1", 2, true), ("level 2", 1, false)]);
    // Level 3 was better than level 2: told with its likelihood.
    let report = fs_err::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("Level 2 to 3") && report.contains("which is unusual"), "{report}");
    for task in model.stats().tasks.values() {
        assert_eq!(task.turns.values().sum::<u64>(), 1, "a sample was run twice");
    }
    model.close().await;
}

#[tokio::test]
async fn what_stages_would_do_is_said_beforehand_and_a_run_without_them_gets_none() {
    let (desk, model) = bench([4, 4, 4]).await;
    let dry = desk.gaia(&["run", "c.toml", "--staged", "--dry-run"]).await;
    assert_eq!(dry.code, 0, "{dry:#?}");
    for line in [
        "quick check: 6 samples; goes on when one of them is answered, right or wrong",
        "level 1: 2 more samples; level 2 begins when more than 60.0% of level 1 is right",
        "level 2: 2 more samples; level 3 begins when more than 40.0% of level 2 is right",
        "level 3: 2 more samples",
    ] {
        assert!(dry.stdout.contains(line), "no `{line}`: {}", dry.stdout);
    }
    let dry = desk.gaia(&["run", "c.toml", "--staged", "--dry-run", "--json"]).await;
    let dry: Value = serde_json::from_str(&dry.stdout).unwrap();
    assert_eq!(dry["stages"].as_array().unwrap().len(), 4, "{dry:#}");

    let ended = desk.gaia(&["run", "c.toml", "--limit", "2"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let run = desk.runs().pop().unwrap();
    let refused = desk.gaia(&["run", run.to_str().unwrap(), "--staged"]).await;
    assert!(refused.code == 2 && refused.stderr.contains("was not begun in stages"), "{refused:#?}");
    model.close().await;
}

#[tokio::test]
async fn good_levels_lead_to_the_end_and_hidden_truths_to_none() {
    let (desk, model) = bench([3, 2, 0]).await;
    let ended = desk.gaia(&["run", "c.toml", "--staged"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let run = desk.runs().pop().unwrap();
    assert_eq!(results(&run).len(), 12);
    let record = json(&run.join("run.json"));
    assert_eq!(
        stages(&record),
        [("quick check", 4, true), ("level 1", 3, true), ("level 2", 2, true), ("level 3", 0, true)]
    );
    assert!(
        record["staged"].get("stopped").is_none() && !ended.stdout.contains("Not run"),
        "{}",
        ended.stdout
    );
    model.close().await;

    desk.write(
        "samples/2023/test/metadata.jsonl",
        &json!({ "task_id": "t", "Question": "q?", "Level": 1, "Final answer": "?", "file_name": "" })
            .to_string(),
    );
    let ended = desk.gaia(&["run", "c.toml", "--staged", "--split", "test"]).await;
    assert!(ended.code == 2 && ended.stderr.contains("truths of the test split are hidden"), "{ended:#?}");
    let ended = desk.gaia(&["run", "c.toml", "--staged", "--set", "run.staged.level_1=60"]).await;
    assert!(
        ended.code == 2 && ended.stderr.contains("run.staged.level_1") && ended.stderr.contains("is a share"),
        "{ended:#?}"
    );
}
