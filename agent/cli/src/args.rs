//! The command line as typed. What it means is decided in `command`.

mod dataset;
#[cfg(feature = "nats")]
pub mod fleet;
mod results;
mod sealed;
mod session;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::exit_code;
use crate::shard::ShardArgument;

pub use dataset::{DatasetArguments, DatasetCommand, PullArguments};
pub use results::{
    CompareArguments, CompareFormat, ExportArguments, ExportFormat, MergeArguments, ReportArguments,
    ReportFormat, ViewArguments,
};

pub use sealed::UnsealArguments;
pub use session::{CtlArguments, CtlOrder, OutputArguments};

/// Runs the GAIA benchmark with an agent that speaks only MCP.
#[derive(Debug, Parser)]
#[command(name = "gaia", version, about, after_help = exit_code::HELP, max_term_width = 110)]
pub struct Arguments {
    /// Say more on stderr; twice for everything (GAIA_LOG takes a filter instead, such as `gaia=debug`)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// No progress on stderr, only warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Work through a dataset and score the answers; the folder of a run in the place of a config finishes that run
    Run(RunArguments),
    /// Finish what is missing in a run; the truth takes no part in deciding what that is
    Resume(ResumeArguments),
    /// Pause, resume, slow down or ask after a run that another process works on
    Ctl(CtlArguments),
    /// Play a run again from its recording, without a network or Docker, and say where it first goes another way
    Replay(ReplayArguments),
    /// Score stored answers again, without a model or tools; or score pairs of answer and truth
    Score(ScoreArguments),
    /// Print the report of a run and write its files anew
    Report(ReportArguments),
    /// Say what changed between runs, who won which task, and whether the difference means anything
    Compare(CompareArguments),
    /// Look at runs in a browser: lists, trajectories, search; live runs too
    View(ViewArguments),
    /// Put the parts of a run that were worked on apart (`gaia run --shard`) together into one run
    Merge(MergeArguments),
    /// Write the answers of a run for other programs
    Export(ExportArguments),
    /// Make a run of a sealed recording and print its folder
    Unseal(UnsealArguments),
    /// List every tool that the model would be offered, and why others are hidden
    Tools(ToolsArguments),
    /// Call one tool by hand and print what the model would be shown
    Call(CallArguments),
    /// Serve the allow-listed tools of all servers as one MCP server, on stdin and stdout or over HTTP
    Host(HostArguments),
    /// Log in to a server that wants OAuth, once, in a browser
    Login(LoginArguments),
    /// Look at a dataset
    #[command(subcommand)]
    Dataset(DatasetCommand),
    /// Check whether this machine can run the benchmark
    Doctor(DoctorArguments),
    /// Remove containers whose owner is gone
    Clean(CleanArguments),
    /// Work on samples of runs that others began with `gaia run --nats`, until told to stop
    #[cfg(feature = "nats")]
    Worker(fleet::WorkerArguments),
    /// List the workers at a NATS server, what they do and when they last said so
    #[cfg(feature = "nats")]
    Workers(fleet::WorkersArguments),
    /// Print the JSON Schema of the config
    Schema,
    /// Print a completion script for a shell
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
}

