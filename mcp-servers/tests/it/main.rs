//! The real binaries, driven by rmcp's client over stdio and HTTP in both eras of the protocol.

// Helpers of tests may fail as tests do; clippy exempts only the tests themselves.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod bash;
mod bash_engine;
mod bash_http;
mod bash_life;
mod bash_tasks;
mod documents;
mod fetch;
mod guard;
mod hostile;
mod http;
mod oversized;
mod readme;
mod schemas;
mod search;
mod site;
mod submit;
mod support;
mod view_image;
mod web_support;
