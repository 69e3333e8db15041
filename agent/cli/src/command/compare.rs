use super::{Surroundings, open_run};
use crate::args::{CompareArguments, CompareFormat};
use crate::compare::{Comparison, comparison_table, write_html, write_markdown};
use crate::exit_code::{self, CommandError, CommandResult};

pub(super) fn compare(arguments: CompareArguments, surroundings: &Surroundings) -> CommandResult {
    let runs = arguments
        .runs
        .iter()
        .map(|name| open_run(name, &arguments.out))
        .collect::<CommandResult<Vec<_>>>()?;
    for (index, (_, record)) in runs.iter().enumerate() {
        if runs[..index].iter().any(|(_, earlier)| earlier.id == record.id) {
            return Err(CommandError::usage(anyhow::anyhow!("run `{}` is named twice", record.id))
                .with_hint("name runs that differ: the first is what the others are compared with"));
        }
    }
    for (_, record) in &runs {
        if !record.dataset.has_truth {
            return Err(CommandError::usage(anyhow::anyhow!(
                "run `{}` has no verdicts, so nothing can be said about which is better",
                record.id
            ))
            .with_hint("`gaia score` gives them where the dataset with its truths is; those of the test split are at the leaderboard"));
        }
    }
    let comparison = Comparison::of(&runs)?;
    let mut text = Vec::new();
    match arguments.format {
        Some(CompareFormat::Md) => write_markdown(&mut text, &comparison)?,
        Some(CompareFormat::Html) => write_html(&mut text, &comparison)?,
        Some(CompareFormat::Json) => serde_json::to_writer_pretty(&mut text, &comparison)?,
        None if arguments.json => serde_json::to_writer_pretty(&mut text, &comparison)?,
        None => text = comparison_table(&comparison).into_bytes(),
    }
    surroundings.console.print(&String::from_utf8_lossy(&text))?;
    Ok(exit_code::SUCCESS)
}
