//! No more requests than the plan allows, as the engine itself counts them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

/// Spaces requests of this process, and hears what the engine says of its own counting.
#[derive(Debug)]
pub(super) struct Limiter {
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: Instant,
    /// Nothing is left for the month.
    is_spent: bool,
}

impl Limiter {
    /// `None` for an engine without a limit.
    pub(super) fn new(requests_per_sec: Option<f64>) -> Self {
        let interval = requests_per_sec.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
        Self { interval, state: Mutex::new(State { next: Instant::now(), is_spent: false }) }
    }

    /// Waits for the turn of this request.
    pub(super) async fn wait(&self) {
        let start = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let start = state.next.max(Instant::now());
            state.next = start + self.interval;
            start
        };
        tokio::time::sleep_until(start).await;
    }

    /// Brave's `X-RateLimit-Remaining: 0, 1999` and `X-RateLimit-Reset: 1, 1419704`: for the second, for the month.
    pub(super) fn learn(&self, headers: &HeaderMap) {
        let numbers = |name: &str| -> Vec<u64> {
            let text = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            text.split(',').filter_map(|number| number.trim().parse().ok()).collect()
        };
        let (remaining, reset) = (numbers("x-ratelimit-remaining"), numbers("x-ratelimit-reset"));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let ([0, ..], [seconds, ..]) = (&remaining[..], &reset[..]) {
            // The first period is a second; what is longer is no rate.
            state.next = state.next.max(Instant::now() + Duration::from_secs((*seconds).min(5)));
        }
        if remaining.len() > 1 {
            state.is_spent = remaining.last() == Some(&0);
        }
    }

    pub(super) fn is_spent(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(remaining: &str, reset: &str) -> HeaderMap {
        HeaderMap::from_iter([
            ("x-ratelimit-remaining".parse().unwrap(), remaining.parse().unwrap()),
            ("x-ratelimit-reset".parse().unwrap(), reset.parse().unwrap()),
        ])
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_spaced() {
        let limiter = Limiter::new(Some(2.0));
        let start = Instant::now();
        for _ in 0..4 {
            limiter.wait().await;
        }
        assert_eq!(start.elapsed(), Duration::from_millis(1_500));
        let free = Limiter::new(None);
        free.wait().await;
        free.wait().await;
        assert_eq!(start.elapsed(), Duration::from_millis(1_500));
    }

    #[tokio::test(start_paused = true)]
    async fn the_engines_own_count_is_heard() {
        let limiter = Limiter::new(None);
        let start = Instant::now();
        limiter.learn(&headers("0, 1999", "1, 1419704"));
        limiter.wait().await;
        assert_eq!(start.elapsed(), Duration::from_secs(1));
        assert!(!limiter.is_spent());
        limiter.learn(&headers("0, 0", "1, 1419704"));
        assert!(limiter.is_spent());
        limiter.learn(&headers("1, 2000", "1, 1419704"));
        assert!(!limiter.is_spent());
    }
}
