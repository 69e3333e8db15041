//! The arguments of the commands that say what came out of runs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::StoredRunArguments;

#[derive(Debug, Args)]
pub struct ReportArguments {
    #[command(flatten)]
    pub stored: StoredRunArguments,

    /// What to print; without it the table
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Md,
    /// One file that needs nothing else
    Html,
    Json,
}

#[derive(Debug, Args)]
pub struct CompareArguments {
    /// Two runs or more: each by its path, the shortest unique prefix of its id, or `last`. The first is what the others
    /// are compared with, on the tasks that both were asked
    #[arg(required = true, num_args = 2..)]
    pub runs: Vec<String>,

    /// Folder that holds the runs
    #[arg(long, value_name = "DIR", env = "GAIA_OUT", default_value = crate::store::DEFAULT_RUNS_FOLDER)]
    pub out: PathBuf,

    /// What to print; without it tables
    #[arg(long, value_enum)]
    pub format: Option<CompareFormat>,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    Md,
    /// One file that needs nothing else
    Html,
    Json,
}
