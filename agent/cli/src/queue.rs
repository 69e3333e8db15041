//! Which sample is worked on next. A queue outlives whoever claims from it: a claim that is neither extended nor
//! finished goes back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::dataset::Sample;
use crate::sample::SampleEnd;

/// Where a queue does not ask for another: its claims run out after several times this, if at all.
const EXTEND_INTERVAL: Duration = Duration::from_secs(10);

/// A sample that is to be run.
#[derive(Debug, Clone)]
pub struct Pending {
    pub sample: Arc<Sample>,
    pub epoch: u32,
}

/// The samples of a run that have no outcome, shared by those who work on them. The truth takes no part in what comes
/// next.
#[async_trait]
pub trait SampleQueue: Send + Sync {
    /// Between two extensions of a claim.
    fn extend_interval(&self) -> Duration {
        EXTEND_INTERVAL
    }

    /// The next sample, which nobody else is given meanwhile; waits while others may yet give one back, and is `None`
    /// when there will be none. A call that is dropped has claimed nothing.
    async fn claim(&self) -> Option<Pending>;

    /// Still at it. `Lost` when the claim ran out and somebody else may have the sample.
    async fn extend(&self, claimed: &Pending) -> Hold;

    /// It has an outcome, which is committed.
    async fn finish(&self, claimed: &Pending, end: &SampleEnd);

    /// It has none, and somebody may begin it anew.
    async fn release(&self, claimed: &Pending);
}

/// Whether a claim still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    Kept,
    Lost,
}

/// The queue of one process, which holds the lock of the run: claims last as long as it does.
#[derive(Debug)]
pub struct InProcessQueue {
    waiting: Mutex<VecDeque<Pending>>,
}

impl InProcessQueue {
    pub fn new(pending: Vec<Pending>) -> Self {
        Self { waiting: Mutex::new(fair(pending).into()) }
    }
}

#[async_trait]
impl SampleQueue for InProcessQueue {
    async fn claim(&self) -> Option<Pending> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    async fn extend(&self, _claimed: &Pending) -> Hold {
        Hold::Kept
    }

    async fn finish(&self, _claimed: &Pending, _end: &SampleEnd) {}

    /// Not before the next session: this one is about to end.
    async fn release(&self, _claimed: &Pending) {}
}

/// The same samples in an order in which every level has, at any time, had about the same share of its own: figures of
/// a run that is stopped half way say something of all levels.
pub(crate) fn fair(pending: Vec<Pending>) -> Vec<Pending> {
    let mut sizes: BTreeMap<(u32, u8), usize> = BTreeMap::new();
    for item in &pending {
        *sizes.entry((item.epoch, item.sample.level)).or_default() += 1;
    }
    let mut seen: BTreeMap<(u32, u8), usize> = BTreeMap::new();
    let mut placed: Vec<(u32, f64, Pending)> = pending
        .into_iter()
        .map(|item| {
            let group = (item.epoch, item.sample.level);
            let before = seen.entry(group).or_default();
            let place = (*before as f64 + 0.5) / sizes[&group] as f64;
            *before += 1;
            (item.epoch, place, item)
        })
        .collect();
    // Stable: within a level the order of the dataset stays.
    placed.sort_by(|left, right| left.0.cmp(&right.0).then(left.1.total_cmp(&right.1)));
    placed.into_iter().map(|(_, _, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::sample;

    fn pending(levels: &[(u8, usize)]) -> Vec<Pending> {
        let of_level = |(level, count): &(u8, usize)| {
            let level = *level;
            (0..*count).map(move |number| {
                let mut sample = sample(&format!("{level}-{number}"));
                sample.level = level;
                Pending { sample: Arc::new(sample), epoch: 1 }
            })
        };
        levels.iter().flat_map(of_level).collect()
    }

    #[tokio::test]
    async fn every_level_gets_its_share_of_any_beginning_and_keeps_its_order() {
        let queue = InProcessQueue::new(pending(&[(1, 53), (2, 86), (3, 26)]));
        let mut order = Vec::new();
        while let Some(claimed) = queue.claim().await {
            order.push(claimed.sample);
        }
        assert_eq!(order.len(), 165);
        for taken in [20, 55, 110, 165] {
            for (level, size) in [(1, 53.0), (2, 86.0), (3, 26.0)] {
                let had = order[..taken].iter().filter(|sample| sample.level == level).count() as f64;
                let fair = size * taken as f64 / 165.0;
                assert!((had - fair).abs() <= 1.5, "level {level} of {taken}: {had}, fair is {fair}");
            }
        }
        let second: Vec<_> = order.iter().filter(|sample| sample.level == 2).collect();
        assert!(second.iter().enumerate().all(|(number, sample)| sample.task_id == format!("2-{number}")));
    }

    #[tokio::test]
    async fn an_epoch_begins_when_the_one_before_is_given_out() {
        let mut both = pending(&[(1, 2), (3, 1)]);
        both.extend(pending(&[(1, 2), (3, 1)]).into_iter().map(|item| Pending { epoch: 2, ..item }));
        let queue = InProcessQueue::new(both);
        let mut epochs = Vec::new();
        while let Some(claimed) = queue.claim().await {
            epochs.push(claimed.epoch);
        }
        assert_eq!(epochs, [1, 1, 1, 2, 2, 2]);
    }
}
