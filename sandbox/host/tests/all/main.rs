//! Sandboxes in a real engine. Every test fails, and says why, when there is no engine or no image.

// clippy.toml exempts test functions, not the helpers beside them.
#![allow(clippy::expect_used, clippy::print_stdout, clippy::unwrap_used)]

mod adversarial;
mod commands;
mod files;
mod isolation;
mod killing;
mod lifecycle;
mod network;
mod output;
mod pool;
mod remote;
mod state;
mod support;
mod tasks;