/// Which file to read and what overrides it.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArguments {
    /// Config file (TOML), or a JSON file with the MCP servers of another host
    pub config: Option<PathBuf>,

    /// Set any config key, such as `--set agent.max_steps=20`; the value is TOML, else a string
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub config: ConfigArguments,

    /// Folder of a GAIA snapshot
    #[arg(long, value_name = "PATH")]
    pub dataset: Option<PathBuf>,

    /// Split of the dataset: validation or test
    #[arg(long, value_name = "SPLIT")]
    pub split: Option<String>,

    /// Only these levels, such as `1,2`
    #[arg(long = "level", value_name = "LEVELS", value_delimiter = ',')]
    pub levels: Vec<u8>,

    /// Only the first N of the selected samples
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,

    /// Only this task; may be given more than once
    #[arg(long = "task", value_name = "ID")]
    pub tasks: Vec<String>,

    /// Only part I of N, which the ids of the tasks decide; `gaia merge` puts the parts together. N alone takes I from
    /// JOB_COMPLETION_INDEX (Kubernetes) or SLURM_ARRAY_TASK_ID
    #[arg(long, value_name = "I/N")]
    pub shard: Option<ShardArgument>,

    /// Runs of each sample
    #[arg(long, value_name = "N")]
    pub epochs: Option<u32>,

    /// Samples worked on at the same time
    #[arg(long, value_name = "N")]
    pub concurrency: Option<usize>,

    /// Model name as the endpoint knows it
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,

    /// Base URL of an OpenAI-compatible endpoint, ending before `/chat/completions`
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,

    /// How a sample is worked on: react, plan, vote, verify or delegate
    #[arg(long, value_name = "NAME")]
    pub strategy: Option<String>,

    /// Who works instead of gaia's loop: `command:PROGRAM ARGS`, which is started for each sample and gets the tools
    /// over MCP, or `human`
    #[arg(long, value_name = "AGENT", conflicts_with = "strategy")]
    pub agent: Option<String>,

    /// Folder that holds the runs
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// First a few samples of each level, then level after level, each only when the one before was good enough
    /// (thresholds: `[run.staged]`)
    #[arg(long)]
    pub staged: bool,

    #[cfg(feature = "nats")]
    #[command(flatten)]
    pub fleet: fleet::FleetArguments,

    /// Check everything, start every server once, say what would run, and stop
    #[arg(long, conflicts_with = "events")]
    pub dry_run: bool,

    #[command(flatten)]
    pub output: OutputArguments,
}

/// How commands find a stored run.
#[derive(Debug, Clone, Args)]
pub struct StoredRunArguments {
    /// Path of a run, the shortest unique prefix of its id, or `last`
    pub run: String,

    /// Folder that holds the runs
    #[arg(long, value_name = "DIR", env = "GAIA_OUT", default_value = crate::store::DEFAULT_RUNS_FOLDER)]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct ResumeArguments {
    #[command(flatten)]
    pub stored: StoredRunArguments,

    /// Also run these samples again: `errors`, `no-answer`, or the id of a task; may be repeated
    #[arg(long, value_name = "WHICH", value_parser = rerun)]
    pub rerun: Vec<Rerun>,

    /// Where the settings would make answers incomparable with those the run has: begin a new run with the same
    /// questions and these settings
    #[arg(long, conflicts_with = "rerun")]
    pub as_new: bool,

    /// Let a sample that was lost in its middle go on from its last whole turn: what its tools did is done again, and
    /// where that ends in another way the sample begins anew
    #[arg(long, conflicts_with = "as_new")]
    #[cfg_attr(feature = "nats", arg(conflicts_with = "nats"))]
    pub continue_samples: bool,

    /// Samples worked on at the same time
    #[arg(long, value_name = "N")]
    pub concurrency: Option<usize>,

    /// Where the model is reached from now on
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,

    /// Another model, which is another run: with `--as-new`
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,

    #[cfg(feature = "nats")]
    #[command(flatten)]
    pub fleet: fleet::FleetArguments,

    /// Set a config key for the rest of the run
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,

    #[command(flatten)]
    pub output: OutputArguments,
}

#[derive(Debug, Args)]
pub struct ReplayArguments {
    #[command(flatten)]
    pub stored: StoredRunArguments,

    /// Only this task; may be given more than once
    #[arg(long = "task", value_name = "ID")]
    pub tasks: Vec<String>,

    /// Who replies: the recording, or the model itself, whose calls are answered where the recording has the same ones
    #[arg(long, value_enum, default_value_t = Side::Recorded)]
    pub model: Side,

    /// Who answers calls: the recording, or the servers themselves
    #[arg(long, value_enum, default_value_t = Side::Recorded)]
    pub tools: Side,

    /// Set a config key, to see what it changes
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// One of the two sides that the loop stands between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Side {
    Recorded,
    Live,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rerun {
    /// Samples that ended in an error
    Errors,
    /// Samples that ended without an answer
    NoAnswer,
    /// Every epoch of this task, however it ended
    Task(String),
}

/// Never fails here: whether the run has such a task is known later.
#[allow(clippy::unnecessary_wraps, reason = "clap wants a result")]
fn rerun(text: &str) -> Result<Rerun, String> {
    Ok(match text {
        "errors" => Rerun::Errors,
        "no-answer" => Rerun::NoAnswer,
        task => Rerun::Task(task.to_owned()),
    })
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["run", "pairs"]))]
pub struct ScoreArguments {
    /// Path of a run, the shortest unique prefix of its id, or `last`
    pub run: Option<String>,

