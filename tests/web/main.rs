//! Our web servers beside the ones whose places they take, on the same local site, interface and questions.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod brave;
mod fetch;
mod peer;
mod questions;
#[expect(dead_code, reason = "shared with tests that need more of it")]
#[path = "../../mcp-servers/tests/it/site.rs"]
mod site;
