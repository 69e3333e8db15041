use std::fmt;

use serde::{Serialize, Serializer};

/// Why a verdict is what it is. Displays, and serialises, as one sentence; [`Reason::code`] is the name to match on.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    EqualNumbers {
        value: f64,
    },
    DifferentNumbers {
        answer: f64,
        truth: f64,
    },
    /// The answer is no number after `$`, `%` and `,` are gone; it counts as infinity.
    NotANumber {
        answer: String,
    },
    /// The same, against a truth that is infinite: such an answer is right.
    CountsAsInfinity {
        answer: String,
    },
    /// No answer can match a truth that is `nan`.
    TruthIsNan,
    /// Holds the text both sides become.
    EqualTexts {
        text: String,
    },
    /// Holds both texts as they were compared.
    DifferentTexts {
        answer: String,
        truth: String,
    },
    EqualLists {
        length: usize,
    },
    DifferentLengths {
        answer: usize,
        truth: usize,
    },
    /// The first element that differs; `position` counts from 1.
    DifferentElement {
        position: usize,
        reason: Box<Reason>,
    },
}

impl Reason {
    /// A stable short name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::EqualNumbers { .. } => "equal_numbers",
            Reason::DifferentNumbers { .. } => "different_numbers",
            Reason::NotANumber { .. } => "not_a_number",
            Reason::CountsAsInfinity { .. } => "counts_as_infinity",
            Reason::TruthIsNan => "truth_is_nan",
            Reason::EqualTexts { .. } => "equal_texts",
            Reason::DifferentTexts { .. } => "different_texts",
            Reason::EqualLists { .. } => "equal_lists",
            Reason::DifferentLengths { .. } => "different_lengths",
            Reason::DifferentElement { .. } => "different_element",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::EqualNumbers { value } => write!(f, "both are the number `{}`", Number(*value)),
            Reason::DifferentNumbers { answer, truth } => {
                write!(f, "number `{}` is not `{}`", Number(*answer), Number(*truth))
            }
            Reason::NotANumber { answer } => {
                write!(f, "answer `{}` is not a number (`float` refuses it)", Quoted(answer))
            }
            Reason::CountsAsInfinity { answer } => {
                write!(
                    f,
                    "answer `{}` is not a number, which counts as the infinity expected",
                    Quoted(answer)
                )
            }
            Reason::TruthIsNan => f.write_str("the truth is `nan`, which equals nothing"),
            Reason::EqualTexts { text } => write!(f, "equal after normalisation: `{}`", Quoted(text)),
            Reason::DifferentTexts { answer, truth } => {
                write!(f, "`{}` is not `{}`", Quoted(answer), Quoted(truth))
            }
            Reason::EqualLists { length } => write!(f, "all {length} elements are equal"),
            Reason::DifferentLengths { answer, truth } => {
                write!(f, "lists differ in length: {answer} against {truth}")
            }
            Reason::DifferentElement { position, reason } => write!(f, "element {position}: {reason}"),
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Longest quotation in a reason, in characters. The longest truth of the validation split has 124, so truths are
/// whole; a model that answers with an essay does not fill the table.
const QUOTED_CHARACTERS: usize = 160;

struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(QUOTED_CHARACTERS) {
            None => f.write_str(self.0),
            Some((end, _)) => write!(f, "{}…", &self.0[..end]),
        }
    }
}

/// A double as a person would write it: shortest digits that read back the same, an exponent where zeros would pile up.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if self.0.is_nan() {
            f.write_str("nan")
        } else if self.0 == 0.0 || !self.0.is_finite() || (1e-4..1e16).contains(&size) {
            write!(f, "{}", self.0)
        } else {
            write!(f, "{:e}", self.0)
        }
    }
}

pub(super) fn serialize_number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.is_finite() { serializer.serialize_f64(*value) } else { serializer.collect_str(&Number(*value)) }
}
