//! Sandboxes in a real engine. Every test fails, and says why, when there is no engine or no image.

// clippy.toml exempts test functions, not the helpers beside them.
#![allow(clippy::expect_used, clippy::print_stdout, clippy::unwrap_used)]

mod adversarial;
mod churn;
mod commands;
mod disk;
mod engine_loss;
mod files;
mod isolation;
mod killing;
mod lifecycle;
// The example `speed` includes the same file and uses the rest of it.
#[allow(dead_code)]
mod measure;
mod network;
mod output;
mod podman;
mod pool;
mod private_engine;
mod pull;
mod remote;
mod runtime;
mod speed;
mod state;
mod support;
mod tasks;
