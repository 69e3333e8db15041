//! Whole files or none: what is written here is either the old or the new content after any crash.

use std::io::{self, Write};
use std::path::Path;

use fs_err as fs;

/// Writes beside `path`, syncs, renames over it and syncs the folder.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Two commands may write a report at once, and two samples what they have in common.
    let writer = format!("{}-{:?}", std::process::id(), std::thread::current().id());
    let temporary = folder.join(format!(".{name}.{writer}.new"));
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

/// Removes what writers that were killed left half written: temporaries have a leading dot, and nothing else does.
/// Nobody else may write into the folder meanwhile.
pub(super) fn remove_half_written(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with('.') && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
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
    fn many_may_write_the_same_file_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..20).for_each(|_| write_atomically(&path, b"same").unwrap()));
            }
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), "same");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_killed_writer_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        for name in [".a.json.77.new", ".tmpAb3", "a.json"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        remove_half_written(folder.path()).unwrap();
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["a.json"]);
        remove_half_written(&folder.path().join("absent")).unwrap();
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
