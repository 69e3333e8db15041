//! What can be changed while a run is worked on, and how it stands: what `gaia ctl` asks of the process that works.

mod socket;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::config::MAX_CONCURRENCY;
use crate::progress::RunningSample;
use crate::schedule::{Limits, Starts};
use crate::store::{Change, SampleKey};

pub use socket::{ControlSocket, Session as ControlledSession, Unreachable, ask};

/// What the process that works on a run is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// No new samples; the running ones go on.
    Pause,
    Resume,
    /// Ends the samples of a task, in this session, without an outcome.
    Cancel {
        task: String,
    },
    /// Samples worked on at the same time.
    Concurrency {
        samples: NonZeroUsize,
    },
    Status,
}

/// What it says to that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    Done { said: String, status: RunStatus },
    Refused { reason: String },
}

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStatus {
    pub run: String,
    pub pid: u32,
    pub state: RunState,
    /// Samples worked on at the same time, at most.
    pub concurrency: usize,
    pub requested: usize,
    /// Samples with an outcome.
    pub done: usize,
    /// Those that will still be begun.
    pub waiting: usize,
    /// Those that `cancel` took out of this session and that have no outcome.
    pub cancelled: usize,
    /// The longest at work first.
    pub running: Vec<RunningSample>,
    /// Of this session.
    pub tokens: u64,
    /// Of this session; absent without a price.
    pub cost_usd: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    Running,
    Paused,
    /// Nothing new starts, and the process ends when what runs has ended.
    Stopping,
    /// What runs is cancelled.
    Cancelling,
}

impl RunState {
    pub fn label(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopping => "stopping",
            Self::Cancelling => "cancelling",
        }
    }
}

/// The levers of one session.
#[derive(Debug)]
pub struct Controls {
    limits: watch::Sender<Limits>,
    sandboxes: Sandboxes,
    /// Why the number of samples at work cannot be changed, if so.
    fixed: Option<&'static str>,
    roll: Mutex<Roll>,
}

/// What is up of a sample's servers is bounded too, and must not hold back what `concurrency` allows.
#[derive(Debug)]
pub struct Sandboxes {
    pub permits: Arc<Semaphore>,
    /// As the config has it; without, as many as the samples at work and those made ready.
    pub configured: Option<usize>,
}

/// Every sample that was asked for.
#[derive(Debug, Default)]
struct Roll {
    samples: BTreeMap<SampleKey, Place>,
    /// Tasks that are not worked on any more.
    cancelled: BTreeSet<String>,
    changes: Vec<Change>,
    /// Permits that there are for servers.
    permits: usize,
}

#[derive(Debug)]
enum Place {
    Waiting,
    Running { since: Instant, cancel: CancellationToken },
    Done,
}

impl Controls {
    pub fn new(limits: Limits, sandboxes: Sandboxes, fixed: Option<&'static str>) -> Self {
        let permits = sandboxes.permits.available_permits();
        let roll = Mutex::new(Roll { permits, ..Roll::default() });
        Self { limits: watch::Sender::new(limits), sandboxes, fixed, roll }
    }

    /// One sample that was asked for.
    pub fn plan(&self, key: SampleKey, has_outcome: bool) {
        let place = if has_outcome { Place::Done } else { Place::Waiting };
        self.roll().samples.insert(key, place);
    }

    pub fn limits(&self) -> watch::Receiver<Limits> {
        self.limits.subscribe()
    }

    /// Whether the task was cancelled for the rest of the session.
    pub fn is_cancelled(&self, task_id: &str) -> bool {
        self.roll().cancelled.contains(task_id)
    }

    /// The sample is worked on for as long as what is returned exists, until `cancel`.
    pub fn enter(self: &Arc<Self>, key: SampleKey, cancel: &CancellationToken) -> Present {
        let mut roll = self.roll();
        // Cancelled between its claim and now.
        if roll.cancelled.contains(&key.task_id) {
            cancel.cancel();
        }
        let place = Place::Running { since: Instant::now(), cancel: cancel.clone() };
        roll.samples.insert(key.clone(), place);
        drop(roll);
        Present { controls: self.clone(), key }
    }

    /// What runs, since when; the oldest first.
    pub fn running(&self) -> Vec<(SampleKey, Instant)> {
        let roll = self.roll();
        let mut running: Vec<_> = roll
            .samples
            .iter()
            .filter_map(|(key, place)| match place {
                Place::Running { since, .. } => Some((key.clone(), *since)),
                Place::Waiting | Place::Done => None,
            })
            .collect();
        running.sort_by_key(|(_, since)| *since);
        running
    }

    /// What was changed so far, first to last.
    pub fn changes(&self) -> Vec<Change> {
        self.roll().changes.clone()
    }

