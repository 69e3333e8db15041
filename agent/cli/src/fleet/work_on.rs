//! A worker's part in one run: the same loop over samples as in a run on one machine, with another queue.

use std::num::NonZeroUsize;
use std::sync::Arc;

use gaia_agent::SharedBudget;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::allowed::Commands;
use super::channel::RunChannel;
use super::presence::Presence;
use super::queue::{JetStreamQueue, Place};
use super::wire::{Offer, OfferVersion, Refusal};
use super::{FleetError, Link};
use crate::command::{Surroundings, compare_with_today, load_stored};
use crate::config::{Purpose, RunBudgetConfig};
use crate::console::{Chatter, Console};
use crate::continuing::Begin;
use crate::control::{Controls, Sandboxes};
use crate::exit_code::CommandError;
use crate::performer::Performer;
use crate::preflight::Ready;
use crate::progress::Progress;
use crate::sample::SampleContext;
use crate::sandbox_image::{reap, sandbox_images};
use crate::schedule::{Limits, Starts};
use crate::signals::Interrupt;
use crate::store::RunDirectory;
use crate::work::{OnError, Spent, StopRules, Stopped, work_through};

/// What all runs of a worker share.
pub(super) struct Bench {
    pub(super) link: Link,
    pub(super) id: String,
    pub(super) commands: Commands,
    pub(super) concurrency: NonZeroUsize,
    pub(super) places: Arc<Semaphore>,
    pub(super) presence: Arc<Presence>,
    pub(super) surroundings: Surroundings,
}

/// Why the worker does not, or no longer, work on a run.
#[derive(Debug)]
pub(super) enum Declined {
    Refused(Refusal),
    /// The server is away, or the run is over: tried again if it is offered again.
    Failed(FleetError),
}

impl From<FleetError> for Declined {
    fn from(error: FleetError) -> Self {
        Self::Failed(error)
    }
}

impl From<CommandError> for Declined {
    fn from(error: CommandError) -> Self {
        let text = error.to_string();
        Self::Refused(Refusal::Unable(text.strip_prefix("error: ").unwrap_or(&text).to_owned()))
    }
}

/// Works on a run until it is over or the worker is told to stop. `offer` is what the coordinator says of it.
pub(super) async fn work_on(
    bench: &Bench,
    run_id: &str,
    offer: &[u8],
    interrupt: &Interrupt,
    ended: CancellationToken,
) -> Result<(), Declined> {
    let unable = |reason: String| Declined::Refused(Refusal::Unable(reason));
    let unreadable = |error: serde_json::Error| unable(format!("the offer cannot be read: {error}"));
    let own_version = env!("CARGO_PKG_VERSION");
    let version: OfferVersion = serde_json::from_slice(offer).map_err(unreadable)?;
    if version.program_version != own_version {
        return Err(unable(format!(
            "the coordinator is gaia {} and this worker is gaia {own_version}; both must be the same",
            version.program_version
        )));
    }
    let Offer { mut record, rules, .. } = serde_json::from_slice(offer).map_err(unreadable)?;
    bench.commands.permit(&mut record).map_err(unable)?;
    let channel = RunChannel::open(&bench.link, run_id).await?;

    let console = &bench.surroundings.console;
    let loaded = load_stored(&record, record.config.clone(), Vec::new(), Purpose::Run, &bench.surroundings)?;
    console.hide(&loaded.secrets);
    let mut ready = tokio::select! {
        ready = Ready::prepare(&loaded, run_id, console) => ready?,
        () = interrupt.drain.cancelled() => return Ok(()),
        () = ended.cancelled() => return Ok(()),
    };
    // The settings are the job's own, or the worker's where they must be; what comes of them here is compared.
    record.config.clone_from(&loaded.effective);
    let differences = compare_with_today(&record, &loaded, &ready);
    if !differences.is_empty() {
        ready.close().await;
        let list: Vec<String> = differences.iter().map(ToString::to_string).collect();
        return Err(unable(format!(
            "this worker's answers could not be compared with others: {}",
            list.join("; ")
        )));
    }
    if let Some(calls) = loaded.config.run.model_calls {
        ready.limit_model_calls(calls);
    }
    let folder = tempfile::Builder::new().prefix("gaia-worker-").tempdir().map_err(FleetError::from)?;
    // Only the samples that are worked on are there, each until it is handed over.
    let run = RunDirectory::open(folder.path());
    let budget = Arc::new(SharedBudget::new(None, None, 0, 0.0));
    let most = loaded.config.run.sandboxes;
    let permits = Arc::new(Semaphore::new(most.unwrap_or(bench.concurrency.get() + 2)));
    let context = Arc::new(SampleContext {
        run_id: run_id.to_owned(),
        run: run.clone(),
        performer: Performer::new(&loaded, &ready, run_id, &budget, console),
        servers: ready.sample_servers.clone(),
        shared_servers: ready.shared_servers.clone(),
        sandboxes: permits.clone(),
        closing: TaskTracker::new(),
        begin: Begin::Anew,
        secrets: Arc::new(loaded.secrets.clone()),
        // The coordinator shows it.
        progress: Arc::new(Progress::new(Console::new(Chatter::Quiet))),
        feed: None,
        telemetry: None,
    });
    let queue = Arc::new(JetStreamQueue::new(Place {
        channel,
        rules,
        worker: bench.id.clone(),
        run,
        places: bench.places.clone(),
        ended: ended.clone(),
        presence: bench.presence.clone(),
    }));
    console.say(&format!("run {run_id}: working on it"));
    // Nothing is claimed ahead of a place: at the end of a run others wait for what would lie here.
    let limits = Limits { worked_on: bench.concurrency, ahead: 0, starts: Starts::Allowed };
    let sandboxes = Sandboxes { permits, configured: most };
    let controls =
        Arc::new(Controls::new(limits, sandboxes, Some("a worker has the places it was started with")));
    // The coordinator sees all outcomes, and decides.
    let rules = StopRules { on_error: OnError::GoOn, budget: RunBudgetConfig::default() };
    let own = Interrupt { cancel: interrupt.cancel.child_token(), ..interrupt.clone() };
    let stopped = {
        let working = work_through(context, queue.clone(), &controls, rules, Spent::default(), &own, console);
        tokio::pin!(working);
        tokio::select! {
            stopped = &mut working => stopped,
            () = ended.cancelled() => {
                // Outcomes are wanted no more.
                own.cancel.cancel();
                working.await
            }
        }
    };
    queue.close().await;
    let has_images = !sandbox_images(&loaded).is_empty();
    ready.close().await;
    if has_images {
        reap().await;
    }
    match stopped.map_err(FleetError::from)? {
        Stopped::Early(reason) => {
            Err(Declined::Refused(Refusal::Paused(loaded.secrets.redact(&reason).into_owned())))
        }
        Stopped::Done | Stopped::Interrupted => Ok(()),
    }
}
