//! Support for the end-to-end tests.

pub mod frozen;
pub mod installed;
pub mod machine;
pub mod scripted;

#[cfg(test)]
mod samples_tests;
