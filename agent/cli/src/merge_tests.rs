use gaia_agent::{Status, Usage};

use super::*;
use crate::shard::Shard;
use crate::store::{SampleResult, SampleTiming, test_record};

const TASKS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn result(task_id: &str, answer: &str) -> SampleResult {
    SampleResult {
        task_id: task_id.to_owned(),
        epoch: 1,
        level: 1,
        status: Status::Answered,
        answer: Some(answer.to_owned()),
        raw_answer: None,
        steps: 1,
        tool_calls: 1,
        usage: Usage::default(),
        cost_usd: None,
        timing: SampleTiming::default(),
        score: None,
        error: None,
    }
}

/// One part of two, in which every sample has an outcome.
fn part(runs: &Path, index: u32, change: impl FnOnce(&mut RunRecord)) -> Part {
    let shard = Shard { index, count: 2 };
    let all: Vec<_> = TASKS.map(|task| PlannedSample { task_id: task.to_owned(), level: 1 }).into();
    let (own, others): (Vec<_>, Vec<_>) =
        all.iter().cloned().partition(|planned| shard.holds(&planned.task_id));
    let mut record = test_record(&[]);
    record.id = format!("part-{index}-{}", runs.read_dir().unwrap().count());
    record.dataset.samples = own;
    record.dataset.unselected =
        Some([vec![PlannedSample { task_id: "never".to_owned(), level: 2 }], others].concat());
    record.shard = Some(ShardRecord { index, count: 2, of: all });
    change(&mut record);
    let (run, _lock) = RunDirectory::create(runs, &record).unwrap();
    for planned in &record.dataset.samples {
        let key = SampleKey { task_id: planned.task_id.clone(), epoch: 1 };
        run.sample(&key).commit(&result(&planned.task_id, "42")).unwrap();
    }
    Part::open(run, record).unwrap()
}

#[test]
fn the_parts_make_the_run_that_they_were_cut_from() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [part(folder.path(), 2, |_| {}), part(folder.path(), 1, |_| {})];
    assert!(parts.iter().all(|part| !part.record.dataset.samples.is_empty()));
    fs::create_dir_all(parts[0].run.artefacts()).unwrap();
    fs::write(parts[0].run.artefacts().join("offer.json"), "[]").unwrap();
    let (run, record, _lock) = merge(&parts, folder.path()).unwrap();
    let entries: Vec<_> = run.entries(&record).map(Result::unwrap).collect();
    assert_eq!(entries.iter().map(|entry| entry.planned.task_id.as_str()).collect::<Vec<_>>(), TASKS);
    assert!(entries.iter().all(|entry| entry.result.is_some()));
    let unselected = record.dataset.unselected.unwrap();
    assert_eq!(unselected.iter().map(|planned| planned.task_id.as_str()).collect::<Vec<_>>(), ["never"]);
    assert_eq!(record.shard, None);
    assert!(run.artefacts().join("offer.json").is_file());
    // Made now: `last` is the whole, not one of its parts.
    assert!(parts.iter().all(|part| part.record.started == record.started), "the work began when it began");
    let before = new_run_id(OffsetDateTime::now_utc() - time::Duration::minutes(5));
    assert!(record.id > before, "{} is not after {before}", record.id);
}

#[test]
fn parts_of_other_runs_are_refused_with_all_that_differs() {
    let folder = tempfile::tempdir().unwrap();
    let first = part(folder.path(), 1, |_| {});
    let other = part(folder.path(), 2, |record| {
        record.model = "another".to_owned();
        record.epochs = 2;
        record.dataset.fingerprint = "sha256:1".to_owned();
        record.shard.as_mut().unwrap().of.pop();
        record.config = toml::toml! { [agent] result_bytes = 5 };
    });
    let before = fs::read_dir(folder.path()).unwrap().count();
    let error = merge(&[first, other], folder.path()).unwrap_err().to_string();
    for word in
        ["model: some-model → another", "epochs: 1 → 2", "fingerprint of the dataset", "selected", "agent"]
    {
        assert!(error.contains(word), "{word}: {error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before, "nothing is written");
}

#[test]
fn a_sample_that_ended_twice_must_have_ended_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let (first, same) = (part(folder.path(), 1, |_| {}), part(folder.path(), 1, |_| {}));
    merge(&[first, same], folder.path()).unwrap();

    let (first, other) = (part(folder.path(), 1, |_| {}), part(folder.path(), 1, |_| {}));
    let task = other.record.dataset.samples[0].task_id.clone();
    let key = SampleKey { task_id: task.clone(), epoch: 1 };
    other.run.sample(&key).commit(&result(&task, "43")).unwrap();
    let error = merge(&[first, other], folder.path()).unwrap_err();
    assert!(matches!(&error, MergeError::Twice { task_id, .. } if *task_id == task), "{error}");
}

#[test]
fn a_run_that_was_not_cut_is_no_part() {
    let folder = tempfile::tempdir().unwrap();
    let record = test_record(&[("a", 1)]);
    let (run, _lock) = RunDirectory::create(folder.path(), &record).unwrap();
    assert!(matches!(Part::open(run, record), Err(MergeError::NotAPart(_))));
}
