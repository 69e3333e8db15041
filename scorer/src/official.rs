//! The scorer of the GAIA leaderboard (`question_scorer`, version of 2025), outcome for outcome.
//!
//! The truth alone decides how an answer is compared:
//!
//! 1. a truth that Python's `float` takes is a **number**: the answer loses every `$`, `%` and `,` and must be the
//!    same double; there is no tolerance, and an answer that is no number counts as infinity;
//! 2. a truth with a `,` or `;` in it is a **list**: both sides are cut at every such character, must have the same
//!    length and agree position by position, each by rule 1 or by text with its punctuation kept;
//! 3. anything else is a **string**: whitespace and ASCII punctuation are dropped, case is ignored.
//!
//! A missing answer is the text `None`. Nothing else is forgiven: no article, unit, order, accent or typographic
//! quote. The original prints its reasoning; here it is data, see [`explain`].

mod ballot;
mod reason;

pub(crate) use ballot::Ballot;
pub use reason::Reason;

use serde::{Deserialize, Serialize};

use crate::python::{is_whitespace, parse_float, to_lowercase};

/// Scores one answer; `None` is the answer of a sample that gave none.
///
/// A truth matches itself unless it, or one element of a list, is a number that is `nan`.
pub fn score(pred: Option<&str>, truth: &str) -> Verdict {
    explain(pred, truth).verdict
}

/// Scores one answer and keeps what was compared.
pub fn explain(pred: Option<&str>, truth: &str) -> Explanation {
    let answer = pred.unwrap_or("None");
    if let Some(expected) = parse_float(truth) {
        return compare_numbers(answer, expected).into_explanation(Kind::Number);
    }
    if truth.contains(SEPARATORS) {
        return compare_lists(answer, truth);
    }
    compare_texts(&plain_text(answer), &plain_text(truth)).into_explanation(Kind::String)
}

/// What the scorer decided.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether the answer counts as right.
    pub correct: bool,
    /// How the truth made it compare.
    pub kind: Kind,
    /// Why, in one sentence when displayed or serialised. It may quote answer and truth.
    pub reason: Reason,
}

/// How an answer was compared. Decided by the truth alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Number,
    List,
    String,
}

/// A verdict with what led to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    pub verdict: Verdict,
    /// The answer as it was compared.
    pub answer: Normalised,
    /// The truth as it was compared.
    pub truth: Normalised,
    /// One entry for each position of a list; empty for other kinds and for lists of different lengths.
    pub elements: Vec<Comparison>,
}

/// One answer, or element of an answer, against its truth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub correct: bool,
    pub answer: Normalised,
    pub truth: Normalised,
    pub reason: Reason,
}

/// A value in the form in which it is compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Normalised {
    /// Infinity and nan are the texts `inf`, `-inf` and `nan` in JSON, which has no number for them.
    Number(#[serde(serialize_with = "reason::serialize_number")] f64),
    Text(String),
    List(Vec<Normalised>),
}

const SEPARATORS: [char; 2] = [',', ';'];

fn compare_lists(answer: &str, truth: &str) -> Explanation {
    let answers: Vec<&str> = answer.split(SEPARATORS).collect();
    let truths: Vec<&str> = truth.split(SEPARATORS).collect();
    if answers.len() != truths.len() {
        let reason = Reason::DifferentLengths { answer: answers.len(), truth: truths.len() };
        let raw = |parts: Vec<&str>| {
            Normalised::List(parts.into_iter().map(|part| Normalised::Text(part.to_owned())).collect())
        };
        return Explanation {
            verdict: Verdict { correct: false, kind: Kind::List, reason },
            answer: raw(answers),
            truth: raw(truths),
            elements: Vec::new(),
        };
    }
    let elements: Vec<Comparison> = answers
        .iter()
        .zip(&truths)
        .map(|(answer, truth)| match parse_float(truth) {
            Some(expected) => compare_numbers(answer, expected),
            None => compare_texts(&element_text(answer), &element_text(truth)),
        })
        .collect();
    let wrong = elements.iter().enumerate().find(|(_, element)| !element.correct);
    let reason = match wrong {
        None => Reason::EqualLists { length: elements.len() },
        Some((index, element)) => {
            Reason::DifferentElement { position: index + 1, reason: Box::new(element.reason.clone()) }
        }
    };
    Explanation {
        verdict: Verdict { correct: wrong.is_none(), kind: Kind::List, reason },
        answer: Normalised::List(elements.iter().map(|element| element.answer.clone()).collect()),
        truth: Normalised::List(elements.iter().map(|element| element.truth.clone()).collect()),
        elements,
    }
}

fn compare_numbers(answer: &str, truth: f64) -> Comparison {
    let parsed = parse_float(&answer.replace(['$', '%', ','], ""));
    let value = parsed.unwrap_or(f64::INFINITY);
    let correct = value == truth;
    let reason = match parsed {
        _ if truth.is_nan() => Reason::TruthIsNan,
        None if correct => Reason::CountsAsInfinity { answer: answer.to_owned() },
        None => Reason::NotANumber { answer: answer.to_owned() },
        Some(_) if correct => Reason::EqualNumbers { value },
        Some(_) => Reason::DifferentNumbers { answer: value, truth },
    };
    Comparison { correct, answer: Normalised::Number(value), truth: Normalised::Number(truth), reason }
}

fn compare_texts(answer: &str, truth: &str) -> Comparison {
    let (answer, truth) = (answer.to_owned(), truth.to_owned());
    let correct = answer == truth;
    let reason = if correct {
        Reason::EqualTexts { text: truth.clone() }
    } else {
        Reason::DifferentTexts { answer: answer.clone(), truth: truth.clone() }
    };
    Comparison { correct, answer: Normalised::Text(answer), truth: Normalised::Text(truth), reason }
}

/// Text in a list: without whitespace, in lower case.
fn element_text(text: &str) -> String {
    // In this order: whether a sigma is final is decided after words have been joined.
    to_lowercase(&text.chars().filter(|character| !is_whitespace(*character)).collect::<String>())
}

/// Text outside a list: without ASCII punctuation too.
fn plain_text(text: &str) -> String {
    let mut text = element_text(text);
    text.retain(|character| !character.is_ascii_punctuation());
    text
}

impl Comparison {
    fn into_explanation(self, kind: Kind) -> Explanation {
        Explanation {
            verdict: Verdict { correct: self.correct, kind, reason: self.reason },
            answer: self.answer,
            truth: self.truth,
            elements: Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "official_tests.rs"]
mod tests;
