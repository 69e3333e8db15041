//! The quasi-exact and partial match of HelloAgents, kept for comparison with figures reported by it.
//!
//! Written from a description of its rules. It is *not* the official scorer: it accepts lists in any order and
//! rejects `5.0` for `5`; a partial match can be as little as one side containing the other.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::python::{is_whitespace, to_lowercase};

/// Scores one answer by both of its rules. An exact match is a partial one too.
pub fn score(pred: Option<&str>, truth: &str) -> Quasi {
    let pred = pred.unwrap_or_default();
    let (norm_pred, norm_truth) = (normalise(pred), normalise(truth));
    let both_given = !pred.is_empty() && !truth.is_empty();
    Quasi {
        exact: both_given && norm_pred == norm_truth,
        partial: both_given && is_partial(&norm_pred, &norm_truth),
        norm_pred,
        norm_truth,
    }
}

/// The outcome of both rules, and what was compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quasi {
    pub exact: bool,
    pub partial: bool,
    pub norm_pred: String,
    pub norm_truth: String,
}

/// Share of the words of the truth that an answer must hold to be partially right.
const PARTIAL_WORD_SHARE: f64 = 0.7;

fn is_partial(pred: &str, truth: &str) -> bool {
    if pred.contains(truth) || truth.contains(pred) {
        return true;
    }
    let (expected, given): (BTreeSet<&str>, BTreeSet<&str>) = (words(truth).collect(), words(pred).collect());
    let found = expected.intersection(&given).count();
    !expected.is_empty() && found as f64 / expected.len() as f64 >= PARTIAL_WORD_SHARE
}

/// Lists are normalised element by element and sorted by code point, so their order does not count.
fn normalise(text: &str) -> String {
    let text = text.trim_matches(is_whitespace);
    if !text.contains(',') {
        return normalise_single(text);
    }
    let mut elements: Vec<String> = text.split(',').map(normalise_single).collect();
    elements.sort();
    elements.join(",")
}

fn normalise_single(text: &str) -> String {
    let lowered = to_lowercase(text.trim_matches(is_whitespace));
    let mut words: Vec<&str> = words(&lowered).collect();
    if words.first().is_some_and(|first| ["the", "a", "an"].contains(first)) {
        words.remove(0);
    }
    let without_symbols = words.join(" ").replace(['$', '%', '€', '£'], "");
    // Once more, for a symbol that stood alone. A space before the punctuation dropped last stays: that is the rule.
    let collapsed = self::words(&without_symbols).collect::<Vec<_>>().join(" ");
    collapsed.trim_end_matches(['.', ',', ';', ':', '!', '?']).to_owned()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_whitespace).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pred: &str, truth: &str, exact: bool, partial: bool) {
        let quasi = score(Some(pred), truth);
        assert_eq!((quasi.exact, quasi.partial), (exact, partial), "{pred:?} against {truth:?}: {quasi:?}");
    }

    #[test]
    fn order_and_one_article_are_forgiven() {
        check("d, the c", "c,d", true, true);
        check("a", "the", true, true);
        check("a an cat", "cat", false, true);
    }

    #[test]
    fn numbers_are_only_text() {
        check("5.0", "5", false, true);
        check("1000", "1,000", false, false);
        check("17", "17000", false, true);
    }

    #[test]
    fn seven_words_of_ten_are_enough_for_a_partial_match() {
        check("j i h g f e d", "a b c d e f g h i j", false, true);
        check("j i h g f e", "a b c d e f g h i j", false, false);
    }

    #[test]
    fn nothing_matches_a_missing_or_empty_side() {
        assert!(!score(None, "x").partial);
        check("", "", false, false);
        check("the", "anything", false, true);
    }
}
