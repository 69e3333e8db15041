//! What many verdicts say: shares with their intervals, paired comparison, repeated attempts, difficulty.

mod attempts;
mod drop_rate;
mod mcnemar;
mod proportion;
mod vote;

pub use attempts::{pass_at_k, pass_hat_k};
pub use drop_rate::DropRate;
pub use mcnemar::mcnemar_exact;
pub use proportion::{Interval, Proportion};
pub use vote::majority_vote;
