//! What many verdicts say: shares with their intervals, paired comparison, repeated attempts, difficulty.

mod attempts;
mod bootstrap;
mod drop_rate;
mod fisher;
mod mcnemar;
mod proportion;
mod summary;
mod vote;

pub use attempts::{pass_at_k, pass_hat_k};
pub use bootstrap::{Difference, paired_bootstrap};
pub use drop_rate::DropRate;
pub use fisher::fisher_exact;
pub use mcnemar::mcnemar_exact;
pub use proportion::{Interval, Proportion};
pub use summary::Summary;
pub use vote::{majority_vote, same_answer};
