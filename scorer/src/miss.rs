//! What a wrong answer lacks.
//!
//! The official scorer forgives nothing, so an answer can be worth nothing for a unit or a comma. Here each wrong answer
//! is held against its truth once more under ever more lenient readings, to tell what a better format would have saved
//! from what the model did not know. It explains a score and never changes one: the verdict stays
//! [`official`](crate::official)'s.

mod lenient;
mod near;
mod number_words;

use serde::Serialize;

use crate::official;
use lenient::{READINGS, Sides};
pub use near::Nearness;

/// How far a wrong answer is from right.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Miss {
    /// There is no answer, or a blank one.
    Nothing,
    /// Right once these are forgiven, which are the fewest that are enough.
    Format { faults: Vec<FormatFault> },
    /// Not right under any reading, but close.
    Near { nearness: Nearness },
    /// The model did not know, or found something else.
    Different,
}

/// A reading under which the scorer would have taken an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FormatFault {
    /// `the`, `a`, `an` before a name.
    Article,
    /// `17 km` for `17`, `€5` for `5`.
    Unit,
    /// The elements of a list in another order.
    Order,
    /// `3.14159` for `3.14`, or `3` for `3.14`.
    Rounding,
    /// A number in words: `seventeen` for `17`, or the other way round.
    NumberWord,
    /// `1,000` where a comma makes a list of it.
    ThousandsComma,
    /// Right but for a factor of a hundred, a thousand, a million or a billion: `17000` where thousands were asked for.
    Magnitude,
    /// Accents, typographic quotes and dashes.
    Typography,
    /// Punctuation that counts inside lists: quotes, full stops, brackets.
    Punctuation,
    /// Lists cut by `and` or by lines instead of commas.
    Separator,
    /// The right answer with other words around it.
    ExtraText,
}

impl FormatFault {
    /// For a table: a few words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Article => "article",
            Self::Unit => "unit or currency sign",
            Self::Order => "order of a list",
            Self::Rounding => "rounding",
            Self::NumberWord => "number in words or digits",
            Self::ThousandsComma => "thousands comma",
            Self::Magnitude => "order of magnitude",
            Self::Typography => "accents or typographic signs",
            Self::Punctuation => "punctuation in a list",
            Self::Separator => "separator of a list",
            Self::ExtraText => "words around the answer",
        }
    }
}

/// Most faults forgiven together. With more, anything becomes like anything.
const MOST_FAULTS: usize = 3;

/// What `answer` lacks; `None` when it is right.
pub fn diagnose(answer: Option<&str>, truth: &str) -> Option<Miss> {
    if official::score(answer, truth).correct {
        return None;
    }
    let Some(answer) = answer.filter(|answer| !answer.trim().is_empty()) else { return Some(Miss::Nothing) };
    let sides = Sides { answer: answer.to_owned(), truth: truth.to_owned() };
    Some(
        (1..=MOST_FAULTS)
            .find_map(|count| forgive(&sides, count, 0))
            .map(|faults| Miss::Format { faults })
            .or_else(|| near::nearness(answer, truth).map(|nearness| Miss::Near { nearness }))
            .unwrap_or(Miss::Different),
    )
}

