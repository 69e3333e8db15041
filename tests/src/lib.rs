//! Support for the end-to-end tests.

pub mod scripted;
