use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::dataset::locate::Snapshot;
use crate::dataset::metadata::{LFS_ADVICE, LFS_POINTER};
use crate::dataset::row::Row;
use crate::dataset::sample::Sample;

/// Puts a copy of the sample's own attachment, and nothing else, into `dir` under its file name, readable by
/// everybody and writable by nobody. `None` when the sample has no attachment.
///
/// A copy and not a hard link: modes belong to the file and not to the name, and the dataset must stay as it
/// is whatever a tool does with the folder.
pub fn stage_attachment(sample: &Sample, dir: &Path) -> io::Result<Option<PathBuf>> {
    let (Some(source), Some(name)) = (&sample.file, &sample.file_name) else {
        return Ok(None);
    };
    let target = dir.join(name);
    let mut reader = fs_err::File::open(source)?;
    let mut options = fs_err::OpenOptions::new();
    options.write(true).create_new(true);
    fs_err::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut writer = options.open(&target)?;
    io::copy(&mut reader, &mut writer)?;
    writer.flush()?;
    fs_err::set_permissions(&target, std::fs::Permissions::from_mode(0o444))?;
    Ok(Some(target))
}

/// An attachment that is there.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) sha256: [u8; 32],
}

/// Finds the row's attachment: `file_path` from the snapshot's root or from the folder of the split, else
/// `file_name` in the folder of the split.
pub(super) fn resolve(snapshot: &Snapshot, row: &Row) -> Result<Option<Found>, String> {
    let Some(name) = &row.file_name else {
        return Ok(None);
    };
    let mut candidates = Vec::new();
    if let Some(path) = &row.file_path {
        let path = Path::new(path);
        let parts: Vec<Component<'_>> = path.components().collect();
        if parts.contains(&Component::ParentDir) {
            return Err(format!("`file_path` `{}` leaves the dataset", path.display()));
        }
        // The old loading script wrote absolute paths of the machine it ran on: only the name counts then.
        if !path.is_absolute() {
            candidates.push(snapshot.root.join(path));
            candidates.push(snapshot.split_dir.join(path));
        }
    }
    candidates.push(snapshot.split_dir.join(name));
    candidates.dedup();
    let Some(path) = candidates.iter().find(|path| path.is_file()) else {
        let looked_for: Vec<String> = candidates.iter().map(|path| format!("`{}`", path.display())).collect();
        return Err(match candidates.iter().find(|path| path.exists()) {
            Some(path) => format!("attachment `{}` is not a regular file", path.display()),
            None => format!("attachment `{name}` is missing: looked for {}", looked_for.join(" and ")),
        });
    };
    check_boundary(snapshot, path)?;
    let sha256 = hash(path).map_err(|error| format!("attachment cannot be read: {error}"))?;
    let sha256 = sha256.ok_or_else(|| format!("attachment `{}` is {LFS_ADVICE}", path.display()))?;
    Ok(Some(Found { path: path.clone(), sha256 }))
}

/// Follows links. They must stay in the snapshot, or lead to the blobs of a Hugging Face cache, which lays
/// snapshots out as links: `snapshots/<revision>/…` to `blobs/<hash>`.
fn check_boundary(snapshot: &Snapshot, path: &Path) -> Result<(), String> {
    let real = |path: &Path| fs_err::canonicalize(path).map_err(|error| error.to_string());
    let root = real(&snapshot.root)?;
    let target = real(path)?;
    let blobs = match (root.parent(), root.parent().and_then(Path::parent)) {
        (Some(parent), Some(cache)) if parent.ends_with("snapshots") => Some(cache.join("blobs")),
        _ => None,
    };
    if target.starts_with(&root) || blobs.is_some_and(|blobs| target.starts_with(blobs)) {
        Ok(())
    } else {
        Err(format!("attachment `{}` is a link that leaves the dataset", path.display()))
    }
}

/// `None` for a Git LFS pointer.
fn hash(path: &Path) -> io::Result<Option<[u8; 32]>> {
    const BUFFER_BYTES: usize = 64 * 1024;
    let mut file = fs_err::File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut first = true;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(Some(digest.finalize().into()));
        }
        if std::mem::take(&mut first) && buffer[..count].starts_with(LFS_POINTER) {
            return Ok(None);
        }
        digest.update(&buffer[..count]);
    }
}
