use std::path::Path;

use comfy_table::{Table, presets};
use serde_json::json;

use super::Surroundings;
use super::score::parse_split;
use crate::args::{DatasetArguments, DatasetCommand};
use crate::dataset::{self, Dataset, DatasetStats};
use crate::exit_code::{self, CommandError, CommandResult};

pub(super) fn dataset(command: DatasetCommand, surroundings: &Surroundings) -> CommandResult {
    match command {
        DatasetCommand::Check(arguments) => check(&arguments, surroundings),
        DatasetCommand::Stats(arguments) => stats(&arguments, surroundings),
    }
}

/// Loading checks every row and hashes every attachment; what is wrong is the error.
fn check(arguments: &DatasetArguments, surroundings: &Surroundings) -> CommandResult {
    let dataset = load(&arguments.path, &arguments.split)?;
    let attachments = dataset.samples.iter().filter(|sample| sample.file.is_some()).count();
    let text = if arguments.json {
        serde_json::to_string_pretty(&json!({
            "path": dataset.root,
            "split": dataset.split,
            "samples": dataset.samples.len(),
            "attachments": attachments,
            "fingerprint": dataset.fingerprint,
            "sources": dataset.sources,
        }))?
    } else {
        format!(
            "ok: {} samples and {attachments} attachments in the {} split, fingerprint {}",
            dataset.samples.len(),
            dataset.split,
            dataset.fingerprint
        )
    };
    surroundings.console.print(&text)?;
    Ok(exit_code::SUCCESS)
}

fn stats(arguments: &DatasetArguments, surroundings: &Surroundings) -> CommandResult {
    let stats = load(&arguments.path, &arguments.split)?.stats();
    let text = if arguments.json { serde_json::to_string_pretty(&stats)? } else { table(&stats) };
    surroundings.console.print(&text)?;
    Ok(exit_code::SUCCESS)
}

fn table(stats: &DatasetStats) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(DatasetStats::HEADER);
    for row in stats.rows() {
        table.add_row(row);
    }
    table.to_string()
}

fn load(path: &Path, split: &str) -> CommandResult<Dataset> {
    dataset::load(path, parse_split(split)?).map_err(CommandError::usage)
}
