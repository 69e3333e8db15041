//! Bounded concurrency in two stages: items are made ready a little ahead and then worked on, at most so many at a
//! time, until they are done or someone says stop.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;

use tokio::sync::watch;
use tokio::task::{Id, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// How many items there are at a time. May change on the way: an item that runs is never taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub worked_on: NonZeroUsize,
    /// Made ready while all places are taken, so that a place that comes free is filled at once.
    pub ahead: usize,
    pub starts: Starts,
}

/// Whether free places are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    Allowed,
    /// Not before this changes; what runs goes on.
    Paused,
}

/// What is done with an item, stage by stage.
pub trait Stages {
    type Item: Clone + Send + 'static;
    type Ready: Send + 'static;
    type Output: Send + 'static;

    /// The next item, or `None` when there is none. Dropped when something else happens first.
    fn claim(&self) -> impl Future<Output = Option<Self::Item>> + Send;

    fn make_ready(&self, item: Self::Item) -> impl Future<Output = Self::Ready> + Send + 'static;

    /// `ready` may not have ended yet.
    fn work(
        &self,
        item: Self::Item,
        ready: JoinHandle<Self::Ready>,
    ) -> impl Future<Output = Self::Output> + Send + 'static;

    /// What was made ready is not wanted any more.
    fn give_up(&self, item: Self::Item, ready: JoinHandle<Self::Ready>) -> impl Future<Output = ()> + Send;

    /// Hears of each end of work, in the order in which they come; `None` stands for work that panicked.
    fn finished(&mut self, item: Self::Item, output: Option<Self::Output>);
}

/// Takes items through their stages. Once `drain` is cancelled nothing new starts and what runs is waited for.
pub async fn run_all<S: Stages>(
    stages: &mut S,
    mut limits: watch::Receiver<Limits>,
    drain: &CancellationToken,
) {
    let mut ready: VecDeque<(S::Item, JoinHandle<S::Ready>)> = VecDeque::new();
    let mut running = JoinSet::new();
    let mut started: HashMap<Id, S::Item> = HashMap::new();
    let mut is_exhausted = false;
    loop {
        let Limits { worked_on, ahead, starts } = *limits.borrow_and_update();
        let may_start = starts == Starts::Allowed && !drain.is_cancelled();
        while may_start
            && running.len() < worked_on.get()
            && let Some((item, handle)) = ready.pop_front()
        {
            let handle = running.spawn(stages.work(item.clone(), handle));
            started.insert(handle.id(), item);
        }
        let wants_more = may_start && !is_exhausted && running.len() + ready.len() < worked_on.get() + ahead;
        let is_done = drain.is_cancelled() || (ready.is_empty() && is_exhausted);
        if running.is_empty() && is_done {
            break;
        }
        tokio::select! {
            biased;
            () = drain.cancelled(), if !drain.is_cancelled() => {}
            Ok(()) = limits.changed() => {}
            claimed = stages.claim(), if wants_more => match claimed {
                Some(item) => {
                    let handle = tokio::spawn(stages.make_ready(item.clone()));
                    ready.push_back((item, handle));
                }
                None => is_exhausted = true,
            },
            Some(ended) = running.join_next_with_id() => {
                let (id, output) = match ended {
                    Ok((id, output)) => (id, Some(output)),
                    Err(error) => {
                        tracing::error!("a sample ended in a fault of ours: {error}");
                        (error.id(), None)
                    }
                };
                if let Some(item) = started.remove(&id) {
                    stages.finished(item, output);
                }
            }
        }
    }
    for (item, handle) in ready {
        stages.give_up(item, handle).await;
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
