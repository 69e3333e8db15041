//! Kept artefacts: bytes that do not belong into an event line, stored once under the hash of their content.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use fs_err as fs;
use sha2::{Digest, Sha256};

use super::write_atomically;

/// Stores the bytes under `folder` and returns the file's name, `<sha256>.<extension>`.
pub(super) fn store_artefact(folder: &Path, extension: &str, content: &[u8]) -> io::Result<String> {
    let name = name(&Sha256::digest(content), extension);
    let path = folder.join(&name);
    if !path.is_file() {
        fs::create_dir_all(folder)?;
        write_atomically(&path, content)?;
    }
    Ok(name)
}

/// The same for what another writes, which may be long.
pub(super) fn store_artefact_from(
    folder: &Path,
    extension: &str,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<u64>,
) -> io::Result<String> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let mut hashed = Hashed { inner: file.as_file_mut(), hash: Sha256::new() };
    write(&mut hashed)?;
    let digest = hashed.hash.finalize();
    file.as_file().sync_all()?;
    let name = name(&digest, extension);
    file.persist(folder.join(&name)).map_err(|error| error.error)?;
    Ok(name)
}

struct Hashed<'a> {
    inner: &'a mut std::fs::File,
    hash: Sha256,
}

impl io::Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn name(digest: &[u8], extension: &str) -> String {
    let mut name = String::with_capacity(64 + 1 + extension.len());
    for byte in digest {
        // Writing to a String cannot fail.
        write!(name, "{byte:02x}").ok();
    }
    name.push('.');
    name.push_str(extension);
    name
}

/// The usual extension of a media type; `bin` when it has none that is plain.
pub(super) fn extension_of(media_type: &str) -> &str {
    match media_type {
        "image/jpeg" => "jpg",
        "image/svg+xml" => "svg",
        "text/plain" => "txt",
        other => other
            .rsplit('/')
            .next()
            .filter(|subtype| {
                (1..=8).contains(&subtype.len()) && subtype.bytes().all(|byte| byte.is_ascii_alphanumeric())
            })
            .unwrap_or("bin"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_are_stored_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = store_artefact(folder.path(), "png", b"abc").unwrap();
        let second = store_artefact(folder.path(), "png", b"abc").unwrap();
        assert_eq!(first, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.png");
        assert_eq!(first, second);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_written_in_pieces_has_the_same_name() {
        let folder = tempfile::tempdir().unwrap();
        let write = |sink: &mut dyn io::Write| {
            sink.write_all(b"a")?;
            sink.write_all(b"bc")?;
            Ok(3)
        };
        let written = store_artefact_from(folder.path(), "png", write).unwrap();
        assert_eq!(written, store_artefact(folder.path(), "png", b"abc").unwrap());
        assert_eq!(fs::read(folder.path().join(written)).unwrap(), b"abc");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_extension_never_leaves_the_folder() {
        assert_eq!(extension_of("image/png"), "png");
        assert_eq!(extension_of("image/jpeg"), "jpg");
        assert_eq!(extension_of("a/.."), "bin");
        assert_eq!(extension_of("application/vnd.ms-excel"), "bin");
        assert_eq!(extension_of(""), "bin");
    }
}
