use std::fs::{File, Permissions};
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
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
    for (flag, is_given, format, name) in [
        ("--key", arguments.key.is_some(), ExportFormat::Sealed, "sealed"),
        ("--partial", arguments.partial, ExportFormat::Submission, "submission"),
    ] {
        if is_given && arguments.format != format {
            return Err(CommandError::usage(anyhow::anyhow!("{flag} is for --format {name}")));
        }
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
            put.map_err(|error| not_written(path, &error.error))?;
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
            Some(path) if path.is_dir() => {
                Err(CommandError::usage(anyhow::anyhow!("`{}` is a folder", path.display()))
                    .with_hint("--out names the file to write"))
            }
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
                .tempfile_in(folder.unwrap_or(Path::new(".")))
                .map_err(|error| not_written(path, &error))?
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
        Ok(()) => out.into_inner().map_err(|error| match &arguments.out {
            Some(path) => not_written(path, error.error()),
            None => error.into_error().into(),
        }),
        Err(error @ ExportError::Empty(_)) => {
            Err(CommandError::usage(error)
                .with_hint(format!("`gaia resume {}` works on its samples", record.id)))
        }
        Err(error) => match (&arguments.out, error) {
            // What cannot be read is named by itself.
            (Some(path), ExportError::Write(error))
                if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
            {
                Err(not_written(path, &error))
            }
            (_, error) => Err(error.into()),
        },
    }
}

/// By the path that the user gave: the file beside it, which is written first, means nothing to anybody.
fn not_written(path: &Path, error: &std::io::Error) -> CommandError {
    let kind = error.kind();
    let reason = match kind {
        ErrorKind::NotFound => "its folder is not there".to_owned(),
        kind => kind.to_string(),
    };
    let text = anyhow::anyhow!("failed to write the export to `{}`: {reason}", path.display());
    match kind {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::PermissionDenied
        | ErrorKind::IsADirectory
        | ErrorKind::AlreadyExists
        | ErrorKind::ReadOnlyFilesystem => CommandError::usage(text)
            .with_hint("--out names a file in a folder that is there and can be written"),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            CommandError::from(text).with_hint("make room on the disk, or name another place with --out")
        }
        _ => CommandError::from(text),
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
