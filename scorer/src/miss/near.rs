use serde::Serialize;

use crate::official;
use crate::python::parse_float;

/// In what an answer that is wrong under every reading is still close.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Nearness {
    /// A number that differs by this share of the truth.
    Number { relative_error: f64 },
    /// A text of which this share of the letters agrees.
    Spelling { similarity: f64 },
    /// A list that has these many of its elements.
    Elements { right: usize, expected: usize },
}

/// Farthest that a number may be off: a wrong reading of a chart or a wrong year of a series lies within it, another
/// quantity seldom does.
const MOST_RELATIVE_ERROR: f64 = 0.05;

/// Least share of letters in common (normalised Levenshtein): one slip in a short name, a few in a long one.
const LEAST_SIMILARITY: f64 = 0.8;

/// Least share of the elements of a list that must be there.
const LEAST_ELEMENTS: f64 = 0.5;

pub(super) fn nearness(answer: &str, truth: &str) -> Option<Nearness> {
    if let Some(expected) = parse_float(truth) {
        let given = parse_float(&answer.replace(['$', '%', ','], ""))?;
        let relative_error = ((given - expected) / expected).abs();
        return (relative_error <= MOST_RELATIVE_ERROR).then_some(Nearness::Number { relative_error });
    }
    let cut = |text: &str| text.split([',', ';']).map(|part| part.trim().to_owned()).collect::<Vec<_>>();
    let expected = cut(truth);
    if expected.len() > 1 {
        let mut given = cut(answer);
        let right = expected
            .iter()
            .filter(|truth| {
                let found = given.iter().position(|answer| official::score(Some(answer), truth).correct);
                found.map(|index| given.swap_remove(index)).is_some()
            })
            .count();
        let enough = right as f64 >= LEAST_ELEMENTS * expected.len() as f64;
        return enough.then_some(Nearness::Elements { right, expected: expected.len() });
    }
    let similarity = strsim::normalized_levenshtein(&answer.to_lowercase(), &truth.to_lowercase());
    (similarity >= LEAST_SIMILARITY).then_some(Nearness::Spelling { similarity })
}
