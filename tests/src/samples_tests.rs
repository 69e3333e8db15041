//! The bundled sample set and its rehearsal belong together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::scripted::{Script, TaskScript};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../configs/samples")
}

/// Each sample with its script.
fn samples() -> Vec<(Value, TaskScript)> {
    let text = fs_err::read_to_string(folder().join("2023/validation/metadata.jsonl")).unwrap();
    let script = Script::read(&folder().join("rehearsal.jsonl")).unwrap();
    let mut scripts: BTreeMap<_, _> =
        script.tasks().iter().map(|task| (task.task_id.clone(), task.clone())).collect();
    let pair = |line: &str| {
        let sample: Value = serde_json::from_str(line).unwrap();
        let id = sample["task_id"].as_str().unwrap();
        let task = scripts.remove(id).unwrap_or_else(|| panic!("no script for {id}"));
        (sample, task)
    };
    let samples: Vec<_> = text.lines().map(pair).collect();
    assert_eq!(scripts.keys().collect::<Vec<_>>(), Vec::<&String>::new(), "scripts without a sample");
    samples
}

#[test]
fn the_set_is_as_wide_as_it_says() {
    let samples = samples();
    let count = |wanted: &dyn Fn(&Value) -> bool| samples.iter().filter(|(sample, _)| wanted(sample)).count();
    assert_eq!([1, 2, 3].map(|level| count(&|sample| sample["Level"] == level)), [10, 13, 7]);
    assert_eq!(count(&|sample| sample["file_name"] != ""), 26);
    for (sample, _) in &samples {
        let file = sample["file_name"].as_str().unwrap();
        let id = sample["task_id"].as_str().unwrap();
        if !file.is_empty() {
            assert!(file.starts_with(&format!("{id}.")), "{file}");
            assert!(folder().join("2023/validation").join(file).is_file(), "{file}");
        }
    }
}

#[test]
fn each_question_is_known_by_one_script_only() {
    let samples = samples();
    for (_, task) in &samples {
        let known: Vec<_> = samples
            .iter()
            .filter(|(sample, _)| sample["Question"].as_str().unwrap().contains(&task.question))
            .map(|(sample, _)| sample["task_id"].as_str().unwrap())
            .collect();
        assert_eq!(known, [task.task_id.as_str()], "{}", task.question);
    }
}

#[test]
fn the_rehearsal_holds_no_answer_and_submits_what_a_command_printed() {
    for (sample, task) in samples() {
        let truth = sample["Final answer"].as_str().unwrap();
        for turn in &task.turns {
            let turn = json!(turn).to_string();
            assert!(!turn.contains(truth), "the script of {} names the answer `{truth}`", task.task_id);
        }
        let (last, before) = task.turns.split_last().unwrap();
        assert_eq!(json!(last.calls), json!([{"tool": "submit", "arguments": {"answer": "${answer}"}}]));
        let commands: Vec<_> = before.iter().flat_map(|turn| &turn.calls).collect();
        assert!(!commands.is_empty() && commands.iter().all(|call| call.tool == "bash"), "{}", task.task_id);
        assert!(json!(commands.last()).to_string().contains("ANSWER:"), "{}", task.task_id);
        let reads_file = json!(commands).to_string().contains("${file}");
        assert_eq!(reads_file, sample["file_name"] != "", "{}", task.task_id);
    }
}
