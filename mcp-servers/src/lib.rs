//! The MCP servers that ship with gaia. Each binary is a few lines over [`serve::main`].

pub mod arguments;
pub mod bash;
pub mod fetch;
pub mod handler;
mod many;
pub mod schema;
pub mod search;
pub mod serve;
pub mod submit;
pub mod toolset;
pub mod web;
