//! Raw output as a terminal would leave it on the screen, in plain text.

/// A longer line is cut in the middle: minified files and base64 fill a context and say nothing.
const MAX_LINE_BYTES: usize = 4 * 1024;
/// An escape string (a window title, a link) that goes on for longer was never one.
const MAX_ESCAPE_STRING_CHARS: usize = 1024;
/// With fewer odd bytes than this a short output is shown with its odd bytes replaced.
const MIN_BINARY_BYTES: usize = 32;

/// Whether the bytes are data and not text: more than a seventh of them are control characters or no UTF-8. Text in an
/// old one-byte encoding stays well below, compressed and image data well above.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    let mut odd = 0;
    for chunk in bytes.utf8_chunks() {
        odd += chunk.invalid().len();
        odd += chunk.valid().bytes().filter(|&byte| is_odd_control(byte)).count();
    }
    odd >= MIN_BINARY_BYTES && odd * 7 > bytes.len()
}

/// Control characters that text for a terminal does not have.
fn is_odd_control(byte: u8) -> bool {
    matches!(byte, 0x00..=0x06 | 0x0E..=0x1A | 0x1C..=0x1F | 0x7F)
}

/// Removes escape sequences and control characters, keeps the last state of lines that were written over, replaces
/// what is no UTF-8 by U+FFFD and cuts very long lines.
pub(super) fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let plain = without_escapes(&text);
    let mut cleaned = String::with_capacity(plain.len());
    for (index, line) in plain.split('\n').enumerate() {
        if index > 0 {
            cleaned.push('\n');
        }
        push_shortened(&mut cleaned, &final_state(line));
    }
    cleaned
}

fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(['\u{1B}', '\u{9B}', '\u{9D}', '\u{90}']) {
        plain.push_str(&rest[..start]);
        rest = after_escape(&rest[start..]);
    }
    plain.push_str(rest);
    plain
}

/// What follows the escape sequence at the start of `text`. A broken sequence ends where it breaks.
fn after_escape(text: &str) -> &str {
    let mut characters = text.chars();
    match characters.next() {
        Some('\u{9B}') => return after_control_sequence(characters.as_str()),
        Some('\u{9D}' | '\u{90}') => return after_string(characters.as_str()),
        _ => {}
    }
    let after_introducer = characters.as_str();
    match characters.next() {
        Some('[') => after_control_sequence(characters.as_str()),
        Some(']' | 'P' | 'X' | '^' | '_') => after_string(characters.as_str()),
        // Intermediate characters, then a final one: the choice of a character set.
        Some(' '..='/') => {
            let rest = characters.as_str().trim_start_matches(|character| matches!(character, ' '..='/'));
            rest.strip_prefix(|character| matches!(character, '0'..='~')).unwrap_or(rest)
        }
        Some('0'..='~') => characters.as_str(),
        _ => after_introducer,
    }
}

fn after_control_sequence(text: &str) -> &str {
    let rest = text.trim_start_matches(|character| matches!(character, ' '..='?'));
    rest.strip_prefix(|character| matches!(character, '@'..='~')).unwrap_or(rest)
}

fn after_string(text: &str) -> &str {
    for (position, character) in text.char_indices().take(MAX_ESCAPE_STRING_CHARS) {
        match character {
            '\u{07}' | '\u{9C}' => return &text[position + character.len_utf8()..],
            '\u{1B}' => {
                let rest = &text[position..];
                return rest.strip_prefix("\u{1B}\\").unwrap_or(rest);
            }
            '\n' => break,
            _ => {}
        }
    }
    text
}

/// What is left of a line after carriage returns and backspaces, without other control characters.
fn final_state(line: &str) -> String {
    let written = line.trim_end_matches('\r');
    let last = written.rsplit('\r').find(|state| !state.trim().is_empty()).unwrap_or_default();
    let mut state = String::with_capacity(last.len());
    for character in last.chars() {
        match character {
            '\u{08}' => {
                state.pop();
            }
            '\t' => state.push('\t'),
            control if control.is_control() => {}
            other => state.push(other),
        }
    }
    state
}

