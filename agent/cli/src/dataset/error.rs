use std::fmt;
use std::path::PathBuf;

use crate::config::Split;

/// Rows shown before the rest is only counted.
const MAX_SHOWN_PROBLEMS: usize = 10;

/// The dataset or the selection from it cannot be used. All are the user's to mend: exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The folder is there or not, but holds no metadata of the split.
    #[error("{}", no_metadata(.root, *.split, .looked_for, .present))]
    NoMetadata { root: PathBuf, split: Split, looked_for: Vec<PathBuf>, present: Option<Vec<String>> },
    #[error("failed to read the dataset")]
    Unreadable(#[from] std::io::Error),
    /// A metadata file is no metadata file.
    #[error("failed to read the dataset: `{}`: {message}", .file.display())]
    BadFile { file: PathBuf, message: String },
    /// One or more rows are wrong; all of them are listed.
    #[error("{}", rows(.0))]
    Rows(Vec<RowProblem>),
    /// Two metadata files of one split do not say the same.
    #[error(
        "failed to read the dataset: `{}` and `{}` disagree: {difference}\nhint: remove the older of the two",
        .first.display(), .second.display()
    )]
    Disagreement { first: PathBuf, second: PathBuf, difference: String },
    #[error("failed to read the corrections in `{}`, line {line}: {reason}", .path.display())]
    Corrections { path: PathBuf, line: usize, reason: String },
    #[error("failed to read the corrections in `{}`", .path.display())]
    NoCorrections { path: PathBuf, source: std::io::Error },
    #[error("failed to select samples: no task `{task_id}` in the {split} split{}", suggestion(.nearest))]
    UnknownTask { task_id: String, split: Split, nearest: Option<String> },
    #[error("failed to select samples: of {available} samples none is left with {choices}")]
    NothingSelected { available: usize, choices: String },
}

/// What is wrong with one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowProblem {
    pub file: PathBuf,
    /// Line of a text file or row of a table, from 1.
    pub position: Position,
    pub task_id: Option<String>,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    Line(usize),
    Row(usize),
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Line(line) => write!(formatter, "line {line}"),
            Position::Row(row) => write!(formatter, "row {row}"),
        }
    }
}

impl fmt::Display for RowProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`, {}", self.file.display(), self.position)?;
        if let Some(task_id) = &self.task_id {
            write!(formatter, ", task `{}`", task_id.escape_debug())?;
        }
        write!(formatter, ": {}", self.message)
    }
}

fn rows(problems: &[RowProblem]) -> String {
    let shown = problems.iter().take(MAX_SHOWN_PROBLEMS).map(RowProblem::to_string).collect::<Vec<_>>();
    let more = problems.len().saturating_sub(MAX_SHOWN_PROBLEMS);
    let mut text = format!("failed to read the dataset: {}", shown.join("\n  "));
    if more > 0 {
        text.push_str(&format!("\n  … and {more} more"));
    }
    text
}

fn no_metadata(
    root: &std::path::Path,
    split: Split,
    looked_for: &[PathBuf],
    present: &Option<Vec<String>>,
) -> String {
    let Some(present) = present else {
        return format!("failed to open the dataset: there is no folder `{}`", root.display());
    };
    let looked_for: Vec<String> = looked_for.iter().map(|path| format!("\n  `{}`", path.display())).collect();
    let found = match present.len() {
        0 => "the folder is empty".to_owned(),
        _ => format!("the folder holds {}", present.join(", ")),
    };
    format!(
        "failed to open the dataset: no metadata of the {split} split in `{}`: {found}\nlooked for:{}\n\
         hint: the path is that of a GAIA snapshot, of its `2023` folder or of the folder of the split",
        root.display(),
        looked_for.concat()
    )
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!(", did you mean `{nearest}`?")).unwrap_or_default()
}
