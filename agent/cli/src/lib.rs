//! The orchestrator around the agent loop: dataset, scheduling, run store, scoring, reports, commands.

pub mod args;
pub mod config;
pub mod console;
pub mod dataset;
pub mod environment;
pub mod exit_code;
pub mod progress;
pub mod prompt;
pub mod report;
pub mod schedule;
pub mod scoring;
pub mod signals;
pub mod store;
