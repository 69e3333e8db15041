use std::collections::BTreeMap;

use super::Cause;

/// Whether an endpoint lives: calls that failed since it last answered any.
#[derive(Debug, Default)]
pub(super) struct Life {
    begun: u64,
    /// Answers so far, refusals of single requests among them.
    signs: u64,
    failing: BTreeMap<u64, Attempts>,
}

/// Those of one call, all of which failed.
#[derive(Debug, Clone, Copy, Default)]
struct Attempts {
    all: u32,
    /// In a row at the end, which met nobody.
    in_vain: u32,
}

/// Calls without an answer that make an endpoint dead rather than their requests bad: as many as samples run at the same
/// time by default. A server that fails over the same few requests again and again is not taken for a dead one.
const DEAD_CALLS: usize = 5;

impl Life {
    /// The number of one more call, and the signs of life before it.
    pub(super) fn begin(&mut self) -> (u64, u64) {
        self.begun += 1;
        (self.begun, self.signs)
    }

    /// An attempt of this call got no answer.
    pub(super) fn failed(&mut self, call: u64, cause: Cause) {
        let attempts = self.failing.entry(call).or_default();
        attempts.all += 1;
        attempts.in_vain = if cause == Cause::Absence { attempts.in_vain + 1 } else { 0 };
    }

    pub(super) fn showed(&mut self) {
        self.signs += 1;
        self.failing.clear();
    }

    /// Asked by a call that got no answer for all its retries and began after so many signs: why the endpoint counts as
    /// dead, in words, if it does. Nobody got an answer meanwhile, and either this call met nobody, but perhaps at its
    /// first attempt, during which the endpoint may have gone, or many calls fail.
    pub(super) fn death(&self, call: u64, signs: u64) -> Option<String> {
        let met_nobody = |attempts: &Attempts| attempts.in_vain > 0 && attempts.in_vain + 1 >= attempts.all;
        if self.signs != signs {
            None
        } else if self.failing.get(&call).is_some_and(met_nobody) {
            Some("it cannot be reached".to_owned())
        } else if self.failing.len() >= DEAD_CALLS {
            Some(format!("it has answered none of the last {} calls", self.failing.len()))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_calls_without_any_answer_are_the_end_and_one_answer_to_anybody_is_not() {
        let mut life = Life::default();
        let calls: Vec<_> = (0..5).map(|_| life.begin()).collect();
        for (number, signs) in &calls[..4] {
            life.failed(*number, Cause::Fault);
            life.failed(*number, Cause::Overload);
            assert_eq!(life.death(*number, *signs), None, "call {number}");
        }
        life.failed(calls[4].0, Cause::Fault);
        let (first, signs) = calls[0];
        assert!(life.death(first, signs).is_some(), "others have not even used up their retries");
        life.showed();
        for (number, signs) in &calls {
            life.failed(*number, Cause::Fault);
            assert_eq!(life.death(*number, *signs), None, "it answered while call {number} failed");
        }
        let (late, signs) = life.begin();
        life.failed(late, Cause::Fault);
        assert!(life.death(late, signs).unwrap().ends_with("the last 6 calls"), "and now it answers nobody");
    }

    #[test]
    fn one_call_that_met_nobody_is_enough() {
        use Cause::{Absence, Fault};
        for (causes, is_dead) in [
            (&[Absence][..], true),
            (&[Absence, Absence], true),
            // It went while it was asked.
            (&[Fault, Absence, Absence], true),
            // It may be this request that brings the server down.
            (&[Fault], false),
            (&[Absence, Fault], false),
            (&[Fault, Absence, Fault, Absence], false),
        ] {
            let mut life = Life::default();
            let (call, signs) = life.begin();
            for cause in causes {
                life.failed(call, *cause);
            }
            assert_eq!(life.death(call, signs).is_some(), is_dead, "{causes:?}");
        }
    }
}