    /// Does as told and says what that means, or why not.
    ///
    /// # Errors
    /// When it cannot be done; the text says what can.
    pub fn obey(&self, order: &Order) -> Result<String, String> {
        let said = match order {
            Order::Status => return Ok(String::new()),
            Order::Pause => self.set_starts(Starts::Paused)?,
            Order::Resume => self.set_starts(Starts::Allowed)?,
            Order::Concurrency { samples } => self.set_concurrency(*samples)?,
            Order::Cancel { task } => self.cancel(task)?,
        };
        self.roll().changes.push(Change { time: OffsetDateTime::now_utc(), what: said.clone() });
        Ok(said)
    }

    fn set_starts(&self, starts: Starts) -> Result<String, String> {
        let has_changed = self.limits.send_if_modified(|limits| {
            let has_changed = limits.starts != starts;
            limits.starts = starts;
            has_changed
        });
        let running = self.running().len();
        match (starts, has_changed) {
            (Starts::Paused, true) => {
                Ok(format!("paused: no new sample starts, and the {running} that run go on to their end"))
            }
            (Starts::Paused, false) => Err("the run is paused already".to_owned()),
            (Starts::Allowed, true) => Ok("resumed: new samples start again".to_owned()),
            (Starts::Allowed, false) => Err("the run is not paused".to_owned()),
        }
    }

    fn set_concurrency(&self, samples: NonZeroUsize) -> Result<String, String> {
        if let Some(reason) = self.fixed {
            return Err(reason.to_owned());
        }
        if samples.get() > MAX_CONCURRENCY {
            return Err(format!("{samples} samples at a time are too many: {MAX_CONCURRENCY} is the most"));
        }
        let mut before = samples;
        self.limits.send_modify(|limits| before = std::mem::replace(&mut limits.worked_on, samples));
        let ahead = self.limits.borrow().ahead;
        let mut said = format!("concurrency {before} → {samples}");
        match self.sandboxes.configured {
            Some(most) if most < samples.get() => {
                said.push_str(&format!("; `run.sandboxes` = {most} holds it down"));
            }
            Some(_) => {}
            None => {
                let mut roll = self.roll();
                let wanted = samples.get() + ahead;
                self.sandboxes.permits.add_permits(wanted.saturating_sub(roll.permits));
                roll.permits = roll.permits.max(wanted);
            }
        }
        let running = self.running().len();
        if running > samples.get() {
            said.push_str(&format!("; the {running} that run go on, and none starts before fewer do"));
        }
        Ok(said)
    }

    fn cancel(&self, named: &str) -> Result<String, String> {
        let mut roll = self.roll();
        let task = roll.find(named)?;
        let mut running = 0;
        let mut waiting = 0;
        for (_, place) in roll.samples.iter().filter(|(key, _)| key.task_id == task) {
            match place {
                Place::Running { cancel, .. } => {
                    cancel.cancel();
                    running += 1;
                }
                Place::Waiting => waiting += 1,
                Place::Done => {}
            }
        }
        if running + waiting == 0 {
            return Err(format!("task `{task}` has its outcome already"));
        }
        if !roll.cancelled.insert(task.clone()) {
            return Err(format!("task `{task}` is cancelled already"));
        }
        let what = if running > 0 { "is being ended" } else { "will not be begun" };
        Ok(format!(
            "cancelled task `{task}`: it {what} and has no outcome in this session; `gaia resume` runs it anew"
        ))
    }

    /// How the samples stand: with an outcome, still to be begun, cancelled without an outcome.
    fn tally(&self) -> (usize, usize, usize, usize) {
        let roll = self.roll();
        let (mut done, mut waiting, mut cancelled) = (0, 0, 0);
        for (key, place) in &roll.samples {
            match place {
                Place::Done => done += 1,
                Place::Waiting if roll.cancelled.contains(&key.task_id) => cancelled += 1,
                Place::Waiting => waiting += 1,
                Place::Running { .. } => {}
            }
        }
        (roll.samples.len(), done, waiting, cancelled)
    }

