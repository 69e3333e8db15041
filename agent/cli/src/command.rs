//! The commands: one module each, every one returns an exit code.

mod call;
mod clean;
mod compare;
mod completions;
mod ctl;
mod dataset;
mod doctor;
mod export;
mod host;
mod login;
mod merge;
mod replay;
mod report;
mod resume;
mod run;
mod schema;
mod score;
mod tools;
mod unseal;
mod view;
#[cfg(feature = "nats")]
mod worker;
#[cfg(feature = "nats")]
mod workers;

#[cfg(feature = "nats")]
pub(crate) use resume::{compare as compare_with_today, load_stored};

use std::path::PathBuf;

use crate::args::{Command, ConfigArguments};
use crate::config::{self, Loaded, Override, Purpose, Sources};
use crate::console::Console;
use crate::environment::Environment;
use crate::exit_code::{CommandError, CommandResult};
use crate::store::{RunDirectory, RunRecord, find_run};

/// Where a command runs.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub environment: Environment,
    pub working_dir: PathBuf,
    pub console: Console,
}

/// Does what the command line says.
pub async fn dispatch(command: Command, surroundings: &Surroundings) -> CommandResult {
    match command {
        Command::Run(arguments) => run::run(arguments, surroundings).await,
        Command::Resume(arguments) => resume::resume(arguments, surroundings).await,
        Command::Ctl(arguments) => ctl::ctl(arguments, surroundings).await,
        Command::Replay(arguments) => replay::replay_run(arguments, surroundings).await,
        Command::Score(arguments) => score::score(arguments, surroundings),
        Command::Report(arguments) => report::report(arguments, surroundings),
        Command::Compare(arguments) => compare::compare(arguments, surroundings),
        Command::View(arguments) => view::view(arguments, surroundings).await,
        Command::Merge(arguments) => merge::merge(arguments, surroundings),
        Command::Export(arguments) => export::export(arguments, surroundings),
        Command::Unseal(arguments) => unseal::unseal(&arguments, surroundings),
        Command::Tools(arguments) => tools::tools(arguments, surroundings).await,
        Command::Call(arguments) => call::call(arguments, surroundings).await,
        Command::Host(arguments) => host::host(arguments, surroundings).await,
        Command::Login(arguments) => login::login(arguments, surroundings).await,
        Command::Dataset(command) => dataset::dataset(command, surroundings).await,
        Command::Doctor(arguments) => doctor::doctor(arguments, surroundings).await,
        Command::Clean(arguments) => clean::clean(arguments, surroundings).await,
        Command::Schema => schema::schema(surroundings),
        #[cfg(feature = "nats")]
        Command::Worker(arguments) => worker::worker(arguments, surroundings).await,
        #[cfg(feature = "nats")]
        Command::Workers(arguments) => workers::workers(arguments, surroundings).await,
        Command::Completions { shell } => completions::completions(shell, surroundings),
    }
}

impl Surroundings {
    fn load(
        &self,
        arguments: &ConfigArguments,
        mut overrides: Vec<Override>,
        purpose: Purpose,
    ) -> CommandResult<Loaded> {
        overrides.extend(set_overrides(&arguments.set));
        let loaded = config::load(&Sources {
            file: arguments.config.as_deref(),
            overrides: &overrides,
            environment: &self.environment,
            working_dir: &self.working_dir,
            purpose,
        })
        .map_err(CommandError::usage)?;
        self.console.hide(&loaded.secrets);
        for warning in &loaded.warnings {
            self.console.warn(&format!("warning: {warning}"));
        }
        Ok(loaded)
    }
}

fn set_overrides(set: &[(String, String)]) -> impl Iterator<Item = Override> + '_ {
    set.iter().map(|(key, value)| Override {
        flag: "--set".to_owned(),
        key: key.clone(),
        value: value.clone(),
    })
}

/// A stored run that the user named.
fn open_run(name: &str, runs: &std::path::Path) -> CommandResult<(RunDirectory, RunRecord)> {
    let path = find_run(name, runs).map_err(CommandError::usage)?;
    let run = RunDirectory::open(&path);
    let record = run.record().map_err(CommandError::usage)?;
    Ok((run, record))
}
