//! Finds pages that hold the question itself: what stands beside a question is likely to be its answer.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Of a question, so many words in a row are no chance and no quotation.
const MAX_WINDOW_WORDS: usize = 24;
/// A shorter run of words also stands on pages that a question asks about: titles, names, quotations.
const MIN_WINDOW_WORDS: usize = 10;
/// Base of the rolling hash: odd and large, so that it mixes.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Knows one question.
#[derive(Debug, Clone)]
pub struct Detector {
    window: usize,
    /// Hashes of all runs of `window` words of the question.
    runs: HashSet<u64>,
}

impl Detector {
    /// `None` for a question so short that it may stand anywhere.
    pub fn new(question: &str) -> Option<Self> {
        let words: Vec<u64> = words(question).map(|(_, hash)| hash).collect();
        // Half of a question is as telling as all of it: copies differ in a word or a mark.
        let window = (words.len() / 2).clamp(MIN_WINDOW_WORDS, MAX_WINDOW_WORDS);
        if words.len() < window {
            return None;
        }
        let runs = runs(words.into_iter(), window).map(|(_, hash)| hash).collect();
        Some(Self { window, runs })
    }

    /// A verbatim part of the question in the text, as it stands there.
    pub fn find(&self, text: &str) -> Option<String> {
        let (starts, hashes): (Vec<usize>, Vec<u64>) = words(text).unzip();
        let (last, _) = runs(hashes.into_iter(), self.window).find(|(_, hash)| self.runs.contains(hash))?;
        let from = starts[last + 1 - self.window];
        let to = starts.get(last + 1).copied().unwrap_or(text.len());
        Some(text[from..to].split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// Words without case and marks: where each starts, and its hash.
fn words(text: &str) -> impl Iterator<Item = (usize, u64)> + '_ {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        while rest.next_if(|(_, character)| !character.is_alphanumeric()).is_some() {}
        let start = rest.peek()?.0;
        let mut hasher = DefaultHasher::new();
        // An apostrophe inside of a word is written in many ways.
        while let Some((_, character)) =
            rest.next_if(|(_, character)| character.is_alphanumeric() || matches!(character, '\'' | '’'))
        {
            if character.is_alphanumeric() {
                character.to_lowercase().for_each(|lower| lower.hash(&mut hasher));
            }
        }
        Some((start, hasher.finish()))
    })
}

/// Index of the last word and hash of each run of `window` words.
fn runs(words: impl Iterator<Item = u64>, window: usize) -> impl Iterator<Item = (usize, u64)> {
    let leaving = (1..window).fold(1u64, |power, _| power.wrapping_mul(BASE));
    let mut kept = std::collections::VecDeque::with_capacity(window);
    let mut hash = 0u64;
    words.enumerate().filter_map(move |(index, word)| {
        if kept.len() == window {
            let oldest = kept.pop_front().unwrap_or_default();
            hash = hash.wrapping_sub(leaving.wrapping_mul(oldest));
        }
        hash = hash.wrapping_mul(BASE).wrapping_add(word);
        kept.push_back(word);
        (kept.len() == window).then_some((index, hash))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &str = "Of the lighthouses that the harbour board of Varn listed in its 1911 report, which one \
                            had the tallest tower, and how many metres above the sea did its lamp stand?";

    fn detector() -> Detector {
        Detector::new(QUESTION).unwrap()
    }

    #[test]
    fn the_question_is_found_in_other_dress() {
        let page = format!("Task 17\n\n**{}**\n\nAnswer: none", QUESTION.to_uppercase().replace(',', " —"));
        let found = detector().find(&page).unwrap();
        assert!(found.starts_with("OF THE LIGHTHOUSES"), "{found}");
        let half = "we were asked: which one had the tallest tower and how many metres above the sea did its lamp \
                    stand? I think";
        assert!(detector().find(half).is_some());
    }

    #[test]
    fn pages_about_the_matter_are_clean() {
        for page in [
            "The harbour board of Varn listed in its 1911 report the lighthouses of the coast.",
            "How many metres above the sea did its lamp stand? Nobody knows.",
            "",
            "which one",
        ] {
            assert_eq!(detector().find(page), None, "{page}");
        }
    }

    #[test]
    fn a_short_question_is_not_looked_for() {
        assert!(Detector::new("Who wrote Hamlet?").is_none());
        assert!(Detector::new("").is_none());
        assert!(Detector::new("one two three four five six seven eight nine ten").is_some());
    }

    #[test]
    fn a_run_at_the_end_and_one_among_many_words() {
        let filler = "lorem ipsum dolor ".repeat(10_000);
        assert!(detector().find(&format!("{filler}{QUESTION}")).is_some());
        assert_eq!(detector().find(&filler), None);
    }
}
