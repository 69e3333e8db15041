use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::inbox::Inbox;
use super::lines::{LINE_BYTES, LineReader};
use super::process::Pipes;
use super::report::Reporter;
use super::spill::Spills;

/// One JSON-RPC message a line over a child's pipes.
///
/// Ours rather than rmcp's because the process must outlive its stdin for an orderly end, an answer that is too long
/// or broken must reach whoever waits for it, and noise on stdout is worth a notice.
pub(super) struct StdioTransport {
    lines: LineReader<BufReader<ChildStdout>>,
    inbox: Inbox,
    outgoing: mpsc::Sender<Outgoing>,
    end_of_input: CancellationToken,
}

struct Outgoing {
    line: Vec<u8>,
    done: oneshot::Sender<std::io::Result<()>>,
}

impl StdioTransport {
    /// Cancelling `end_of_input` closes the child's stdin, also while a write is stuck.
    pub(super) fn new(
        pipes: Pipes,
        end_of_input: CancellationToken,
        reporter: Arc<Reporter>,
        spills: Arc<Spills>,
    ) -> Self {
        let (outgoing, queue) = mpsc::channel(16);
        tokio::spawn(write_lines(pipes.stdin, queue, end_of_input.clone()));
        Self {
            lines: LineReader::new(BufReader::with_capacity(64 * 1024, pipes.stdout), LINE_BYTES)
                .spilling(reporter.redactor().clone()),
            inbox: Inbox::new(reporter, spills),
            outgoing,
            end_of_input,
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let closed = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
            let (done, written) = oneshot::channel();
            outgoing.send(Outgoing { line, done }).await.map_err(|_| closed())?;
            written.await.map_err(|_| closed())?
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.inbox.pop() {
                return Some(message);
            }
            // A server that floods its output would hold the task, and with it every timeout, until it pauses.
            tokio::task::coop::consume_budget().await;
            let line = self.lines.next().await?;
            self.inbox.take(line);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.end_of_input.cancel();
        Ok(())
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        self.end_of_input.cancel();
    }
}

async fn write_lines(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<Outgoing>,
    end_of_input: CancellationToken,
) {
    let write_all = async {
        while let Some(Outgoing { line, done }) = queue.recv().await {
            let written = async {
                stdin.write_all(&line).await?;
                stdin.flush().await
            };
            // Nobody waits when the service is gone.
            let _ = done.send(written.await);
        }
    };
    tokio::select! {
        () = write_all => {}
        () = end_of_input.cancelled() => {}
    }
}
