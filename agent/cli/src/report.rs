//! What a run says: figures, the table, the report, the submission. Everything is computed from `run.json` and the
//! `result.json` files, so it can be written again at any time.

mod corrected;
mod failures;
mod figures;
mod files;
mod groups;
mod guide;
mod html;
mod markdown;
mod observed;
mod published;
mod ratings;
mod rows;
mod sections;
mod submission;
mod table;
#[cfg(test)]
pub(crate) mod test_run;
mod trace;

pub(crate) use failures::class_of;
pub(crate) use figures::is_withheld;
pub use figures::{Figures, Metric, Subset};
pub use files::write_files;
pub use groups::{Division, Group, LevelGroup};
pub use guide::write_guide;
pub use html::write_html;
pub(crate) use markdown::cell;
pub use markdown::write_markdown;
pub use rows::{End, SampleRow, Verdict};
pub use submission::{Submission, shortcomings};
pub(crate) use table::TABLE_WIDTH;
pub use table::{REHEARSAL_NOTE, results_table};
