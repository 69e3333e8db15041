//! Sandboxes in a real engine. Every test fails, and says why, when there is no engine or no image.

mod commands;
mod isolation;
mod killing;
mod lifecycle;
mod output;
mod state;
mod support;
