//! Requests on stdin that are too long to read. rmcp drops such a line without an answer, and its sender waits for ever;
//! here the id is picked out of the line as it passes, and answered with an error.

use std::io;

use rmcp::ErrorData;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// One message: what rmcp takes over HTTP too, and far above the largest `write_file` or `bash`.
pub(super) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// A member of a message that may hold its id or method is shorter than this.
const MAX_MEMBER_BYTES: usize = 512;

/// Follows the lines of JSON that pass through, in memory of a fixed size.
#[derive(Debug, Default)]
pub(super) struct LineMeter {
    length: usize,
    depth: usize,
    text: Text,
    /// The outermost object's current member, as far as it fits, without what is nested in it.
    member: Vec<u8>,
    id: Option<RequestId>,
    is_call: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

impl LineMeter {
    /// Calls `too_long` with the id of each request that ends in `bytes` and is longer than [`MAX_LINE_BYTES`].
    pub(super) fn pass(&mut self, bytes: &[u8], mut too_long: impl FnMut(RequestId)) {
        for &byte in bytes {
            self.length += 1;
            if byte == b'\n' {
                let line = std::mem::take(self);
                if line.length > MAX_LINE_BYTES
                    && line.is_call
                    && let Some(id) = line.id
                {
                    too_long(id);
                }
                continue;
            }
            self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.text != Text::Outside {
            self.keep(byte);
            self.text = match (self.text, byte) {
                (Text::Inside, b'\\') => Text::Escaped,
                (Text::Inside, b'"') => Text::Outside,
                _ => Text::Inside,
            };
            return;
        }
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth == 1 {
                    self.member.clear();
                }
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_member();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if self.depth == 1 => self.end_member(),
            b'"' => {
                self.keep(byte);
                self.text = Text::Inside;
            }
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.member.len() < MAX_MEMBER_BYTES {
            self.member.push(byte);
        }
    }

    fn end_member(&mut self) {
        let member = std::mem::take(&mut self.member);
        let start = member.trim_ascii_start();
        if !start.starts_with(b"\"id\"") && !start.starts_with(b"\"method\"") {
            return;
        }
        let object = [b"{", member.as_slice(), b"}"].concat();
        let mut object: Map<String, Value> = serde_json::from_slice(&object).unwrap_or_default();
        self.is_call |= object.contains_key("method");
        if let Some(id) = object.remove("id") {
            self.id = serde_json::from_value(id).ok();
        }
    }
}

/// rmcp's transport, which answers the ids that come in beside it.
pub(super) struct AnsweringTransport<R: AsyncRead, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, R, W>,
    too_long: mpsc::UnboundedReceiver<RequestId>,
}

impl<R, W> AnsweringTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(input: R, output: W, too_long: mpsc::UnboundedReceiver<RequestId>) -> Self {
        Self { inner: AsyncRwTransport::new(input, output).with_max_line_length(MAX_LINE_BYTES), too_long }
    }
}

impl<R, W> Transport<RoleServer> for AnsweringTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            tokio::select! {
                biased;
                Some(id) = self.too_long.recv() => {
                    let text = format!(
                        "the request is longer than {} MiB; send less at a time",
                        MAX_LINE_BYTES >> 20
                    );
                    let answer = JsonRpcMessage::error(ErrorData::invalid_request(text, None), Some(id));
                    if let Err(error) = self.inner.send(answer).await {
                        tracing::debug!(%error, "an error was not sent");
                    }
                }
                // Cancelled here it goes on with the same line.
                message = self.inner.receive() => return message,
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn too_long(pieces: &[&[u8]]) -> Vec<RequestId> {
        let mut meter = LineMeter::default();
        let mut ids = Vec::new();
        for piece in pieces {
            meter.pass(piece, |id| ids.push(id));
        }
        ids
    }

    fn filler() -> Vec<u8> {
        vec![b'x'; MAX_LINE_BYTES]
    }

    #[test]
    fn the_id_is_found_on_either_side_of_the_arguments() {
        let before = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"id":1,"a":""#;
        assert_eq!(too_long(&[before, &filler(), b"\"}}\n"]), [RequestId::Number(7)]);
        let start = br#"{"method":"tools/call","params":{"id":1,"a":"\"}, ["#;
        let end = b"\"},\"jsonrpc\":\"2.0\", \"id\" : \"se\\\"ven\"}\n";
        assert_eq!(too_long(&[start, &filler(), end]), [RequestId::String("se\"ven".into())]);
    }

    #[test]
    fn what_is_no_long_request_is_let_pass() {
        let short = br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
        assert!(too_long(&[short, b"\n"]).is_empty());
        let notification = br#"{"jsonrpc":"2.0","method":"n","params":{"id":1,"a":""#;
        assert!(too_long(&[notification, &filler(), b"\"}}\n"]).is_empty());
        let response = br#"{"jsonrpc":"2.0","id":7,"result":{"method":"m","a":""#;
        assert!(too_long(&[response, &filler(), b"\"}}\n"]).is_empty());
        assert!(too_long(&[&filler(), b"}]}]\n"]).is_empty());
    }

    #[test]
    fn each_line_is_judged_alone_and_at_the_byte() {
        let request = |id: u32, length: usize| {
            let start = format!(r#"{{"id":{id},"method":"m","params":""#);
            let fill = "x".repeat(length - start.len() - 3);
            format!("{start}{fill}\"}}\n").into_bytes()
        };
        let (fits, long) = (request(1, MAX_LINE_BYTES), request(2, MAX_LINE_BYTES + 1));
        assert_eq!((fits.len(), long.len()), (MAX_LINE_BYTES, MAX_LINE_BYTES + 1));
        assert_eq!(too_long(&[&fits, &long, &fits]), [RequestId::Number(2)]);
    }
}
