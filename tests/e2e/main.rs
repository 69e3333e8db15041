//! The programs together: real servers, real containers, a scripted model behind real HTTP.

mod bad_input;
mod gaia;
mod loop_limits;
mod loop_rules;
mod runs;
mod support;
