use std::sync::Arc;

use super::*;
use crate::queue::{Pending, SampleQueue};
use crate::report::test_run::{Ending, entry};
use crate::sample::SampleEnd;
use crate::sample::tests::sample;

/// Tasks `1-0`, `1-1` and so on: so many of each level.
fn planned(levels: [usize; 3]) -> Vec<PlannedSample> {
    (1..=3u8)
        .zip(levels)
        .flat_map(|(level, count)| {
            (0..count).map(move |number| PlannedSample { task_id: format!("{level}-{number}"), level })
        })
        .collect()
}

fn pending(samples: &[PlannedSample]) -> Vec<Pending> {
    let item = |planned: &PlannedSample| {
        let mut sample = sample(&planned.task_id);
        sample.level = planned.level;
        Pending { sample: Arc::new(sample), epoch: 1 }
    };
    samples.iter().map(item).collect()
}

fn result(task_id: &str, level: u8, ending: Ending) -> SampleResult {
    entry(task_id, level, ending).result.unwrap()
}

/// Works through the queue, two samples at a time; returns the order.
async fn work(queue: &StagedQueue, ending_of: impl Fn(&str) -> Ending) -> Vec<String> {
    let mut order = Vec::new();
    let mut out: std::collections::VecDeque<Pending> = std::collections::VecDeque::new();
    loop {
        let claimed = tokio::select! {
            biased;
            claimed = queue.claim(), if out.len() < 2 => Some(claimed),
            () = std::future::ready(()), if !out.is_empty() => None,
        };
        match claimed {
            Some(Some(item)) => {
                order.push(item.sample.task_id.clone());
                out.push_back(item);
            }
            Some(None) => {
                assert!(out.is_empty(), "the end was told while samples were out");
                return order;
            }
            None => {
                let item = out.pop_front().unwrap();
                let ended = result(&item.sample.task_id, item.sample.level, ending_of(&item.sample.task_id));
                queue.finish(&item, &SampleEnd::Committed(Box::new(ended))).await;
            }
        }
    }
}

fn staged(samples: &[PlannedSample]) -> StagedQueue {
    StagedQueue::new(
        samples,
        1,
        StagedConfig { enabled: true, ..StagedConfig::default() },
        pending(samples),
        [],
    )
}

fn level_of(task: &str) -> &str {
    task.split('-').next().unwrap()
}

#[tokio::test]
async fn all_stages_run_in_order_when_each_is_good_enough() {
    let samples = planned([4, 4, 4]);
    let queue = staged(&samples);
    let order = work(&queue, |_| Ending::Correct).await;
    let mut quick = order[..6].to_vec();
    quick.sort();
    assert_eq!(quick, ["1-0", "1-1", "2-0", "2-1", "3-0", "3-1"]);
    assert_eq!(order[6..], ["1-2", "1-3", "2-2", "2-3", "3-2", "3-3"]);
    let record = queue.record();
    assert_eq!(record.stopped, None);
    let stages: Vec<_> =
        record.stages.iter().map(|stage| (stage.name.as_str(), stage.samples, stage.passed)).collect();
    assert_eq!(
        stages,
        [("quick check", 6, true), ("level 1", 4, true), ("level 2", 4, true), ("level 3", 4, true)]
    );
}

#[tokio::test]
async fn a_quick_check_without_an_answer_ends_it() {
    let samples = planned([4, 4, 4]);
    let queue = staged(&samples);
    let order = work(&queue, |_| Ending::Error).await;
    assert_eq!(order.len(), 6);
    let stopped = queue.record().stopped.unwrap();
    assert!(
        stopped.reason.contains("none of the 6 samples of the quick check was answered"),
        "{}",
        stopped.reason
    );
    assert_eq!(stopped.withheld, ["1-2", "1-3", "2-2", "2-3", "3-2", "3-3"]);
    // A wrong answer is one: what works badly still works.
    let queue = staged(&samples);
    work(&queue, |task| if task == "3-1" { Ending::Wrong } else { Ending::Error }).await;
    assert!(queue.record().stages[0].passed);
}

#[tokio::test]
async fn level_two_begins_only_above_its_threshold_which_is_not_enough_itself() {
    let samples = planned([5, 4, 4]);
    // Three of five are 60 %.
    let queue = staged(&samples);
    let wrong = ["1-3", "1-4"];
    let order =
        work(&queue, |task| if wrong.contains(&task) { Ending::Wrong } else { Ending::Correct }).await;
    assert_eq!(order.len(), 9);
    let stopped = queue.record().stopped.unwrap();
    assert!(
        stopped.reason.starts_with(
            "60.0% of level 1 is right (3 of 5), and level 2 begins above 60.0%; 4 samples were not run"
        ),
        "{}",
        stopped.reason
    );
    assert_eq!(stopped.withheld, ["2-2", "2-3", "3-2", "3-3"]);
    // Each sample of the test takes 1,100 tokens and 2.5 seconds.
    assert_eq!((stopped.saved.samples, stopped.saved.tokens, stopped.saved.seconds), (4, 4400, 10.0));
}

