//! A run on more than one machine, over NATS JetStream.
//!
//! A run has, all named after its id: a work-queue stream with a message for each sample that is to be run, a
//! work-queue stream of what workers write into trajectories, a key-value bucket with the state of each sample, and an
//! object store for attachments and artefacts. What is common to all runs: a bucket of runs that want workers, one of
//! workers with their last sign of life, one with the pace at model endpoints.
//!
//! Who may commit a sample is decided in one place: its entry in the bucket of states. Whoever begins it writes that
//! down, on condition that the entry is what it was; whoever ends it writes the outcome, on condition that its own
//! claim is still what stands there. A worker that was cut off, and whose sample somebody else began meanwhile, cannot
//! commit. The acknowledgements of the stream only decide who is given a sample next.
//!
//! The truth stays with the coordinator, which scores.

mod allowed;
mod channel;
mod collect;
mod coordinate;
mod forward;
mod link;
mod parcel;
mod presence;
mod queue;
mod retry;
mod wire;
mod work_on;
mod worker;

pub use allowed::{Commands, OwnConfig};
pub(crate) use coordinate::{Coordination, Earlier, check_fits, coordinate};
pub use link::{ConnectError, Connection, Link};
pub use presence::workers;
pub use wire::{ClaimRules, Refusal, WorkerState};
pub use worker::{WorkerOptions, work};

use crate::exit_code::CommandError;
use crate::store::StoreError;

/// What went wrong between the machines.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The server cannot be used at all.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server failed at this, after all tries.
    #[error("{what} over NATS failed: {reason}")]
    Lost { what: String, reason: String },
    /// The other side sent what this version cannot read.
    #[error("what came over NATS cannot be read: {0}")]
    Unreadable(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<std::io::Error> for FleetError {
    fn from(error: std::io::Error) -> Self {
        Self::Store(error.into())
    }
}

impl FleetError {
    fn lost(what: &str, reason: impl std::fmt::Display) -> Self {
        Self::Lost { what: what.to_owned(), reason: reason.to_string() }
    }
}

/// The exit code of each, and the way out.
pub(crate) fn command_error(error: FleetError) -> CommandError {
    match error {
        FleetError::Connect(_) | FleetError::Lost { .. } => CommandError::environment(error)
            .with_hint("is the nats-server up, with JetStream (`-js`), and are the credentials right (GAIA_NATS_USER and GAIA_NATS_PASSWORD, GAIA_NATS_TOKEN, --nats-creds or --nats-nkey; --nats-ca for tls://)?"),
        FleetError::Unreadable(_) => CommandError::environment(error),
        FleetError::Store(error) => error.into(),
    }
}
