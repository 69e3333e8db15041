use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use time::OffsetDateTime;

use crate::page::{Breaks, Clean, clean, shown, shown_lines};

/// Bytes of a text that stand on a page at once; the rest is behind a link.
const HEAD_BYTES: usize = 6 * 1024;
const TAIL_BYTES: usize = 2 * 1024;

const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// As a segment or a value in an address.
pub(super) fn in_address(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

/// The beginning, on one line.
pub(super) fn first_line(text: &str, characters: usize) -> Markup {
    shown(text.trim().lines().next().unwrap_or_default(), characters)
}

/// The beginning of a task's id, by which people know it.
pub(super) fn short_id(task_id: &str) -> Markup {
    let Clean { text, left_out } = clean(task_id, 8, Breaks::Signs);
    html! { bdi { (text) @if left_out > 0 { "…" } } }
}

/// A text as it is. A long one is cut in its middle and has a link to the whole.
pub(super) fn block(text: &str, whole: &str) -> Markup {
    if text.len() <= HEAD_BYTES + TAIL_BYTES {
        return shown_lines(text, text.len());
    }
    let head = &text[..text.floor_char_boundary(HEAD_BYTES)];
    let tail = &text[text.ceil_char_boundary(text.len() - TAIL_BYTES)..];
    let left_out = text.len() - head.len() - tail.len();
    html! {
        (shown_lines(head, head.len()))
        p.cut { (bytes(left_out)) " not shown here: " a href=(whole) { "read all " (bytes(text.len())) } }
        (shown_lines(tail, tail.len()))
    }
}

pub(super) fn bytes(number: usize) -> String {
    match number {
        0..1_000 => format!("{number} B"),
        1_000..1_000_000 => format!("{:.1} kB", number as f64 / 1e3),
        _ => format!("{:.1} MB", number as f64 / 1e6),
    }
}

/// A table cell for what may not be there.
pub(super) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

pub(super) fn time_of_day(time: OffsetDateTime) -> String {
    format!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
}

pub(super) fn date_and_time(time: OffsetDateTime) -> String {
    format!("{} {}", time.date(), time_of_day(time))
}

/// Seconds between two moments; negative ones, of clocks that were set, are nothing.
pub(super) fn between(from: OffsetDateTime, to: OffsetDateTime) -> f64 {
    (to - from).as_seconds_f64().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_on_characters_and_says_so() {
        let text = "ä".repeat(1_000_000);
        let html = block(&text, "/whole").into_string();
        assert!(html.len() < 20_000, "{} bytes", html.len());
        assert!(html.contains("href=\"/whole\"") && html.contains("2.0 MB"), "{html}");
        assert!(!block("short", "/whole").into_string().contains("/whole"));
        assert!(block("<b>\0", "/whole").into_string().contains("&lt;b&gt;␀"));
    }

    #[test]
    fn what_names_something_in_an_address_stays_one_segment() {
        assert_eq!(in_address("../a b?&é"), "..%2Fa%20b%3F%26%C3%A9");
        assert_eq!([0, 1_500, 2_000_000].map(bytes), ["0 B", "1.5 kB", "2.0 MB"]);
    }
}
