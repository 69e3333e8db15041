use rmcp::RoleClient;
use rmcp::service::RxJsonRpcMessage;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use super::Redactor;
use super::spill::{SpillWriter, SpilledFile};

/// Longest line taken from a server. rmcp has the same limit but drops longer lines silently; a screenshot or a page
/// stays far below, and a server that sends gigabytes must not cost gigabytes.
pub(super) const LINE_BYTES: usize = 16 * 1024 * 1024;

/// Kept of both ends of a line that is too long: enough to find the id of the request it answers.
const ENDS_BYTES: usize = 512;

/// Splits a stream into lines of bounded length. `next` may be dropped at any await and called again.
pub(super) struct LineReader<R> {
    stream: R,
    line: Vec<u8>,
    excess: Option<Excess>,
    limit: usize,
    /// Given where lines that are too long are kept on disk.
    spill: Option<Redactor>,
}

struct Excess {
    bytes: usize,
    tail: Vec<u8>,
    whole: Option<SpillWriter>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    TooLong { bytes: usize, head: Vec<u8>, tail: Vec<u8>, whole: Option<SpilledFile> },
}

impl<R: AsyncBufRead + Unpin> LineReader<R> {
    pub(super) fn new(stream: R, limit: usize) -> Self {
        Self { stream, line: Vec::new(), excess: None, limit, spill: None }
    }

    /// Keeps lines that are too long on disk, without the secrets that `redactor` knows.
    pub(super) fn spilling(self, redactor: Redactor) -> Self {
        Self { spill: Some(redactor), ..self }
    }

    /// `None` at the end of the stream; a last line without a line end still counts.
    pub(super) async fn next(&mut self) -> Option<Line> {
        loop {
            let available = match self.stream.fill_buf().await {
                Ok(available) => available,
                Err(error) => {
                    tracing::debug!(%error, "reading from an MCP server failed");
                    &[]
                }
            };
            if available.is_empty() {
                return (!self.line.is_empty()).then(|| self.take());
            }
            // `contains` is a search by words; most pieces of a long line hold no end.
            let end = match available.contains(&b'\n') {
                true => available.iter().position(|&byte| byte == b'\n'),
                false => None,
            };
            let piece = &available[..end.unwrap_or(available.len())];
            let used = end.map_or(available.len(), |end| end + 1);
            match &mut self.excess {
                Some(excess) => {
                    excess.bytes += piece.len();
                    if let Some(whole) = &mut excess.whole {
                        whole.write(piece);
                    }
                    excess.tail.extend_from_slice(piece);
                    let surplus = excess.tail.len().saturating_sub(ENDS_BYTES);
                    excess.tail.drain(..surplus);
                }
                None => {
                    self.line.extend_from_slice(piece);
                    if self.line.len() > self.limit {
                        let tail = self.line[self.line.len() - ENDS_BYTES.min(self.line.len())..].to_vec();
                        let mut whole = self.spill.clone().map(SpillWriter::new);
                        if let Some(whole) = &mut whole {
                            whole.write(&self.line);
                        }
                        self.excess = Some(Excess { bytes: self.line.len(), tail, whole });
                        self.line.truncate(ENDS_BYTES);
                        self.line.shrink_to_fit();
                    }
                }
            }
            self.stream.consume(used);
            if end.is_some() {
                return Some(self.take());
            }
        }
    }

    fn take(&mut self) -> Line {
        let line = std::mem::take(&mut self.line);
        match self.excess.take() {
            Some(Excess { bytes, tail, whole }) => {
                Line::TooLong { bytes, head: line, tail, whole: whole.and_then(SpillWriter::finish) }
            }
            None => Line::Whole(line),
        }
    }
}

/// What one line turned out to be.
pub(super) enum Decoded {
    Messages(Vec<RxJsonRpcMessage<RoleClient>>),
    /// An answer that cannot be read: whoever waits for it is told, instead of waiting for ever.
    BadAnswer {
        id: i64,
        reason: String,
    },
    /// Not part of the protocol: a banner, a log line.
    Noise(String),
    Empty,
}

