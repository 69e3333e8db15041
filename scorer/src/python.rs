//! Python's text and number rules where Rust's differ, as CPython 3.11 (Unicode 14) has them.

mod float;
mod lower;
mod whitespace;

pub use float::parse_float;
pub use lower::to_lowercase;
pub use whitespace::is_whitespace;
