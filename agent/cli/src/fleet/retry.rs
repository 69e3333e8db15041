use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

use super::FleetError;

/// Between two tries at a server that is gone.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Tries until it works or `limit` is over.
pub(super) async fn persist<T, E: Display, F: Future<Output = Result<T, E>>>(
    what: &str,
    limit: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<T, FleetError> {
    let until = Instant::now() + limit;
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() >= until => return Err(FleetError::lost(what, error)),
            Err(error) => tracing::info!("{what} over NATS failed, and is tried again: {error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
