//! One process's work on a run: what is missing is run, the totals and the reports are written, the result is shown.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gaia_agent::{SharedBudget, Status};
use serde::Serialize;
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::agent::Agent;
use crate::args::OutputArguments;
use crate::config::{Loaded, RunBudgetConfig, Secrets};
use crate::console::Console;
use crate::continuing::Begin;
use crate::control::{ControlSocket, ControlledSession, Controls, Sandboxes};
use crate::dataset::Dataset;
use crate::exit_code::{self, CommandError, CommandResult};
use crate::feed::{Feed, RunEvent};
use crate::performer::Performer;
use crate::preflight::Ready;
use crate::progress::Progress;
use crate::queue::{InProcessQueue, Pending, SampleQueue};
use crate::report::{Figures, results_table, write_files};
use crate::sample::SampleContext;
use crate::sandbox_image::{engine_version, reap, sandbox_images};
use crate::schedule::{Limits, Starts};
use crate::signals::Interrupt;
use crate::spending::spent_by;
use crate::staged::StagedQueue;
use crate::store::{Expense, RunDirectory, RunRecord, SampleKey, SampleResult, Session, StoreError};
use crate::telemetry::{Destination, Telemetry};
use crate::work::{OnError, Spent, StopRules, Stopped, work_through};

/// Samples whose servers are started before their turn comes. An engine makes about as many containers at a time as
/// it has processors, and one that waits is all that a free place needs.
const AHEAD: usize = 2;

/// How a command shows its result.
#[derive(Debug, Clone)]
pub enum Output {
    /// On stdout.
    Table,
    /// On stdout.
    Json,
    /// On stderr: stdout is for what happens.
    Events(Arc<Feed>),
}

impl Output {
    pub fn from_flag(json: bool) -> Self {
        if json { Self::Json } else { Self::Table }
    }

    /// Of a command that works on a run.
    pub fn of_session(arguments: &OutputArguments, secrets: &Secrets) -> std::io::Result<Self> {
        match arguments.events {
            true => Ok(Self::Events(Arc::new(Feed::start(secrets.clone())?))),
            false => Ok(Self::from_flag(arguments.json)),
        }
    }

    /// Waits until all is written.
    pub async fn close(self) {
        if let Self::Events(feed) = self {
            // It takes as long as the reader likes.
            tokio::task::spawn_blocking(move || feed.close()).await.ok();
        }
    }

    pub fn feed(&self) -> Option<&Arc<Feed>> {
        match self {
            Self::Events(feed) => Some(feed),
            Self::Table | Self::Json => None,
        }
    }
}

/// What a session works on, with what, and from where.
pub struct Work {
    pub dataset: Dataset,
    pub ready: Ready,
    pub begin: Begin,
    pub output: Output,
}

