//! One page of a long text, counted in characters as the reference server counts them.

/// A part of a text, and where the next one begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'a> {
    pub text: &'a str,
    /// Index of the first character after the part; `None` when nothing is left.
    pub next_index: Option<usize>,
    pub total_chars: usize,
}

/// The characters from `start` on, `max_chars` of them at most. A row of a table is not cut: the part ends before it,
/// unless the row alone is longer than a part. `None` when `start` is beyond the end.
pub fn part(text: &str, start: usize, max_chars: usize) -> Option<Part<'_>> {
    let total_chars = text.chars().count();
    if start >= total_chars {
        return None;
    }
    let rest = &text[byte_at(text, start)..];
    let Some(end) = rest.char_indices().nth(max_chars).map(|(at, _)| at) else {
        return Some(Part { text: rest, next_index: None, total_chars });
    };
    let end = before_row(rest, end).unwrap_or(end);
    let part = &rest[..end];
    Some(Part { text: part, next_index: Some(start + part.chars().count()), total_chars })
}

fn byte_at(text: &str, index: usize) -> usize {
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

/// The start of the row that a cut at `end` would fall into.
fn before_row(text: &str, end: usize) -> Option<usize> {
    let line_start = text[..end].rfind('\n')? + 1;
    let line = text[line_start..].lines().next()?;
    let is_row = line.starts_with("| ") && line.ends_with('|');
    (is_row && end < line_start + line.len()).then_some(line_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_and_not_cut() {
        let text = "aé日本z";
        assert_eq!(part(text, 1, 2), Some(Part { text: "é日", next_index: Some(3), total_chars: 5 }));
        assert_eq!(part(text, 3, 2), Some(Part { text: "本z", next_index: None, total_chars: 5 }));
        assert_eq!(part(text, 4, 1).unwrap().next_index, None);
        assert_eq!(part(text, 5, 1), None);
        assert_eq!(part("", 0, 1), None);
    }

    #[test]
    fn a_row_is_whole_in_one_part() {
        let text = "intro\n| a | b |\n| --- | --- |\n| one | two |\n| three | four |\nend";
        let mut start = 0;
        let mut parts = Vec::new();
        while let Some(part) = part(text, start, 24) {
            parts.push(part.text);
            match part.next_index {
                Some(next) => start = next,
                None => break,
            }
        }
        assert_eq!(parts.concat(), text);
        for row in ["| a | b |", "| --- | --- |", "| one | two |", "| three | four |"] {
            assert!(parts.iter().any(|part| part.contains(row)), "{row}: {parts:?}");
        }
        // A row that is longer than a part is cut like any text.
        let long = format!("x\n| {} |\n", "y".repeat(50));
        assert_eq!(part(&long, 2, 10).unwrap().text.len(), 10);
    }
}
