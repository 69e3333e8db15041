//! A command's output: counted, its first and last bytes kept, the whole written to a bounded file.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use gaia_sandbox_protocol::Spill;

/// Bytes kept of the beginning: 8 KiB, half of what is shown to a model.
pub(crate) const HEAD_BYTES: usize = 8 << 10;

/// Bytes kept of the end: the other half.
pub(crate) const TAIL_BYTES: usize = 8 << 10;

/// Bytes of all spill files of a sandbox: the container's disk is the host's.
const MAX_ALL_SPILL_BYTES: u64 = 512 << 20;

/// Bytes of the last line told in progress reports.
const LAST_LINE_BYTES: usize = 256;

pub(crate) struct Capture {
    pub(crate) total_bytes: u64,
    pub(crate) total_lines: u64,
    head: Vec<u8>,
    /// Up to twice [`TAIL_BYTES`]; only the last [`TAIL_BYTES`] count. Saves moving bytes at every small write.
    tail: Vec<u8>,
    spill: SpillFile,
}

enum SpillFile {
    /// Not made yet; to be named by this number.
    Wanted {
        number: u32,
        limit: u64,
    },
    Open {
        file: File,
        path: String,
        written: u64,
        limit: u64,
    },
    /// Full, or the disk is.
    Closed {
        path: String,
        written: u64,
    },
    /// Could not be made.
    Failed,
}

impl Capture {
    /// `number` names the spill file, `limit` is the most bytes it may hold.
    pub(crate) fn new(number: u32, limit: u64, spill: Spill) -> Self {
        let mut capture = Self {
            total_bytes: 0,
            total_lines: 0,
            head: Vec::new(),
            tail: Vec::new(),
            spill: SpillFile::Wanted { number, limit },
        };
        if spill == Spill::Always {
            capture.open_spill();
        }
        capture
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let total = self.total_bytes + bytes.len() as u64;
        if total > (HEAD_BYTES + TAIL_BYTES) as u64 {
            self.open_spill();
        }
        self.spill.write(bytes);
        self.total_bytes = total;
        self.total_lines += count_newlines(bytes);

        let to_head = bytes.len().min(HEAD_BYTES - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        let rest = &bytes[to_head..];
        if rest.len() >= TAIL_BYTES {
            self.tail.clear();
            self.tail.extend_from_slice(&rest[rest.len() - TAIL_BYTES..]);
        } else {
            self.tail.extend_from_slice(rest);
            if self.tail.len() > 2 * TAIL_BYTES {
                self.tail.drain(..self.tail.len() - TAIL_BYTES);
            }
        }
    }

    /// Makes the spill file if it is not there, with everything so far in it. Possible only while nothing was lost.
    pub(crate) fn open_spill(&mut self) {
        let SpillFile::Wanted { number, limit } = self.spill else { return };
        self.spill = match create_spill(number) {
            Some((file, path)) => SpillFile::Open { file, path, written: 0, limit },
            None => SpillFile::Failed,
        };
        self.spill.write(&self.head);
        self.spill.write(&self.tail);
    }

    pub(crate) fn head(&self) -> Vec<u8> {
        self.head.clone()
    }

    pub(crate) fn tail(&self) -> Vec<u8> {
        self.tail[self.tail.len().saturating_sub(TAIL_BYTES)..].to_vec()
    }

    /// Path of the spill file, empty for none, and the bytes in it.
    pub(crate) fn spilled(&self) -> (String, u64) {
        match &self.spill {
            SpillFile::Open { path, written, .. } | SpillFile::Closed { path, written } => {
                (path.clone(), *written)
            }
            SpillFile::Wanted { .. } | SpillFile::Failed => (String::new(), 0),
        }
    }

    /// Whether output was left out although nothing holds it.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.spill, SpillFile::Failed) && self.total_bytes > (HEAD_BYTES + TAIL_BYTES) as u64
    }

