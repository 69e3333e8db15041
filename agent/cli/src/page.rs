//! What our pages have in common: one document without anything from elsewhere, text of others that stays text, numbers
//! for people, and charts drawn by hand.

mod chart;
mod number;
mod shell;
mod text;

pub use chart::{Bin, Dot, Mark, Part, bar, histogram, interval_bar, scatter, stacked_bar};
pub use number::{count, duration, money, percent, percent_range, points, probability, short_count};
pub use shell::{Reach, Shell, document, styled_document};
pub use text::{Breaks, Clean, clean, shown, shown_lines};
