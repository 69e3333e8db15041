use gaia_sandbox::Engine;
use serde_json::json;

use super::Surroundings;
use crate::args::CleanArguments;
use crate::exit_code::{self, CommandError, CommandResult};

pub(super) async fn clean(arguments: CleanArguments, surroundings: &Surroundings) -> CommandResult {
    let engine = Engine::connect().await.map_err(CommandError::environment)?;
    let reaped = engine.reap().await.map_err(CommandError::environment)?;
    // One that is being started by a living owner may be about to join.
    let has_removed_bridge =
        reaped.kept == 0 && engine.remove_idle_bridge().await.map_err(CommandError::environment)?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&json!({
            "removed": reaped.removed,
            "kept": reaped.kept,
            "removed_network": has_removed_bridge,
        }))?
    } else {
        let mut text = format!(
            "removed {} containers whose owner is gone, left {} alone",
            reaped.removed.len(),
            reaped.kept
        );
        if has_removed_bridge {
            text.push_str(", removed the network of --network bridge");
        }
        for id in &reaped.removed {
            text.push_str(&format!("\n  {id}"));
        }
        text
    };
    surroundings.console.print(&text)?;
    Ok(exit_code::SUCCESS)
}
