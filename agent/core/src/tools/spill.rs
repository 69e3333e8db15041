use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::Redactor;

/// Bytes of one over-long answer that are kept on disk: far more than anybody reads, and a server that sends
/// gigabytes again and again must not fill the disk.
const SPILL_BYTES: usize = 64 * 1024 * 1024;

/// Over-long answers that wait for their caller.
const WAITING: usize = 8;

/// The start of an answer that was too long to be taken, on disk. The file has no name: it is gone with the last of
/// its holders, also when the program is killed.
#[derive(Debug, Clone)]
pub struct SpilledFile {
    file: Arc<Mutex<File>>,
}

impl SpilledFile {
    /// Copies it all to `sink`.
    pub fn copy_to(&self, sink: &mut dyn Write) -> std::io::Result<u64> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(0))?;
        std::io::copy(&mut *file, sink)
    }
}

/// The same file, not the same contents.
impl PartialEq for SpilledFile {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
    }
}

/// Writes the pieces of an answer as they arrive, without the secrets of the server. Its writes go to the page cache
/// and are not awaited: the reader must be free to stop between any two pieces.
pub(super) struct SpillWriter {
    file: Option<File>,
    redactor: Redactor,
    /// The end of what has arrived, in which a secret may have begun.
    held: Vec<u8>,
    written: usize,
}

impl SpillWriter {
    pub(super) fn new(redactor: Redactor) -> Self {
        let file = tempfile::tempfile()
            .inspect_err(|error| tracing::warn!(%error, "an over-long answer cannot be kept"))
            .ok();
        Self { file, redactor, held: Vec::new(), written: 0 }
    }

    pub(super) fn write(&mut self, piece: &[u8]) {
        if self.file.is_none() || self.written >= SPILL_BYTES {
            return;
        }
        self.held.extend_from_slice(piece);
        let end = self.redactor.redact_bytes(&mut self.held);
        let ready: Vec<u8> = self.held.drain(..end).collect();
        self.put(&ready);
    }

    pub(super) fn finish(mut self) -> Option<SpilledFile> {
        let rest = std::mem::take(&mut self.held);
        self.put(&rest);
        self.file.map(|file| SpilledFile { file: Arc::new(Mutex::new(file)) })
    }

    fn put(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let bytes = &bytes[..bytes.len().min(SPILL_BYTES - self.written)];
        match file.write_all(bytes) {
            Ok(()) => self.written += bytes.len(),
            Err(error) => {
                tracing::warn!(%error, "an over-long answer cannot be kept");
                self.file = None;
            }
        }
    }
}

/// Spilled answers on their way from the reader to the callers, by the id of the request.
#[derive(Default)]
pub(super) struct Spills {
    waiting: Mutex<Vec<(i64, SpilledFile)>>,
}

impl Spills {
    pub(super) fn put(&self, id: i64, file: SpilledFile) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == WAITING {
            waiting.remove(0);
        }
        waiting.push((id, file));
    }

    pub(super) fn take(&self, id: i64) -> Option<SpilledFile> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let at = waiting.iter().position(|(waits, _)| *waits == id)?;
        Some(waiting.remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spilled(pieces: &[&str], secrets: &[&str]) -> String {
        let redactor = Redactor::default();
        secrets.iter().for_each(|secret| redactor.add("KEY", secret));
        let mut writer = SpillWriter::new(redactor);
        pieces.iter().for_each(|piece| writer.write(piece.as_bytes()));
        let mut out = Vec::new();
        writer.finish().unwrap().copy_to(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_secret_that_arrives_in_pieces_is_hidden() {
        assert_eq!(spilled(&["all of ", "it"], &[]), "all of it");
        let secret = "sk-0123456789";
        for cut in 0..secret.len() {
            let (left, right) = secret.split_at(cut);
            let text = spilled(&["a ", left, right, " b ", secret, " grüß"], &[secret, "another-secret"]);
            assert_eq!(text, "a [redacted: KEY] b [redacted: KEY] grüß", "{cut}");
        }
        assert_eq!(spilled(&["sk-012345"], &[secret]), "sk-012345");
    }

    #[test]
    fn what_waits_for_nobody_makes_room() {
        let spills = Spills::default();
        for id in 0..20 {
            spills.put(id, SpillWriter::new(Redactor::default()).finish().unwrap());
        }
        assert!(spills.take(11).is_none() && spills.take(12).is_some() && spills.take(12).is_none());
    }
}
