use std::collections::VecDeque;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::lines::{Decoded, LINE_BYTES, Line, LineReader, answered_id, decode};
use super::process::Pipes;
use super::report::Reporter;
use crate::event::NoticeLevel;

/// One JSON-RPC message a line over a child's pipes.
///
/// Ours rather than rmcp's because the process must outlive its stdin for an orderly end, an answer that is too long
/// or broken must reach whoever waits for it, and noise on stdout is worth a notice.
pub(super) struct StdioTransport {
    lines: LineReader<BufReader<ChildStdout>>,
    received: VecDeque<RxJsonRpcMessage<RoleClient>>,
    outgoing: mpsc::Sender<Outgoing>,
    end_of_input: CancellationToken,
    reporter: Arc<Reporter>,
}

struct Outgoing {
    line: Vec<u8>,
    done: oneshot::Sender<std::io::Result<()>>,
}

impl StdioTransport {
    /// Cancelling `end_of_input` closes the child's stdin, also while a write is stuck.
    pub(super) fn new(pipes: Pipes, end_of_input: CancellationToken, reporter: Arc<Reporter>) -> Self {
        let (outgoing, queue) = mpsc::channel(16);
        tokio::spawn(write_lines(pipes.stdin, queue, end_of_input.clone()));
        Self {
            lines: LineReader::new(BufReader::with_capacity(64 * 1024, pipes.stdout), LINE_BYTES),
            received: VecDeque::new(),
            outgoing,
            end_of_input,
            reporter,
        }
    }

    fn take_line(&mut self, line: Line) {
        match line {
            Line::Whole(line) => match decode(&line) {
                Decoded::Messages(messages) => self.received.extend(messages),
                Decoded::BadAnswer { id, reason } => {
                    self.reporter.relay(NoticeLevel::Warning, &reason);
                    self.received.push_back(broken_answer(id, reason));
                }
                Decoded::Noise(text) => self.reporter.relay(
                    NoticeLevel::Warning,
                    &format!("wrote to stdout what is not a message of the protocol: {text}"),
                ),
                Decoded::Empty => {}
            },
            Line::TooLong { bytes, head, tail } => {
                let reason = format!(
                    "the answer has {bytes} bytes, over the limit of {LINE_BYTES}; ask for less at a time"
                );
                self.reporter.relay(NoticeLevel::Warning, &reason);
                if let Some(id) = answered_id(&head, &tail) {
                    self.received.push_back(broken_answer(id, reason));
                }
            }
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
            if let Some(message) = self.received.pop_front() {
                return Some(message);
            }
            let line = self.lines.next().await?;
            self.take_line(line);
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

fn broken_answer(id: i64, reason: String) -> RxJsonRpcMessage<RoleClient> {
    JsonRpcMessage::error(ErrorData::new(ErrorCode::PARSE_ERROR, reason, None), Some(RequestId::Number(id)))
}
