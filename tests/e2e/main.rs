//! The programs together: real servers, real containers, a scripted model behind real HTTP.

// Helpers of tests are no test functions to clippy, and may fail a test as these do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bad_input;
mod context;
mod control;
mod crash;
mod crowd;
mod endpoint;
mod external_agent;
mod fleet;
mod fleet_access;
mod fleet_simulation;
mod gaia;
mod llama;
mod login;
mod loop_limits;
mod loop_rules;
mod pages;
mod plugged;
#[path = "../../sandbox/host/tests/all/private_engine.rs"]
mod private_engine;
mod protocols;
mod real_model;
mod recordings;
mod replay;
mod rules;
mod runs;
mod secrets;
mod shards;
mod staged;
mod strategies;
mod support;
mod telemetry;
mod third_party;