fn push_shortened(text: &mut String, line: &str) {
    if line.len() <= MAX_LINE_BYTES {
        text.push_str(line);
        return;
    }
    let head = line.floor_char_boundary(MAX_LINE_BYTES / 2);
    let tail = line.ceil_char_boundary(line.len() - MAX_LINE_BYTES / 2);
    text.push_str(&line[..head]);
    text.push_str(&format!(" … {} bytes of this line omitted … ", tail - head));
    text.push_str(&line[tail..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, expected: &str) {
        assert_eq!(clean(raw.as_bytes()), expected, "{raw:?}");
    }

    #[test]
    fn escape_sequences_vanish() {
        check("\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue\x1b[m", "red and blue");
        check("\x1b]0;title\x07text", "text");
        check("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link");
        check("\x1bP1$r0m\x1b\\after", "after");
        check("\x1b(Bplain\x1b=\x1b>", "plain");
        check("\x1b[2J\x1b[H\x1b[?25lcleared", "cleared");
        check("\u{9B}31mred", "red");
    }

    #[test]
    fn broken_sequences_swallow_nothing_else() {
        check("\x1b]0;never ended\nnext line", "0;never ended\nnext line");
        check("\x1b[31\nnext", "\nnext");
        check("end\x1b", "end");
        check("end\x1b[", "end");
        check("\x1b\x1b[1mx", "x");
        check("\x1b[1éx", "éx");
        check("\x1bé", "é");
        let long = format!("\x1b]{}", "a".repeat(5000));
        assert!(clean(long.as_bytes()).starts_with("aaaa"));
    }

    #[test]
    fn progress_lines_keep_their_last_state() {
        check("10%\r50%\r100%\ndone", "100%\ndone");
        check("10%\r100%\r", "100%");
        check("10%\r100%\r   \r\n", "100%\n");
        check("windows\r\nlines\r\n", "windows\nlines\n");
        check("\r\n\r\n", "\n\n");
        check("ab\x08c", "ac");
        check("\x08\x08a", "a");
    }

    #[test]
    fn control_characters_vanish_and_bad_utf8_is_marked() {
        check("a\x00b\x07c\x0bd\te\n", "abcd\te\n");
        assert_eq!(clean(b"caf\xe9 \xff"), "caf\u{FFFD} \u{FFFD}");
        assert_eq!(clean("naïve 日本 🎉".as_bytes()), "naïve 日本 🎉");
    }

    #[test]
    fn a_very_long_line_is_cut_in_the_middle() {
        let cleaned = clean(format!("first\n{}é{}\nlast", "a".repeat(5000), "b".repeat(5000)).as_bytes());
        let lines: Vec<&str> = cleaned.lines().collect();
        assert_eq!((lines[0], lines[2]), ("first", "last"));
        assert!(lines[1].contains(" … 5906 bytes of this line omitted … "), "{}", lines[1]);
        assert!(lines[1].starts_with('a') && lines[1].ends_with('b'));
        assert_eq!(clean("é".repeat(2048).as_bytes()).chars().count(), 2048);
    }

    #[test]
    fn data_is_told_from_text() {
        let noise: Vec<u8> =
            (0..4096_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert!(is_binary(&noise));
        assert!(is_binary(&[0; 100]));
        assert!(!is_binary(b"\x00\x01\xff"), "too short to tell");
        assert!(!is_binary("ordinary text\n".repeat(100).as_bytes()));
        assert!(!is_binary("\x1b[31mred\x1b[0m\r".repeat(100).as_bytes()));
        let latin: Vec<u8> = b"d\xe9j\xe0 vu en fran\xe7ais sans accents du tout ".repeat(50);
        assert!(!is_binary(&latin));
        assert!(!is_binary("日本語のテキスト".repeat(50).as_bytes()));
    }
}
