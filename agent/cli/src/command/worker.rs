use super::Surroundings;
use crate::args::ConfigArguments;
use crate::args::fleet::WorkerArguments;
use crate::config::Purpose;
use crate::exit_code::{self, CommandResult};
use crate::fleet::{Commands, Link, OwnConfig, WorkerOptions, command_error, work};
use crate::signals::Interrupt;

pub(super) async fn worker(arguments: WorkerArguments, surroundings: &Surroundings) -> CommandResult {
    let commands = match arguments.trust_coordinator {
        true => Commands::OfCoordinator,
        false => Commands::Own(own_configs(&arguments, surroundings)?),
    };
    let interrupt = Interrupt::listen(surroundings.console.clone())?;
    let connection = arguments.connection(&surroundings.environment);
    let link =
        Link::connect(&connection, "gaia worker").await.map_err(|error| command_error(error.into()))?;
    let options = WorkerOptions {
        concurrency: arguments.concurrency,
        commands,
        drain_limit: arguments.drain_timeout,
        idle_limit: arguments.exit_when_idle,
    };
    let working = work(link, options, surroundings, &interrupt);
    tokio::select! {
        worked = working => worked?,
        () = interrupt.abandon.cancelled() => return Ok(exit_code::INCOMPLETE),
    }
    Ok(exit_code::SUCCESS)
}

/// Loaded as they are for `gaia tools`: what misses a variable here is told before any run is there.
fn own_configs(arguments: &WorkerArguments, surroundings: &Surroundings) -> CommandResult<Vec<OwnConfig>> {
    let own = |path: &std::path::PathBuf| {
        let named = ConfigArguments { config: Some(path.clone()), set: Vec::new() };
        let loaded = surroundings.load(&named, Vec::new(), Purpose::Tools)?;
        Ok(OwnConfig { path: path.clone(), base: loaded.base, effective: loaded.effective })
    };
    arguments.configs.iter().map(own).collect()
}
