use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct UnsealArguments {
    /// File that `gaia export --format sealed` wrote
    pub file: PathBuf,

    /// File with the secret key to which it is sealed, as `age-keygen` writes it
    #[arg(long, value_name = "FILE")]
    pub identity: PathBuf,

    /// Folder that holds the runs
    #[arg(long, value_name = "DIR", env = "GAIA_OUT", default_value = crate::store::DEFAULT_RUNS_FOLDER)]
    pub out: PathBuf,
}
