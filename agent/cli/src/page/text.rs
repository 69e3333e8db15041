use maud::{Markup, html};

use super::count;

/// What becomes of the breaks between lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaks {
    /// Shown as a sign: the text stays one line.
    Signs,
    Kept,
}

/// Text of others that can be shown: escaping is left to the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clean {
    pub text: String,
    /// Characters beyond the limit.
    pub left_out: usize,
}

/// Makes what is not to be seen visible and takes it its effect: control characters (ANSI codes begin with one) become
/// their pictures, and characters that turn the direction of what stands around them become their numbers.
pub fn clean(text: &str, limit: usize, breaks: Breaks) -> Clean {
    let mut clean = String::with_capacity(text.len().min(4 * limit));
    let mut characters = text.chars();
    for character in characters.by_ref().take(limit) {
        match character {
            '\n' | '\t' if breaks == Breaks::Kept => clean.push(character),
            '\r' if breaks == Breaks::Kept => {}
            '\0'..='\x1f' => clean.push(char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}')),
            '\x7f' => clean.push('\u{2421}'),
            '\u{80}'..='\u{9f}' => clean.push('\u{fffd}'),
            '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => clean.push_str(&format!("⟨U+{:04X}⟩", u32::from(character))),
            character => clean.push(character),
        }
    }
    Clean { text: clean, left_out: characters.count() }
}

/// One line of others' text, of at most `limit` characters.
pub fn shown(text: &str, limit: usize) -> Markup {
    let Clean { text, left_out } = clean(text, limit, Breaks::Signs);
    html! { bdi.text { (text) (rest(left_out)) } }
}

/// A block of others' text as it is, of at most `limit` characters.
pub fn shown_lines(text: &str, limit: usize) -> Markup {
    let Clean { text, left_out } = clean(text, limit, Breaks::Kept);
    html! { pre.text { (text) (rest(left_out)) } }
}

fn rest(left_out: usize) -> Markup {
    html! { @if left_out > 0 { span.cut { "… " (count(left_out as u64)) " characters more" } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_stays_text_and_is_cut_at_the_limit() {
        let page = shown("<script>alert(1)</script>", 8).into_string();
        assert_eq!(
            page,
            "<bdi class=\"text\">&lt;script&gt;<span class=\"cut\">… 17 characters more</span></bdi>"
        );
        assert_eq!(shown("ab", 2).into_string(), "<bdi class=\"text\">ab</bdi>");
    }

    #[test]
    fn what_has_an_effect_on_a_terminal_or_on_its_surroundings_has_none_here() {
        let one = |text| clean(text, 99, Breaks::Signs).text;
        assert_eq!(one("\x1b[31mred\r\n\tx\0\x7f\u{85}"), "␛[31mred␍␊␉x␀␡\u{fffd}");
        assert_eq!(one("a\u{202e}b\u{2066}c\u{feff}"), "a⟨U+202E⟩b⟨U+2066⟩c⟨U+FEFF⟩");
        // Text from right to left is text.
        assert_eq!(one("שלום"), "שלום");
        assert_eq!(clean("a\r\n\tb", 99, Breaks::Kept).text, "a\n\tb");
    }

    #[test]
    fn a_line_of_a_megabyte_costs_what_is_shown_of_it() {
        let text = "x".repeat(1 << 20);
        let shown = clean(&text, 100, Breaks::Signs);
        assert_eq!((shown.text.len(), shown.left_out), (100, (1 << 20) - 100));
    }
}
