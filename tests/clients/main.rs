//! Our servers driven by clients that we did not write, and by the official conformance suite: `README.md` says which.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod conformance;
mod conformance_client;
mod host;
mod inspector;
mod installed;
mod killed;
mod server;
mod story;
