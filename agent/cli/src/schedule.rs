//! Bounded concurrency in two stages: items are made ready a little ahead and then worked on, at most so many at a
//! time, until they are done or someone says stop.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;

use tokio::task::{Id, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// How many items there are at a time.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub worked_on: NonZeroUsize,
    /// Made ready while all places are taken, so that a place that comes free is filled at once.
    pub ahead: usize,
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
pub async fn run_all<S: Stages>(stages: &mut S, limits: Limits, drain: &CancellationToken) {
    let mut ready: VecDeque<(S::Item, JoinHandle<S::Ready>)> = VecDeque::new();
    let mut running = JoinSet::new();
    let mut started: HashMap<Id, S::Item> = HashMap::new();
    let mut is_exhausted = false;
    loop {
        while running.len() < limits.worked_on.get()
            && !drain.is_cancelled()
            && let Some((item, handle)) = ready.pop_front()
        {
            let handle = running.spawn(stages.work(item.clone(), handle));
            started.insert(handle.id(), item);
        }
        let places = limits.worked_on.get() + limits.ahead;
        let wants_more = !is_exhausted && !drain.is_cancelled() && running.len() + ready.len() < places;
        if running.is_empty() && !wants_more {
            break;
        }
        tokio::select! {
            biased;
            () = drain.cancelled(), if wants_more => {}
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
