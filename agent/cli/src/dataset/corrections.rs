//! Truths of a dataset that are known to be wrong, and what is right instead. They make a second score beside the
//! official one, which never changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fs_err as fs;
use serde::Deserialize;

use super::DatasetError;

/// One line of a corrections file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correction {
    pub task_id: String,
    /// Each of them is right; the truth of the dataset only if it is among them.
    pub answers: Vec<String>,
    /// Why.
    #[serde(default)]
    pub note: Option<String>,
    /// Who found it, where.
    #[serde(default)]
    pub source: Option<String>,
}

/// Corrections by task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Corrections(BTreeMap<String, Correction>);

impl Corrections {
    /// Reads JSON lines.
    pub fn read(path: &Path) -> Result<Self, DatasetError> {
        let text = fs::read_to_string(path)
            .map_err(|source| DatasetError::NoCorrections { path: path.to_owned(), source })?;
        let mut corrections = BTreeMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |reason: String| DatasetError::Corrections {
                path: path.to_owned(),
                line: number + 1,
                reason,
            };
            let correction: Correction =
                serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            if correction.answers.is_empty()
                || correction.answers.iter().any(|answer| answer.trim().is_empty())
            {
                return Err(wrong(
                    "`answers` must hold at least one answer, and none may be empty".to_owned(),
                ));
            }
            let task = correction.task_id.clone();
            if corrections.insert(task.clone(), correction).is_some() {
                return Err(wrong(format!("task `{task}` is corrected twice")));
            }
        }
        Ok(Self(corrections))
    }

    pub fn of(&self, task_id: &str) -> Option<&Correction> {
        self.0.get(task_id)
    }

    /// Fails when none of the tasks is among these: it is for another dataset.
    pub fn check(&self, path: &Path, tasks: &BTreeSet<&str>) -> Result<(), DatasetError> {
        if self.0.keys().any(|task| tasks.contains(task.as_str())) {
            return Ok(());
        }
        Err(DatasetError::Corrections {
            path: path.to_owned(),
            line: 1,
            reason: "none of its tasks is in the dataset".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Corrections, DatasetError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        Corrections::read(file.path())
    }

    #[test]
    fn a_line_names_a_task_and_what_is_right() {
        let text = "{\"task_id\": \"a\", \"answers\": [\"4\", \"four\"], \"note\": \"n\", \"source\": \"s\"}\n\n{\"task_id\": \"b\", \"answers\": [\"x\"]}\n";
        let corrections = read(text).unwrap();
        assert_eq!(corrections.of("a").unwrap().answers, ["4", "four"]);
        assert_eq!(corrections.of("c"), None);
        corrections.check(Path::new("f"), &BTreeSet::from(["b", "z"])).unwrap();
        assert!(corrections.check(Path::new("f"), &BTreeSet::from(["z"])).is_err());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let good = "{\"task_id\": \"a\", \"answers\": [\"4\"]}";
        for (line, words) in [
            ("{\"task_id\": \"b\", \"answers\": []}", "at least one answer"),
            ("{\"task_id\": \"b\", \"answers\": [\" \"]}", "at least one answer"),
            ("{\"task_id\": \"b\", \"answer\": [\"4\"]}", "unknown field `answer`"),
            (good, "corrected twice"),
            ("nonsense", "expected"),
        ] {
            let error = read(&format!("{good}\n{line}\n")).unwrap_err().to_string();
            assert!(error.contains("line 2") && error.contains(words), "{line}: {error}");
        }
    }
}