/// Runs what is missing and concludes. The caller holds the lock of the run.
pub async fn work_on_run(
    run: &RunDirectory,
    record: &mut RunRecord,
    Work { dataset, ready, begin, output }: Work,
    loaded: &Loaded,
    interrupt: &Interrupt,
    console: &Console,
) -> CommandResult<Stopped> {
    let is_human = ready.agent == Some(Agent::Human);
    let concurrency = match is_human {
        // One question at a time.
        true => NonZeroUsize::MIN,
        false => NonZeroUsize::new(loaded.config.run.concurrency).unwrap_or(NonZeroUsize::MIN),
    };
    let now = OffsetDateTime::now_utc();
    let config = (loaded.effective != record.config).then(|| loaded.effective.clone());
    if config.is_some() {
        console.warn(
            "this session has other settings than the run began with; `sessions` in run.json holds them",
        );
    }
    record.sessions.push(Session {
        started: now,
        ended: None,
        concurrency: concurrency.get(),
        endpoint: loaded.secrets.redact(&ready.base_url).into_owned(),
        images: sandbox_images(loaded),
        config,
        changes: Vec::new(),
    });
    record.ended = None;
    record.staged = None;
    if let Err(error) = run.write_record(record) {
        ready.close().await;
        return Err(cannot_write(error, run));
    }

    if let Some(feed) = output.feed() {
        feed.tell(&RunEvent::RunStarted {
            run: &record.id,
            path: run.path(),
            model: &record.model,
            requested: record.dataset.samples.len() * record.epochs as usize,
            concurrency: concurrency.get(),
        });
    }
    let shown_on = if is_human { console.without_bars() } else { console.clone() };
    let progress = Arc::new(Progress::new(shown_on));
    let budget = loaded.config.run.budget;
    let limits = Limits { worked_on: concurrency, ahead: AHEAD, starts: Starts::Allowed };
    let most = loaded.config.run.sandboxes.unwrap_or(concurrency.get() + AHEAD);
    let sandboxes =
        Sandboxes { permits: Arc::new(Semaphore::new(most)), configured: loaded.config.run.sandboxes };
    let permits = sandboxes.permits.clone();
    let fixed = is_human.then_some("a person answers one question at a time");
    let controls = Arc::new(Controls::new(limits, sandboxes, fixed));
    let Missing { pending, spent, ended } = missing(run, record, dataset, &progress, &controls, budget)?;
    let mut ready = ready;
    if let Some(calls) = loaded.config.run.model_calls {
        ready.limit_model_calls(calls);
    }
    // Shared by the samples, so that those that run at the limit end with an answer and not far beyond it.
    let run_budget =
        Arc::new(SharedBudget::new(budget.tokens, budget.cost_usd, spent.usage.total(), spent.cost_usd));
    let collector = Destination::of(&loaded.environment).map_err(CommandError::usage)?;
    let telemetry =
        collector.map(|collector| Telemetry::start(collector, &record.id, &record.model)).transpose()?;
    let context = Arc::new(SampleContext {
        run_id: record.id.clone(),
        run: run.clone(),
        performer: Performer::new(loaded, &ready, &record.id, &run_budget, console),
        servers: ready.sample_servers.clone(),
        shared_servers: ready.shared_servers.clone(),
        sandboxes: permits,
        closing: TaskTracker::new(),
        begin,
        secrets: Arc::new(loaded.secrets.clone()),
        progress: progress.clone(),
        feed: output.feed().cloned(),
        telemetry: telemetry.clone(),
    });
    let rules = StopRules { on_error: OnError::of(loaded), budget };
    let staged = loaded.config.run.staged;
    let staged = staged.enabled.then(|| {
        Arc::new(StagedQueue::new(&record.dataset.samples, record.epochs, staged, pending.clone(), &ended))
    });
    let queue: Arc<dyn SampleQueue> = match &staged {
        Some(staged) => staged.clone(),
        None => Arc::new(InProcessQueue::new(pending)),
    };
    let controlled = ControlledSession {
        run: record.id.clone(),
        controls: controls.clone(),
        progress: progress.clone(),
        interrupt: interrupt.clone(),
        console: console.clone(),
        feed: output.feed().cloned(),
    };
    // A disk that takes no sockets is no reason not to run.
    let socket = ControlSocket::open(run, controlled)
        .inspect_err(|error| tracing::warn!("`gaia ctl` will not reach this run: {error}"));
    // Beside the work: it keeps no request waiting.
    let has_sandboxes = record.sessions.last().is_some_and(|session| !session.images.is_empty());
    let engine = has_sandboxes.then(|| tokio::spawn(engine_version()));
    let mut stopped = work_through(context, queue, &controls, rules, spent, interrupt, console).await;
    drop(socket);
    if let Some(telemetry) = telemetry {
        telemetry.close().await;
    }
    if let Some(staged) = staged {
        let staged = staged.record();
        if let (Ok(Stopped::Done), Some(stop)) = (&stopped, &staged.stopped) {
            stopped = Ok(Stopped::Early(stop.reason.clone()));
        }
        record.staged = Some(staged);
    }
    progress.clear();
    ready.close().await;
    if let Some(engine) = engine {
        record.host.docker_version = engine.await.ok().flatten().or(record.host.docker_version.take());
        reap().await;
    }
    let now = OffsetDateTime::now_utc();
    record.ended = Some(now);
    if let Some(session) = record.sessions.last_mut() {
        session.ended = Some(now);
        session.changes = controls.changes();
    }
    stopped.map_err(|error| cannot_write(error, run))
}

/// Nothing that was committed is lost.
pub(crate) fn cannot_write(error: StoreError, run: &RunDirectory) -> CommandError {
    CommandError::from(error)
        .with_hint(format!("make room on the disk, then `gaia resume {}` goes on", run.path().display()))
}

/// Where a session begins.
pub(crate) struct Missing {
    /// Samples without an outcome, in order.
    pub(crate) pending: Vec<Pending>,
    /// What those with one have used.
    pub(crate) spent: Spent,
    pub(crate) ended: Vec<SampleResult>,
}

