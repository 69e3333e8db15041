use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Kept of each stream, head and tail: an agent's whole protocol of a long task is some hundred kilobytes.
const HEAD_BYTES: usize = 256 * 1024;
const TAIL_BYTES: usize = 256 * 1024;

/// What a program wrote to one stream: all of it, or head and tail. A flood costs no memory.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) bytes: u64,
    head: Vec<u8>,
    tail: VecDeque<u8>,
}

impl Output {
    /// Reads to the end of the stream, for as long as it is polled.
    pub(super) async fn read(&mut self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => self.add(&buffer[..count]),
            }
        }
    }

    fn add(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let room = HEAD_BYTES - self.head.len();
        if room > 0 {
            let (head, rest) = bytes.split_at(room.min(bytes.len()));
            self.head.extend_from_slice(head);
            bytes = rest;
        }
        let bytes = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let over = (self.tail.len() + bytes.len()).saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
        self.tail.extend(bytes);
    }

    /// As text, with a line in the middle that says what is missing.
    pub(super) fn text(&self) -> String {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if kept == self.bytes {
            return String::from_utf8_lossy(&[self.head.as_slice(), &tail].concat()).into_owned();
        }
        format!(
            "{}\n[… {} bytes left out …]\n{}",
            String::from_utf8_lossy(&self.head),
            self.bytes - kept,
            String::from_utf8_lossy(&tail)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_keeps_its_head_and_its_tail() {
        let text = format!("first{}last", "x".repeat(3 * HEAD_BYTES));
        let mut output = Output::default();
        output.read(text.as_bytes()).await;
        assert_eq!(output.bytes, text.len() as u64);
        let kept = output.text();
        assert!(kept.starts_with("first") && kept.ends_with("last"));
        assert!(kept.contains("[… 262153 bytes left out …]"), "{}", kept.len());
        assert!(kept.len() < HEAD_BYTES + TAIL_BYTES + 100);
    }

    #[tokio::test]
    async fn what_fits_is_whole() {
        for length in [0, 5, HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + TAIL_BYTES] {
            let text = "é".repeat(length / 2);
            let mut output = Output::default();
            output.read(text.as_bytes()).await;
            assert_eq!(output.text(), text);
        }
    }
}
