use super::{Surroundings, open_run};
use crate::args::{ReportArguments, ReportFormat};
use crate::exit_code::{self, CommandResult};
use crate::report::{Figures, write_files, write_html, write_markdown};
use crate::session::{Output, show};

pub(super) fn report(arguments: ReportArguments, surroundings: &Surroundings) -> CommandResult {
    let (run, record) = open_run(&arguments.stored.run, &arguments.stored.out)?;
    let figures = Figures::of_run(&run, &record)?;
    let report = write_files(&run, &record, &figures)?;
    match arguments.format {
        Some(ReportFormat::Md) => {
            let mut text = Vec::new();
            write_markdown(&mut text, &run, &record, &figures)?;
            surroundings.console.print(&String::from_utf8_lossy(&text))?;
        }
        Some(ReportFormat::Html) => {
            let mut text = Vec::new();
            write_html(&mut text, &record, &figures)?;
            surroundings.console.print(&String::from_utf8_lossy(&text))?;
        }
        Some(ReportFormat::Json) => show(&figures, &report, &Output::Json, &surroundings.console)?,
        None => show(&figures, &report, &Output::from_flag(arguments.json), &surroundings.console)?,
    }
    Ok(exit_code::SUCCESS)
}
