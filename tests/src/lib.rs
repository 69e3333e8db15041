//! Support for the end-to-end tests.

pub mod browser;
pub mod frozen;
pub mod installed;
pub mod machine;
pub mod made_run;
pub mod nats;
pub mod scripted;
pub mod simulated_workers;
pub mod stored_run;

#[cfg(test)]
mod samples_tests;
