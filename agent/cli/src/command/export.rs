use std::fs::{File, Permissions};
use std::io::{BufWriter, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use age::x25519::Recipient;
use tempfile::NamedTempFile;

use super::{Surroundings, open_run};
use crate::args::{ExportArguments, ExportFormat};
use crate::exit_code::{self, CommandError, CommandResult, INCOMPLETE};
use crate::export::{
    ExportError, SHARING_NOTE, Table, write_csv, write_inspect, write_json, write_otel, write_parquet,
};
use crate::report::{Submission, shortcomings};
use crate::sealed::{read_key, seal};
use crate::store::{RunDirectory, RunRecord};

pub(super) fn export(arguments: ExportArguments, surroundings: &Surroundings) -> CommandResult {
    let (run, record) = open_run(&arguments.run, &arguments.runs)?;
    let console = &surroundings.console;
    if arguments.table.is_some() && !matches!(arguments.format, ExportFormat::Csv | ExportFormat::Parquet) {
        return Err(CommandError::usage(anyhow::anyhow!("--table is for --format csv and parquet")));
    }
    if arguments.format == ExportFormat::Submission {
        let lacking = shortcomings(&run, &record)?;
        if !lacking.is_empty() && !arguments.partial {
            return Err(not_whole(&record.id, &lacking));
        }
        for shortcoming in lacking {
            console.warn(&format!("warning: {shortcoming}"));
        }
    }
    if arguments.format == ExportFormat::Sealed {
        key(&arguments)?;
    }
    let target = Target::open(&arguments)?;
    let file = write(&arguments, &run, &record)?;
    let is_of_answers = match arguments.format {
        // Or nobody can read it.
        ExportFormat::Submission | ExportFormat::Sealed => true,
        ExportFormat::Csv | ExportFormat::Parquet => arguments.table.unwrap_or_default() == Table::Samples,
        ExportFormat::Json | ExportFormat::Inspect | ExportFormat::Otel => false,
    };
    if !is_of_answers {
        console.warn(&format!("note: {SHARING_NOTE}"));
    }
    if arguments.format == ExportFormat::Inspect && record.dataset.has_truth {
        console.warn("note: it holds the truths too, as the targets of its samples");
    }
    match target {
        Target::File(path) => {
            let put = match arguments.overwrite {
                true => file.persist(path).map(drop),
                false => file.persist_noclobber(path).map(drop),
            };
            put.map_err(|error| error.error)?;
            console.say(&format!("wrote {}", path.display()));
        }
        Target::Stdout => {
            // As it is: console output would change its last line break.
            let mut stdout = std::io::stdout().lock();
            std::io::copy(&mut File::open(file.path())?, &mut stdout)?;
            stdout.flush()?;
        }
    }
    Ok(exit_code::SUCCESS)
}

enum Target<'a> {
    File(&'a Path),
    Stdout,
}

impl<'a> Target<'a> {
    /// Asked before anything is written: an export of a large run takes a while.
    fn open(arguments: &'a ExportArguments) -> CommandResult<Self> {
        let is_binary =
            matches!(arguments.format, ExportFormat::Parquet | ExportFormat::Inspect | ExportFormat::Sealed);
        match &arguments.out {
            Some(path) if path.exists() && !arguments.overwrite => {
                let error = anyhow::anyhow!("`{}` is there already", path.display());
                Err(CommandError::usage(error).with_hint("--overwrite replaces it"))
            }
            Some(path) => Ok(Self::File(path)),
            None if is_binary && std::io::stdout().is_terminal() => {
                Err(CommandError::usage(anyhow::anyhow!("this format is not text for a terminal"))
                    .with_hint("name a file with --out"))
            }
            None => Ok(Self::Stdout),
        }
    }
}

/// Into a file beside its place, so that nobody ever finds half of it.
fn write(
    arguments: &ExportArguments,
    run: &RunDirectory,
    record: &RunRecord,
) -> CommandResult<NamedTempFile> {
    let mut temporary = tempfile::Builder::new();
    let file = match &arguments.out {
        // As any file that a program makes for its user.
        Some(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            temporary
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(folder.unwrap_or(Path::new(".")))?
        }
        None => temporary.tempfile()?,
    };
    let table = arguments.table.unwrap_or_default();
    let mut out = BufWriter::new(file);
    let written = match arguments.format {
        ExportFormat::Submission => Submission::of_run(run, record)
            .map_err(ExportError::from)
            .and_then(|submission| Ok(out.write_all(&submission.text)?)),
        ExportFormat::Csv => write_csv(&mut out, run, record, table),
        ExportFormat::Json => write_json(&mut out, run, record),
        ExportFormat::Parquet => write_parquet(&mut out, run, record, table),
        ExportFormat::Inspect => write_inspect(&mut out, run, record),
        ExportFormat::Otel => write_otel(&mut out, run, record),
        ExportFormat::Sealed => seal(run, record, &key(arguments)?, &mut out)
            .map_err(|error| ExportError::Write(std::io::Error::other(error))),
    };
    match written {
        Ok(()) => Ok(out.into_inner().map_err(|error| error.into_error())?),
        Err(error @ ExportError::Empty(_)) => {
            Err(CommandError::usage(error)
                .with_hint(format!("`gaia resume {}` works on its samples", record.id)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Nothing is written without: GAIA asks that its questions never be on the web in plain text.
fn key(arguments: &ExportArguments) -> CommandResult<Recipient> {
    let Some(key) = &arguments.key else {
        return Err(CommandError::usage(anyhow::anyhow!(
            "a recording holds GAIA's questions, which must not be shared in plain text: it is sealed to a key"
        ))
        .with_hint("give the reader's public age key with `--key age1…`; `age-keygen` makes a pair"));
    };
    read_key(key).map_err(CommandError::usage)
}

fn not_whole(run: &str, lacking: &[String]) -> CommandError {
    let error = anyhow::anyhow!("run `{run}` is not ready for the leaderboard:\n  {}", lacking.join("\n  "));
    CommandError { exit_code: INCOMPLETE, error, hint: None }
        .with_hint("`--partial` writes the file all the same")
}