    fn roll(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Roll {
    /// The task of this id, or the only one whose id begins so.
    fn find(&self, named: &str) -> Result<String, String> {
        let tasks: BTreeSet<&str> = self.samples.keys().map(|key| key.task_id.as_str()).collect();
        if tasks.contains(named) {
            return Ok(named.to_owned());
        }
        let mut matching = tasks.iter().filter(|task| task.starts_with(named) && !named.is_empty());
        match (matching.next(), matching.next()) {
            (Some(task), None) => Ok((*task).to_owned()),
            (None, _) => {
                Err(format!("the run has no task `{named}`; `gaia ctl RUN status` lists those that run"))
            }
            (Some(one), Some(other)) => {
                Err(format!("`{named}` could mean `{one}` or `{other}`; type more of the id"))
            }
        }
    }
}

/// A sample that is worked on.
#[derive(Debug)]
pub struct Present {
    controls: Arc<Controls>,
    key: SampleKey,
}

impl Present {
    /// It has an outcome.
    pub fn finish(&self) {
        self.controls.roll().samples.insert(self.key.clone(), Place::Done);
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        if let Some(place @ Place::Running { .. }) = self.controls.roll().samples.get_mut(&self.key) {
            *place = Place::Waiting;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controls(tasks: &[(&str, bool)], configured: Option<usize>) -> Arc<Controls> {
        let limits = Limits { worked_on: NonZeroUsize::new(2).unwrap(), ahead: 1, starts: Starts::Allowed };
        let permits = Arc::new(Semaphore::new(configured.unwrap_or(3)));
        let controls = Controls::new(limits, Sandboxes { permits, configured }, None);
        for (task, has_outcome) in tasks {
            controls.plan(SampleKey { task_id: (*task).to_owned(), epoch: 1 }, *has_outcome);
        }
        Arc::new(controls)
    }

    fn key(task: &str) -> SampleKey {
        SampleKey { task_id: task.to_owned(), epoch: 1 }
    }

    fn cancel(task: &str) -> Order {
        Order::Cancel { task: task.to_owned() }
    }

    #[test]
    fn what_runs_and_what_waits_can_be_cancelled_and_what_is_done_cannot() {
        let controls = controls(&[("ab1", false), ("ab2", false), ("c", true), ("d", false)], None);
        let token = CancellationToken::new();
        let present = controls.enter(key("ab1"), &token);
        assert!(controls.obey(&cancel("ab")).unwrap_err().contains("`ab1` or `ab2`"));
        assert!(controls.obey(&cancel("x")).unwrap_err().contains("no task `x`"));
        assert!(controls.obey(&cancel("")).is_err());
        assert!(controls.obey(&cancel("c")).unwrap_err().contains("outcome already"));
        assert!(!token.is_cancelled());
        assert!(controls.obey(&cancel("ab1")).unwrap().contains("is being ended"));
        assert!(token.is_cancelled() && controls.obey(&cancel("ab1")).is_err());
        drop(present);
        assert!(controls.obey(&cancel("d")).unwrap().contains("will not be begun"));
        assert_eq!(controls.tally(), (4, 1, 1, 2));
        let late = CancellationToken::new();
        let _present = controls.enter(key("d"), &late);
        assert!(late.is_cancelled(), "cancelled between its claim and its beginning");
        assert_eq!(controls.changes().len(), 2);
    }

    #[test]
    fn more_at_work_may_have_more_servers_unless_the_config_bounds_them() {
        let order = |samples| Order::Concurrency { samples: NonZeroUsize::new(samples).unwrap() };
        let free = controls(&[], None);
        assert_eq!(free.obey(&order(5)).unwrap(), "concurrency 2 → 5");
        assert_eq!(free.sandboxes.permits.available_permits(), 6);
        free.obey(&order(1)).unwrap();
        free.obey(&order(5)).unwrap();
        assert_eq!(free.sandboxes.permits.available_permits(), 6, "given once");
        assert_eq!(free.limits().borrow().worked_on.get(), 5);
        let bounded = controls(&[], Some(4));
        assert!(bounded.obey(&order(9)).unwrap().contains("`run.sandboxes` = 4"));
        for absurd in [MAX_CONCURRENCY + 1, usize::MAX] {
            let refused = bounded.obey(&order(absurd)).unwrap_err();
            assert!(refused.contains(&format!("{MAX_CONCURRENCY} is the most")), "{refused}");
        }
        assert_eq!(bounded.limits().borrow().worked_on.get(), 9);
        assert_eq!(bounded.sandboxes.permits.available_permits(), 4);
    }

    #[test]
    fn a_pause_is_said_once() {
        let controls = controls(&[("a", false)], None);
        assert!(controls.obey(&Order::Resume).is_err());
        assert!(controls.obey(&Order::Pause).unwrap().contains("paused"));
        assert!(controls.obey(&Order::Pause).is_err());
        assert_eq!(controls.limits().borrow().starts, Starts::Paused);
        controls.obey(&Order::Resume).unwrap();
        assert_eq!(controls.limits().borrow().starts, Starts::Allowed);
    }

    #[test]
    fn what_ended_with_an_outcome_is_done_and_else_it_waits() {
        let controls = controls(&[("a", false), ("b", false)], None);
        let token = CancellationToken::new();
        let (one, other) = (controls.enter(key("a"), &token), controls.enter(key("b"), &token));
        assert_eq!(controls.running().len(), 2);
        one.finish();
        drop((one, other));
        assert_eq!(controls.tally(), (2, 1, 1, 0));
    }
}
