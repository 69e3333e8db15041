//! Kept artefacts: bytes that do not belong into an event line, stored once under the hash of their content. Text is
//! compressed; pictures are already.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;

use fs_err as fs;
use sha2::{Digest, Sha256};

use super::write_atomically;

/// Of zstd: its own default, at which it is still as fast as a disk.
const COMPRESSION_LEVEL: i32 = 3;

const COMPRESSED: &str = ".zst";

/// Stores the bytes under `folder` and returns the file's name, `<sha256>.<extension>`, of text with `.zst` behind it.
pub(super) fn store_artefact(folder: &Path, extension: &str, content: &[u8]) -> io::Result<String> {
    let name = artefact_name(extension, content);
    let path = folder.join(&name);
    if !path.is_file() {
        fs::create_dir_all(folder)?;
        match name.ends_with(COMPRESSED) {
            true => write_atomically(&path, &zstd::encode_all(content, COMPRESSION_LEVEL)?)?,
            false => write_atomically(&path, content)?,
        }
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
    let hash = if is_text(extension) {
        let encoder = zstd::Encoder::new(file.as_file_mut(), COMPRESSION_LEVEL)?;
        let mut hashed = Hashed { inner: encoder, hash: Sha256::new() };
        write(&mut hashed)?;
        hashed.inner.finish()?;
        hashed.hash
    } else {
        let mut hashed = Hashed { inner: file.as_file_mut(), hash: Sha256::new() };
        write(&mut hashed)?;
        hashed.hash
    };
    file.as_file().sync_all()?;
    let name = name(&hash.finalize(), extension);
    file.persist(folder.join(&name)).map_err(|error| error.error)?;
    Ok(name)
}

/// The content of a stored artefact, by its name.
pub(super) fn read_artefact(folder: &Path, name: &str) -> io::Result<Vec<u8>> {
    // Names come out of files: none may lead anywhere else.
    if name.contains('/') || name.starts_with('.') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` names no artefact")));
    }
    let mut bytes = fs::read(folder.join(name))?;
    if name.ends_with(COMPRESSED) {
        let mut plain = Vec::new();
        zstd::Decoder::new(bytes.as_slice())?.read_to_end(&mut plain)?;
        bytes = plain;
    }
    Ok(bytes)
}

/// The name under which these bytes are stored.
pub fn artefact_name(extension: &str, content: &[u8]) -> String {
    name(&Sha256::digest(content), extension)
}

/// The same for a picture.
pub fn picture_name(media_type: &str, content: &[u8]) -> String {
    artefact_name(extension_of(media_type), content)
}

fn is_text(extension: &str) -> bool {
    matches!(extension, "txt" | "json")
}

struct Hashed<W> {
    inner: W,
    hash: Sha256,
}

impl<W: io::Write> io::Write for Hashed<W> {
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
    let mut name = String::with_capacity(64 + 1 + extension.len() + COMPRESSED.len());
    for byte in digest {
        // Writing to a String cannot fail.
        write!(name, "{byte:02x}").ok();
    }
    name.push('.');
    name.push_str(extension);
    if is_text(extension) {
        name.push_str(COMPRESSED);
    }
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
    fn text_is_compressed_under_the_hash_of_what_it_says_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let text = "the same line again\n".repeat(10_000);
        let at_once = store_artefact(folder.path(), "txt", text.as_bytes()).unwrap();
        let write = |sink: &mut dyn io::Write| {
            text.as_bytes().chunks(777).try_for_each(|chunk| sink.write_all(chunk))?;
            Ok(text.len() as u64)
        };
        assert_eq!(store_artefact_from(folder.path(), "txt", write).unwrap(), at_once);
        assert_eq!(at_once, artefact_name("txt", text.as_bytes()));
        let stored = fs::metadata(folder.path().join(&at_once)).unwrap().len();
        assert!(stored < text.len() as u64 / 100, "{stored} bytes");
        assert_eq!(read_artefact(folder.path(), &at_once).unwrap(), text.as_bytes());
        for foreign in ["../run.json", "a/b.txt", ".."] {
            assert!(read_artefact(folder.path(), foreign).is_err(), "{foreign}");
        }
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
