use std::collections::BTreeSet;

use super::{Surroundings, open_run};
use crate::args::MergeArguments;
use crate::config::Secrets;
use crate::exit_code::{CommandError, CommandResult};
use crate::merge::{MergeError, Part, merge as merge_parts};
use crate::session::{Output, conclude};
use crate::store::{RunDirectory, RunRecord, StoreError, find_run};
use crate::work::Stopped;

pub(super) fn merge(arguments: MergeArguments, surroundings: &Surroundings) -> CommandResult {
    let console = &surroundings.console;
    let mut parts = Vec::new();
    let mut locks = Vec::new();
    let mut named = BTreeSet::new();
    for name in &arguments.runs {
        let (run, record) = open_part(name, &arguments)?;
        if named.insert(fs_err::canonicalize(run.path())?) {
            // Nobody works on it meanwhile.
            locks.push(run.lock().map_err(CommandError::usage)?);
            parts.push(Part::open(run, record).map_err(refused)?);
        }
    }
    let (run, mut record, _lock) =
        merge_parts(&parts, arguments.out.as_ref().unwrap_or(&arguments.runs_folder)).map_err(refused)?;
    drop(locks);
    let given: BTreeSet<u32> = parts.iter().map(|part| part.shard.index).collect();
    let count = parts.first().map_or(0, |part| part.shard.count);
    let missing: Vec<String> =
        (1..=count).filter(|index| !given.contains(index)).map(|index| index.to_string()).collect();
    if !missing.is_empty() {
        console.warn(&format!("warning: of {count} parts these are not given: {}", missing.join(", ")));
    }
    console.say(&format!("run {}: {} parts put together", record.id, given.len()));
    let output = Output::from_flag(arguments.json);
    conclude(&run, &mut record, &Stopped::Done, &Secrets::default(), &output, console)
}

/// Where runs are kept; parts may also lie where the whole goes.
fn open_part(name: &str, arguments: &MergeArguments) -> CommandResult<(RunDirectory, RunRecord)> {
    let elsewhere = arguments
        .out
        .as_ref()
        .filter(|out| find_run(name, &arguments.runs_folder).is_err() && find_run(name, out).is_ok());
    open_run(name, elsewhere.unwrap_or(&arguments.runs_folder))
}

fn refused(error: MergeError) -> CommandError {
    match error {
        MergeError::Store(error @ StoreError::Io(_)) => CommandError::from(error),
        error => CommandError::usage(error),
    }
}