/// Finds `count` readings, from the given one on, that make the answer right when read one after the other.
fn forgive(sides: &Sides, count: usize, from: usize) -> Option<Vec<FormatFault>> {
    READINGS.iter().enumerate().skip(from).find_map(|(index, (fault, reading))| {
        // A reading that changes nothing is not among the fewest.
        let read = reading(sides).filter(|read| read != sides)?;
        if count == 1 {
            return read.agree().then(|| vec![*fault]);
        }
        let mut others = forgive(&read, count - 1, index + 1)?;
        others.insert(0, *fault);
        Some(others)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(answer: &str, truth: &str) -> Vec<FormatFault> {
        match diagnose(Some(answer), truth) {
            Some(Miss::Format { faults }) => faults,
            other => panic!("{answer:?} against {truth:?}: {other:?}"),
        }
    }

    #[test]
    fn each_fault_is_told_by_its_name() {
        use FormatFault::*;
        let mut wrong = Vec::new();
        for (answer, truth, fault) in [
            ("the Louvre", "Louvre", Article),
            ("Eiffel Tower", "The Eiffel Tower", Article),
            ("17 km", "17", Unit),
            ("17", "17 hours", Unit),
            ("€ 5.50", "5.5", Unit),
            ("about 12 metres", "12", Unit),
            ("pear, apple", "apple, pear", Order),
            ("2; 1", "1, 2", Order),
            ("3.14159", "3.14", Rounding),
            ("3.1", "3.14", Rounding),
            ("0.667", "0.6666667", Rounding),
            ("seventeen", "17", NumberWord),
            ("17", "seventeen", NumberWord),
            ("One hundred and five", "105", NumberWord),
            ("two thousand twenty-four", "2024", NumberWord),
            ("3 dogs", "three dogs", NumberWord),
            ("1000", "1,000", ThousandsComma),
            ("1000, 2", "1,000; 2", ThousandsComma),
            ("17000", "17", Magnitude),
            ("0.25", "25", Magnitude),
            ("Sao Paulo", "São Paulo", Typography),
            ("don’t, do", "don't, do", Typography),
            ("“a”, b", "\"a\", b", Typography),
            ("\"a\", b", "a, b", Punctuation),
            ("a., b", "a, b", Punctuation),
            ("a and b", "a, b", Separator),
            ("a\nb", "a, b", Separator),
            ("a, b and c", "a, b, c", Separator),
            ("The capital is Lima.", "Lima", ExtraText),
            ("x = 42", "42", ExtraText),
        ] {
            let miss = diagnose(Some(answer), truth);
            if miss != Some(Miss::Format { faults: vec![fault] }) {
                wrong.push(format!("{answer:?} against {truth:?}: {miss:?} and not {fault:?}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn two_faults_are_both_told() {
        use FormatFault::*;
        assert_eq!(faults("the pear, an apple", "apple, pear"), [Article, Order]);
        assert_eq!(faults("seventeen kilometres", "17"), [NumberWord, Unit]);
        assert_eq!(faults("17.04 km", "17"), [Unit, Rounding]);
    }

    #[test]
    fn what_is_wrong_is_not_made_right() {
        for (answer, truth) in [
            ("18", "17"),
            ("Lima", "Quito"),
            ("a, b", "a, c"),
            ("170", "17"),
            ("-17", "17"),
            ("no", "yes"),
            ("17 or 18", "17"),
            ("between 3 and 17", "17"),
            ("1.5", "2"),
            ("not Lima", "Lima"),
            ("Linda", "Lin"),
        ] {
            let miss = diagnose(Some(answer), truth).unwrap();
            assert!(!matches!(miss, Miss::Format { .. }), "{answer:?} against {truth:?}: {miss:?}");
        }
    }

    #[test]
    fn right_answers_lack_nothing_and_missing_ones_everything() {
        assert_eq!(diagnose(Some("$1,000"), "1000"), None);
        assert_eq!(diagnose(None, "none"), None, "the official scorer reads a missing answer as `None`");
        assert_eq!(diagnose(None, "17"), Some(Miss::Nothing));
        assert_eq!(diagnose(Some(" \n"), "17"), Some(Miss::Nothing));
    }

    #[test]
    fn near_misses_are_told_apart_from_the_rest() {
        let near = |answer: &str, truth: &str| match diagnose(Some(answer), truth) {
            Some(Miss::Near { nearness }) => nearness,
            other => panic!("{answer:?} against {truth:?}: {other:?}"),
        };
        assert!(matches!(near("102", "100"), Nearness::Number { .. }));
        assert!(matches!(near("Guillermo del Torro", "Guillermo del Toro"), Nearness::Spelling { .. }));
        assert_eq!(near("a, b, d", "a, b, c"), Nearness::Elements { right: 2, expected: 3 });
        assert_eq!(near("a, b", "a, b, c"), Nearness::Elements { right: 2, expected: 3 });
        assert_eq!(diagnose(Some("200"), "100"), Some(Miss::Different));
        assert_eq!(diagnose(Some("Lima"), "Quito"), Some(Miss::Different));
    }
}
