//! Containers that run commands for an agent.
//!
//! A [`Sandbox`] is one hardened container. Its PID 1 is a small static program of ours (the guest, embedded in
//! this library) which runs each command, keeps the shell's state between commands, kills whole process trees and
//! bounds output while it reads. Host and guest exchange frames over the container's attached standard streams; no
//! command ever goes through `docker exec`, which cannot be cancelled and costs tens of milliseconds.
//!
//! The container ends with its owner: when the process that started it dies, the guest sees its input close, kills
//! everything and exits, and the engine removes the container. [`Engine::reap`] covers what this cannot.

mod command;
mod connection;
mod container;
mod disk;
mod egress;
mod engine;
mod error;
mod files;
mod guest_program;
mod labels;
mod network;
mod options;
mod owner;
mod pool;
mod sandbox;
mod shared_folder;
mod start;
mod tasks;
mod tunnels;

pub use command::{
    BackgroundProcess, Command, Input, Output, Progress, TaskId, TaskInfo, TaskOutput, TaskState,
};
pub use egress::{
    AddressRange, AddressRangeError, Connect, EgressOptions, HostRule, HostRuleError, Resolve,
    SystemResolver, TcpConnector, UpstreamProxies, UpstreamProxy, UpstreamProxyError, why_refused,
};
pub use engine::{Engine, ImageInfo, LabelFilter, PullProgress, Reaped, SandboxContainer};
pub use error::{EngineError, FileProblem, SandboxError};
pub use files::{FileChunk, WriteMode};
pub use network::Network;
pub use options::{Labels, Limits, SandboxOptions};
pub use pool::Pool;
pub use sandbox::Sandbox;