pub(super) fn decode(line: &[u8]) -> Decoded {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Decoded::Empty;
    }
    // Most noise is told from a message by its first byte; a flood of it must cost little.
    if !matches!(line[0], b'{' | b'[') {
        return Decoded::Noise(String::from_utf8_lossy(line).into_owned());
    }
    let failure = match serde_json::from_slice(line) {
        Ok(message) => return Decoded::Messages(vec![message]),
        Err(failure) => failure,
    };
    let text = String::from_utf8_lossy(line);
    // Bytes that are no UTF-8 and halves of surrogate pairs: wrong, but readable.
    let repaired = replace_lone_surrogates(&text);
    if let Ok(message) = serde_json::from_str(&repaired) {
        return Decoded::Messages(vec![message]);
    }
    // Batches: 2025-03-26 only.
    if text.starts_with('[')
        && let Ok(messages) = serde_json::from_str(&repaired)
    {
        return Decoded::Messages(messages);
    }
    let answers = match serde_json::from_str::<Value>(&repaired) {
        Ok(value) => value.get("method").is_none().then(|| value.get("id").and_then(Value::as_i64)).flatten(),
        Err(_) => answered_id(line, line),
    };
    match answers {
        Some(id) => Decoded::BadAnswer { id, reason: format!("the answer is not valid JSON-RPC: {failure}") },
        None => Decoded::Noise(text.into_owned()),
    }
}

/// The id of the request that a broken or cut answer belongs to, read off its first or last bytes. SDKs write the id
/// before a result or at the very end.
pub(super) fn answered_id(head: &[u8], tail: &[u8]) -> Option<i64> {
    let head = String::from_utf8_lossy(&head[..head.len().min(ENDS_BYTES)]);
    let tail = String::from_utf8_lossy(&tail[tail.len().saturating_sub(ENDS_BYTES)..]);
    let answer = head.find("\"result\"").or_else(|| head.find("\"error\""))?;
    let preamble = &head[..answer];
    if head.trim_start().starts_with('{') && !preamble.contains("\"method\"") {
        if let Some((_, rest)) = preamble.split_once("\"id\"") {
            return leading_number(rest).map(|(id, _)| id);
        }
        if let Some((_, rest)) = tail.rsplit_once("\"id\"")
            && let Some((id, rest)) = leading_number(rest)
        {
            let closing: String = rest.chars().filter(|character| !character.is_whitespace()).collect();
            if closing == "}" || closing == ",\"jsonrpc\":\"2.0\"}" {
                return Some(id);
            }
        }
    }
    None
}

/// `: 5, …` → 5 and what follows.
fn leading_number(text: &str) -> Option<(i64, &str)> {
    let text = text.trim_start().strip_prefix(':')?.trim_start();
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// `\ud800` without its other half becomes U+FFFD; serde_json takes neither half alone.
fn replace_lone_surrogates(json: &str) -> String {
    let unit_at = |at: usize| -> Option<u16> {
        let escape = json.as_bytes().get(at..at + 6)?;
        let digits = std::str::from_utf8(escape.strip_prefix(b"\\u")?).ok()?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::with_capacity(json.len());
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = json.as_bytes()[at..].iter().position(|&byte| byte == b'\\') {
        let escape = at + found;
        match unit_at(escape) {
            Some(0xD800..=0xDBFF) if matches!(unit_at(escape + 6), Some(0xDC00..=0xDFFF)) => at = escape + 12,
            Some(0xD800..=0xDFFF) => {
                out.push_str(&json[copied..escape]);
                out.push_str("\\ufffd");
                at = escape + 6;
                copied = at;
            }
            // The byte after a backslash may be a backslash itself.
            _ => at = (escape + 2).min(json.len()),
        }
    }
    out.push_str(&json[copied..]);
    out
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
