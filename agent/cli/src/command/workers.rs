use comfy_table::{Table, presets};
use time::OffsetDateTime;

use super::Surroundings;
use crate::args::fleet::WorkersArguments;
use crate::exit_code::{self, CommandResult};
use crate::fleet::{Link, WorkerState, command_error, workers as list_workers};

pub(super) async fn workers(arguments: WorkersArguments, surroundings: &Surroundings) -> CommandResult {
    let connection = arguments.connection(&surroundings.environment);
    let link =
        Link::connect(&connection, "gaia workers").await.map_err(|error| command_error(error.into()))?;
    let workers = list_workers(&link).await.map_err(command_error)?;
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&workers)?,
        false if workers.is_empty() => format!("no worker is at {}", connection.shown()),
        false => table(&workers),
    };
    surroundings.console.print(&text)?;
    Ok(exit_code::SUCCESS)
}

fn table(workers: &[WorkerState]) -> String {
    let now = OffsetDateTime::now_utc();
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["Worker", "Version", "Busy", "Done", "Last heard", "Works on"]);
    for worker in workers {
        let heard = (now - worker.at).whole_seconds().max(0);
        table.add_row([
            worker.id.clone(),
            worker.version.clone(),
            format!("{}/{}", worker.running.len(), worker.concurrency),
            worker.committed.to_string(),
            format!("{heard} s ago"),
            doing(worker),
        ]);
    }
    table.to_string()
}

fn doing(worker: &WorkerState) -> String {
    let mut lines: Vec<String> = Vec::new();
    if worker.is_draining {
        lines.push("ends when its samples have".to_owned());
    }
    let mut runs: Vec<&str> = worker.running.iter().map(|sample| sample.run.as_str()).collect();
    runs.sort_unstable();
    runs.dedup();
    lines.extend(runs.into_iter().map(str::to_owned));
    lines.extend(worker.refused.iter().map(|(run, refusal)| format!("not on {run}: {}", refusal.reason())));
    lines.join("\n")
}
