//! Serving HTTP until somebody says stop.

use std::future::IntoFuture;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use tokio_util::sync::CancellationToken;

/// After the stop, for replies, pages and streams that are being sent.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(700);

/// Answers whoever comes until `stop` is cancelled, and then what is under way.
pub(crate) async fn serve_until<L>(listener: L, router: Router, stop: &CancellationToken) -> io::Result<()>
where
    L: Listener,
    L::Addr: std::fmt::Debug,
{
    let stopped = stop.clone();
    let server =
        axum::serve(listener, router).with_graceful_shutdown(async move { stopped.cancelled().await });
    let mut server = std::pin::pin!(server.into_future());
    tokio::select! {
        ended = &mut server => ended,
        () = stop.cancelled() => tokio::time::timeout(DRAIN_TIMEOUT, server).await.unwrap_or(Ok(())),
    }
}
