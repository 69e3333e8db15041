//! Files in the container.

use gaia_sandbox_protocol::{ErrorKind, GuestFrame, HostFrame, WriteStart};
use tokio::io::AsyncReadExt;

use crate::error::{FileProblem, SandboxError};
use crate::sandbox::{Sandbox, invalid};

/// Bytes in one request: the connection is shared with the answers of commands.
const PIECE_BYTES: usize = 512 << 10;

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChunk {
    /// The bytes; fewer than asked for only at the end of the file.
    pub bytes: Vec<u8>,
    /// Size of the whole file in bytes when it was read (0 for files the kernel makes up, as in `/proc`).
    pub file_bytes: u64,
    /// Whether the file ended with this piece.
    pub end_of_file: bool,
}

/// What a write does to a file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// Replaces its content.
    Replace,
    /// Adds to its end.
    Append,
}

impl Sandbox {
    /// At most `max_bytes` of a regular file from `offset` on. A relative path starts at the shell's working
    /// directory. Pipes, sockets and devices are refused, not waited for.
    pub async fn read_file(
        &self,
        path: &str,
        offset: u64,
        max_bytes: u64,
    ) -> Result<FileChunk, SandboxError> {
        let mut chunk = FileChunk { bytes: Vec::new(), file_bytes: 0, end_of_file: false };
        loop {
            let wanted = (max_bytes - chunk.bytes.len() as u64).min(PIECE_BYTES as u64) as u32;
            let request = HostFrame::Read {
                offset: offset.saturating_add(chunk.bytes.len() as u64),
                max_bytes: wanted,
                path: path.to_owned(),
            };
            match self.request(&request).await? {
                GuestFrame::FileChunk { file_bytes, end_of_file, bytes }
                    if bytes.len() <= wanted as usize =>
                {
                    let is_empty = bytes.is_empty();
                    chunk.bytes.extend(bytes);
                    (chunk.file_bytes, chunk.end_of_file) = (file_bytes, end_of_file);
                    if end_of_file || is_empty || chunk.bytes.len() as u64 >= max_bytes {
                        return Ok(chunk);
                    }
                }
                answer => return Err(file_error("read", path, answer)),
            }
        }
    }

    /// Writes a file of the host into the container piece by piece.
    pub(crate) async fn send_file(
        &self,
        mut source: impl tokio::io::AsyncRead + Unpin,
        path: &str,
    ) -> Result<(), SandboxError> {
        let mut mode = WriteMode::Replace;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = source
                .read(&mut piece)
                .await
                .map_err(|error| invalid(&format!("copy `{path}` to a sandbox"), error.to_string()))?;
            if count == 0 && mode == WriteMode::Append {
                return Ok(());
            }
            self.write_file(path, &piece[..count], mode).await?;
            mode = WriteMode::Append;
        }
    }

    /// Writes a file, making its parent folders. A relative path starts at the shell's working directory.
    pub async fn write_file(&self, path: &str, bytes: &[u8], mode: WriteMode) -> Result<(), SandboxError> {
        let mut pieces: Vec<&[u8]> = bytes.chunks(PIECE_BYTES).collect();
        if pieces.is_empty() {
            pieces.push(&[]);
        }
        for (index, piece) in pieces.into_iter().enumerate() {
            let start = match mode {
                WriteMode::Replace if index == 0 => WriteStart::Truncate,
                WriteMode::Replace | WriteMode::Append => WriteStart::Append,
            };
            let request = HostFrame::Write { start, path: path.to_owned(), bytes: piece.to_vec() };
            match self.request(&request).await? {
                GuestFrame::Done => {}
                answer => return Err(file_error("write", path, answer)),
            }
        }
        Ok(())
    }
}

fn file_error(operation: &'static str, path: &str, answer: GuestFrame) -> SandboxError {
    let GuestFrame::Error { kind, text } = answer else {
        return invalid(operation, format!("unexpected answer {answer:?}"));
    };
    let problem = match kind {
        ErrorKind::NotFound => FileProblem::NotFound,
        ErrorKind::IsDirectory => FileProblem::IsDirectory,
        ErrorKind::NotRegular => FileProblem::NotRegular,
        ErrorKind::Denied => FileProblem::Denied,
        ErrorKind::NoSpace => FileProblem::NoSpace,
        ErrorKind::Other | ErrorKind::UnknownCommand => FileProblem::Other(text),
    };
    SandboxError::File { operation, path: path.to_owned(), problem }
}
