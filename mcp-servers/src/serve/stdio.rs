//! One client on stdin and stdout.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rmcp::model::RequestId;
use rmcp::service::{ServerInitializeError, ServiceExt};
use rmcp::transport::io::stdio_pipes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ServeError;
use super::oversized::{AnsweringTransport, LineMeter};
use crate::handler::Handler;
use crate::toolset::Toolset;

/// After stdin closed, calls in flight may still answer for this long (a pipe of requests wants its replies).
const DRAIN_TIMEOUT: Duration = Duration::from_millis(700);
/// After that, or after a signal, cancelled calls may still say so.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(200);

/// Serves until stdin closes, stdout breaks or `stop` is cancelled. Returns when that was, and how it went.
pub(super) async fn serve<T: Toolset>(
    toolset: Arc<T>,
    stop: CancellationToken,
) -> (Instant, Result<(), ServeError>) {
    let closed = CancellationToken::new();
    let broken = CancellationToken::new();
    let (stdin, stdout) = stdio_pipes();
    let (too_long_to, too_long) = mpsc::unbounded_channel();
    let input = WatchedInput {
        input: stdin,
        closed: closed.clone(),
        lines: LineMeter::default(),
        too_long: too_long_to,
    };
    let output = WatchedOutput { output: stdout, broken: broken.clone() };
    let transport = AnsweringTransport::new(input, output, too_long);
    let calls = CancellationToken::new();
    let service = Handler::for_process(toolset).serve_with_ct(transport, calls.clone());
    let mut served = tokio::spawn(async move {
        match service.await {
            Ok(running) => running.waiting().await.map(drop).map_err(|error| error.to_string()),
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    });
    let mut ended = None;
    tokio::select! {
        result = &mut served => ended = Some(result),
        () = stop.cancelled() => {}
        () = broken.cancelled() => {}
        () = closed.cancelled() => {}
    }
    let end = Instant::now();
    if ended.is_none() && closed.is_cancelled() {
        ended = tokio::time::timeout(DRAIN_TIMEOUT, &mut served).await.ok();
    }
    calls.cancel();
    if ended.is_none() {
        ended = tokio::time::timeout(CANCEL_TIMEOUT, &mut served).await.ok();
    }
    let result = match ended {
        // Not ended in time: the process ends anyway.
        None | Some(Ok(Ok(()))) => Ok(()),
        Some(Ok(Err(reason))) => Err(ServeError::Unexpected(format!("the protocol failed: {reason}"))),
        Some(Err(panic)) => Err(ServeError::Unexpected(format!("the protocol crashed: {panic}"))),
    };
    (end, result)
}

/// Says when the client has closed its end, and which requests rmcp will drop for their length. rmcp itself only drains
/// for five seconds without telling anyone.
struct WatchedInput<R> {
    input: R,
    closed: CancellationToken,
    lines: LineMeter,
    too_long: mpsc::UnboundedSender<RequestId>,
}

impl<R: AsyncRead + Unpin> AsyncRead for WatchedInput<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let result = ready!(Pin::new(&mut this.input).poll_read(context, buffer));
        if result.is_err() || buffer.filled().len() == before {
            this.closed.cancel();
        }
        // Nobody takes it only when nothing is answered any more.
        this.lines.pass(&buffer.filled()[before..], |id| drop(this.too_long.send(id)));
        Poll::Ready(result)
    }
}

/// Says when nobody reads our replies any more. rmcp logs such an error and goes on.
struct WatchedOutput<W> {
    output: W,
    broken: CancellationToken,
}

impl<W> WatchedOutput<W> {
    fn watch<V>(&self, polled: Poll<io::Result<V>>) -> Poll<io::Result<V>> {
        if matches!(polled, Poll::Ready(Err(_))) {
            self.broken.cancel();
        }
        polled
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for WatchedOutput<W> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.output).poll_write(context, buffer);
        this.watch(polled)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.output).poll_flush(context);
        this.watch(polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.output).poll_shutdown(context);
        this.watch(polled)
    }
}
