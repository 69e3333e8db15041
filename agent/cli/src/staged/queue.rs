use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::{Ended, Endings, Stage, judge, stages, stop};
use crate::config::StagedConfig;
use crate::queue::{Hold, Pending, SampleQueue, fair};
use crate::sample::SampleEnd;
use crate::store::{PlannedSample, SampleResult, StageRecord, StagedRecord, StagedStop};

/// Gives out the samples of one stage, waits for their outcomes, and decides about the next.
#[derive(Debug)]
pub struct StagedQueue {
    samples: Vec<PlannedSample>,
    epochs: u32,
    state: Mutex<State>,
    /// Somebody came back with a sample.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// Not given out yet, of all stages.
    pending: Vec<Pending>,
    /// What comes next; empty when there is nothing to do in the stage but to wait.
    waiting: VecDeque<Pending>,
    /// Given out and not back yet.
    out: HashSet<(String, u32)>,
    endings: Endings,
    /// The first one is at work.
    stages: VecDeque<Stage>,
    judged: Vec<StageRecord>,
    stopped: Option<StagedStop>,
}

impl StagedQueue {
    /// `pending` has no outcome yet; `ended` has, and counts in its stage: a run goes on where it was.
    pub fn new<'a>(
        samples: &[PlannedSample],
        epochs: u32,
        config: StagedConfig,
        pending: Vec<Pending>,
        ended: impl IntoIterator<Item = &'a SampleResult>,
    ) -> Self {
        let endings =
            ended.into_iter().map(|end| ((end.task_id.clone(), end.epoch), Ended::of(end))).collect();
        let mut state = State {
            pending,
            waiting: VecDeque::new(),
            out: HashSet::new(),
            endings,
            stages: stages(samples, config).into(),
            judged: Vec::new(),
            stopped: None,
        };
        state.begin();
        Self { samples: samples.to_vec(), epochs, state: Mutex::new(state), changed: Notify::new() }
    }

    /// How it came out so far.
    pub fn record(&self) -> StagedRecord {
        let state = self.state();
        StagedRecord { stages: state.judged.clone(), stopped: state.stopped.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn come_back(&self, item: &Pending, ended: Option<Ended>) {
        let key = (item.sample.task_id.clone(), item.epoch);
        let mut state = self.state();
        state.out.remove(&key);
        if let Some(ended) = ended {
            state.endings.insert(key, ended);
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

impl State {
    /// Puts the samples of the stage at work in front.
    fn begin(&mut self) {
        let Some(stage) = self.stages.front() else { return };
        let (of_stage, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|item| stage.tasks.contains(&item.sample.task_id));
        self.pending = rest;
        self.waiting = fair(of_stage).into();
    }

    /// Ends the stage at work, all of which is back, and begins the next or none.
    fn go_on(&mut self, samples: &[PlannedSample], epochs: u32) {
        let Some(stage) = self.stages.pop_front() else { return };
        let judged = judge(&stage, epochs, &self.endings);
        if !judged.passed && !self.stages.is_empty() {
            let begun: BTreeSet<&String> = self.endings.keys().map(|(task, _)| task).collect();
            let rest: Vec<PlannedSample> = samples
                .iter()
                .filter(|sample| self.stages.iter().any(|stage| stage.tasks.contains(&sample.task_id)))
                .filter(|sample| !begun.contains(&sample.task_id) && !stage.tasks.contains(&sample.task_id))
                .cloned()
                .collect();
            self.stopped = Some(stop(&stage, &judged, &rest, epochs, &self.endings));
            self.stages.clear();
        }
        self.judged.push(judged);
        self.begin();
    }
}

#[async_trait]
impl SampleQueue for StagedQueue {
    async fn claim(&self) -> Option<Pending> {
        loop {
            // Before the look: what comes back meanwhile is not missed.
            let changed = self.changed.notified();
            {
                let mut state = self.state();
                while state.waiting.is_empty() && state.out.is_empty() && !state.stages.is_empty() {
                    state.go_on(&self.samples, self.epochs);
                }
                if let Some(item) = state.waiting.pop_front() {
                    state.out.insert((item.sample.task_id.clone(), item.epoch));
                    return Some(item);
                }
                if state.stages.is_empty() {
                    return None;
                }
            }
            changed.await;
        }
    }

    async fn extend(&self, _claimed: &Pending) -> Hold {
        Hold::Kept
    }

    async fn finish(&self, claimed: &Pending, end: &SampleEnd) {
        let ended = match end {
            SampleEnd::Committed(result) => Some(Ended::of(result)),
            SampleEnd::Cancelled | SampleEnd::Refused(_) => None,
        };
        self.come_back(claimed, ended);
    }

    /// Without an outcome it is not right, and its stage is judged all the same.
    async fn release(&self, claimed: &Pending) {
        self.come_back(claimed, None);
    }
}
