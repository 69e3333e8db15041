//! One task in, one outcome and a stream of events out.
//!
//! The loop knows a chat model and MCP servers, and nothing else: not bash, not Docker, not GAIA's files.
//! The only tool it treats specially is the one the settings name as the answer tool.

pub mod agent;
mod archive;
mod branch;
pub mod budget;
mod conversation;
pub mod desk;
mod duty;
pub mod event;
pub mod extract;
mod habits;
mod limits;
mod media;
pub mod message;
pub mod model;
pub mod outcome;
mod question;
mod recall;
mod repair;
pub mod settings;
pub mod strategy;
pub mod task;
pub mod tools;
mod turn;
mod window;

pub use agent::run_task;
pub use budget::SharedBudget;
pub use event::{AgentEvent, Candidate, EventSink};
pub use media::ImageLimits;
pub use message::{Document, Image, Message, Part, Sound, ToolCall, ToolDefinition};
pub use outcome::{Failure, FailureKind, Outcome, Status, StopReason, Timing, Usage};
pub use settings::{AgentSettings, Budget};
pub use task::{Attachment, Task};
