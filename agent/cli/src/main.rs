//! `gaia`: parse, dispatch, and one place that turns an error into an exit code.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use gaia::args::Arguments;
use gaia::command::{Surroundings, dispatch};
use gaia::console::{Chatter, Console};
use gaia::environment::Environment;
use gaia::exit_code::{self, CommandError, CommandResult};
use gaia_agent::tools::end_left_servers;
use tracing_subscriber::EnvFilter;

/// Variable with a filter for the log on stderr, in the syntax of tracing.
const LOG_VARIABLE: &str = "GAIA_LOG";

/// For servers that were not closed, such as at a third Ctrl-C, to remove what they own before they are killed.
const SERVER_GRACE: Duration = Duration::from_millis(500);

/// For tasks to be dropped, and with them the processes that they own. One that waits for a terminal never is.
const TASK_GRACE: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let console = Console::new(if arguments.quiet { Chatter::Quiet } else { Chatter::Normal });
    let environment = Environment::of_process();
    start_log(&arguments, &environment, &console);
    match run(arguments, environment, console.clone()) {
        Ok(code) => ExitCode::from(code),
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(exit_code::SUCCESS),
        Err(error) => {
            console.warn(&error.to_string());
            ExitCode::from(error.exit_code)
        }
    }
}

fn run(arguments: Arguments, environment: Environment, console: Console) -> CommandResult {
    let surroundings = Surroundings { environment, working_dir: std::env::current_dir()?, console };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(dispatch(arguments.command, &surroundings));
    // Whatever still runs has been given up: nothing waits for its end, and nothing survives us.
    end_left_servers(SERVER_GRACE);
    runtime.shutdown_timeout(TASK_GRACE);
    result
}

fn start_log(arguments: &Arguments, environment: &Environment, console: &Console) {
    let level = match (arguments.quiet, arguments.verbose) {
        (true, _) => "error",
        // The library logs an error of its own before ours, which says what to do.
        (false, 0) => "warn,rmcp=off,async_openai=off",
        (false, 1) => "warn,rmcp=off,async_openai=off,gaia=info,gaia_agent=info,gaia_sandbox=info",
        (false, _) => "info,gaia=debug,gaia_agent=debug,gaia_sandbox=debug",
    };
    let filter = environment.get_filled(LOG_VARIABLE).unwrap_or(level);
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|error| {
        console.warn(&format!("warning: `{LOG_VARIABLE}` is no filter: {error}"));
        EnvFilter::new(level)
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(console.clone())
        .init();
}

fn is_broken_pipe(error: &CommandError) -> bool {
    error
        .error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
