//! Whole files or none: what is written here is either the old or the new content after any crash.

use std::io::{self, Write};
use std::path::Path;

use fs_err as fs;

/// Writes beside `path`, syncs, renames over it and syncs the folder.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // One writer a run (the lock sees to it), but reports may be written by two commands at once.
    let temporary = folder.join(format!(".{name}.{}.new", std::process::id()));
    let written = (|| {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_folder(folder)
    })();
    if written.is_err() {
        // The error is the news; a left-over temporary is ignored by every reader.
        fs::remove_file(&temporary).ok();
    }
    written
}

/// Makes a rename or a new entry in the folder survive a power cut.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_file_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        // A folder in the way makes the rename fail after the temporary was written.
        let path = folder.path().join("taken");
        fs::create_dir_all(path.join("child")).unwrap();
        write_atomically(&path, b"new").unwrap_err();
        assert!(path.join("child").is_dir());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
