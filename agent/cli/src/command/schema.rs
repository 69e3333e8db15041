use super::Surroundings;
use crate::config;
use crate::exit_code::{self, CommandResult};

pub(super) fn schema(surroundings: &Surroundings) -> CommandResult {
    surroundings.console.print(&serde_json::to_string_pretty(&config::schema())?)?;
    Ok(exit_code::SUCCESS)
}
