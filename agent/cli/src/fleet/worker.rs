//! `gaia worker`: works on every run that wants workers, until it is told to stop.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::kv::{Entry, Operation, Watch};
use bytes::Bytes;
use futures_util::StreamExt;
use rand::RngExt;
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::channel::runs_bucket;
use super::presence::Presence;
use super::retry::{PAUSE, persist};
use super::wire::WorkerState;
use super::work_on::{Bench, Declined, work_on};
use super::{Commands, FleetError, Link};
use crate::command::Surroundings;
use crate::signals::Interrupt;

/// How a worker works.
pub struct WorkerOptions {
    pub concurrency: NonZeroUsize,
    pub commands: Commands,
    /// How long samples that run may take to their end once the worker is told to stop.
    pub drain_limit: Duration,
    /// Ends when there was no run for so long; `None` waits for ever.
    pub idle_limit: Option<Duration>,
}

/// Until it is told to stop, or nobody wants it any more.
///
/// # Errors
/// When the server cannot be used to begin with; later it is waited for.
pub async fn work(
    link: Link,
    options: WorkerOptions,
    surroundings: &Surroundings,
    interrupt: &Interrupt,
) -> Result<(), FleetError> {
    let console = &surroundings.console;
    let id = worker_id();
    let presence = Presence::new(WorkerState {
        id: id.clone(),
        host: host_name(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        concurrency: options.concurrency.get(),
        running: Vec::new(),
        committed: 0,
        refused: std::collections::BTreeMap::new(),
        is_draining: false,
        started: OffsetDateTime::now_utc(),
        at: OffsetDateTime::now_utc(),
    });
    let herald = presence.announce(&link).await?;
    let mut runs = watch_runs(&link).await?;
    console.say(&format!("worker {id}: {} samples at a time; waiting for runs", options.concurrency));
    let bench = Arc::new(Bench {
        link,
        id,
        commands: options.commands,
        concurrency: options.concurrency,
        places: Arc::new(Semaphore::new(options.concurrency.get())),
        presence: presence.clone(),
        surroundings: surroundings.clone(),
    });
    let mut parts = Parts {
        bench: bench.clone(),
        interrupt: interrupt.clone(),
        known: HashMap::new(),
        tasks: JoinSet::new(),
    };
    loop {
        let idle_limit = options.idle_limit.filter(|_| parts.tasks.is_empty());
        let idle = async {
            match idle_limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = interrupt.drain.cancelled() => break,
            () = idle => {
                console.say("no run wants a worker");
                break;
            }
            entry = runs.next() => match entry {
                Some(Ok(entry)) => parts.heard_of(entry),
                // The watch ended; another one begins with all there is.
                Some(Err(_)) | None => {
                    tokio::time::sleep(PAUSE).await;
                    if let Ok(again) = watch_runs(&bench.link).await {
                        runs = again;
                    }
                }
            },
            Some(ended) = parts.tasks.join_next() => parts.ended(ended),
        }
    }
    presence.drains();
    interrupt.drain.cancel();
    let rest = async {
        while let Some(ended) = parts.tasks.join_next().await {
            parts.ended(ended);
        }
    };
    tokio::pin!(rest);
    tokio::select! {
        () = &mut rest => {}
        () = tokio::time::sleep(options.drain_limit) => {
            console.warn("the time to finish is over: the samples that still run are handed back");
            interrupt.cancel.cancel();
            rest.await;
        }
    }
    herald.close().await;
    // The last clone but those of tasks that are gone.
    bench.link.clone().close().await;
    Ok(())
}

async fn watch_runs(link: &Link) -> Result<Watch, FleetError> {
    let store = runs_bucket(link).await?;
    persist("watching for runs", Duration::from_secs(10), || store.watch_with_history(">")).await
}

/// The runs that this worker knows of.
struct Parts {
    bench: Arc<Bench>,
    interrupt: Interrupt,
    known: HashMap<String, Known>,
    tasks: JoinSet<(String, Result<(), Declined>)>,
}

struct Known {
    offer: Bytes,
    ended: CancellationToken,
}

impl Parts {
    fn heard_of(&mut self, entry: Entry) {
        let run = entry.key;
        let is_new = self.known.get(&run).is_none_or(|known| known.offer != entry.value);
        if entry.operation != Operation::Put {
            if let Some(known) = self.known.remove(&run) {
                known.ended.cancel();
                self.bench.presence.forgets(&run);
            }
        } else if is_new {
            // Offered anew with other settings: what was begun under the old ones is wanted no more.
            if let Some(known) = self.known.remove(&run) {
                known.ended.cancel();
            }
            self.begin(run, entry.value);
        }
    }

    fn begin(&mut self, run: String, offer: Bytes) {
        let ended = CancellationToken::new();
        self.known.insert(run.clone(), Known { offer: offer.clone(), ended: ended.clone() });
        let (bench, interrupt) = (self.bench.clone(), self.interrupt.clone());
        self.tasks.spawn(async move {
            let worked = work_on(&bench, &run, &offer, &interrupt, ended).await;
            (run, worked)
        });
    }

    fn ended(&mut self, ended: Result<(String, Result<(), Declined>), tokio::task::JoinError>) {
        let console = &self.bench.surroundings.console;
        match ended {
            Ok((run, Ok(()))) => console.say(&format!("run {run}: no more to do here")),
            Ok((run, Err(Declined::Refused(refusal)))) => {
                console.warn(&format!("run {run}: this worker does not work on it: {}", refusal.reason()));
                if self.known.contains_key(&run) {
                    self.bench.presence.refuses(&run, refusal);
                }
            }
            Ok((run, Err(Declined::Failed(error)))) => {
                console.warn(&format!("run {run}: {error}"));
                // Unless it is over, the next look finds it again.
                if let Some(known) = self.known.remove(&run).filter(|known| !known.ended.is_cancelled()) {
                    self.begin(run, known.offer);
                }
            }
            Err(error) => tracing::error!("work on a run ended in a fault of ours: {error}"),
        }
    }
}

/// Plain enough for a key, and never the same twice.
fn worker_id() -> String {
    let host: String = host_name()
        .chars()
        .filter(|character| character.is_ascii_alphanumeric() || *character == '-')
        .collect();
    format!("{host}-{}-{:04x}", std::process::id(), rand::rng().random_range(0..0x1_0000))
}

fn host_name() -> String {
    let name = fs_err::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "host".to_owned(),
        name => name.to_owned(),
    }
}
