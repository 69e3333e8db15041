use std::time::Duration;

use tokio::time::Instant;

use super::EndpointLimits;
use super::bucket::Bucket;

/// The arithmetic of an endpoint, without its clock.
#[derive(Debug)]
pub(super) struct Pace {
    /// Requests that may be under way; the fraction is growth that is not yet a whole one.
    window: f64,
    growth: Growth,
    ceiling: f64,
    under_way: u32,
    last_cut: Option<Instant>,
    held_until: Option<Instant>,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// Why nothing is sent any more, in the words of the first refusal.
    refused: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    /// Doubles with each round of good replies.
    Fast,
    /// One more with each round.
    Steady,
}

/// What becomes of a request that wants to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Go,
    /// Not before this instant.
    At(Instant),
    WhenOneEnds,
    /// Never again, and why.
    Refused(String),
}

/// Requests under way at the beginning: what the smallest accounts and one local server take.
const FIRST_WINDOW: f64 = 4.0;

/// One request is always let through: how else would one learn that the endpoint is well again.
const LEAST_WINDOW: f64 = 1.0;

/// What is left of the window after a complaint.
const CUT: f64 = 0.5;

impl Pace {
    pub(super) fn new(limits: EndpointLimits, now: Instant) -> Self {
        let ceiling = limits.concurrent_requests.map_or(f64::MAX, |limit| f64::from(limit.max(1)));
        Self {
            window: FIRST_WINDOW.min(ceiling),
            growth: Growth::Fast,
            ceiling,
            under_way: 0,
            last_cut: None,
            held_until: None,
            requests: limits.requests_per_minute.map(|limit| Bucket::new(f64::from(limit), now)),
            tokens: limits.tokens_per_minute.map(|limit| Bucket::new(limit as f64, now)),
            refused: None,
        }
    }

    pub(super) fn admit(&mut self, estimated_tokens: u64, now: Instant) -> Admission {
        if let Some(words) = &self.refused {
            return Admission::Refused(words.clone());
        }
        if self.under_way >= self.window as u32 {
            return Admission::WhenOneEnds;
        }
        let asked = [(&mut self.requests, 1.0), (&mut self.tokens, estimated_tokens as f64)];
        let waits = asked.into_iter().filter_map(|(bucket, amount)| bucket.as_mut()?.wait(amount, now));
        let limited = waits.max().map(|wait| now + wait);
        let held = self.held_until.filter(|until| *until > now);
        if let Some(instant) = limited.max(held) {
            return Admission::At(instant);
        }
        if let Some(bucket) = &mut self.requests {
            bucket.take(1.0);
        }
        if let Some(bucket) = &mut self.tokens {
            bucket.take(estimated_tokens as f64);
        }
        self.under_way += 1;
        Admission::Go
    }

    pub(super) fn went_well(&mut self, tokens: u64, estimated_tokens: u64) {
        if let Some(bucket) = self.tokens.as_mut().filter(|_| tokens > 0) {
            bucket.take(tokens as f64 - estimated_tokens as f64);
        }
        // Only a window that is used says that a larger one would be.
        if f64::from(self.under_way) < self.window.floor() {
            return;
        }
        let step = match self.growth {
            Growth::Fast => 1.0,
            Growth::Steady => 1.0 / self.window,
        };
        self.window = (self.window + step).min(self.ceiling);
    }

    /// After a complaint about a request that was sent at `sent`. Those that were under way together complain about
    /// the same thing: it counts once.
    pub(super) fn cut(&mut self, sent: Instant, hold: Option<Duration>, now: Instant) {
        self.held_until = self.held_until.max(hold.map(|hold| now + hold));
        if self.last_cut.is_some_and(|cut| sent <= cut) {
            return;
        }
        self.last_cut = Some(now);
        self.growth = Growth::Steady;
        self.window = (self.window.min(f64::from(self.under_way)) * CUT).max(LEAST_WINDOW);
    }

    pub(super) fn has_been_cut(&self) -> bool {
        self.last_cut.is_some()
    }

    pub(super) fn refuse(&mut self, words: &str) {
        self.refused.get_or_insert_with(|| words.to_owned());
    }

    pub(super) fn leave(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(limits: EndpointLimits) -> (Pace, Instant) {
        let now = Instant::now();
        (Pace::new(limits, now), now)
    }

    /// Admits as many as it gets, and ends them all well.
    fn round(pace: &mut Pace, now: Instant) -> u32 {
        while pace.admit(0, now) == Admission::Go {}
        let admitted = pace.under_way;
        for _ in 0..admitted {
            pace.went_well(0, 0);
            pace.leave();
        }
        admitted
    }

    #[test]
    fn the_window_doubles_until_the_first_complaint_and_then_grows_by_one() {
        let (mut pace, now) = pace(EndpointLimits::default());
        // Growth counts while the window is full: the first of each round.
        let rounds: Vec<u32> = (0..4).map(|_| round(&mut pace, now)).collect();
        assert!(rounds.is_sorted() && rounds[0] == 4 && rounds[3] > 4, "{rounds:?}");
        while pace.admit(0, now) == Admission::Go {}
        let before = pace.under_way;
        pace.cut(now, None, now + Duration::from_secs(1));
        // Those that were sent before the cut complain about the same thing.
        pace.cut(now, None, now + Duration::from_secs(2));
        assert_eq!(pace.window, f64::from(before) / 2.0);
        while pace.under_way > 0 {
            pace.leave();
        }
        let after = round(&mut pace, now);
        assert_eq!(after, before / 2);
        let grown = pace.window - f64::from(before) / 2.0;
        assert!(grown > 0.0 && grown <= 1.01, "{grown}");
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let (mut pace, now) = pace(EndpointLimits::default());
        for _ in 0..100 {
            assert_eq!(pace.admit(0, now), Admission::Go);
            pace.went_well(0, 0);
            pace.leave();
        }
        assert_eq!(pace.window, FIRST_WINDOW);
    }

    #[test]
    fn one_request_is_always_let_through() {
        let (mut pace, now) = pace(EndpointLimits::default());
        for second in 1..20 {
            let sent = now + Duration::from_secs(second);
            assert_eq!(pace.admit(0, sent), Admission::Go);
            pace.cut(sent, None, sent + Duration::from_millis(1));
            pace.leave();
        }
        assert_eq!(pace.admit(0, now), Admission::Go);
        assert_eq!(pace.admit(0, now), Admission::WhenOneEnds);
    }

    #[test]
    fn a_ceiling_is_kept() {
        let (mut pace, now) =
            pace(EndpointLimits { concurrent_requests: Some(2), ..EndpointLimits::default() });
        assert!((0..5).all(|_| round(&mut pace, now) == 2));
    }

    #[test]
    fn the_longest_of_all_waits_counts_and_the_true_number_of_tokens_corrects_the_estimate() {
        let limits = EndpointLimits {
            requests_per_minute: Some(600),
            tokens_per_minute: Some(6_000),
            concurrent_requests: None,
        };
        let (mut pace, now) = pace(limits);
        assert_eq!(pace.admit(900, now), Admission::Go);
        pace.went_well(1_900, 900);
        pace.leave();
        // 900 below nothing, and 500 more are wanted, at 5,000 a minute.
        let Admission::At(instant) = pace.admit(500, now) else { panic!("not limited") };
        assert!((16.0..18.0).contains(&(instant - now).as_secs_f64()), "{:?}", instant - now);
        pace.cut(now, Some(Duration::from_secs(100)), now);
        assert_eq!(pace.admit(500, now), Admission::At(now + Duration::from_secs(100)));
    }
}
