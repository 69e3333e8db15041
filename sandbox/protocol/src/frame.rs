//! Cutting a byte stream into frames.

use crate::ProtocolError;

/// Bytes of a frame before its payload: length, type, id.
pub const HEADER_BYTES: usize = 9;

/// Largest `length` a frame may state. Bounds what a hostile peer can make the other side hold.
pub const MAX_FRAME_BYTES: usize = 1 << 20;

/// Largest payload: what [`MAX_FRAME_BYTES`] leaves after type and id.
pub const MAX_PAYLOAD_BYTES: usize = MAX_FRAME_BYTES - 5;

/// A frame whose payload has not been looked into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawFrame {
    /// What it is.
    pub kind: u8,
    /// What it belongs to.
    pub id: u32,
    /// Its content.
    pub payload: Vec<u8>,
}

impl RawFrame {
    /// Appends the frame to `out`. The payload must not exceed [`MAX_PAYLOAD_BYTES`]; the peer would refuse it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.payload.len() <= MAX_PAYLOAD_BYTES);
        out.reserve(HEADER_BYTES + self.payload.len());
        out.extend_from_slice(&(self.payload.len() as u32 + 5).to_le_bytes());
        out.push(self.kind);
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.payload);
    }
}

/// Puts frames together from pieces of any size.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    consumed: usize,
}

impl Decoder {
    /// Takes more of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.consumed > 0 {
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, or `None` until more of it has come.
    pub fn next_frame(&mut self) -> Result<Option<RawFrame>, ProtocolError> {
        let rest = &self.buffer[self.consumed..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length);
        if !(5..=MAX_FRAME_BYTES as u32).contains(&length) {
            return Err(ProtocolError::Length(length));
        }
        let Some((body, _)) = rest.split_at_checked(length as usize) else { return Ok(None) };
        let frame = RawFrame {
            kind: body[0],
            id: u32::from_le_bytes([body[1], body[2], body[3], body[4]]),
            payload: body[5..].to_vec(),
        };
        self.consumed += 4 + length as usize;
        if self.consumed == self.buffer.len() {
            self.buffer.clear();
            self.consumed = 0;
        }
        Ok(Some(frame))
    }
}
