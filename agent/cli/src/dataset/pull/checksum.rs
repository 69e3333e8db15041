use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// What a hub says about the content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Checksum {
    /// Of the content: Git LFS at Hugging Face, everything at ModelScope.
    Sha256(String),
    /// Of the content as a git object, for what is not in LFS: SHA-1 over `blob LENGTH\0` and the content.
    GitBlob(String),
}

impl Checksum {
    /// Whether a file has it; the one it has instead when not.
    pub(super) fn check(&self, file: &Path) -> io::Result<Result<(), String>> {
        let (expected, found) = match self {
            Self::Sha256(expected) => (expected, digest(Sha256::new(), file)?),
            Self::GitBlob(expected) => {
                let bytes = fs_err::metadata(file)?.len();
                (expected, digest(sha1::Sha1::new_with_prefix(format!("blob {bytes}\0")), file)?)
            }
        };
        Ok(if expected.eq_ignore_ascii_case(&found) { Ok(()) } else { Err(found) })
    }
}

impl std::fmt::Display for Checksum {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sha256(hash) => write!(formatter, "SHA-256 {hash}"),
            Self::GitBlob(hash) => write!(formatter, "git object {hash}"),
        }
    }
}

fn digest(mut digest: impl Digest, file: &Path) -> io::Result<String> {
    let mut file = fs_err::File::open(file)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => digest.update(&buffer[..count]),
        }
    }
    Ok(digest.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_those_of_the_tools() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs_err::write(&file, "hello\n").unwrap();
        // `printf 'hello\n' | git hash-object --stdin` and `sha256sum`.
        let git = Checksum::GitBlob("ce013625030ba8dba906f756967f9e9ca394464a".to_owned());
        let sha =
            Checksum::Sha256("5891B5B522D5DF086D0FF0B110FBD9D21BB4FC7163AF34D08286A2E846F6BE03".to_owned());
        assert_eq!(git.check(&file).unwrap(), Ok(()));
        assert_eq!(sha.check(&file).unwrap(), Ok(()));
        fs_err::write(&file, "hallo\n").unwrap();
        assert!(git.check(&file).unwrap().is_err() && sha.check(&file).unwrap().is_err());
    }
}
