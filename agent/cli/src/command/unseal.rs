use super::Surroundings;
use crate::args::UnsealArguments;
use crate::exit_code::{self, CommandError, CommandResult};
use crate::sealed::{SealError, read_identities, unseal as open_sealed};

pub(super) fn unseal(arguments: &UnsealArguments, surroundings: &Surroundings) -> CommandResult {
    let identities = read_identities(&arguments.identity).map_err(CommandError::usage)?;
    let path = open_sealed(&arguments.file, &identities, &arguments.out).map_err(|error| match error {
        SealError::Exists(_) => CommandError::usage(error).with_hint("name another folder with --out"),
        error => CommandError::usage(error),
    })?;
    surroundings.console.say("`gaia replay` plays it; keep it off the web, for it holds GAIA's questions");
    surroundings.console.print(&path.display().to_string())?;
    Ok(exit_code::SUCCESS)
}