/// All samples are shown and can be named by orders.
pub(crate) fn missing(
    run: &RunDirectory,
    record: &RunRecord,
    dataset: Dataset,
    progress: &Progress,
    controls: &Controls,
    budget: RunBudgetConfig,
) -> CommandResult<Missing> {
    // Logs are long, and only a budget asks for what is in them.
    let counts_attempts = budget.tokens.is_some() || budget.cost_usd.is_some();
    let samples: HashMap<String, _> =
        dataset.samples.into_iter().map(|sample| (sample.task_id.clone(), Arc::new(sample))).collect();
    let mut pending = Vec::new();
    let mut ended = Vec::new();
    let mut spent = Spent { time: time_of_sessions(record), ..Spent::default() };
    for entry in run.entries(record) {
        let entry = entry?;
        progress.plan(entry.planned.level, entry.result.as_ref());
        let key = SampleKey { task_id: entry.planned.task_id.clone(), epoch: entry.epoch };
        controls.plan(key.clone(), entry.result.is_some());
        // Attempts that were lost cost as much as others.
        let of_log = if counts_attempts { spent_by(&run.sample(&key))? } else { Expense::default() };
        let of_result = entry.result.as_ref().map(Expense::of_result).unwrap_or_default();
        let most = of_log.or_more(of_result);
        spent.usage += most.usage;
        spent.cost_usd += most.cost_usd.unwrap_or_default();
        match entry.result {
            Some(result) => ended.push(result),
            None => {
                let sample = samples.get(&entry.planned.task_id).ok_or_else(|| {
                    anyhow::anyhow!("task `{}` of the run is not in the dataset", entry.planned.task_id)
                })?;
                pending.push(Pending { sample: sample.clone(), epoch: entry.epoch });
            }
        }
    }
    Ok(Missing { pending, spent, ended })
}

/// Of those sessions that ended in order; how long one lived that was killed is not known.
fn time_of_sessions(record: &RunRecord) -> Duration {
    let lengths = record.sessions.iter().filter_map(|session| {
        let length = session.ended? - session.started;
        Duration::try_from(length).ok()
    });
    lengths.sum()
}

/// Writes totals and reports, shows the result and picks the exit code.
pub fn conclude(
    run: &RunDirectory,
    record: &mut RunRecord,
    stopped: &Stopped,
    secrets: &Secrets,
    output: &Output,
    console: &Console,
) -> CommandResult {
    let figures = Figures::of_run(run, record)?;
    record.totals = Some(figures.totals.clone());
    run.write_record(record)?;
    let report = write_files(run, record, &figures)?;
    show(&figures, &report, output, console)?;

    let totals = &figures.totals;
    match stopped {
        Stopped::Early(reason) => console.warn(&format!("stopped early: {}", secrets.redact(reason))),
        Stopped::Interrupted => console.warn("stopped by a signal"),
        Stopped::Done => {}
    }
    if totals.missing > 0 {
        console.warn(&format!(
            "{} of {} samples have no outcome\n\nhint: `gaia resume {}` finishes them",
            totals.missing,
            totals.requested,
            run.path().display()
        ));
    }
    if totals.error > 0 {
        console.warn(&format!(
            "{} of {} samples ended in an error and count as wrong{}\n\nhint: `gaia resume {} --rerun errors` runs \
             them again",
            totals.error,
            totals.requested,
            first_error(run, record)?.map(|error| format!("; the first: {error}")).unwrap_or_default(),
            run.path().display()
        ));
    }
    let exit_code =
        if totals.missing + totals.error > 0 { exit_code::INCOMPLETE } else { exit_code::SUCCESS };
    if let Some(feed) = output.feed() {
        feed.tell(&RunEvent::RunEnded { exit_code, totals });
    }
    Ok(exit_code)
}

/// The result of a run.
pub fn show(figures: &Figures, report: &Path, output: &Output, console: &Console) -> CommandResult<()> {
    #[derive(Serialize)]
    struct Shown<'a> {
        figures: &'a Figures,
        report: &'a Path,
    }
    let table = || format!("{}\nReport: {}", results_table(figures), report.display());
    match output {
        Output::Table => console.print(&table())?,
        Output::Json => console.print(&serde_json::to_string_pretty(&Shown { figures, report })?)?,
        Output::Events(_) => console.say(&table()),
    }
    Ok(())
}

fn first_error(run: &RunDirectory, record: &RunRecord) -> CommandResult<Option<String>> {
    for entry in run.entries(record) {
        if let Some(result) = entry?.result
            && result.status == Status::Error
        {
            return Ok(result.error.map(|error| error.message));
        }
    }
    Ok(None)
}
