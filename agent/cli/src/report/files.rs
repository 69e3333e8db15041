use std::path::PathBuf;

use super::{Figures, Submission, shortcomings, write_guide, write_html, write_markdown};
use crate::store::{RunDirectory, RunRecord, StoreError, write_atomically};

/// Writes `report.md`, `report.html`, `submission.jsonl` and `SUBMISSION_GUIDE.md` into the run; returns the path of the page.
pub fn write_files(run: &RunDirectory, record: &RunRecord, figures: &Figures) -> Result<PathBuf, StoreError> {
    let mut text = Vec::new();
    write_markdown(&mut text, run, record, figures)?;
    write_atomically(&run.path().join("report.md"), &text)?;
    text.clear();
    write_html(&mut text, record, figures)?;
    let report = run.path().join("report.html");
    write_atomically(&report, &text)?;
    let submission = Submission::of_run(run, record)?;
    write_atomically(&run.path().join("submission.jsonl"), &submission.text)?;
    text.clear();
    write_guide(&mut text, record, figures, &submission, &shortcomings(run, record)?)?;
    write_atomically(&run.path().join("SUBMISSION_GUIDE.md"), &text)?;
    Ok(report)
}
