/// Bytes of one tool result that a model sees by default: inspect's limit, and within every provider's.
pub const DEFAULT_RESULT_BYTES: usize = 16 * 1024;

/// A text cut to a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounded {
    /// Head, a line that says what is missing, tail; or the text itself when it fits.
    pub text: String,
    /// Bytes of the original that are not in `text`; 0 when it fits.
    pub dropped_bytes: usize,
}

/// Cuts `text` to at most `limit_bytes`, keeping head and tail and never half a character. The line in the middle
/// says how much is missing, and where the whole is when `whole` names a place that the model can read. A limit too
/// small for that line leaves the head alone.
pub fn bound(text: &str, limit_bytes: usize, whole: Option<&str>) -> Bounded {
    if text.len() <= limit_bytes {
        return Bounded { text: text.to_owned(), dropped_bytes: 0 };
    }
    let marker = |dropped_bytes: usize| match whole {
        Some(place) => format!("\n[… {dropped_bytes} bytes left out; the whole output is in {place} …]\n"),
        None => format!("\n[… {dropped_bytes} bytes left out …]\n"),
    };
    // The number in the final marker is no longer than this one, so the sum stays within the limit.
    let Some(room) = limit_bytes.checked_sub(marker(text.len()).len()) else {
        let head = &text[..text.floor_char_boundary(limit_bytes)];
        return Bounded { text: head.to_owned(), dropped_bytes: text.len() - head.len() };
    };
    let head = &text[..text.floor_char_boundary(room.div_ceil(2))];
    let tail = &text[text.ceil_char_boundary(text.len() - room / 2)..];
    let dropped_bytes = text.len() - head.len() - tail.len();
    Bounded { text: format!("{head}{}{tail}", marker(dropped_bytes)), dropped_bytes }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn head_and_tail_stay_and_the_middle_says_what_is_missing() {
        let text = format!("{}{}{}", "a".repeat(100), "b".repeat(1_000), "c".repeat(100));
        let bounded = bound(&text, 200, Some("/tmp/out.txt"));
        assert!(bounded.text.starts_with("aaaa") && bounded.text.ends_with("cccc"), "{}", bounded.text);
        assert!(
            bounded.text.contains("bytes left out; the whole output is in /tmp/out.txt"),
            "{}",
            bounded.text
        );
        assert!(bounded.text.contains(&bounded.dropped_bytes.to_string()));
        assert!(bounded.text.len() <= 200 && bounded.text.len() > 195);
        assert_eq!(bound("short", 5, None), Bounded { text: "short".to_owned(), dropped_bytes: 0 });
    }

    proptest! {
        #[test]
        fn never_over_the_limit_and_nothing_uncounted(text in ".{0,300}", limit in 0_usize..300, named in any::<bool>()) {
            let bounded = bound(&text, limit, named.then_some("/x"));
            prop_assert!(bounded.text.len() <= limit);
            prop_assert_eq!(bounded.dropped_bytes == 0, text.len() <= limit);
            if text.len() <= limit {
                prop_assert_eq!(bounded.text, text);
            } else if let Some((head, rest)) = bounded.text.split_once("\n[… ")
                && let Some((_, tail)) = rest.split_once(" …]\n")
                && !text.contains('…')
            {
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
                prop_assert_eq!(head.len() + tail.len() + bounded.dropped_bytes, text.len());
            } else if !text.contains('…') {
                prop_assert!(text.starts_with(&bounded.text));
                prop_assert_eq!(bounded.text.len() + bounded.dropped_bytes, text.len());
            }
        }
    }
}
