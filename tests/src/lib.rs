//! Support for the end-to-end tests.

pub mod scripted;

#[cfg(test)]
mod samples_tests;
