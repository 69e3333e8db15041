//! What all samples of a run share at one endpoint: how many requests may be under way, the pace, and whether it still
//! takes any.

mod bucket;
mod life;
mod pace;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Line, Notify};
use tokio::time::Instant;

use super::classify::{Cause, Verdict};
use super::{ModelError, Reply};
use life::Life;
use pace::{Admission, Pace};

/// One endpoint with one key. The number of requests under way starts small, doubles with each round of good replies
/// until the endpoint first complains, then grows by one a round, and is halved with each complaint. A complaint that
/// names a time holds everybody. Once the key is refused, the quota gone or the endpoint dead, no request is sent any
/// more.
#[derive(Debug)]
pub struct Endpoint {
    pace: Mutex<Pace>,
    life: Mutex<Life>,
    /// First come, first served: whoever holds this is the next to be admitted.
    line: Line<()>,
    /// Something changed that the first of the line may be waiting for.
    changed: Notify,
}

/// Limits that the user sets, on top of what is found out; `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndpointLimits {
    pub requests_per_minute: Option<u32>,
    /// Input and output together, as providers count them.
    pub tokens_per_minute: Option<u64>,
    pub concurrent_requests: Option<u32>,
}

/// One request that is under way. It counts until it is dropped.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    endpoint: &'a Endpoint,
    sent: Instant,
    estimated_tokens: u64,
}

impl Endpoint {
    pub fn new(limits: EndpointLimits) -> Self {
        Self {
            pace: Mutex::new(Pace::new(limits, Instant::now())),
            life: Mutex::default(),
            line: Line::default(),
            changed: Notify::new(),
        }
    }

    /// Whether it was ever asked for more than it could give.
    pub fn has_complained(&self) -> bool {
        self.pace().has_been_cut()
    }

    /// Waits until one more request may be sent.
    pub(super) async fn admit(&self, estimated_tokens: u64) -> Result<Permit<'_>, ModelError> {
        let _first = self.line.lock().await;
        loop {
            // Registered before the look, so that a change right after it is not missed.
            let changed = self.changed.notified();
            let now = Instant::now();
            let admission = self.pace().admit(estimated_tokens, now);
            match admission {
                Admission::Go => return Ok(Permit { endpoint: self, sent: now, estimated_tokens }),
                Admission::Refused(words) => return Err(ModelError::Refused(words)),
                Admission::At(instant) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(instant) => {}
                        () = changed => {}
                    }
                }
                Admission::WhenOneEnds => changed.await,
            }
        }
    }

    /// One call begins, of as many requests as it takes.
    pub(super) fn begin(&self) -> Call<'_> {
        let (number, signs) = self.life().begin();
        Call { endpoint: self, number, signs }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call, over all its attempts.
#[derive(Debug)]
pub(super) struct Call<'a> {
    endpoint: &'a Endpoint,
    number: u64,
    /// Signs of life of the endpoint when the call began.
    signs: u64,
}

impl Call<'_> {
    /// Waits until one more request of the call may be sent.
    pub(super) async fn admit(&self, estimated_tokens: u64) -> Result<Permit<'_>, ModelError> {
        self.endpoint.admit(estimated_tokens).await
    }

    /// Draws from how a request ended whether the endpoint lives.
    pub(super) fn note(&self, result: &Result<Reply, Verdict>) {
        match result {
            Err(Verdict::Retry { cause, .. }) => self.endpoint.life().failed(self.number, *cause),
            // A refusal is an answer too.
            Ok(_) | Err(Verdict::GiveUp(_)) => self.endpoint.life().showed(),
        }
    }

    /// What a call comes to that got no reply for all its retries: when it may be the endpoint that is dead, and not this
    /// request that it cannot take, nobody is to ask any more.
    pub(super) fn ended(self, result: Result<Reply, ModelError>) -> Result<Reply, ModelError> {
        let Err(ModelError::Unavailable(words)) = result else { return result };
        let Some(how) = self.endpoint.life().death(self.number, self.signs) else {
            return Err(ModelError::Unavailable(words));
        };
        let words = format!("{how}: {words}");
        self.endpoint.pace().refuse(&words);
        self.endpoint.changed.notify_one();
        Err(ModelError::Refused(words))
    }
}

impl Permit<'_> {
    /// Draws from how the request ended what it says about the endpoint.
    pub(super) fn settle(self, result: &Result<Reply, Verdict>) {
        let mut pace = self.endpoint.pace();
        match result {
            Ok(reply) => pace.went_well(reply.usage.total(), self.estimated_tokens),
            Err(Verdict::Retry { cause: Cause::Overload, after, .. }) => {
                pace.cut(self.sent, after.map(|asked| asked.min(LONGEST_HOLD)), Instant::now());
            }
            Err(Verdict::GiveUp(ModelError::Refused(words))) => pace.refuse(words),
            Err(_) => {}
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.endpoint.pace().leave();
        self.endpoint.changed.notify_one();
    }
}

/// Longest time that one complaint holds everybody; what asks for more is asked again then.
const LONGEST_HOLD: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Usage;

    fn reply() -> Result<Reply, Verdict> {
        Ok(Reply { usage: Usage { input_tokens: 10, ..Usage::default() }, ..Reply::default() })
    }

    fn complaint(after: Option<u64>) -> Result<Reply, Verdict> {
        let after = after.map(Duration::from_millis);
        Err(Verdict::Retry { reason: "busy".to_owned(), after, cause: Cause::Overload })
    }

    async fn one(endpoint: &Endpoint) -> Permit<'_> {
        tokio::time::timeout(Duration::from_secs(30), endpoint.admit(0)).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_refusal_ends_those_who_wait_and_those_who_come() {
        let limits = EndpointLimits { concurrent_requests: Some(1), ..EndpointLimits::default() };
        let endpoint = Endpoint::new(limits);
        let first = one(&endpoint).await;
        let (second, ()) = tokio::join!(endpoint.admit(0), async {
            tokio::task::yield_now().await;
            first.settle(&Err(Verdict::GiveUp(ModelError::Refused("no credit".to_owned()))));
        });
        assert!(matches!(second, Err(ModelError::Refused(words)) if words.contains("no credit")));
        assert!(matches!(endpoint.admit(0).await, Err(ModelError::Refused(_))));
    }

    #[tokio::test]
    async fn a_named_time_holds_everybody() {
        let endpoint = Endpoint::new(EndpointLimits::default());
        let (first, second) = (one(&endpoint).await, one(&endpoint).await);
        first.settle(&complaint(Some(150)));
        second.settle(&reply());
        let held = Instant::now();
        one(&endpoint).await.settle(&reply());
        assert!(held.elapsed() >= Duration::from_millis(100), "{:?}", held.elapsed());
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_leaves_the_line() {
        let limits = EndpointLimits { concurrent_requests: Some(1), ..EndpointLimits::default() };
        let endpoint = Endpoint::new(limits);
        let first = one(&endpoint).await;
        for _ in 0..3 {
            assert!(tokio::time::timeout(Duration::from_millis(5), endpoint.admit(0)).await.is_err());
        }
        drop(first);
        one(&endpoint).await.settle(&reply());
    }
}
