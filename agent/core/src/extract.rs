//! The final answer in a model's text.

/// The answer behind the last marker in `text`, cleaned of decoration; `None` without a marker or when nothing
/// stands behind it.
///
/// Markers are `FINAL ANSWER:` in any case (to the end of its line, or the next line with text),
/// `<answer>…</answer>` and `\boxed{…}`. The one that stands last wins: models quote the template before they
/// answer. What a model thinks between `<think>` and `</think>` is no answer.
pub fn final_answer(text: &str) -> Option<String> {
    let text = without_thoughts(text);
    [after_phrase(text), in_tags(text), in_box(text)]
        .into_iter()
        .flatten()
        .max_by_key(|found| found.position)
        .map(|found| clean(found.answer))
        .filter(|answer| !answer.is_empty())
}

/// The answer in the reply to the last call, which asked for nothing else: behind a marker, or the whole text.
pub fn forced_answer(text: &str) -> Option<String> {
    final_answer(text).or_else(|| {
        let whole = clean(without_thoughts(text));
        // A marker with nothing behind it is an empty answer, not an answer that reads like the template.
        (!whole.is_empty() && find_phrase(&whole).is_none()).then_some(whole)
    })
}

struct Found<'a> {
    position: usize,
    answer: &'a str,
}

const PHRASE: &str = "final answer";

/// Where the last `final answer:` ends, however it is decorated: `**FINAL ANSWER**:`, `Final Answer :`.
fn find_phrase(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    (0..bytes.len().saturating_sub(PHRASE.len() - 1)).rev().find_map(|start| {
        let end = start + PHRASE.len();
        if !bytes[start..end].eq_ignore_ascii_case(PHRASE.as_bytes()) {
            return None;
        }
        let rest = text[end..].trim_start_matches(['*', '_', '`', ' ', '\t']);
        let colon = rest.strip_prefix(':').or_else(|| rest.strip_prefix('：'))?;
        Some((start, text.len() - colon.len()))
    })
}

fn after_phrase(text: &str) -> Option<Found<'_>> {
    let (position, end) = find_phrase(text)?;
    let answer = text[end..].lines().map(|line| line.trim_matches(DECORATION)).find(|line| !line.is_empty());
    Some(Found { position, answer: answer.unwrap_or("") })
}

fn in_tags(text: &str) -> Option<Found<'_>> {
    let position = text.rfind("<answer>")?;
    let inside = &text[position + "<answer>".len()..];
    let end = inside.find("</answer>").unwrap_or(inside.len());
    Some(Found { position, answer: &inside[..end] })
}

fn in_box(text: &str) -> Option<Found<'_>> {
    let position = text.rfind(r"\boxed{")?;
    let inside = &text[position + r"\boxed{".len()..];
    let mut depth = 1_u32;
    for (index, character) in inside.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(Found { position, answer: &inside[..index] });
        }
    }
    None
}

const DECORATION: [char; 4] = ['*', '`', ' ', '\t'];

/// What models wrap an answer in, none of which the scorer removes from a list.
fn clean(answer: &str) -> String {
    let mut answer = answer.trim();
    loop {
        let inner = answer.trim_matches(['*', '`']).trim();
        let inner =
            unwrapped(inner, r"\boxed{", "}").or_else(|| unwrapped(inner, r"\text{", "}")).unwrap_or(inner);
        let inner = [("[", "]"), ("\"", "\""), ("'", "'"), ("“", "”"), ("$", "$"), ("<answer>", "</answer>")]
            .into_iter()
            .find_map(|(open, close)| unwrapped(inner, open, close))
            .unwrap_or(inner);
        if inner == answer {
            return answer.to_owned();
        }
        answer = inner.trim();
    }
}

/// The text between `open` and `close` when they enclose the whole and nothing inside ends the pair early.
fn unwrapped<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let inner = text.strip_prefix(open)?.strip_suffix(close)?;
    (!inner.contains(close) && !inner.contains(open)).then_some(inner)
}

fn without_thoughts(text: &str) -> &str {
    match text.rfind("</think>") {
        Some(end) => &text[end + "</think>".len()..],
        // Cut off in the middle of a thought: nothing was said yet.
        None if text.trim_start().starts_with("<think>") => "",
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_stands_behind_the_last_marker() {
        for (text, expected) in [
            ("FINAL ANSWER: 42", Some("42")),
            ("final answer: Nairobi", Some("Nairobi")),
            ("I finish with FINAL ANSWER: [YOUR FINAL ANSWER].\nFINAL ANSWER: 17", Some("17")),
            ("**FINAL ANSWER:** 42", Some("42")),
            ("**Final Answer**: **Lima, Cusco**", Some("Lima, Cusco")),
            ("FINAL ANSWER: [Lima, Cusco]\nbye", Some("Lima, Cusco")),
            ("FINAL ANSWER:\n\n  42\nmore", Some("42")),
            ("FINAL ANSWER: \"blue\"", Some("blue")),
            ("FINAL ANSWER: `x = 1`", Some("x = 1")),
            ("FINAL ANSWER：12", Some("12")),
            ("FINAL ANSWER: ", None),
            ("FINAL ANSWER: []", None),
            ("no marker here", None),
            ("the final answer is 3", None),
            ("", None),
            ("<answer>7</answer>", Some("7")),
            ("<answer>a\nb</answer>", Some("a\nb")),
            ("<answer>unclosed", Some("unclosed")),
            (r"so \boxed{\frac{1}{2}} it is", Some(r"\frac{1}{2}")),
            (r"\boxed{unbalanced", None),
            (r"FINAL ANSWER: \boxed{8}", Some("8")),
            (r"FINAL ANSWER: $\boxed{8}$", Some("8")),
            ("FINAL ANSWER: $50", Some("$50")),
            ("FINAL ANSWER: 5 o'clock", Some("5 o'clock")),
            ("FINAL ANSWER: [1], [2]", Some("[1], [2]")),
            ("FINAL ANSWER: 1\n<answer>2</answer>", Some("2")),
            ("<answer>2</answer>\nFINAL ANSWER: 1", Some("1")),
            ("<think>FINAL ANSWER: 9</think>I do not know", None),
            ("<think>FINAL ANSWER: 9", None),
            ("<think>hm</think>FINAL ANSWER: 3", Some("3")),
        ] {
            assert_eq!(final_answer(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_forced_reply_counts_as_a_whole_when_it_has_no_marker() {
        for (text, expected) in [
            ("42", Some("42")),
            ("  [Lima]  ", Some("Lima")),
            ("FINAL ANSWER: 42", Some("42")),
            ("FINAL ANSWER:", None),
            ("<think>long thought", None),
            ("   ", None),
        ] {
            assert_eq!(forced_answer(text).as_deref(), expected, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_never_returns_blank(text in "(?s)(.|FINAL ANSWER:|final answer|<answer>|</answer>|\\\\boxed\\{|\\}|\\[|\\]|<think>|</think>|\\*){0,40}") {
            for answer in [final_answer(&text), forced_answer(&text)].into_iter().flatten() {
                proptest::prop_assert!(!answer.trim().is_empty());
            }
        }
    }
}
