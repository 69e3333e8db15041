//! The result of a command as the model reads it: output, then one status line. The same facts go to programs.

use std::time::Duration;

use gaia_sandbox::Output;
use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};

use super::{describe, terminal};
use crate::toolset::success;

/// Bytes shown of each end of a long output. Less than the 8 KiB there are, so that with the line between them and the
/// status line a result stays within 16 KiB: hosts that bound a result to that would cut out just the line that says
/// where the whole is.
const MAX_END_BYTES: usize = 7 * 1024 + 512;

/// What the output does not say itself.
pub(super) struct Circumstances {
    pub(super) timeout: Duration,
    pub(super) memory_bytes: u64,
    /// Why the container is another one than before.
    pub(super) reset: Option<String>,
}

/// A non-zero exit code is a normal result: the tool did what it was asked.
pub(super) fn output(output: &Output, circumstances: &Circumstances) -> CallToolResult {
    let text = text(output, circumstances);
    let facts = structured(&text, output, circumstances.reset.is_some());
    success(text, facts)
}

/// The output and the status line.
pub(super) fn text(output: &Output, circumstances: &Circumstances) -> String {
    let mut text = reset_line(circumstances.reset.as_deref());
    text.push_str(&body(output));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for note in &output.notes {
        text.push_str(&format!("[note: {note}]\n"));
    }
    text.push_str(&status_line(output, circumstances));
    text
}

/// The result of `restart` without a command.
pub(super) fn restarted(reset: Option<String>) -> CallToolResult {
    let mut text = reset_line(reset.as_deref());
    text.push_str("[shell restarted; files are kept, directory and variables are reset]");
    let facts = without_output(&text, reset.is_some(), None);
    success(text, facts)
}

/// The facts of a call that ran nothing to its end.
pub(super) fn without_output(text: &str, reset: bool, task: Option<u64>) -> Value {
    let mut facts = json!({
        "output": text,
        "timed_out": false,
        "oom_killed": false,
        "sandbox_reset": reset,
        "duration_ms": 0,
        "total_bytes": 0,
        "truncated": false,
        "background": [],
    });
    if let Some(task) = task {
        facts["task_id"] = json!(task);
    }
    facts
}

/// The first line of a result when the container is another one than before; else nothing.
pub(super) fn reset_line(reason: Option<&str>) -> String {
    reason
        .map(|reason| {
            format!("sandbox was reset: {reason}; files, processes and variables of before are gone\n")
        })
        .unwrap_or_default()
}

fn body(output: &Output) -> String {
    if output.total_bytes == 0 {
        return "(no output)".to_owned();
    }
    let whole = [output.head.as_slice(), output.tail.as_slice()].concat();
    if terminal::is_binary(&whole) {
        let rest = match &output.spill_path {
            Some(path) => format!("saved to {path}"),
            None => "not shown; write it to a file, or pipe it through xxd".to_owned(),
        };
        return format!("[binary, {} bytes, {rest}]", grouped(output.total_bytes));
    }
    if output.omitted_bytes() == 0 {
        let text = terminal::clean(&whole);
        return if text.trim().is_empty() { "(no output but white space)".to_owned() } else { text };
    }
    let head = whole_lines_at_start(&output.head[..output.head.len().min(MAX_END_BYTES)]);
    let tail = whole_lines_at_end(&output.tail[output.tail.len().saturating_sub(MAX_END_BYTES)..]);
    let mut text = terminal::clean(head);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&omission(output, head, tail));
    text.push_str(&terminal::clean(tail));
    text
}

