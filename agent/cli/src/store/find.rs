use std::path::{Path, PathBuf};

use fs_err as fs;

use super::StoreError;
use super::format::RUN_FILE;

/// How many run ids an error lists.
const LISTED_RUNS: usize = 5;

/// Finds the run that a person named: a path, the shortest unique prefix of an id in `runs`, or `last`.
pub fn find_run(name: &str, runs: &Path) -> Result<PathBuf, StoreError> {
    let as_path = Path::new(name);
    if as_path.join(RUN_FILE).is_file() {
        return Ok(as_path.to_owned());
    }
    let ids = run_ids(runs)?;
    let matching: Vec<&String> = match name {
        "last" => ids.last().into_iter().collect(),
        id if ids.iter().any(|known| known == id) => ids.iter().filter(|known| *known == id).collect(),
        "" => Vec::new(),
        prefix => ids.iter().filter(|id| id.starts_with(prefix)).collect(),
    };
    match matching.as_slice() {
        [id] => Ok(runs.join(id)),
        [] if ids.is_empty() => Err(StoreError::NotFound(format!(
            "there is no run in `{}`; name another folder with --out",
            runs.display()
        ))),
        [] => {
            let newest: Vec<_> = ids.iter().rev().take(LISTED_RUNS).map(String::as_str).collect();
            Err(StoreError::NotFound(format!(
                "no run in `{}` has an id that starts with `{name}`; the newest are {}",
                runs.display(),
                newest.join(", ")
            )))
        }
        several => {
            let shown: Vec<_> = several.iter().take(LISTED_RUNS).map(|id| id.as_str()).collect();
            Err(StoreError::NotFound(format!(
                "`{name}` could mean {} runs: {}{}; type more of the id",
                several.len(),
                shown.join(", "),
                if several.len() > shown.len() { ", …" } else { "" }
            )))
        }
    }
}

/// Ids of all runs in a folder, oldest first.
pub fn run_ids(runs: &Path) -> Result<Vec<String>, StoreError> {
    if !runs.is_dir() {
        return Ok(Vec::new());
    }
    let mut ids = Vec::new();
    for entry in fs::read_dir(runs)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A leading dot marks a run that was never completely made.
        if !name.starts_with('.') && entry.path().join(RUN_FILE).is_file() {
            ids.push(name);
        }
    }
    ids.sort();
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(ids: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for id in ids {
            fs::create_dir_all(folder.path().join(id)).unwrap();
            fs::write(folder.path().join(id).join(RUN_FILE), "{}").unwrap();
        }
        folder
    }

    #[test]
    fn takes_a_unique_prefix_an_exact_id_and_last() {
        let folder = runs(&["20250101T000000Z-a", "20250101T000000Z-ab", "20250202T000000Z-c"]);
        let find =
            |name: &str| find_run(name, folder.path()).map(|path| path.file_name().unwrap().to_owned());
        assert_eq!(find("202502").unwrap(), "20250202T000000Z-c");
        assert_eq!(find("20250101T000000Z-a").unwrap(), "20250101T000000Z-a");
        assert_eq!(find("last").unwrap(), "20250202T000000Z-c");
        assert!(find("2025").unwrap_err().to_string().contains("could mean 3 runs"));
        assert!(find("").unwrap_err().to_string().contains("no run"));
        assert!(find("1999").unwrap_err().to_string().contains("20250202T000000Z-c"));
    }

    #[test]
    fn ignores_folders_that_are_not_complete_runs() {
        let folder = runs(&["20250101T000000Z-a", ".20250909T000000Z-b"]);
        fs::create_dir_all(folder.path().join("20260101T000000Z-empty")).unwrap();
        assert!(find_run("last", folder.path()).unwrap().ends_with("20250101T000000Z-a"));
    }

    #[test]
    fn a_path_wins_and_an_absent_folder_is_explained() {
        let folder = runs(&["x"]);
        let path = folder.path().join("x");
        assert_eq!(find_run(path.to_str().unwrap(), Path::new("/nowhere")).unwrap(), path);
        let error = find_run("last", Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.contains("--out"), "{error}");
    }
}
