//! Works through the samples of a run that have no outcome yet, and says how that ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gaia_agent::{Status, Usage};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::{Loaded, RunBudgetConfig};
use crate::console::Console;
use crate::control::Controls;
use crate::feed::{Feed, RunEvent, SampleEnded};
use crate::queue::{Hold, Pending, SampleQueue};
use crate::sample::{Opened, SampleContext, SampleEnd, open, run_sample};
use crate::schedule::{Stages, run_all};
use crate::signals::Interrupt;
use crate::store::{SampleKey, SampleResult, StoreError};

/// Between two words of what a stopped run still waits for.
const WAITING_INTERVAL: Duration = Duration::from_secs(10);

/// Samples that such a word names.
const NAMED_SAMPLES: usize = 3;

/// When a run stops before its last sample.
#[derive(Debug, Clone, Copy)]
pub struct StopRules {
    pub on_error: OnError,
    pub budget: RunBudgetConfig,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    GoOn,
    Stop,
}

impl OnError {
    pub fn of(loaded: &Loaded) -> Self {
        if loaded.config.run.ignore_errors { Self::GoOn } else { Self::Stop }
    }
}

/// What is used up of the budget.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    pub usage: Usage,
    pub cost_usd: f64,
    /// Of the sessions before this one.
    pub time: Duration,
}

/// Why no further sample was started.
#[derive(Debug)]
pub enum Stopped {
    /// There was none left.
    Done,
    Interrupted,
    /// The text says what happened and what to do.
    Early(String),
}

/// Runs the samples that the queue gives out.
///
/// # Errors
/// When the run directory cannot be written.
pub async fn work_through(
    context: Arc<SampleContext>,
    queue: Arc<dyn SampleQueue>,
    controls: &Arc<Controls>,
    rules: StopRules,
    spent: Spent,
    interrupt: &Interrupt,
    console: &Console,
) -> Result<Stopped, StoreError> {
    let mut work = Work {
        context,
        queue,
        rules,
        interrupt: interrupt.clone(),
        // Drained by the user or by a rule.
        drain: interrupt.drain.child_token(),
        controls: controls.clone(),
        began: Instant::now(),
        state: Mutex::new(State { spent, early: None, broken: None }),
    };
    let (drain, feed) = (work.drain.clone(), work.context.feed.clone());
    tokio::select! {
        () = run_all(&mut work, controls.limits(), &drain) => {}
        never = tell_what_is_waited_for(controls, interrupt, console, feed.as_deref()) => match never {},
    }
    // What samples owned is taken down beside the work; here the rest of it is waited for.
    work.context.closing.close();
    work.context.closing.wait().await;
    let state = work.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (state.broken, state.early) {
        (Some(error), _) => Err(error),
        (None, Some(reason)) => Ok(Stopped::Early(reason)),
        (None, None) if interrupt.drain.is_cancelled() => Ok(Stopped::Interrupted),
        (None, None) => Ok(Stopped::Done),
    }
}

struct Work {
    context: Arc<SampleContext>,
    queue: Arc<dyn SampleQueue>,
    rules: StopRules,
    interrupt: Interrupt,
    drain: CancellationToken,
    controls: Arc<Controls>,
    began: Instant,
    state: Mutex<State>,
}

struct State {
    spent: Spent,
    early: Option<String>,
    broken: Option<StoreError>,
}

impl Stages for Work {
    type Item = Pending;
    type Ready = Result<Opened, StoreError>;
    type Output = Result<SampleEnd, StoreError>;

    async fn claim(&self) -> Option<Pending> {
        if let Some(reason) = self.used_up() {
            self.stop(reason);
            return None;
        }
        loop {
            let claimed = self.queue.claim().await?;
            if !self.controls.is_cancelled(&claimed.sample.task_id) {
                return Some(claimed);
            }
            self.queue.release(&claimed).await;
        }
    }

    fn make_ready(&self, item: Pending) -> impl Future<Output = Self::Ready> + Send + 'static {
        let context = self.context.clone();
        async move { open(&context, &item.sample, item.epoch, context.begin).await }
    }

    fn work(
        &self,
        item: Pending,
        ready: JoinHandle<Self::Ready>,
    ) -> impl Future<Output = Self::Output> + Send + 'static {
        let (context, queue) = (self.context.clone(), self.queue.clone());
        let cancel = self.interrupt.cancel.child_token();
        let key = SampleKey { task_id: item.sample.task_id.clone(), epoch: item.epoch };
        let present = self.controls.enter(key, &cancel);
        async move {
            let extending = keep_claim(queue.as_ref(), &item, &cancel);
            let working = run_sample(&context, &item.sample, item.epoch, ready, &cancel);
            let end = tokio::select! {
                end = working => end?,
                never = extending => match never {},
            };
            match &end {
                SampleEnd::Committed(_) => {
                    present.finish();
                    queue.finish(&item, &end).await;
                }
                SampleEnd::Cancelled | SampleEnd::Refused(_) => queue.release(&item).await,
            }
            Ok(end)
        }
    }

    async fn give_up(&self, item: Pending, ready: JoinHandle<Self::Ready>) {
        if let Ok(Ok(opened)) = ready.await {
            self.context.close(opened);
        }
        self.queue.release(&item).await;
    }

    fn finished(&mut self, item: Pending, output: Option<Self::Output>) {
        let end = match output {
            None => {
                self.stop(format!("task `{}` met a fault of gaia's own", item.sample.task_id));
                return;
            }
            Some(Err(error)) => {
                self.state.lock().unwrap_or_else(PoisonError::into_inner).broken.get_or_insert(error);
                self.drain.cancel();
                return;
            }
            Some(Ok(end)) => end,
        };
        self.tell(&RunEvent::SampleEnded(match &end {
            SampleEnd::Committed(result) => SampleEnded::with(result),
            SampleEnd::Cancelled => SampleEnded::without_outcome(&item.sample.task_id, item.epoch, None),
            SampleEnd::Refused(why) => {
                SampleEnded::without_outcome(&item.sample.task_id, item.epoch, Some(why))
            }
        }));
        if let SampleEnd::Committed(result) = &end {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.spent.usage += result.usage;
            state.spent.cost_usd += result.cost_usd.unwrap_or_default();
        }
        let reason = reason_to_stop(&end, self.rules.on_error).or_else(|| self.used_up());
        if let Some(reason) = reason {
            self.stop(reason);
        }
    }
}

