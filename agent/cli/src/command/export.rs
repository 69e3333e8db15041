use std::io::Write;

use super::{Surroundings, open_run};
use crate::args::{ExportArguments, ExportFormat};
use crate::exit_code::{self, CommandResult};
use crate::report::{write_csv, write_submission};
use crate::store::write_atomically;

pub(super) fn export(arguments: ExportArguments, surroundings: &Surroundings) -> CommandResult {
    let (run, record) = open_run(&arguments.run, &arguments.runs)?;
    let mut text = Vec::new();
    match arguments.format {
        ExportFormat::Submission => write_submission(&mut text, &run, &record)?,
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
    if record.rehearsal && arguments.format == ExportFormat::Submission {
        surroundings
            .console
            .warn("warning: this run is a rehearsal; its answers come from a script, not from a model");
    }
    Ok(exit_code::SUCCESS)
}
