//! The orchestrator around the agent loop: dataset, scheduling, run store, scoring, reports, commands.

pub mod args;
pub mod exit_code;
pub mod store;
