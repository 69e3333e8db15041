//! A run in parts that know nothing of each other, and the whole that they make.

use std::collections::BTreeMap;
use std::path::Path;

use gaia_tests::scripted::{Options, Script, ScriptedModel, turn};
use serde_json::Value;

use crate::gaia::{Desk, json, results};

fn outcomes(run: &Path) -> BTreeMap<(String, u64), (Value, Value)> {
    let outcome = |result: &Value| {
        let key = (result["task_id"].as_str().unwrap().to_owned(), result["epoch"].as_u64().unwrap());
        (key, (result["answer"].clone(), result["score"].clone()))
    };
    results(run).iter().map(outcome).collect()
}

#[tokio::test]
async fn parts_put_together_are_the_run_that_one_machine_makes() {
    let rows: Vec<_> = (0..9).map(|n| (format!("task-{n}"), format!("What is number {n}?"))).collect();
    let script = rows
        .iter()
        .fold(Script::new(), |script, (_, question)| script.task(question, [turn::submit("blue")]));
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    let lines: Vec<_> =
        rows.iter().map(|(id, question)| (id.as_str(), question.as_str(), 1, "blue")).collect();
    desk.dataset(&lines);
    let config = format!(
        "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{}\"\n[agent]\nanswer_tool = \
         \"submit/submit\"\n[run]\nconcurrency = 2\nepochs = 2\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
        model.base_url
    );
    desk.write("c.toml", &config);
    let whole = desk.gaia(&["run", "c.toml", "--out", "whole"]).await;
    assert_eq!(whole.code, 0, "{whole:#?}");

    let first = desk.gaia(&["run", "c.toml", "--shard", "1/3"]).await;
    assert_eq!(first.code, 0, "{first:#?}");
    // As Kubernetes numbers the second pod, and Slurm the third task of an array from 1.
    for variables in
        [&[("JOB_COMPLETION_INDEX", "1")][..], &[("SLURM_ARRAY_TASK_ID", "3"), ("SLURM_ARRAY_TASK_MIN", "1")]]
    {
        let mut command = desk.command(&["run", "c.toml", "--shard", "3"]);
        let output = command.envs(variables.iter().copied()).output().await.unwrap();
        assert!(output.status.success(), "{variables:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let no_number = desk.gaia(&["run", "c.toml", "--shard", "3"]).await;
    assert!(no_number.code == 2 && no_number.stderr.contains("JOB_COMPLETION_INDEX"), "{no_number:#?}");
    // Runs of one second are in no order.
    let mut parts = desk.runs();
    parts.sort_by_key(|part| json(&part.join("run.json"))["shard"]["index"].as_u64());
    assert_eq!(parts.len(), 3);
    let paths: Vec<&str> = parts.iter().map(|part| part.to_str().unwrap()).collect();

    let two = desk.gaia(&["merge", paths[2], paths[0], "--out", "two", "--json"]).await;
    assert_eq!(two.code, 3, "samples of the third part are missing: {two:#?}");
    assert!(two.stderr.contains("not given: 2"), "{}", two.stderr);

    // By their ids, which are those of the folder of runs wherever the whole goes.
    let ids = parts.iter().map(|part| part.file_name().unwrap().to_str().unwrap());
    let ids: Vec<&str> = ids.collect();
    let merged = desk.gaia(&["merge", ids[2], ids[0], ids[1], "--out", "merged", "--json"]).await;
    assert_eq!(merged.code, 0, "{merged:#?}");
    let only = |folder: &str| {
        let entries = fs_err::read_dir(desk.path().join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).next().unwrap()
    };
    let (whole, merged) = (only("whole"), only("merged"));
    assert_eq!(outcomes(&merged), outcomes(&whole));
    assert_eq!(outcomes(&merged).len(), 18);
    let (left, right) = (json(&merged.join("run.json")), json(&whole.join("run.json")));
    assert_eq!(left["dataset"]["samples"], right["dataset"]["samples"]);
    assert_eq!(left["dataset"]["unselected"], right["dataset"]["unselected"]);
    assert_eq!(left["totals"]["correct"], right["totals"]["correct"]);
    for file in ["report.md", "submission.jsonl"] {
        assert!(merged.join(file).is_file(), "no {file}");
    }

    // Among its parts it is the last one.
    let beside = desk.gaia(&[&["merge"], ids.as_slice()].concat()).await;
    assert_eq!(beside.code, 0, "{beside:#?}");
    let last = json(&desk.runs().pop().unwrap().join("run.json"));
    assert!(last.get("shard").is_none() && last["totals"]["correct"] == 18, "{last:#}");

    let staged = desk.gaia(&["run", "c.toml", "--shard", "1/3", "--staged"]).await;
    assert!(staged.code == 2 && staged.stderr.contains("--shard does not go with --staged"), "{staged:#?}");

    desk.write("other.toml", &config.replace("[agent]", "[agent]\nresult_bytes = 999"));
    let other = desk.gaia(&["run", "other.toml", "--shard", "2/3", "--out", "other"]).await;
    assert_eq!(other.code, 0, "{other:#?}");
    let refused = desk.gaia(&["merge", paths[0], only("other").to_str().unwrap(), "--out", "no"]).await;
    assert!(refused.code == 2 && refused.stderr.contains("agent.result_bytes"), "{refused:#?}");
    assert!(!desk.path().join("no").exists());
    model.close().await;
}

#[tokio::test]
async fn a_part_that_no_sample_falls_into_is_a_run_like_any_other() {
    let model = ScriptedModel::start(Script::new().task("One?", [turn::submit("1")]), Options::default());
    let model = model.await.unwrap();
    let desk = Desk::new();
    desk.dataset(&[("only", "One?", 1, "1")]);
    desk.write(
        "c.toml",
        &format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{}\"\n[mcp_servers.submit]\n\
             command = \"gaia-mcp-submit\"\n",
            model.base_url
        ),
    );
    for shard in ["1/2", "2/2"] {
        let ended = desk.gaia(&["run", "c.toml", "--shard", shard]).await;
        assert_eq!(ended.code, 0, "{shard}: {ended:#?}");
        assert!(!ended.stdout.contains("NaN"), "{}", ended.stdout);
    }
    let parts = desk.runs();
    let paths: Vec<&str> = parts.iter().map(|part| part.to_str().unwrap()).collect();
    let merged = desk.gaia(&[&["merge", "--out", "merged"], paths.as_slice()].concat()).await;
    assert_eq!(merged.code, 0, "{merged:#?}");
    model.close().await;
}
