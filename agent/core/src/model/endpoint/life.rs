use std::collections::BTreeSet;

/// Whether an endpoint lives: calls that failed since it last answered any.
#[derive(Debug, Default)]
pub(super) struct Life {
    begun: u64,
    /// Answers so far, refusals of single requests among them.
    signs: u64,
    failing: BTreeSet<u64>,
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
    pub(super) fn failed(&mut self, call: u64) {
        self.failing.insert(call);
    }

    pub(super) fn showed(&mut self) {
        self.signs += 1;
        self.failing.clear();
    }

    /// Asked by a call that got no answer for all its retries and began after so many signs: how many calls got none, when
    /// that means that the endpoint is dead.
    pub(super) fn is_dead(&self, signs: u64) -> Option<usize> {
        (self.signs == signs && self.failing.len() >= DEAD_CALLS).then_some(self.failing.len())
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
            life.failed(*number);
            life.failed(*number);
            assert_eq!(life.is_dead(*signs), None, "call {number}");
        }
        life.failed(calls[4].0);
        assert_eq!(life.is_dead(calls[0].1), Some(5), "others have not even used up their retries");
        life.showed();
        for (number, signs) in &calls {
            life.failed(*number);
            assert_eq!(life.is_dead(*signs), None, "it answered while call {number} failed");
        }
        let late = life.begin();
        life.failed(late.0);
        assert_eq!(life.is_dead(late.1), Some(6), "and now it answers nobody");
    }
}
