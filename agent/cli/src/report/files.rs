use std::path::PathBuf;

use super::{Figures, write_markdown, write_submission};
use crate::store::{RunDirectory, RunRecord, StoreError, write_atomically};

/// Writes `report.md` and `submission.jsonl` into the run; returns the path of the report.
pub fn write_files(run: &RunDirectory, record: &RunRecord, figures: &Figures) -> Result<PathBuf, StoreError> {
    let mut text = Vec::new();
    write_markdown(&mut text, run, record, figures)?;
    let report = run.path().join("report.md");
    write_atomically(&report, &text)?;
    text.clear();
    write_submission(&mut text, run, record)?;
    write_atomically(&run.path().join("submission.jsonl"), &text)?;
    Ok(report)
}
