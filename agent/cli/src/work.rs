//! Works through the samples of a run that have no outcome yet, and says how that ended.

use std::num::NonZeroUsize;
use std::sync::Arc;

use gaia_agent::{Status, Usage};

use crate::config::BudgetConfig;
use crate::dataset::Sample;
use crate::sample::{SampleContext, SampleEnd, run_sample};
use crate::schedule::run_all;
use crate::signals::Interrupt;
use crate::store::StoreError;

/// A sample that is to be run.
#[derive(Debug, Clone)]
pub struct Pending {
    pub sample: Arc<Sample>,
    pub epoch: u32,
}

/// When a run stops before its last sample.
#[derive(Debug, Clone, Copy)]
pub struct StopRules {
    pub on_error: OnError,
    pub budget: BudgetConfig,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    GoOn,
    Stop,
}

/// What earlier sessions used up of the budget.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    pub usage: Usage,
    pub cost_usd: f64,
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

/// Runs the samples, at most `concurrency` at a time.
///
/// # Errors
/// When the run directory cannot be written.
pub async fn work_through(
    context: Arc<SampleContext>,
    pending: Vec<Pending>,
    concurrency: NonZeroUsize,
    rules: StopRules,
    mut spent: Spent,
    interrupt: &Interrupt,
) -> Result<Stopped, StoreError> {
    // Drained by the user or by a rule below.
    let drain = interrupt.drain.child_token();
    let mut early: Option<String> = None;
    let mut broken: Option<StoreError> = None;
    run_all(
        pending,
        concurrency,
        &drain,
        |pending| {
            let context = context.clone();
            let cancel = interrupt.cancel.child_token();
            async move { run_sample(&context, &pending.sample, pending.epoch, &cancel).await }
        },
        |pending, end| {
            let reason = match end {
                None => Some(format!("task `{}` met a fault of gaia's own", pending.sample.task_id)),
                Some(Err(error)) => {
                    broken.get_or_insert(error);
                    drain.cancel();
                    None
                }
                Some(Ok(end)) => {
                    if let SampleEnd::Committed(result) = &end {
                        spent.usage += result.usage;
                        spent.cost_usd += result.cost_usd.unwrap_or_default();
                    }
                    reason_to_stop(&end, rules, &spent)
                }
            };
            if let Some(reason) = reason {
                drain.cancel();
                early.get_or_insert(reason);
            }
        },
    )
    .await;
    match (broken, early) {
        (Some(error), _) => Err(error),
        (None, Some(reason)) => Ok(Stopped::Early(reason)),
        (None, None) if interrupt.drain.is_cancelled() => Ok(Stopped::Interrupted),
        (None, None) => Ok(Stopped::Done),
    }
}

fn reason_to_stop(end: &SampleEnd, rules: StopRules, spent: &Spent) -> Option<String> {
    let result = match end {
        SampleEnd::Committed(result) => result,
        SampleEnd::Refused(message) => {
            return Some(format!("the model endpoint takes no more requests, and the run pauses: {message}"));
        }
        SampleEnd::Cancelled => return None,
    };
    if rules.on_error == OnError::Stop && result.status == Status::Error {
        let message = result.error.as_ref().map_or("", |error| error.message.as_str());
        return Some(format!(
            "task `{}` ended in an error and `run.ignore_errors` is false: {message}",
            result.task_id
        ));
    }
    if let Some(limit) = rules.budget.tokens
        && spent.usage.total() >= limit
    {
        return Some(format!("the run used {} tokens of `run.budget.tokens` = {limit}", spent.usage.total()));
    }
    if let Some(limit) = rules.budget.cost_usd
        && spent.cost_usd >= limit
    {
        return Some(format!("the run cost {:.4} of `run.budget.cost_usd` = {limit}", spent.cost_usd));
    }
    None
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
