//! What a run says: figures, the table, the report, the submission. Everything is computed from `run.json` and the
//! `result.json` files, so it can be written again at any time.

mod csv;
mod failures;
mod figures;
mod files;
mod guide;
mod markdown;
mod observed;
mod sections;
mod submission;
mod table;
#[cfg(test)]
mod test_run;

pub use csv::write_csv;
pub use figures::{Figures, Metric, Subset};
pub use files::write_files;
pub use guide::write_guide;
pub use markdown::write_markdown;
pub use submission::{Submission, shortcomings};
pub use table::{REHEARSAL_NOTE, results_table};
