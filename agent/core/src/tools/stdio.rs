use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
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
    input: Arc<Input>,
}

/// The child's stdin; `None` once it is closed.
struct Input {
    pipe: Mutex<Option<ChildStdin>>,
    end: CancellationToken,
}

impl StdioTransport {
    /// Cancelling `end_of_input` closes the child's stdin, also while a write is stuck.
    pub(super) fn new(
        pipes: Pipes,
        end_of_input: CancellationToken,
        reporter: Arc<Reporter>,
        spills: Arc<Spills>,
    ) -> Self {
        let input = Arc::new(Input { pipe: Mutex::new(Some(pipes.stdin)), end: end_of_input });
        tokio::spawn(close_at_end(input.clone()));
        Self {
            lines: LineReader::new(BufReader::with_capacity(64 * 1024, pipes.stdout), LINE_BYTES)
                .spilling(reporter.redactor().clone()),
            inbox: Inbox::new(reporter, spills),
            input,
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let input = self.input.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            input.write(&line).await
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
        self.input.end.cancel();
        Ok(())
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        self.input.end.cancel();
    }
}

impl Input {
    async fn write(&self, line: &[u8]) -> std::io::Result<()> {
        let closed = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let mut pipe = self.pipe.lock().await;
        let stdin = pipe.as_mut().ok_or_else(closed)?;
        let written = tokio::select! {
            written = async {
                stdin.write_all(line).await?;
                stdin.flush().await
            } => written,
            () = self.end.cancelled() => Err(closed()),
        };
        if written.is_err() {
            // Half a line may have left: nothing can follow it.
            *pipe = None;
        }
        written
    }
}

async fn close_at_end(input: Arc<Input>) {
    input.end.cancelled().await;
    *input.pipe.lock().await = None;
}
