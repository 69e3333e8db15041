use std::sync::{Mutex, PoisonError};

/// What all tasks of a run may use together. Shared by them: the one that meets the limit asks for its answer, as at a
/// limit of its own, and so do the others with their next turn.
#[derive(Debug)]
pub struct SharedBudget {
    tokens: Option<u64>,
    cost_usd: Option<f64>,
    spent: Mutex<Spent>,
}

#[derive(Debug, Clone, Copy)]
struct Spent {
    tokens: u64,
    cost_usd: f64,
}

impl SharedBudget {
    /// `None` is no limit; what earlier sessions spent counts.
    pub fn new(tokens: Option<u64>, cost_usd: Option<f64>, spent_tokens: u64, spent_usd: f64) -> Self {
        Self { tokens, cost_usd, spent: Mutex::new(Spent { tokens: spent_tokens, cost_usd: spent_usd }) }
    }

    pub(crate) fn spend(&self, tokens: u64, cost_usd: f64) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.tokens += tokens;
        spent.cost_usd += cost_usd;
    }

    pub fn is_spent(&self) -> bool {
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        self.tokens.is_some_and(|limit| spent.tokens >= limit)
            || self.cost_usd.is_some_and(|limit| spent.cost_usd >= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_limit_counts_and_so_does_what_was_spent_before() {
        let budget = SharedBudget::new(Some(100), Some(1.0), 50, 0.0);
        budget.spend(49, 0.5);
        assert!(!budget.is_spent());
        budget.spend(1, 0.0);
        assert!(budget.is_spent());
        let budget = SharedBudget::new(None, Some(1.0), 1 << 40, 0.9);
        assert!(!budget.is_spent());
        budget.spend(0, 0.1);
        assert!(budget.is_spent());
        assert!(!SharedBudget::new(None, None, 1 << 60, 1e9).is_spent());
    }
}
