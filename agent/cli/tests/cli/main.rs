//! The program as its users meet it: what it prints where, and how it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are not tests to clippy")]

mod bad_input;
mod commands;
mod runs;
mod support;
