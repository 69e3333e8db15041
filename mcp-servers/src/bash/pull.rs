//! Getting the image when it is not there.

use std::time::{Duration, Instant};

use gaia_sandbox::{Engine, EngineError, PullProgress};

/// Between two lines that say how far a pull is.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// Pulls an image and says on stderr how far it is.
pub(super) async fn pull(engine: &Engine, name: &str) -> Result<(), EngineError> {
    tracing::info!("pulling image `{name}`, which is not there yet");
    let started = Instant::now();
    let mut reported = started;
    let image = engine
        .pull(name, |progress| {
            if reported.elapsed() >= REPORT_INTERVAL {
                reported = Instant::now();
                tracing::info!("pulling image `{name}`: {}", line(&progress));
            }
        })
        .await?;
    let (size, seconds) = (image.size_bytes >> 20, started.elapsed().as_secs());
    tracing::info!("pulled image `{name}`, {size} MiB, in {seconds} s");
    Ok(())
}

fn line(progress: &PullProgress) -> String {
    format!(
        "{} of {} MiB, {} of {} layers",
        progress.bytes >> 20,
        progress.total_bytes >> 20,
        progress.layers_done,
        progress.layers
    )
}
