use super::{Surroundings, open_run};
use crate::args::{CtlArguments, CtlOrder};
use crate::control::{Order, Reply, RunStatus, Unreachable, ask};
use crate::exit_code::{self, CommandError, CommandResult};
use crate::store::{RunDirectory, RunRecord, StoreError};

pub(super) async fn ctl(arguments: CtlArguments, surroundings: &Surroundings) -> CommandResult {
    let (run, record) = open_run(&arguments.stored.run, &arguments.stored.out)?;
    let order = match arguments.order {
        CtlOrder::Pause => Order::Pause,
        CtlOrder::Resume => Order::Resume,
        CtlOrder::Cancel { task } => Order::Cancel { task },
        CtlOrder::Concurrency { samples } => Order::Concurrency { samples },
        CtlOrder::Status => Order::Status,
    };
    let reply = ask(&run, &order).await.map_err(|error| not_reached(error, &run, &record))?;
    let console = &surroundings.console;
    match reply {
        Reply::Refused { reason } => Err(CommandError::usage(anyhow::anyhow!(reason))),
        Reply::Done { said, status } => {
            if order != Order::Status {
                console.say(&said);
            }
            if arguments.json {
                console.print(&serde_json::to_string_pretty(&status)?)?;
            } else if order == Order::Status {
                console.print(&shown(&status))?;
            }
            Ok(exit_code::SUCCESS)
        }
    }
}

/// Nobody there, or somebody who cannot be reached.
fn not_reached(error: Unreachable, run: &RunDirectory, record: &RunRecord) -> CommandError {
    let hint = match (&error, run.lock()) {
        // The lock is let go of at once.
        (Unreachable::NobodyWorks, Ok(_)) => format!("`gaia resume {}` works on it", run.path().display()),
        (_, Err(StoreError::Locked { pid, .. })) => format!(
            "process {} holds its lock; it may be about to begin or to end, or its disk takes no sockets",
            pid.map_or_else(|| "of an unknown id".to_owned(), |pid| pid.to_string())
        ),
        _ => "try again".to_owned(),
    };
    CommandError::usage(anyhow::Error::from(error).context(format!("failed to reach run `{}`", record.id)))
        .with_hint(hint)
}

fn shown(status: &RunStatus) -> String {
    let cost = status.cost_usd.map(|cost| format!(", ${cost:.2}")).unwrap_or_default();
    let cancelled = match status.cancelled {
        0 => String::new(),
        count => format!(", {count} cancelled"),
    };
    let mut text = format!(
        "Run {}: {} (process {})\n{} of {} samples done, {} running of at most {}, {} waiting{cancelled}\n{} tokens{cost} \
         in this session",
        status.run,
        status.state.label(),
        status.pid,
        status.done,
        status.requested,
        status.running.len(),
        status.concurrency,
        status.waiting,
        status.tokens,
    );
    for sample in &status.running {
        text.push_str(&format!(
            "\n{:>6.0} s  level {}  {}  step {}  {} for {:.0} s",
            sample.seconds, sample.level, sample.task_id, sample.step, sample.doing, sample.doing_seconds
        ));
    }
    text
}