#[tokio::test]
async fn level_three_begins_only_above_its_threshold() {
    let samples = planned([4, 5, 4]);
    for (right, levels) in [(2, 2), (3, 3)] {
        let queue = staged(&samples);
        let is_right = |task: &str| level_of(task) != "2" || task[2..].parse::<usize>().unwrap() < right;
        let order = work(&queue, |task| if is_right(task) { Ending::Correct } else { Ending::Wrong }).await;
        let record = queue.record();
        assert_eq!(record.stages.len(), levels + 1);
        assert_eq!(order.len(), if levels == 2 { 11 } else { 13 });
        assert_eq!(record.stopped.is_some(), levels == 2);
        assert_eq!((record.stages[2].correct, record.stages[2].needed), (right as u64, Some(0.4)));
    }
}

#[tokio::test]
async fn a_level_that_was_not_asked_for_is_no_hurdle() {
    let samples = planned([0, 3, 3]);
    let queue = staged(&samples);
    assert_eq!(work(&queue, |_| Ending::Correct).await.len(), 6);
    assert_eq!(queue.record().stopped, None);
}

#[tokio::test]
async fn a_resumed_run_goes_on_in_its_stage() {
    let samples = planned([4, 4, 4]);
    let ended: Vec<SampleResult> = samples
        .iter()
        .filter(|sample| ["1-0", "1-1", "1-2", "2-0", "2-1", "3-0", "3-1"].contains(&sample.task_id.as_str()))
        .map(|sample| result(&sample.task_id, sample.level, Ending::Correct))
        .collect();
    let left: Vec<PlannedSample> = samples
        .iter()
        .filter(|sample| ended.iter().all(|end| end.task_id != sample.task_id))
        .cloned()
        .collect();
    let config = StagedConfig { enabled: true, ..StagedConfig::default() };
    let queue = StagedQueue::new(&samples, 1, config, pending(&left), &ended);
    let order = work(&queue, |_| Ending::Wrong).await;
    // The last of level 1 first; three of four are enough; level 2 then is not.
    assert_eq!(order, ["1-3", "2-2", "2-3", "3-2", "3-3"]);
    let queue =
        StagedQueue::new(&samples, 1, StagedConfig { level_1: 0.8, ..config }, pending(&left), &ended);
    assert_eq!(work(&queue, |_| Ending::Wrong).await, ["1-3"]);
    assert_eq!(queue.record().stopped.unwrap().withheld, ["2-2", "2-3", "3-2", "3-3"]);
}

#[tokio::test]
async fn the_end_of_a_stage_is_waited_for() {
    let samples = planned([3, 1, 1]);
    let config = StagedConfig { enabled: true, quick_samples: 0, ..StagedConfig::default() };
    let queue = Arc::new(StagedQueue::new(&samples, 1, config, pending(&samples), []));
    let mut out = Vec::new();
    for _ in 0..3 {
        out.push(queue.claim().await.unwrap());
    }
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.claim().await }
    });
    for item in out {
        assert!(!waiting.is_finished());
        // One comes back without an outcome: it is not right, and two of three are enough.
        match item.sample.task_id.as_str() {
            "1-1" => queue.release(&item).await,
            task => {
                let ended = result(task, 1, Ending::Correct);
                queue.finish(&item, &SampleEnd::Committed(Box::new(ended))).await;
            }
        }
    }
    assert_eq!(waiting.await.unwrap().unwrap().sample.task_id, "2-0");
    assert_eq!(queue.record().stages[0].correct, 2);
}

#[test]
fn what_is_spared_is_estimated_by_the_same_level() {
    let end = |level, cost| Ended { level, cost_usd: Some(cost), tokens: 10, ..Ended::default() };
    let endings = Endings::from([(("a".into(), 1), end(1, 1.0)), (("b".into(), 1), end(2, 3.0))]);
    let rest = planned([0, 2, 1]);
    let saved = saved(&rest, 2, &endings);
    // Twice two of level 2 for 3 dollars each, and one of level 3 for the mean of 2.
    assert_eq!((saved.samples, saved.cost_usd, saved.tokens), (6, Some(16.0), 60));
}
