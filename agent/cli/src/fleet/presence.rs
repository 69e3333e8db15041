//! Who works, on what, and when it last said so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::kv::Store;
use futures_util::TryStreamExt;
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::channel::{START_LIMIT, workers_bucket};
use super::retry::persist;
use super::wire::{Refusal, RunningSample, WorkerState};
use super::{FleetError, Link};
use crate::store::{SampleKey, SampleResult};

/// Between two signs of life; several are lost before a worker counts as gone.
const SIGN_INTERVAL: Duration = Duration::from_secs(5);

/// Of changes that come thick and fast, one message tells.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(250);

/// Every worker that gave a sign of life lately, by name.
///
/// # Errors
/// When the server does not answer.
pub async fn workers(link: &Link) -> Result<Vec<WorkerState>, FleetError> {
    let store = workers_bucket(link).await?;
    let mut workers = persist("listing the workers", START_LIMIT, || async {
        let keys: Vec<String> = store
            .keys()
            .await
            .map_err(|error| error.to_string())?
            .try_collect()
            .await
            .map_err(|error| error.to_string())?;
        let mut workers: Vec<WorkerState> = Vec::new();
        for key in keys {
            // One that left meanwhile, or speaks another language, is left out.
            if let Ok(Some(content)) = store.get(key).await {
                workers.extend(serde_json::from_slice::<WorkerState>(&content));
            }
        }
        Ok::<_, String>(workers)
    })
    .await?;
    workers.sort_by(|left, right| left.id.cmp(&right.id));
    Ok(workers)
}

/// What a worker says of itself, again and again, until it is closed.
#[derive(Debug)]
pub(super) struct Presence {
    state: Mutex<WorkerState>,
    changed: Notify,
}

/// Says it.
#[derive(Debug)]
pub(super) struct Herald {
    store: Store,
    id: String,
    task: AbortOnDropHandle<()>,
}

impl Presence {
    pub(super) fn new(state: WorkerState) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new() })
    }

    pub(super) async fn announce(self: &Arc<Self>, link: &Link) -> Result<Herald, FleetError> {
        let store = workers_bucket(link).await?;
        let (presence, signs) = (self.clone(), store.clone());
        let task = tokio::spawn(async move {
            loop {
                let state = WorkerState { at: OffsetDateTime::now_utc(), ..presence.state().clone() };
                match serde_json::to_vec(&state) {
                    Ok(content) => {
                        if let Err(error) = signs.put(&state.id, content.into()).await {
                            tracing::info!("no sign of life could be given: {error}");
                        }
                    }
                    Err(error) => tracing::error!("a worker's state cannot be written: {error}"),
                }
                tokio::time::sleep(SHORTEST_INTERVAL).await;
                tokio::select! {
                    () = tokio::time::sleep(SIGN_INTERVAL) => {}
                    () = presence.changed.notified() => {}
                }
            }
        });
        Ok(Herald { store, id: self.state().id.clone(), task: AbortOnDropHandle::new(task) })
    }

    pub(super) fn begins(&self, run: &str, key: &SampleKey) {
        let sample = RunningSample {
            run: run.to_owned(),
            task_id: key.task_id.clone(),
            epoch: key.epoch,
            since: OffsetDateTime::now_utc(),
        };
        self.change(|state| state.running.push(sample));
    }

    pub(super) fn ends(&self, run: &str, key: &SampleKey) {
        self.change(|state| {
            state.running.retain(|sample| {
                (sample.run.as_str(), sample.task_id.as_str(), sample.epoch)
                    != (run, key.task_id.as_str(), key.epoch)
            });
        });
    }

    pub(super) fn committed(&self, run: &str, result: &SampleResult) {
        tracing::info!("run {run}: task `{}`, epoch {}, is done", result.task_id, result.epoch);
        self.change(|state| state.committed += 1);
    }

    pub(super) fn refuses(&self, run: &str, refusal: Refusal) {
        self.change(|state| {
            state.refused.insert(run.to_owned(), refusal);
        });
    }

    /// The run is over.
    pub(super) fn forgets(&self, run: &str) {
        self.change(|state| {
            state.refused.remove(run);
        });
    }

    pub(super) fn drains(&self) {
        self.change(|state| state.is_draining = true);
    }

    fn change(&self, change: impl FnOnce(&mut WorkerState)) {
        change(&mut self.state());
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Herald {
    /// Says good-bye.
    pub(super) async fn close(self) {
        drop(self.task);
        if let Err(error) = self.store.delete(&self.id).await {
            tracing::debug!("no good-bye could be said: {error}");
        }
    }
}
