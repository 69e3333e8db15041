use std::time::Duration;

use serde_json::Value;

use super::SpilledFile;
use crate::message::Part;

/// What became of one call. There is always one, whatever the server did.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// As the model would see it, but unbounded: `bound` is for the loop, which knows where the whole is kept.
    pub content: Vec<Part>,
    /// `structuredContent` of the result.
    pub structured: Option<Value>,
    /// The tool reported an error, or there was no result.
    pub is_error: bool,
    /// Why there was no result; `None` when the server answered.
    pub failure: Option<CallFailure>,
    /// The start of an answer that was too long to be taken.
    pub whole: Option<SpilledFile>,
    pub duration: Duration,
}

/// Why a call has no result of the server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailure {
    /// No answer in time; the server was told to stop.
    Timeout,
    /// The server died or could not be reached.
    Died,
    /// Our side gave up; the server was told to stop.
    Cancelled,
    /// The server answered, but with a protocol error or with something that is no result.
    Protocol,
}
