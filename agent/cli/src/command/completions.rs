use clap::CommandFactory;

use super::Surroundings;
use crate::args::Arguments;
use crate::exit_code::{self, CommandResult};

pub(super) fn completions(shell: clap_complete::Shell, surroundings: &Surroundings) -> CommandResult {
    // Into memory first: the generator panics when it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "gaia", &mut script);
    surroundings.console.print(&String::from_utf8_lossy(&script))?;
    Ok(exit_code::SUCCESS)
}
