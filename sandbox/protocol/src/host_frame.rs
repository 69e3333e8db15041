//! What the host says.

use crate::ProtocolError;
use crate::fields::{Fields, PutFields};
use crate::frame::RawFrame;

const INIT: u8 = 0x01;
const SCRIPT: u8 = 0x02;
const STDIN: u8 = 0x03;
const STDIN_EOF: u8 = 0x04;
const EXEC: u8 = 0x05;
const CANCEL: u8 = 0x06;
const SIGNAL: u8 = 0x07;
const RESTART: u8 = 0x08;
const READ: u8 = 0x09;
const WRITE: u8 = 0x0a;
const PING: u8 = 0x0b;
const SHUTDOWN: u8 = 0x0c;
// Reserved: 0x0d LIST, 0x0e STAT.
const LISTEN: u8 = 0x20;
const TUNNEL_DATA: u8 = 0x21;
const TUNNEL_CREDIT: u8 = 0x22;
const TUNNEL_END: u8 = 0x23;
const TUNNEL_CLOSE: u8 = 0x24;

/// A frame from the host to the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostFrame {
    /// First frame of the connection.
    Init(Init),
    /// Next piece of the shell text of a command that is to run under this id.
    Script(Vec<u8>),
    /// Next piece of standard input: kept until `Exec` with [`Input::Bytes`], written at once with [`Input::Open`].
    Stdin(Vec<u8>),
    /// Closes the standard input of a command that runs with [`Input::Open`].
    StdinEof,
    /// Runs what `Script` and `Stdin` brought under this id. Answer: `Started` with
    /// [`Spill::Always`], any number of `Progress`, `Exit`.
    Exec(Exec),
    /// Ends a command as its time limit would. Answer: its `Exit`.
    Cancel,
    /// Sends a signal to every process of a command.
    Signal(i32),
    /// Kills everything and forgets the shell's state. Answer: the `Exit` of what ran, then `Done`.
    Restart,
    /// Reads a file. Answer: `FileChunk` or `Error`.
    Read {
        /// First byte wanted.
        offset: u64,
        /// Most bytes wanted; the guest may send fewer.
        max_bytes: u32,
        /// Path; relative ones start at the shell's working directory.
        path: String,
    },
    /// Writes to a file. Answer: `Done` or `Error`.
    Write {
        /// What happens to a file that exists.
        start: WriteStart,
        /// Path; relative ones start at the shell's working directory.
        path: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Answer: `Pong`.
    Ping,
    /// Kills everything and ends the guest, and with it the container.
    Shutdown,
    /// Listens on a port of the container's loopback interface and opens a tunnel for each connection. Answer: `Done`
    /// or `Error`.
    Listen {
        /// The port.
        port: u16,
    },
    /// Bytes for the connection of a tunnel. Never more than the guest has given credit for.
    TunnelData(Vec<u8>),
    /// So many more bytes may be sent through a tunnel.
    TunnelCredit(u32),
    /// No more bytes come for the connection of a tunnel; it may go on sending.
    TunnelEnd,
    /// The tunnel is gone. No answer.
    TunnelClose,
}

/// Settings of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    /// [`crate::PROTOCOL_VERSION`] of the host.
    pub version: u16,
    /// The guest ends itself when no frame came for so long; 0 for never. The host pings well within it.
    pub lease_seconds: u32,
    /// Most bytes of one command's output kept in its spill file.
    pub spill_bytes: u64,
}

/// How to run a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exec {
    /// Time limit in milliseconds.
    pub timeout_ms: u64,
    /// Where standard input comes from.
    pub input: Input,
    /// Whether the next command sees the state this one leaves.
    pub keep: Keep,
    /// When the spill file is made.
    pub spill: Spill,
}

/// Where standard input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// End of file at once.
    Empty,
    /// What came by `Stdin` before, then end of file.
    Bytes,
    /// A pipe fed by later `Stdin` frames until `StdinEof`.
    Open,
}

/// Whether the next command sees the state this one leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It does.
    State,
    /// It does not.
    Nothing,
}

/// When the spill file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spill {
    /// Once the output no longer fits into head and tail.
    WhenLong,
    /// From the first byte, so that the host can read along.
    Always,
}

/// What a write does to a file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteStart {
    /// Empties it first.
    Truncate,
    /// Goes on at its end.
    Append,
}