fn omission(output: &Output, head: &[u8], tail: &[u8]) -> String {
    let bytes = output.total_bytes.saturating_sub((head.len() + tail.len()) as u64);
    let lines = output.total_lines.saturating_sub(newlines(head) + newlines(tail));
    let bytes = grouped(bytes);
    let lines = grouped(lines);
    match &output.spill_path {
        Some(path) => {
            let kept = if output.spilled_bytes < output.total_bytes {
                format!(" (first {})", describe::size(output.spilled_bytes))
            } else {
                String::new()
            };
            format!(
                "… {bytes} bytes ({lines} lines) omitted; full output: {path}{kept} – page it with sed -n …\n"
            )
        }
        None => {
            format!("… {bytes} bytes ({lines} lines) omitted and not kept; write to a file to see all …\n")
        }
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Cut after the last line break, unless that would lose more than half.
fn whole_lines_at_start(bytes: &[u8]) -> &[u8] {
    match bytes.iter().rposition(|&byte| byte == b'\n') {
        Some(last) if last >= bytes.len() / 2 => &bytes[..=last],
        _ => without_broken_end(bytes),
    }
}

/// Without a character at the end the rest of which is not here.
pub(super) fn without_broken_end(bytes: &[u8]) -> &[u8] {
    let broken = |length: &usize| {
        let end = &bytes[bytes.len() - length..];
        std::str::from_utf8(end).is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0)
    };
    match (1..=bytes.len().min(3)).find(broken) {
        Some(length) => &bytes[..bytes.len() - length],
        None => bytes,
    }
}

/// Cut after the first line break, unless that would lose more than half.
fn whole_lines_at_end(bytes: &[u8]) -> &[u8] {
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(first) if first < bytes.len() / 2 => &bytes[first + 1..],
        _ => {
            // Continuation bytes belong to a character whose start was omitted.
            let broken = bytes.iter().take(3).take_while(|&&byte| byte & 0xC0 == 0x80).count();
            &bytes[broken..]
        }
    }
}

fn status_line(output: &Output, circumstances: &Circumstances) -> String {
    let killed = match output.processes_killed {
        0 => String::new(),
        1 => "; 1 process killed".to_owned(),
        number => format!("; {number} processes killed"),
    };
    let partial = if output.total_bytes > 0 { "; partial output above" } else { "" };
    if output.timed_out {
        return format!(
            "[timed out after {} s{killed}{partial}; use run_in_background or a larger timeout]",
            circumstances.timeout.as_secs()
        );
    }
    let seconds = output.duration.as_secs_f64();
    if output.cancelled {
        return format!("[cancelled after {seconds:.1} s{killed}{partial}]");
    }
    let mut parts = vec![match signal_of(output) {
        Some(signal) => format!("exit {} ({signal})", output.exit_code),
        None => format!("exit {}", output.exit_code),
    }];
    if output.oom_killed {
        let limit = describe::size(circumstances.memory_bytes);
        parts.push(format!("out of memory: a process was killed at the limit of {limit}"));
    }
    parts.push(format!("{seconds:.1} s"));
    parts.push(format!("cwd {}", output.cwd));
    if !output.background.is_empty() {
        parts.push(format!("still running: {}", background(output).join(", ")));
        if let Some(path) = &output.spill_path {
            parts.push(format!("their output goes to {path}"));
        }
    }
    format!("[{}]", parts.join(" · "))
}

/// The shell's own signal, or the one that its exit code stands for: a shell says 137 for a child that SIGKILL ended.
fn signal_of(output: &Output) -> Option<String> {
    let from_code = || match output.exit_code {
        code @ (131 | 132 | 134..=139 | 141 | 143 | 152 | 153) => Some(code - 128),
        _ => None,
    };
    output.signal.or_else(from_code).map(signal_name)
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

fn background(output: &Output) -> Vec<String> {
    output.background.iter().map(|process| format!("{} {}", process.pid, process.name)).collect()
}

/// With the text as well: some hosts (Claude Code among them) show a model the structured content and nothing else.
fn structured(text: &str, output: &Output, reset: bool) -> Value {
    let mut facts = Map::new();
    facts.insert("output".to_owned(), json!(text));
    facts.insert("exit_code".to_owned(), json!(output.exit_code));
    if let Some(signal) = output.signal {
        facts.insert("signal".to_owned(), json!(signal_name(signal)));
    }
    facts.insert("timed_out".to_owned(), json!(output.timed_out));
    facts.insert("oom_killed".to_owned(), json!(output.oom_killed));
    facts.insert("sandbox_reset".to_owned(), json!(reset));
    let milliseconds = u64::try_from(output.duration.as_millis()).unwrap_or(u64::MAX);
    facts.insert("duration_ms".to_owned(), json!(milliseconds));
    facts.insert("total_bytes".to_owned(), json!(output.total_bytes));
    facts.insert("truncated".to_owned(), json!(output.omitted_bytes() > 0));
    if let Some(path) = &output.spill_path {
        facts.insert("output_path".to_owned(), json!(path));
    }
    facts.insert("cwd".to_owned(), json!(output.cwd));
    facts.insert("background".to_owned(), json!(background(output)));
    Value::Object(facts)
}

/// `9871233` as `9 871 233`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