    /// Score JSON lines {"pred": string or null, "truth": string}; `-` reads stdin
    #[arg(long, value_name = "FILE")]
    pub pairs: Option<PathBuf>,

    /// Scorer for --pairs
    #[arg(long, value_enum, default_value_t = ScorerName::Official, requires = "pairs")]
    pub scorer: ScorerName,

    /// Folder that holds the runs
    #[arg(long, value_name = "DIR", env = "GAIA_OUT", default_value = crate::store::DEFAULT_RUNS_FOLDER)]
    pub out: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScorerName {
    /// The leaderboard's scorer
    Official,
    /// HelloAgents' exact match
    Quasi,
}

#[derive(Debug, Args)]
pub struct ToolsArguments {
    #[command(flatten)]
    pub config: ConfigArguments,

    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CallArguments {
    /// Config file (TOML); only its server tables are needed
    pub config: PathBuf,

    /// `server/tool`, or the name the model sees
    pub tool: String,

    /// The arguments as a JSON object; `-` reads stdin
    #[arg(value_name = "JSON", default_value = "{}")]
    pub arguments: String,

    /// Set any config key
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,

    /// Print the whole result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Default, Args)]
pub struct HostArguments {
    #[command(flatten)]
    pub config: ConfigArguments,

    /// Serve streamable HTTP at http://ADDR/mcp, such as 127.0.0.1:8931 (port 0 picks a free one); all clients share
    /// the servers
    #[arg(long, value_name = "ADDR")]
    pub http: Option<SocketAddr>,

    /// Allow an ADDR that other machines can reach; needs --token-env
    #[arg(long, requires = "http")]
    pub allow_remote: bool,

    /// Environment variable that holds the bearer token every HTTP request must carry, or several with spaces between
    #[arg(long, value_name = "NAME", requires = "http")]
    pub token_env: Option<String>,

    /// Host name that clients may use, beside localhost and the address of --http (repeatable)
    #[arg(long, value_name = "HOST", requires = "http")]
    pub allowed_host: Vec<String>,

    /// Origin of a web page that may call, such as https://example.org (repeatable; none by default)
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allowed_origin: Vec<String>,
}

#[derive(Debug, Args)]
pub struct LoginArguments {
    /// Name of the server in the config, or its address
    pub server: String,

    #[command(flatten)]
    pub config: ConfigArguments,

    /// Scope to ask for (repeatable); without it those that the server asks for
    #[arg(long = "scope", value_name = "SCOPE")]
    pub scopes: Vec<String>,

    /// Client that was registered by hand; without it one is registered
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,

    /// Environment variable that holds the secret of --client-id
    #[arg(long, value_name = "NAME", requires = "client_id")]
    pub client_secret_env: Option<String>,

    /// Port on loopback to which the browser is sent back, as registered by hand; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,

    /// Forget the login instead
    #[arg(long)]
    pub forget: bool,
}

#[derive(Debug, Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    pub config: ConfigArguments,

    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CleanArguments {
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE, such as `agent.max_steps=20`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_is_sound_and_documents_exit_codes() {
        Arguments::command().debug_assert();
        let help = Arguments::command().render_long_help().to_string();
        assert!(help.contains("4  environment not usable"), "{help}");
    }

    #[test]
    fn set_takes_a_value_with_an_equals_sign() {
        assert_eq!(key_value("a.b=c=d"), Ok(("a.b".to_owned(), "c=d".to_owned())));
        key_value("a.b").unwrap_err();
        key_value("=x").unwrap_err();
    }

    #[test]
    fn levels_are_a_comma_separated_list() {
        let arguments = Arguments::try_parse_from(["gaia", "run", "--level", "1,3"]).unwrap();
        let Command::Run(run) = arguments.command else { panic!("not a run") };
        assert_eq!(run.levels, [1, 3]);
    }

    #[test]
    fn score_needs_a_run_or_pairs_but_not_both() {
        Arguments::try_parse_from(["gaia", "score"]).unwrap_err();
        Arguments::try_parse_from(["gaia", "score", "last", "--pairs", "-"]).unwrap_err();
        Arguments::try_parse_from(["gaia", "score", "--pairs", "-", "--scorer", "quasi"]).unwrap();
        Arguments::try_parse_from(["gaia", "score", "last"]).unwrap();
    }
}
