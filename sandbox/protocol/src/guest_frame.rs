//! What the guest says.

use crate::ProtocolError;
use crate::fields::{Fields, PutFields};
use crate::frame::RawFrame;

const HELLO: u8 = 0x81;
const STARTED: u8 = 0x82;
const PROGRESS: u8 = 0x83;
const EXIT: u8 = 0x84;
const FILE_CHUNK: u8 = 0x85;
const DONE: u8 = 0x86;
const PONG: u8 = 0x87;
const ERROR: u8 = 0x88;
const TUNNEL_OPEN: u8 = 0xa0;
const TUNNEL_DATA: u8 = 0xa1;
const TUNNEL_CREDIT: u8 = 0xa2;
const TUNNEL_END: u8 = 0xa3;
const TUNNEL_CLOSE: u8 = 0xa4;

/// A frame from the guest to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestFrame {
    /// First frame of the connection.
    Hello {
        /// [`crate::PROTOCOL_VERSION`] of the guest.
        version: u16,
        /// Bits for what this guest can do beyond the version; none are defined yet.
        features: u32,
        /// Shell the image has.
        shell: Shell,
    },
    /// A command runs.
    Started {
        /// Where its whole output is kept; empty unless it was asked for from the first byte.
        spill_path: String,
    },
    /// State of a command's output.
    Progress {
        /// Since its start.
        elapsed_us: u64,
        /// Bytes so far.
        total_bytes: u64,
        /// Newlines so far.
        total_lines: u64,
        /// Last line that is not blank.
        last_line: String,
    },
    /// A command has ended.
    Exit(Box<Exit>),
    /// Piece of a file.
    FileChunk {
        /// Size of the whole file.
        file_bytes: u64,
        /// Whether it ends with this piece.
        end_of_file: bool,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// What was asked for is done.
    Done,
    /// Answer to `Ping`.
    Pong {
        /// Bytes left on the disk the container writes to, which is the host's; `u64::MAX` when that is not known.
        free_disk_bytes: u64,
    },
    /// What was asked for did not work; the connection is fine.
    Error {
        /// What stands in the way.
        kind: ErrorKind,
        /// The same for people.
        text: String,
    },
    /// A program has connected to the port that `Listen` named. The id is a new one, of the guest's choice.
    TunnelOpen,
    /// Bytes from the connection of a tunnel. Never more than the host has given credit for.
    TunnelData(Vec<u8>),
    /// So many more bytes may be sent through a tunnel.
    TunnelCredit(u32),
    /// No more bytes come from the connection of a tunnel; it may go on receiving.
    TunnelEnd,
    /// The tunnel is gone. No answer.
    TunnelClose,
}

/// Shell an image has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// None: every command fails.
    None,
    /// `/bin/sh`: working directory and exported variables persist, nothing else.
    Sh,
    /// bash.
    Bash,
}

/// What stands in the way of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Something else; the text says what.
    Other,
    /// Nothing has this name.
    NotFound,
    /// A folder.
    IsDirectory,
    /// A pipe, a socket or a device.
    NotRegular,
    /// The file system forbids it.
    Denied,
    /// Disk full or file size limit reached.
    NoSpace,
    /// No command runs under this id.
    UnknownCommand,
}

/// How a command came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself.
    Itself,
    /// By its time limit.
    TimedOut,
    /// By `Cancel`.
    Cancelled,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// 0 to 255, and 128 + signal.
    pub exit_code: i32,
    /// Signal that ended the shell; 0 for none.
    pub signal: i32,
    /// How it came to its end.
    pub ending: Ending,
    /// Whether the memory cgroup's kill counter rose while it ran.
    pub oom_killed: bool,
    /// From start to end.
    pub duration_us: u64,
    /// Bytes of output.
    pub total_bytes: u64,
    /// Newlines in it.
    pub total_lines: u64,
    /// First bytes.
    pub head: Vec<u8>,
    /// Last bytes that are not in `head`.
    pub tail: Vec<u8>,
    /// File that holds the output; empty for none.
    pub spill_path: String,
    /// Bytes in it.
    pub spilled_bytes: u64,
    /// Working directory of the next command.
    pub cwd: String,
    /// Processes killed.
    pub processes_killed: u32,
    /// Processes left running.
    pub background: Vec<Process>,
    /// Sentences about what was unusual.
    pub notes: Vec<String>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id in the container.
    pub pid: u32,
    /// The kernel's name for it.
    pub name: String,
}

