//! Which container belongs to whom.
//!
//! Handlers cannot hold it: rmcp makes a new one for each request of a client without sessions. On stdio the process
//! owns one container; over HTTP a session (up to 2025-11-25), the id in the URL or the bearer token does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::slot::{Blueprint, Place, Slot, SlotError};
use crate::toolset::{Caller, Removal, Variables};

/// Slots kept, most of them without a container, only to tell a late client that its sandbox is gone.
const MAX_SLOTS: usize = 4096;
/// The shortest pause between two looks for idle containers.
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct Places {
    blueprint: Arc<Blueprint>,
    permits: Arc<Semaphore>,
    max_containers: usize,
    idle: Option<Duration>,
    slots: Mutex<HashMap<Caller, Arc<Slot>>>,
}

impl Places {
    /// `idle` is the time after which an unused container is removed; `None` for never.
    pub(super) fn new(blueprint: Arc<Blueprint>, max_containers: usize, idle: Option<Duration>) -> Self {
        Self {
            blueprint,
            permits: Arc::new(Semaphore::new(max_containers)),
            max_containers,
            idle,
            slots: Mutex::default(),
        }
    }

    /// Starts the caller's container in the background.
    pub(super) fn prepare(&self, caller: &Caller, variables: &Variables) {
        self.slot(caller, variables).prepare();
    }

    /// The caller's container, started if need be.
    pub(super) async fn enter(
        &self,
        caller: &Caller,
        variables: &Variables,
        cancel: &CancellationToken,
    ) -> Result<Place, SlotError> {
        if *caller == Caller::Anonymous {
            return Err(SlotError::Unaddressed(format!("/sandbox/{:032x}/mcp", rand::random::<u128>())));
        }
        self.slot(caller, variables).enter(cancel).await
    }

    fn slot(&self, caller: &Caller, variables: &Variables) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(caller) {
            return Arc::clone(slot);
        }
        if slots.len() >= MAX_SLOTS {
            let oldest = slots
                .iter()
                .filter_map(|(caller, slot)| Some((slot.forgettable_since()?, caller)))
                .min_by_key(|(since, _caller)| *since)
                .map(|(_since, caller)| caller.clone());
            if let Some(oldest) = oldest {
                slots.remove(&oldest);
            }
        }
        let blueprint = match variables.is_empty() {
            true => Arc::clone(&self.blueprint),
            false => Arc::new(self.blueprint.of_one(variables)),
        };
        let slot = Arc::new(Slot::new(blueprint, Arc::clone(&self.permits), self.max_containers));
        slots.insert(caller.clone(), Arc::clone(&slot));
        slot
    }

    /// Ends the caller's container without waiting. Called from `Drop`, perhaps while the runtime ends, in which case
    /// the container ends with the process.
    pub(super) fn end(&self, caller: &Caller) {
        let Some(slot) = self.take(caller) else {
            return;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { slot.close().await });
        }
    }

    /// Ends the caller's container and waits for it.
    pub(super) async fn remove(&self, caller: &Caller) -> Removal {
        match self.take(caller) {
            Some(slot) => {
                slot.close().await;
                Removal::Removed
            }
            None => Removal::Absent,
        }
    }

    fn take(&self, caller: &Caller) -> Option<Arc<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(caller)
    }

    /// Removes idle containers for as long as it is polled.
    pub(super) async fn end_idle(self: Arc<Self>) {
        let Some(idle) = self.idle else {
            return;
        };
        let mut ticks = tokio::time::interval((idle / 4).max(MIN_SWEEP_INTERVAL));
        loop {
            ticks.tick().await;
            join_all(self.all().iter().map(|slot| slot.end_if_idle(idle))).await;
        }
    }

    pub(super) async fn close(&self) {
        self.permits.close();
        join_all(self.all().iter().map(|slot| slot.close())).await;
        if let Some(pool) = &self.blueprint.pool
            && let Err(error) = pool.close().await
        {
            tracing::warn!("failed to remove a container of the pool: {error}");
        }
    }

    fn all(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
