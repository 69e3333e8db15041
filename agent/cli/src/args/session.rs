use std::num::NonZeroUsize;

use clap::{Args, Subcommand};

use super::StoredRunArguments;

/// What a command that works on a run prints.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,

    /// Print everything that happens as JSON lines, each at once; the result goes to stderr
    #[arg(long, conflicts_with = "json")]
    #[cfg_attr(feature = "nats", arg(conflicts_with = "nats"))]
    pub events: bool,
}

#[derive(Debug, Args)]
pub struct CtlArguments {
    #[command(flatten)]
    pub stored: StoredRunArguments,

    #[command(subcommand)]
    pub order: CtlOrder,

    /// Print how the run stands as JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum CtlOrder {
    /// Start no new samples; those that run go on to their end
    Pause,
    /// Start samples again
    Resume,
    /// End a task now or never begin it: it has no outcome in this session (exit code 3), and `gaia resume` runs it anew
    Cancel {
        /// Id of the task, or the beginning of it
        task: String,
    },
    /// Work on so many samples at the same time from now on; what runs goes on
    Concurrency {
        #[arg(value_name = "N")]
        samples: NonZeroUsize,
    },
    /// Say how the run stands and what each running sample does
    Status,
}
