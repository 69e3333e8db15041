//! The bound on what a container writes to the engine's disk.
//!
//! Docker bounds a container's disk only on xfs with project quotas, btrfs and zfs; the usual overlay on ext4 refuses.
//! Asking the engine how much a container has written makes it walk all the files, so it is asked only when the disk
//! has become fuller by a good part of the bound, which the guest can tell at no cost.

use std::sync::Arc;
use std::time::Duration;

use bollard::query_parameters::InspectContainerOptionsBuilder;
use gaia_sandbox_protocol::{GuestFrame, HostFrame};

use crate::connection::Connection;
use crate::engine::Engine;

/// Between two looks. A disk takes about 1 GB a second, so this is by how many gigabytes the bound may be overstepped.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Part of the bound by which the disk must have become fuller before the engine is asked.
const PARTS: u64 = 8;

/// Ends the connection, and with it the container, when more than `most_bytes` have been written.
pub(crate) async fn watch(
    engine: Engine,
    container_id: String,
    connection: Arc<Connection>,
    most_bytes: u64,
) {
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut highest_free = None;
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            () = connection.ended() => return,
        }
        let mut answers = connection.expect_answers();
        connection.send(answers.id, [&HostFrame::Ping]);
        let Some(GuestFrame::Pong { free_disk_bytes: free }) = answers.next().await else { continue };
        let before = *highest_free.get_or_insert(free);
        if before.saturating_sub(free) < most_bytes / PARTS {
            highest_free = Some(before.max(free));
            continue;
        }
        highest_free = Some(free);
        if let Some(written) = written_bytes(&engine, &container_id).await
            && written > most_bytes
        {
            connection.end(&format!(
                "it wrote {:.1} GiB to its disk, and {:.1} GiB is the most it may",
                in_gibibytes(written),
                in_gibibytes(most_bytes)
            ));
            return;
        }
    }
}

/// What the container has written, by the engine's count; `None` where it does not say.
async fn written_bytes(engine: &Engine, container_id: &str) -> Option<u64> {
    let options = InspectContainerOptionsBuilder::default().size(true).build();
    let container = engine.docker.inspect_container(container_id, Some(options)).await.ok()?;
    container.size_rw.and_then(|bytes| u64::try_from(bytes).ok())
}

fn in_gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