impl GuestFrame {
    /// Appends the frame to `out`. Payloads longer than a frame can hold must be cut by the caller.
    pub fn encode(&self, id: u32, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        let kind = match self {
            Self::Hello { version, features, shell } => {
                payload.put_u16(*version);
                payload.put_u32(*features);
                payload.put_u8(*shell as u8);
                HELLO
            }
            Self::Started { spill_path } => {
                payload.put_bytes(spill_path.as_bytes());
                STARTED
            }
            Self::Progress { elapsed_us, total_bytes, total_lines, last_line } => {
                payload.put_u64(*elapsed_us);
                payload.put_u64(*total_bytes);
                payload.put_u64(*total_lines);
                payload.put_bytes(last_line.as_bytes());
                PROGRESS
            }
            Self::Exit(exit) => {
                exit.encode(&mut payload);
                EXIT
            }
            Self::FileChunk { file_bytes, end_of_file, bytes } => {
                payload.put_u64(*file_bytes);
                payload.put_u8(u8::from(*end_of_file));
                payload.extend_from_slice(bytes);
                FILE_CHUNK
            }
            Self::Done => DONE,
            Self::Pong { free_disk_bytes } => {
                payload.put_u64(*free_disk_bytes);
                PONG
            }
            Self::Error { kind, text } => {
                payload.put_u8(*kind as u8);
                payload.put_bytes(text.as_bytes());
                ERROR
            }
            Self::TunnelOpen => TUNNEL_OPEN,
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
    pub fn decode(frame: &RawFrame) -> Result<Option<Self>, ProtocolError> {
        let mut fields = Fields::new(&frame.payload);
        let decoded = match frame.kind {
            HELLO => decode_hello(&mut fields),
            STARTED => fields.text().map(|spill_path| Self::Started { spill_path }),
            PROGRESS => decode_progress(&mut fields),
            EXIT => Exit::decode(&mut fields).map(|exit| Self::Exit(Box::new(exit))),
            FILE_CHUNK => decode_file_chunk(&mut fields),
            DONE => Some(Self::Done),
            PONG => fields.u64().map(|free_disk_bytes| Self::Pong { free_disk_bytes }),
            ERROR => decode_error(&mut fields),
            TUNNEL_OPEN => Some(Self::TunnelOpen),
            TUNNEL_DATA => Some(Self::TunnelData(fields.remainder())),
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

impl Exit {
    fn encode(&self, payload: &mut Vec<u8>) {
        payload.put_u32(self.exit_code as u32);
        payload.put_u32(self.signal as u32);
        payload.put_u8(self.ending as u8);
        payload.put_u8(u8::from(self.oom_killed));
        payload.put_u64(self.duration_us);
        payload.put_u64(self.total_bytes);
        payload.put_u64(self.total_lines);
        payload.put_bytes(&self.head);
        payload.put_bytes(&self.tail);
        payload.put_bytes(self.spill_path.as_bytes());
        payload.put_u64(self.spilled_bytes);
        payload.put_bytes(self.cwd.as_bytes());
        payload.put_u32(self.processes_killed);
        payload.put_u32(self.background.len() as u32);
        for process in &self.background {
            payload.put_u32(process.pid);
            payload.put_bytes(process.name.as_bytes());
        }
        payload.put_u32(self.notes.len() as u32);
        for note in &self.notes {
            payload.put_bytes(note.as_bytes());
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            exit_code: fields.u32()? as i32,
            signal: fields.u32()? as i32,
            ending: match fields.u8()? {
                0 => Ending::Itself,
                1 => Ending::TimedOut,
                2 => Ending::Cancelled,
                _ => return None,
            },
            oom_killed: decode_flag(fields)?,
            duration_us: fields.u64()?,
            total_bytes: fields.u64()?,
            total_lines: fields.u64()?,
            head: fields.bytes()?,
            tail: fields.bytes()?,
            spill_path: fields.text()?,
            spilled_bytes: fields.u64()?,
            cwd: fields.text()?,
            processes_killed: fields.u32()?,
            background: decode_list(fields, |fields| {
                Some(Process { pid: fields.u32()?, name: fields.text()? })
            })?,
            notes: decode_list(fields, |fields| fields.text())?,
        })
    }
}

fn decode_hello(fields: &mut Fields<'_>) -> Option<GuestFrame> {
    Some(GuestFrame::Hello {
        version: fields.u16()?,
        features: fields.u32()?,
        shell: match fields.u8()? {
            0 => Shell::None,
            1 => Shell::Sh,
            2 => Shell::Bash,
            _ => return None,
        },
    })
}

fn decode_progress(fields: &mut Fields<'_>) -> Option<GuestFrame> {
    Some(GuestFrame::Progress {
        elapsed_us: fields.u64()?,
        total_bytes: fields.u64()?,
        total_lines: fields.u64()?,
        last_line: fields.text()?,
    })
}

fn decode_file_chunk(fields: &mut Fields<'_>) -> Option<GuestFrame> {
    Some(GuestFrame::FileChunk {
        file_bytes: fields.u64()?,
        end_of_file: decode_flag(fields)?,
        bytes: fields.remainder(),
    })
}

fn decode_error(fields: &mut Fields<'_>) -> Option<GuestFrame> {
    let kind = match fields.u8()? {
        0 => ErrorKind::Other,
        1 => ErrorKind::NotFound,
        2 => ErrorKind::IsDirectory,
        3 => ErrorKind::NotRegular,
        4 => ErrorKind::Denied,
        5 => ErrorKind::NoSpace,
        6 => ErrorKind::UnknownCommand,
        _ => return None,
    };
    Some(GuestFrame::Error { kind, text: fields.text()? })
}

fn decode_flag(fields: &mut Fields<'_>) -> Option<bool> {
    match fields.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// The count is not trusted for allocation: the list grows by what is really there.
fn decode_list<T>(
    fields: &mut Fields<'_>,
    mut item: impl FnMut(&mut Fields<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = fields.u32()?;
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(item(fields)?);
    }
    Some(list)
}
