use gaia_sandbox::Engine;
use serde_json::json;

use super::Surroundings;
use crate::args::CleanArguments;
use crate::exit_code::{self, CommandError, CommandResult};

pub(super) async fn clean(arguments: CleanArguments, surroundings: &Surroundings) -> CommandResult {
    let engine = Engine::connect().await.map_err(CommandError::environment)?;
    let reaped = engine.reap().await.map_err(CommandError::environment)?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&json!({ "removed": reaped.removed, "kept": reaped.kept }))?
    } else {
        let mut text = format!(
            "removed {} containers whose owner is gone, left {} alone",
            reaped.removed.len(),
            reaped.kept
        );
        for id in &reaped.removed {
            text.push_str(&format!("\n  {id}"));
        }
        text
    };
    surroundings.console.print(&text)?;
    Ok(exit_code::SUCCESS)
}
