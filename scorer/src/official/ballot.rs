use super::{SEPARATORS, element_text, parse_float, plain_text};

/// An answer reduced to what the official scorer would compare if it were the truth: equal ballots are one answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Ballot {
    Number(f64),
    Text(String),
    List(Vec<Ballot>),
}

impl Ballot {
    /// `None` of a blank answer.
    pub(crate) fn cast(answer: &str) -> Option<Ballot> {
        if element_text(answer).is_empty() {
            return None;
        }
        Some(number(answer).unwrap_or_else(|| {
            if answer.contains(SEPARATORS) {
                Ballot::List(
                    answer
                        .split(SEPARATORS)
                        .map(|element| number(element).unwrap_or_else(|| Ballot::Text(element_text(element))))
                        .collect(),
                )
            } else {
                Ballot::Text(plain_text(answer))
            }
        }))
    }
}

/// Nan is left to be text: it must agree with itself to be counted.
fn number(text: &str) -> Option<Ballot> {
    parse_float(&text.replace(['$', '%'], "")).filter(|value| !value.is_nan()).map(Ballot::Number)
}
