use std::io::Write;

use super::{Surroundings, open_run};
use crate::args::{ExportArguments, ExportFormat};
use crate::exit_code::{self, CommandError, CommandResult, INCOMPLETE};
use crate::report::{Submission, shortcomings, write_csv};
use crate::store::write_atomically;

pub(super) fn export(arguments: ExportArguments, surroundings: &Surroundings) -> CommandResult {
    let (run, record) = open_run(&arguments.run, &arguments.runs)?;
    let mut text = Vec::new();
    match arguments.format {
        ExportFormat::Submission => {
            let lacking = shortcomings(&run, &record)?;
            if !lacking.is_empty() && !arguments.partial {
                return Err(not_whole(&record.id, &lacking));
            }
            for shortcoming in lacking {
                surroundings.console.warn(&format!("warning: {shortcoming}"));
            }
            text = Submission::of_run(&run, &record)?.text;
        }
        ExportFormat::Csv => write_csv(&mut text, &run, &record)?,
    }
    match &arguments.out {
        Some(path) => {
            write_atomically(path, &text)?;
            surroundings.console.say(&format!("wrote {}", path.display()));
        }
        None => {
            // As it is: console output would change its last line break.
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(&text)?;
            stdout.flush()?;
        }
    }
    Ok(exit_code::SUCCESS)
}

fn not_whole(run: &str, lacking: &[String]) -> CommandError {
    let error = anyhow::anyhow!("run `{run}` is not ready for the leaderboard:\n  {}", lacking.join("\n  "));
    CommandError { exit_code: INCOMPLETE, error, hint: None }
        .with_hint("`--partial` writes the file all the same")
}
