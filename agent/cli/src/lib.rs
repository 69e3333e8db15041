//! The orchestrator around the agent loop.

pub mod config;
pub mod dataset;
pub mod environment;
