//! The orchestrator around the agent loop: dataset, scheduling, run store, scoring, reports, commands.

pub mod agent;
pub mod args;
pub mod command;
mod comparable;
pub mod config;
pub mod console;
pub mod dataset;
pub mod environment;
pub mod exit_code;
pub mod host;
pub mod model_server;
pub mod performer;
pub mod preflight;
pub mod progress;
pub mod prompt;
pub mod report;
pub mod sample;
mod sandbox_image;
pub mod schedule;
pub mod scoring;
pub mod session;
mod shown;
pub mod signals;
pub mod store;
pub mod work;