impl Work {
    fn used_up(&self) -> Option<String> {
        let spent = self.state.lock().unwrap_or_else(PoisonError::into_inner).spent;
        // What a sample without an outcome used is known to the samples' own count alone.
        let is_spent = || {
            let shared = self.context.performer.settings().run_budget.as_ref();
            let is_spent = shared.is_some_and(|shared| shared.is_spent());
            is_spent.then(|| "the run used up `run.budget`".to_owned())
        };
        used_up(self.rules.budget, &spent, self.began.elapsed()).or_else(is_spent)
    }

    /// Starts nothing new; the first reason is the one that is told.
    fn stop(&self, reason: String) {
        if !self.drain.is_cancelled() {
            self.tell(&RunEvent::RunStopping { reason: &reason });
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).early.get_or_insert(reason);
        self.drain.cancel();
    }

    fn tell(&self, event: &RunEvent<'_>) {
        if let Some(feed) = &self.context.feed {
            feed.tell(event);
        }
    }
}

/// Extends a claim for as long as it is polled. Work on a lost one is cancelled: somebody else does it.
async fn keep_claim(
    queue: &dyn SampleQueue,
    item: &Pending,
    cancel: &CancellationToken,
) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(queue.extend_interval()).await;
        if queue.extend(item).await == Hold::Lost {
            tracing::warn!("the claim on task `{}` ran out", item.sample.task_id);
            cancel.cancel();
            return std::future::pending().await;
        }
    }
}

/// Once the run is being stopped: at once and then every ten seconds which samples are not done, the oldest first.
async fn tell_what_is_waited_for(
    controls: &Controls,
    interrupt: &Interrupt,
    console: &Console,
    feed: Option<&Feed>,
) -> std::convert::Infallible {
    interrupt.drain.cancelled().await;
    if let Some(feed) = feed {
        feed.tell(&RunEvent::RunStopping { reason: "a signal" });
    }
    loop {
        if let Some(line) = waited_for(&controls.running()) {
            console.say(&line);
        }
        tokio::time::sleep(WAITING_INTERVAL).await;
    }
}

/// `running` is sorted by age, the oldest first.
fn waited_for(running: &[(SampleKey, Instant)]) -> Option<String> {
    let named: Vec<String> = running
        .iter()
        .take(NAMED_SAMPLES)
        .map(|(key, since)| format!("{} (for {} s)", key.task_id, since.elapsed().as_secs()))
        .collect();
    let more = running.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty())
        .then(|| format!("waiting for {} running samples: {}{more}", running.len(), named.join(", ")))
}

fn reason_to_stop(end: &SampleEnd, on_error: OnError) -> Option<String> {
    let result = match end {
        SampleEnd::Committed(result) => result,
        SampleEnd::Refused(message) => {
            return Some(format!("the model endpoint takes no more requests, and the run pauses: {message}"));
        }
        SampleEnd::Cancelled => return None,
    };
    error_that_stops(result, on_error)
}

pub(crate) fn error_that_stops(result: &SampleResult, on_error: OnError) -> Option<String> {
    if on_error == OnError::Stop && result.status == Status::Error {
        let message = result.error.as_ref().map_or("", |error| error.message.as_str());
        return Some(format!(
            "task `{}` ended in an error and `run.ignore_errors` is false: {message}",
            result.task_id
        ));
    }
    None
}

/// What of the run's budget is gone, looked at before a sample starts and when one ends.
pub(crate) fn used_up(budget: RunBudgetConfig, spent: &Spent, session: Duration) -> Option<String> {
    if let Some(limit) = budget.tokens
        && spent.usage.total() >= limit
    {
        return Some(format!("the run used {} tokens of `run.budget.tokens` = {limit}", spent.usage.total()));
    }
    if let Some(limit) = budget.cost_usd
        && spent.cost_usd >= limit
    {
        return Some(format!("the run cost {:.4} of `run.budget.cost_usd` = {limit}", spent.cost_usd));
    }
    if let Some(limit) = budget.time
        && spent.time + session >= limit
    {
        return Some(format!("the run took the {} s of `run.budget.time`", limit.as_secs()));
    }
    None
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
