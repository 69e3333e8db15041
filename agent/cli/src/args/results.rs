//! The arguments of the commands that say what came out of runs.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::StoredRunArguments;
use crate::export::Table;

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

#[derive(Debug, Default, Args)]
pub struct ViewArguments {
    /// A run (its path, the shortest unique prefix of its id, or `last`) or a folder of runs; all runs of --out without it
    #[arg(value_name = "RUN|DIR")]
    pub what: Option<String>,

    /// Serve at http://ADDR/, such as 127.0.0.1:8000 (port 0 picks a free one); 127.0.0.1:7979 without it. An address
    /// that other machines can reach needs --token-env
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,

    /// Environment variable that holds the token without which nothing is shown
    #[arg(long, value_name = "NAME")]
    pub token_env: Option<String>,

    /// Host name that browsers may use, beside localhost and addresses (repeatable)
    #[arg(long, value_name = "HOST")]
    pub allowed_host: Vec<String>,

    /// Folder that holds the runs
    #[arg(long, value_name = "DIR", env = "GAIA_OUT", default_value = crate::store::DEFAULT_RUNS_FOLDER)]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct ExportArguments {
    /// Path of a run, the shortest unique prefix of its id, or `last`
    pub run: String,

    /// What to write
    #[arg(long, value_enum)]
    pub format: ExportFormat,

    /// Which table of the run, for csv and parquet; samples without it
    #[arg(long, value_enum)]
    pub table: Option<Table>,

    /// File to write; without it stdout
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,

    /// Replace the file if it is there
    #[arg(long, requires = "out")]
    pub overwrite: bool,

    /// Public age key (`age1…`) to which a sealed recording is encrypted
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,

    /// Write a submission of a run that is not whole: what is missing counts as wrong
    #[arg(long)]
    pub partial: bool,

    /// Folder that holds the runs
    #[arg(long, value_name = "DIR", env = "GAIA_OUT", default_value = crate::store::DEFAULT_RUNS_FOLDER)]
    pub runs: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// JSON lines that the leaderboard takes
    Submission,
    /// A table, by RFC 4180
    Csv,
    /// One document: samples with their turns
    Json,
    /// A table
    Parquet,
    /// A log for Inspect (`inspect view`), whose samples hold the truths: not to be made public
    Inspect,
    /// Traces for trace tools: OTLP JSON by the GenAI and OpenInference conventions, a line for each sample
    Otel,
    /// The recording, encrypted to --key and without the truths, for others to replay
    Sealed,
}

#[derive(Debug, Args)]
pub struct MergeArguments {
    /// Parts of one run: paths, or the shortest unique prefixes of their ids
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,

    /// Folder that holds the parts
    #[arg(long = "runs", value_name = "DIR", env = "GAIA_OUT", default_value = crate::store::DEFAULT_RUNS_FOLDER)]
    pub runs_folder: PathBuf,

    /// Folder that gets the whole; the one that holds the parts when it is not named
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}
