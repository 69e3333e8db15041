use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::classify::Verdict;
use super::{ModelError, RetryObserver};

/// How often and how long to wait between attempts of one model call.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPolicy {
    /// Attempts after the first.
    pub(super) retries: u32,
}

/// First wait; OpenAI's own client starts at the same half second.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Longest wait of our own choosing.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Longest wait that a provider may ask for. A daily limit asks for hours: better to fail and resume later.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(120);

impl RetryPolicy {
    /// Runs `attempt` until it succeeds, is given up, or the retries are used up.
    pub(super) async fn run<T, A, F>(
        self,
        observer: &dyn RetryObserver,
        cancel: &CancellationToken,
        mut attempt: A,
    ) -> Result<T, ModelError>
    where
        A: FnMut() -> F,
        F: Future<Output = Result<T, Verdict>>,
    {
        let mut number = 0;
        loop {
            number += 1;
            let result = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ModelError::Cancelled),
                result = attempt() => result,
            };
            let (reason, after) = match result {
                Ok(value) => return Ok(value),
                Err(Verdict::GiveUp(error)) => return Err(error),
                Err(Verdict::Retry { reason, after, .. }) => (reason, after),
            };
            if number > self.retries {
                return Err(ModelError::Unavailable(format!(
                    "no reply after {number} attempts; the last: {reason}"
                )));
            }
            let wait = wait_before(number, after, rand::random::<f64>());
            observer.retrying(number, &reason, wait);
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ModelError::Cancelled),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

/// Doubling waits, spread over their upper half so that samples that failed together do not return together.
/// What the provider asks for counts as the least, up to a cap.
fn wait_before(attempt: u32, retry_after: Option<Duration>, random: f64) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(1 << (attempt - 1).min(16)).min(LONGEST_WAIT);
    match retry_after {
        Some(asked) => asked.min(LONGEST_RETRY_AFTER) + FIRST_WAIT.mul_f64(random),
        None => doubled.mul_f64(0.5 + random / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_cap_and_obey_the_provider_up_to_another() {
        let seconds = |attempt, after: Option<u64>, random| {
            wait_before(attempt, after.map(Duration::from_secs), random).as_secs_f64()
        };
        assert_eq!(seconds(1, None, 0.0), 0.25);
        assert_eq!(seconds(1, None, 1.0), 0.5);
        assert_eq!(seconds(4, None, 1.0), 4.0);
        assert_eq!(seconds(40, None, 1.0), 30.0);
        assert_eq!(seconds(1, Some(7), 0.0), 7.0);
        assert_eq!(seconds(9, Some(0), 1.0), 0.5);
        assert_eq!(seconds(1, Some(86_400), 0.0), 120.0);
    }
}
