use std::time::Duration;

use tokio::time::Instant;

/// So much a minute: what is not used is kept for a burst, and what was used too much is waited for.
#[derive(Debug)]
pub(super) struct Bucket {
    capacity: f64,
    per_second: f64,
    level: f64,
    filled: Instant,
}

/// The part of a minute's worth that may be used at once.
const BURST_SHARE: f64 = 1.0 / 6.0;

impl Bucket {
    pub(super) fn new(per_minute: f64, now: Instant) -> Self {
        let capacity = (per_minute * BURST_SHARE).max(1.0);
        // Burst and refill of any one minute together stay within the limit, however the provider's minutes lie.
        let per_second = (per_minute - capacity).max(per_minute / 2.0) / 60.0;
        Self { capacity, per_second, level: capacity, filled: now }
    }

    /// How long until `amount` may be taken. One that is larger than the burst is let through when the bucket is
    /// full, and waited for afterwards.
    pub(super) fn wait(&mut self, amount: f64, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.level = (self.level + passed * self.per_second).min(self.capacity);
        self.filled = now;
        let missing = amount.min(self.capacity) - self.level;
        // A hair's breadth of rounding must not cost another round of waiting.
        (missing > 1e-9).then(|| Duration::from_secs_f64(missing / self.per_second))
    }

    /// Takes, or gives back when negative.
    pub(super) fn take(&mut self, amount: f64) {
        self.level = (self.level - amount).min(self.capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instants at which equal amounts pass.
    fn passes(per_minute: f64, amount: f64, count: usize) -> Vec<f64> {
        let begin = Instant::now();
        let mut bucket = Bucket::new(per_minute, begin);
        let mut now = begin;
        let mut passed = Vec::new();
        while passed.len() < count {
            match bucket.wait(amount, now) {
                Some(wait) => now += wait,
                None => {
                    bucket.take(amount);
                    passed.push((now - begin).as_secs_f64());
                }
            }
        }
        passed
    }

    #[test]
    fn no_minute_holds_more_than_the_limit() {
        for (per_minute, amount) in [(60.0, 1.0), (6.0, 1.0), (2.0, 1.0), (1.0, 1.0), (30_000.0, 700.0)] {
            let passed = passes(per_minute, amount, 300);
            let fits = (per_minute / amount).floor() as usize;
            for start in 0..passed.len() - fits {
                let next = passed[start + fits];
                assert!(next - passed[start] > 59.99, "{per_minute}: {} to {next}", passed[start]);
            }
            // And it is not much slower than allowed.
            assert!(
                passed[299] < 300.0 / (per_minute / amount) * 60.0 * 2.1,
                "{per_minute}: {}",
                passed[299]
            );
        }
    }

    #[test]
    fn what_is_larger_than_a_burst_passes_and_is_waited_for() {
        let passed = passes(6_000.0, 6_000.0, 3);
        assert_eq!(passed[0], 0.0);
        assert!((60.0..80.0).contains(&passed[1]) && (120.0..160.0).contains(&passed[2]), "{passed:?}");
    }
}
