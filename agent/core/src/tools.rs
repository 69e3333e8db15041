//! The tool host: the MCP servers of one task, their tools under names a model can use, and calls that always
//! come back. The only module that names rmcp's client.

mod arguments;
mod changes;
mod command;
mod connection;
mod content;
mod explain;
mod filter;
mod handler;
mod host;
mod http;
mod inbox;
mod left;
mod lines;
mod listing;
mod many;
mod names;
mod notice;
pub mod oauth;
mod open;
mod output;
mod process;
mod progress;
mod redact;
mod report;
mod resources;
mod result;
mod server;
mod spec;
mod spill;
mod sse;
mod stand_in;
mod stdio;

pub use arguments::validate;
pub use command::INHERITED_VARIABLES;
pub use host::{HiddenTool, OfferedTool, ToolHost};
pub use left::end_left_servers;
pub use notice::{Notice, NoticeSink};
pub use output::{CallFailure, ToolOutput};
pub use progress::{Progress, ProgressSink};
pub use redact::Redactor;
pub use result::{Bounded, DEFAULT_RESULT_BYTES, bound};
pub use server::{Server, ServerInfo, ServerTool, StartError, ToolAnnotations};
pub use spec::{CallOrder, HttpWire, Protocol, Scope, ServerSpec, TransportSpec, is_plain_variable};
pub use spill::SpilledFile;
pub use stand_in::{RecordedTool, StandIn};
