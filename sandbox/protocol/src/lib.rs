//! The frames that host and guest of a sandbox exchange.
//!
//! A frame is `u32 length | u8 type | u32 id | payload`, all little-endian; `length` counts what follows it and is at
//! most [`MAX_FRAME_BYTES`]. The id is chosen by the host: answers carry the id of what they answer. Unknown types are
//! skipped by length, so a side may learn new ones before the other; a frame that breaks the rules ends the
//! connection. The host sends [`HostFrame::Init`] first, the guest [`GuestFrame::Hello`]; both carry
//! [`PROTOCOL_VERSION`], and a side that meets another version ends the connection.
//!
//! Tunnels carry the connections that programs in the container make to the egress proxy. Their ids are a space of their
//! own, chosen by the guest and never used twice in a connection. Each direction of each tunnel starts with a credit of
//! [`TUNNEL_WINDOW_BYTES`] and gets more as the other side passes bytes on, so that what a slow reader leaves lying is
//! bounded and delays no other frame. A side that sends without credit, gives more credit than the window, or opens
//! more than [`MAX_TUNNELS`] at a time breaks the rules.
//!
//! Values in, values out: nothing here does input or output. Either side may be hostile to the other, so decoding
//! never panics and never allocates more than it was given.

mod fields;
mod frame;
mod guest_frame;
mod host_frame;
mod tunnel;

pub use frame::{Decoder, HEADER_BYTES, MAX_FRAME_BYTES, MAX_PAYLOAD_BYTES, RawFrame};
pub use guest_frame::{Ending, ErrorKind, Exit, GuestFrame, Process, Shell};
pub use host_frame::{Exec, HostFrame, Init, Input, Keep, Spill, WriteStart};
pub use tunnel::{Credit, MAX_TUNNELS, TUNNEL_PIECE_BYTES, TUNNEL_WINDOW_BYTES};

/// Version of the whole protocol. Raised when an old peer would misunderstand a new one.
pub const PROTOCOL_VERSION: u16 = 2;

/// The peer does not keep to the protocol. The connection cannot be trusted any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProtocolError {
    /// A frame says it is longer than [`MAX_FRAME_BYTES`], or too short to have a header.
    Length(u32),
    /// The payload of a frame of this type ends too early, goes on too long or holds a value out of range.
    Payload(u8),
}

impl std::fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length(length) => write!(formatter, "frame length {length} is out of range"),
            Self::Payload(kind) => write!(formatter, "malformed payload in a frame of type {kind:#04x}"),
        }
    }
}

impl std::error::Error for ProtocolError {}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
