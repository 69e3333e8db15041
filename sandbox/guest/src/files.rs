//! Reading and writing files for the host. Never blocks: only regular files are opened.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use gaia_sandbox_protocol::{ErrorKind, GuestFrame, WriteStart};

/// Most bytes in one piece: several requests share the connection.
const MAX_PIECE_BYTES: u32 = 512 << 10;

pub(crate) fn read(cwd: &str, path: &str, offset: u64, max_bytes: u32) -> GuestFrame {
    answer(try_read(&absolute(cwd, path), offset, max_bytes))
}

pub(crate) fn write(cwd: &str, path: &str, start: WriteStart, bytes: &[u8]) -> GuestFrame {
    answer(try_write(&absolute(cwd, path), start, bytes).map(|()| GuestFrame::Done))
}

fn absolute(cwd: &str, path: &str) -> PathBuf {
    Path::new(cwd).join(path)
}

fn try_read(path: &Path, offset: u64, max_bytes: u32) -> Result<GuestFrame, Failure> {
    regular_or_absent(path)?;
    // Should it have become a pipe in the meantime, opening does not wait for a writer.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Failure::Kind(ErrorKind::NotRegular));
    }
    let mut bytes = vec![0; max_bytes.min(MAX_PIECE_BYTES) as usize];
    let mut filled = 0;
    let mut end_of_file = false;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => {
                end_of_file = true;
                break;
            }
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(filled);
    let end_of_file = end_of_file || (metadata.len() > 0 && offset + filled as u64 >= metadata.len());
    Ok(GuestFrame::FileChunk { file_bytes: metadata.len(), end_of_file, bytes })
}

fn try_write(path: &Path, start: WriteStart, bytes: &[u8]) -> Result<(), Failure> {
    regular_or_absent(path)?;
    if let Some(parent) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).create(parent)?;
    }
    let mut options = File::options();
    match start {
        WriteStart::Truncate => options.write(true).create(true).truncate(true),
        WriteStart::Append => options.append(true).create(true),
    };
    let mut file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    Ok(file.write_all(bytes)?)
}

/// Refuses what is there but no regular file. What is absent is left to the operation itself.
fn regular_or_absent(path: &Path) -> Result<(), Failure> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(Failure::Kind(ErrorKind::IsDirectory)),
        Ok(metadata) if !metadata.is_file() => Err(Failure::Kind(ErrorKind::NotRegular)),
        _ => Ok(()),
    }
}

enum Failure {
    Kind(ErrorKind),
    System(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

fn answer(result: Result<GuestFrame, Failure>) -> GuestFrame {
    match result {
        Ok(frame) => frame,
        Err(Failure::Kind(kind)) => GuestFrame::Error { kind, text: String::new() },
        Err(Failure::System(error)) => {
            let kind = match error.raw_os_error() {
                Some(libc::ENOENT) => ErrorKind::NotFound,
                Some(libc::EISDIR) => ErrorKind::IsDirectory,
                Some(libc::EACCES | libc::EPERM | libc::EROFS) => ErrorKind::Denied,
                Some(libc::ENOSPC | libc::EFBIG | libc::EDQUOT) => ErrorKind::NoSpace,
                Some(libc::ENXIO) => ErrorKind::NotRegular,
                _ => ErrorKind::Other,
            };
            GuestFrame::Error { kind, text: error.to_string() }
        }
    }
}