    pub(crate) fn last_line(&self) -> String {
        let recent = if self.tail.is_empty() { &self.head } else { &self.tail };
        recent
            .rsplit(|byte| *byte == b'\n' || *byte == b'\r')
            .find(|line| !line.trim_ascii().is_empty())
            .map(|line| String::from_utf8_lossy(&line[..line.len().min(LAST_LINE_BYTES)]).into_owned())
            .unwrap_or_default()
    }
}

impl SpillFile {
    fn write(&mut self, bytes: &[u8]) {
        let Self::Open { file, path, written, limit } = self else { return };
        let room = (*limit - *written).min(bytes.len() as u64) as usize;
        let whole = file.write_all(&bytes[..room]).is_ok();
        if whole {
            *written += room as u64;
        }
        if !whole || *written == *limit {
            *self = Self::Closed { path: std::mem::take(path), written: *written };
        }
    }
}

/// A new file; an existing name, also of a symbolic link or a pipe that a command put there, is never opened.
fn create_spill(number: u32) -> Option<(File, String)> {
    let _ = std::fs::DirBuilder::new().create("/workspace/.out");
    for path in [format!("/workspace/.out/{number}.log"), format!("/tmp/.out-{number}.log")] {
        if let Ok(file) = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path) {
            return Some((file, path));
        }
    }
    None
}

/// The spill files of all commands so far, which together are bounded too.
#[derive(Default)]
pub(crate) struct SpillFiles {
    files: VecDeque<(String, u64)>,
    total: u64,
}

impl SpillFiles {
    /// Notes the file of a command that has ended and removes the oldest ones that no longer fit.
    pub(crate) fn add(&mut self, path: &str, bytes: u64) {
        if path.is_empty() {
            return;
        }
        self.files.push_back((path.to_owned(), bytes));
        self.total += bytes;
        while self.total > MAX_ALL_SPILL_BYTES
            && self.files.len() > 1
            && let Some((path, bytes)) = self.files.pop_front()
        {
            let _ = std::fs::remove_file(path);
            self.total -= bytes;
        }
    }
}

fn count_newlines(bytes: &[u8]) -> u64 {
    // Counted in bytes first, which the compiler turns into vector instructions; 255 cannot overflow a byte.
    bytes
        .chunks(255)
        .map(|chunk| u64::from(chunk.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pieces: &[&[u8]]) -> Capture {
        let mut capture = Capture::new(0, 0, Spill::WhenLong);
        capture.spill = SpillFile::Failed;
        for piece in pieces {
            capture.push(piece);
        }
        capture
    }

    #[test]
    fn head_and_tail_are_right_at_every_boundary_and_for_every_piece_size() {
        for total in
            [0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, 16_383, 16_384, 16_385, 40_000, 100_000]
        {
            let data: Vec<u8> = (0..total).map(|index| (index % 251) as u8).collect();
            for piece in [1, 7, 4096, 8191, 8192, 8193, 65_536] {
                let capture = captured(&data.chunks(piece).collect::<Vec<_>>());
                let head = HEAD_BYTES.min(total);
                let tail = TAIL_BYTES.min(total - head);
                assert_eq!(capture.head(), data[..head], "head of {total} in pieces of {piece}");
                assert_eq!(capture.tail(), data[total - tail..], "tail of {total} in pieces of {piece}");
                assert_eq!(capture.total_bytes, total as u64);
            }
        }
    }

    #[test]
    fn newlines_are_counted_across_chunks() {
        assert_eq!(count_newlines(&[b'\n'; 1000]), 1000);
        assert_eq!(captured(&[b"a\nb", b"\n\nc"]).total_lines, 3);
    }

    #[test]
    fn the_last_line_is_the_last_that_is_not_blank() {
        assert_eq!(captured(&[b"one\n 10%\r 20%\r\n\n"]).last_line(), " 20%");
        assert_eq!(captured(&[b""]).last_line(), "");
    }

    #[test]
    fn lost_output_is_noticed() {
        assert!(captured(&[&[b'x'; 16_385]]).is_lost());
        assert!(!captured(&[&[b'x'; 16_384]]).is_lost());
    }
}
