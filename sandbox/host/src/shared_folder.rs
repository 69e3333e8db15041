//! A private folder of the host that a container shows before the files in it are known.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use tempfile::TempDir;

use crate::container::FILES_PATH;
use crate::owner::Owner;

/// Begins the name of every such folder.
const PREFIX: &str = "gaia-shared-";

/// Beside the files, never shown: who made the folder.
const OWNER_FILE: &str = "owner";

/// What is mounted.
const FILES_FOLDER: &str = "files";

/// Read by everybody: commands in the container may run as another user than root.
const READABLE: u32 = 0o444;

/// Removed, with the names in it, when dropped. The files themselves are the caller's and stay.
#[derive(Debug)]
pub(crate) struct SharedFolder {
    /// Only its owner may enter it on the host; the folder in it is what the container shows.
    outer: TempDir,
}

impl SharedFolder {
    pub(crate) fn create() -> io::Result<Self> {
        let only_us = PermissionsExt::from_mode(0o700);
        let outer = tempfile::Builder::new().prefix(PREFIX).permissions(only_us).tempdir()?;
        let owner = Owner::this_process();
        let text = format!("{}\n{}", owner.label(), owner.namespace_label());
        fs::write(outer.path().join(OWNER_FILE), text)?;
        let shared = Self { outer };
        make_folder(&shared.path())?;
        Ok(shared)
    }

    /// What to mount, and where to put files.
    pub(crate) fn path(&self) -> PathBuf {
        self.outer.path().join(FILES_FOLDER)
    }
}

/// Puts everything in a folder into another one: files as links where the file system and their mode allow, else as
/// copies that everybody may read; links as they are; pipes, sockets and devices not at all.
pub(crate) fn place(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            make_folder(&target)?;
            place(&source, &target)?;
        } else if kind.is_symlink() {
            fs_err::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_file() {
            // A link shares the mode of the original, which is not ours to change.
            let is_readable = entry.metadata()?.permissions().mode() & READABLE == READABLE;
            if !is_readable || fs::hard_link(&source, &target).is_err() {
                fs::copy(&source, &target)?;
                fs::set_permissions(&target, PermissionsExt::from_mode(READABLE))?;
            }
        }
    }
    Ok(())
}

/// The regular files of a folder and where a container shows them. A link counts as the file it leads to as long as
/// that is in the folder too.
pub(crate) fn regular_files(folder: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let root = fs::canonicalize(folder)?;
    let mut files = Vec::new();
    let mut folders = vec![(root.clone(), FILES_PATH.to_owned())];
    while let Some((folder, inside)) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let inside = format!("{inside}/{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push((path, inside));
            } else if kind.is_file() {
                files.push((path, inside));
            } else if kind.is_symlink()
                && let Ok(target) = fs::canonicalize(&path)
                && target.starts_with(&root)
                && target.is_file()
            {
                files.push((target, inside));
            }
        }
    }
    Ok(files)
}

/// Removes what processes left that died without a chance to.
pub(crate) fn remove_abandoned() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let Ok(text) = fs::read_to_string(entry.path().join(OWNER_FILE)) else { continue };
        let Some((label, namespace)) = text.split_once('\n') else { continue };
        let owner = Owner::from_labels(label, Some(&namespace.to_owned()));
        if owner.and_then(|owner| owner.is_alive()) == Some(false)
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            // In a shared temporary folder they may be another user's.
            tracing::debug!(%error, "an abandoned folder stays");
        }
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    // Whatever the umask says: others than root read it in the container.
    fs::set_permissions(path, PermissionsExt::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn files_are_linked_where_everybody_may_read_them_and_else_copied() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        for (name, mode) in [("open.csv", 0o644), ("sub/secret.csv", 0o600)] {
            fs::write(folder.path().join(name), name).unwrap();
            fs::set_permissions(folder.path().join(name), PermissionsExt::from_mode(mode)).unwrap();
        }
        fs_err::os::unix::fs::symlink("open.csv", folder.path().join("link.csv")).unwrap();
        let shared = SharedFolder::create().unwrap();
        place(folder.path(), &shared.path()).unwrap();

        let placed = |name: &str| fs::metadata(shared.path().join(name)).unwrap();
        let original = |name: &str| fs::metadata(folder.path().join(name)).unwrap();
        assert_eq!(placed("open.csv").ino(), original("open.csv").ino());
        assert_ne!(placed("sub/secret.csv").ino(), original("sub/secret.csv").ino());
        assert_eq!(placed("sub/secret.csv").mode() & 0o777, 0o444);
        assert_eq!(original("sub/secret.csv").mode() & 0o777, 0o600, "the original is as it was");
        assert_eq!(fs::read_to_string(shared.path().join("link.csv")).unwrap(), "open.csv");
        assert_eq!(fs::metadata(shared.outer.path()).unwrap().mode() & 0o777, 0o700);

        let path = shared.path();
        drop(shared);
        assert!(!path.exists());
        assert_eq!(fs::read_to_string(folder.path().join("sub/secret.csv")).unwrap(), "sub/secret.csv");
    }

    #[test]
    fn links_that_lead_out_of_the_folder_are_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/a"), "a").unwrap();
        fs_err::os::unix::fs::symlink("sub/a", folder.path().join("b")).unwrap();
        fs_err::os::unix::fs::symlink("/etc/passwd", folder.path().join("c")).unwrap();
        let mut inside: Vec<String> =
            regular_files(folder.path()).unwrap().into_iter().map(|(_, inside)| inside).collect();
        inside.sort();
        assert_eq!(inside, ["/shared_files/b", "/shared_files/sub/a"]);
    }

    #[test]
    fn only_the_folders_of_dead_owners_are_abandoned() {
        let mine = SharedFolder::create().unwrap();
        let dead = SharedFolder::create().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let this = Owner::this_process();
        let boot = this.label();
        let boot = boot.split(':').next().unwrap();
        let text = format!("{boot}:{pid}:1\n{}", this.namespace_label());
        fs::write(dead.outer.path().join(OWNER_FILE), text).unwrap();
        remove_abandoned();
        assert!(mine.path().exists() && !dead.path().exists());
    }
}