impl HostFrame {
    /// Appends the frame to `out`. Payloads longer than a frame can hold must be cut by the caller.
    pub fn encode(&self, id: u32, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        let kind = match self {
            Self::Init(init) => {
                payload.put_u16(init.version);
                payload.put_u32(init.lease_seconds);
                payload.put_u64(init.spill_bytes);
                INIT
            }
            Self::Script(bytes) => {
                payload.extend_from_slice(bytes);
                SCRIPT
            }
            Self::Stdin(bytes) => {
                payload.extend_from_slice(bytes);
                STDIN
            }
            Self::StdinEof => STDIN_EOF,
            Self::Exec(exec) => {
                payload.put_u64(exec.timeout_ms);
                payload.put_u8(exec.input as u8);
                payload.put_u8(exec.keep as u8);
                payload.put_u8(exec.spill as u8);
                EXEC
            }
            Self::Cancel => CANCEL,
            Self::Signal(signal) => {
                payload.put_u32(*signal as u32);
                SIGNAL
            }
            Self::Restart => RESTART,
            Self::Read { offset, max_bytes, path } => {
                payload.put_u64(*offset);
                payload.put_u32(*max_bytes);
                payload.put_bytes(path.as_bytes());
                READ
            }
            Self::Write { start, path, bytes } => {
                payload.put_u8(*start as u8);
                payload.put_bytes(path.as_bytes());
                payload.extend_from_slice(bytes);
                WRITE
            }
            Self::Ping => PING,
            Self::Shutdown => SHUTDOWN,
            Self::Listen { port } => {
                payload.put_u16(*port);
                LISTEN
            }
            Self::TunnelData(bytes) => {
                payload.extend_from_slice(bytes);
                TUNNEL_DATA
            }
            Self::TunnelCredit(bytes) => {
                payload.put_u32(*bytes);
                TUNNEL_CREDIT
            }
            Self::TunnelEnd => TUNNEL_END,
            Self::TunnelClose => TUNNEL_CLOSE,
        };
        RawFrame { kind, id, payload }.encode(out);
    }

    /// Looks into a frame; `None` for a type this version does not know.
    pub fn decode(frame: RawFrame) -> Result<Option<Self>, ProtocolError> {
        let mut fields = Fields::new(&frame.payload);
        let decoded = match frame.kind {
            INIT => decode_init(&mut fields).map(Self::Init),
            SCRIPT => return Ok(Some(Self::Script(frame.payload))),
            STDIN => return Ok(Some(Self::Stdin(frame.payload))),
            STDIN_EOF => Some(Self::StdinEof),
            EXEC => decode_exec(&mut fields).map(Self::Exec),
            CANCEL => Some(Self::Cancel),
            SIGNAL => fields.u32().map(|signal| Self::Signal(signal as i32)),
            RESTART => Some(Self::Restart),
            READ => decode_read(&mut fields),
            WRITE => decode_write(&mut fields),
            PING => Some(Self::Ping),
            SHUTDOWN => Some(Self::Shutdown),
            LISTEN => fields.u16().map(|port| Self::Listen { port }),
            TUNNEL_DATA => return Ok(Some(Self::TunnelData(frame.payload))),
            TUNNEL_CREDIT => fields.u32().map(Self::TunnelCredit),
            TUNNEL_END => Some(Self::TunnelEnd),
            TUNNEL_CLOSE => Some(Self::TunnelClose),
            _ => return Ok(None),
        };
        match (decoded, fields.end()) {
            (Some(decoded), Some(())) => Ok(Some(decoded)),
            _ => Err(ProtocolError::Payload(frame.kind)),
        }
    }
}

fn decode_init(fields: &mut Fields<'_>) -> Option<Init> {
    Some(Init { version: fields.u16()?, lease_seconds: fields.u32()?, spill_bytes: fields.u64()? })
}

fn decode_exec(fields: &mut Fields<'_>) -> Option<Exec> {
    Some(Exec {
        timeout_ms: fields.u64()?,
        input: match fields.u8()? {
            0 => Input::Empty,
            1 => Input::Bytes,
            2 => Input::Open,
            _ => return None,
        },
        keep: match fields.u8()? {
            0 => Keep::State,
            1 => Keep::Nothing,
            _ => return None,
        },
        spill: match fields.u8()? {
            0 => Spill::WhenLong,
            1 => Spill::Always,
            _ => return None,
        },
    })
}

fn decode_read(fields: &mut Fields<'_>) -> Option<HostFrame> {
    Some(HostFrame::Read { offset: fields.u64()?, max_bytes: fields.u32()?, path: fields.text()? })
}

fn decode_write(fields: &mut Fields<'_>) -> Option<HostFrame> {
    let start = match fields.u8()? {
        0 => WriteStart::Truncate,
        1 => WriteStart::Append,
        _ => return None,
    };
    Some(HostFrame::Write { start, path: fields.text()?, bytes: fields.remainder() })
}
