//! The connection to the host: frames over what were standard input and output.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;

use gaia_sandbox_protocol::{Decoder, GuestFrame, RawFrame};

use crate::system;

/// Bytes that may wait for a slow host before we stop taking its requests.
const MAX_QUEUED_BYTES: usize = 8 << 20;

/// Written bytes that may stay at the front of the queue: a steady stream never leaves it empty.
const MAX_WRITTEN_BYTES: usize = 1 << 20;

/// Out of the way of what is opened and closed all the time.
const LOWEST_FD: i32 = 100;

pub(crate) struct Link {
    input: File,
    output: File,
    decoder: Decoder,
    queue: Vec<u8>,
    /// Bytes at the front of `queue` that are written.
    written: usize,
}

/// The host is gone, or does not keep to the protocol.
pub(crate) struct Broken;

impl Link {
    /// Takes over standard input and output, and leaves `/dev/null` in their place.
    pub(crate) fn open() -> io::Result<Self> {
        let input: File = system::copy_above(0, LOWEST_FD)?.into();
        let output: File = system::copy_above(1, LOWEST_FD)?.into();
        let null = File::options().read(true).write(true).open("/dev/null")?;
        system::place(&null, 0)?;
        system::place(&null, 1)?;
        system::set_nonblocking(&input)?;
        system::set_nonblocking(&output)?;
        Ok(Self { input, output, decoder: Decoder::default(), queue: Vec::new(), written: 0 })
    }

    pub(crate) fn input_fd(&self) -> i32 {
        self.input.as_raw_fd()
    }

    pub(crate) fn output_fd(&self) -> i32 {
        self.output.as_raw_fd()
    }

    pub(crate) fn has_queued(&self) -> bool {
        self.written < self.queue.len()
    }

    /// Whether the host takes what we say fast enough to be asked for more.
    pub(crate) fn has_room(&self) -> bool {
        self.queued_bytes() < MAX_QUEUED_BYTES
    }

    /// Bytes that wait to be written.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queue.len() - self.written
    }

    /// Queues a frame; [`Link::flush`] sends it.
    pub(crate) fn send(&mut self, id: u32, frame: &GuestFrame) {
        if self.written >= MAX_WRITTEN_BYTES {
            self.queue.drain(..self.written);
            self.written = 0;
        }
        frame.encode(id, &mut self.queue);
    }

    pub(crate) fn flush(&mut self) -> Result<(), Broken> {
        while self.has_queued() {
            match self.output.write(&self.queue[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Broken),
            }
        }
        self.queue.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads what is there, up to one buffer.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<(), Broken> {
        match self.input.read(buffer) {
            Ok(0) => Err(Broken),
            Ok(count) => {
                self.decoder.push(&buffer[..count]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(())
            }
            Err(_) => Err(Broken),
        }
    }

    pub(crate) fn next_frame(&mut self) -> Result<Option<RawFrame>, Broken> {
        self.decoder.next_frame().map_err(|_| Broken)
    }
}
