//! Reading and writing files in the container without a shell's quoting.

use gaia_sandbox::WriteMode;
use rmcp::model::{CallToolResult, JsonObject};
use serde_json::json;

use super::slot::Place;
use super::{ToolError, terminal};
use crate::arguments::Arguments;
use crate::toolset::success;

/// Lines in one answer, as Claude Code's Read has them.
const MAX_LINES: u64 = 2000;
/// Text in one answer: what `bash` shows too.
const MAX_TEXT_BYTES: usize = 16 * 1024;
/// Read from the container at a time: a fraction of a frame's limit.
const CHUNK_BYTES: u64 = 256 * 1024;
/// Looked through for the first line wanted; further on `sed` in the container is faster.
const MAX_SEARCHED_BYTES: u64 = 64 << 20;

/// The arguments of `read_file`, checked.
pub(super) struct Read {
    path: String,
    first_line: u64,
    lines: u64,
}

impl Read {
    pub(super) fn new(arguments: JsonObject) -> Result<Self, ToolError> {
        let arguments = Arguments::new(arguments, &["path", "offset", "limit"])?;
        Ok(Self {
            path: path(&arguments)?,
            first_line: arguments.integer("offset", 1..=u64::MAX)?.unwrap_or(1),
            lines: arguments.integer("limit", 1..=MAX_LINES)?.unwrap_or(MAX_LINES),
        })
    }

    pub(super) async fn run(self, place: &Place) -> Result<CallToolResult, ToolError> {
        let Self { path, first_line, lines } = self;
        let mut window = Window { first_line, lines, line: 1, bytes: Vec::new(), shown_lines: 0 };
        let mut offset = 0;
        let (file_bytes, complete) = loop {
            let chunk = place.sandbox().read_file(&path, offset, CHUNK_BYTES).await?;
            offset += chunk.bytes.len() as u64;
            let full = window.take(&chunk.bytes);
            let ended = chunk.end_of_file || chunk.bytes.is_empty();
            if full || ended {
                break (chunk.file_bytes.max(offset), ended && !full);
            }
            if offset >= MAX_SEARCHED_BYTES && window.bytes.is_empty() {
                return Err(ToolError::Text(format!(
                    "line {first_line} of `{path}` is more than 64 MiB into the file; use sed -n in bash"
                )));
            }
        };
        let mut text = if window.bytes.is_empty() {
            match file_bytes {
                0 => "(empty file)".to_owned(),
                _ => format!("(the file has no line {first_line})"),
            }
        } else if terminal::is_binary(&window.bytes) {
            format!("[binary, {file_bytes} bytes; look at it with file, xxd or python in bash]")
        } else {
            terminal::clean(&window.bytes)
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let last_line = first_line + window.shown_lines.saturating_sub(1);
        let rest = if complete { String::new() } else { format!(" · more with offset {}", last_line + 1) };
        text.push_str(&format!("[lines {first_line} to {last_line} · {file_bytes} bytes in all{rest}]"));
        let facts = json!({
            "output": text,
            "file_bytes": file_bytes,
            "first_line": first_line,
            "last_line": last_line,
            "end_of_file": complete,
        });
        Ok(success(text, facts))
    }
}

/// Collects the lines wanted out of a file that comes in pieces.
struct Window {
    first_line: u64,
    lines: u64,
    /// Number of the line that the next byte belongs to.
    line: u64,
    bytes: Vec<u8>,
    /// Lines begun in `bytes`.
    shown_lines: u64,
}

impl Window {
    /// Whether all that is wanted, or fits, is there.
    fn take(&mut self, chunk: &[u8]) -> bool {
        for piece in chunk.split_inclusive(|&byte| byte == b'\n') {
            if self.line >= self.first_line.saturating_add(self.lines) {
                return true;
            }
            if self.line >= self.first_line {
                let fits = self.bytes.len() + piece.len() <= MAX_TEXT_BYTES;
                if !fits && !self.bytes.is_empty() {
                    return true;
                }
                self.shown_lines = self.line - self.first_line + 1;
                self.bytes.extend_from_slice(&piece[..piece.len().min(MAX_TEXT_BYTES)]);
                if !fits {
                    return true;
                }
            }
            if piece.ends_with(b"\n") {
                self.line += 1;
            }
        }
        false
    }
}

/// `write_file`.
pub(super) async fn write(arguments: JsonObject, place: &Place) -> Result<CallToolResult, ToolError> {
    let arguments = Arguments::new(arguments, &["path", "content", "append"])?;
    let path = path(&arguments)?;
    let content = arguments.required_text("content")?;
    let (mode, verb) = match arguments.flag("append")? {
        Some(true) => (WriteMode::Append, "appended"),
        _ => (WriteMode::Replace, "wrote"),
    };
    place.sandbox().write_file(&path, content.as_bytes(), mode).await?;
    let text = format!("[{verb} {} bytes to {path}]", content.len());
    Ok(success(text, json!({ "bytes": content.len() })))
}

pub(super) fn path(arguments: &Arguments) -> Result<String, ToolError> {
    let path = arguments.required_text("path")?;
    if path.is_empty() || path.contains('\0') {
        return Err(ToolError::Text(
            "`path` must be a path in the container, such as /workspace/a.txt".to_owned(),
        ));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(first_line: u64, lines: u64) -> Window {
        Window { first_line, lines, line: 1, bytes: Vec::new(), shown_lines: 0 }
    }

    #[test]
    fn lines_are_found_across_pieces() {
        let mut window = window(2, 2);
        assert!(!window.take(b"one\ntw"));
        assert!(!window.take(b"o\nthr"));
        assert!(window.take(b"ee\nfour\n"));
        assert_eq!((window.bytes.as_slice(), window.shown_lines), (&b"two\nthree\n"[..], 2));
    }

    #[test]
    fn text_is_bounded_at_a_line() {
        let line = format!("{}\n", "x".repeat(999));
        let mut window = window(1, 2000);
        assert!(window.take(line.repeat(100).as_bytes()));
        assert_eq!((window.bytes.len(), window.shown_lines), (16_000, 16));
        let mut endless = self::window(1, 2000);
        assert!(endless.take(&vec![b'x'; 100_000]));
        assert_eq!(endless.bytes.len(), MAX_TEXT_BYTES);
    }
}
