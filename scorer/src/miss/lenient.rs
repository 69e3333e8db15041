//! Readings that forgive one fault each.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::FormatFault;
use super::number_words::in_digits;
use crate::official;
use crate::python::parse_float;

/// An answer and its truth, read the same way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sides {
    pub(super) answer: String,
    pub(super) truth: String,
}

impl Sides {
    pub(super) fn agree(&self) -> bool {
        official::score(Some(&self.answer), &self.truth).correct
    }

    fn both(&self, read: impl Fn(&str) -> String) -> Option<Self> {
        Some(Self { answer: read(&self.answer), truth: read(&self.truth) })
    }

    /// The answer as if it had been the truth.
    fn taken_as_right(&self) -> Self {
        Self { answer: self.truth.clone(), truth: self.truth.clone() }
    }
}

type Reading = fn(&Sides) -> Option<Sides>;

/// In the order in which they are tried: what changes least first.
pub(super) const READINGS: [(FormatFault, Reading); 11] = [
    (FormatFault::Typography, typography),
    (FormatFault::NumberWord, number_word),
    (FormatFault::ThousandsComma, thousands_comma),
    (FormatFault::Article, article),
    (FormatFault::Unit, unit),
    (FormatFault::Separator, separator),
    (FormatFault::Punctuation, punctuation),
    (FormatFault::Order, order),
    (FormatFault::Rounding, rounding),
    (FormatFault::Magnitude, magnitude),
    (FormatFault::ExtraText, extra_text),
];

fn typography(sides: &Sides) -> Option<Sides> {
    sides.both(|text| {
        text.nfkd()
            .filter(|character| !is_combining_mark(*character))
            .map(|character| match character {
                '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{2032}' | '`' | '\u{b4}' => '\'',
                '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{ab}' | '\u{bb}' | '\u{2033}' => '"',
                '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
                'ø' => 'o',
                'Ø' => 'O',
                'ł' => 'l',
                'Ł' => 'L',
                'đ' => 'd',
                'Đ' => 'D',
                other => other,
            })
            .collect()
    })
}

fn number_word(sides: &Sides) -> Option<Sides> {
    sides.both(in_digits)
}

/// Drops commas that stand between groups of three digits.
fn thousands_comma(sides: &Sides) -> Option<Sides> {
    sides.both(|text| {
        let characters: Vec<char> = text.chars().collect();
        let is_digit = |at: usize| characters.get(at).is_some_and(char::is_ascii_digit);
        let groups = |at: usize| {
            at > 0 && is_digit(at - 1) && (1..=3).all(|step| is_digit(at + step)) && !is_digit(at + 4)
        };
        let kept = characters.iter().enumerate().filter(|(at, character)| **character != ',' || !groups(*at));
        kept.map(|(_, character)| *character).collect()
    })
}

fn article(sides: &Sides) -> Option<Sides> {
    sides.both(|text| {
        by_element(text, |element| {
            let mut words = element.split_whitespace();
            match words.next() {
                Some(first) if ["the", "a", "an"].contains(&first.to_lowercase().as_str()) => {
                    // An article alone is an answer, not an article.
                    let rest = words.collect::<Vec<_>>().join(" ");
                    if rest.is_empty() { element.to_owned() } else { rest }
                }
                _ => element.to_owned(),
            }
        })
    })
}

/// Drops what stands around the one number of an element. With two numbers it is not clear which is meant.
fn unit(sides: &Sides) -> Option<Sides> {
    sides.both(|text| by_element(text, |element| only_number(element).unwrap_or_else(|| element.to_owned())))
}

/// The one number of a text whose other words could be a unit: a quantity of few and short words.
fn only_number(text: &str) -> Option<String> {
    // Words of a unit with its prefix and qualifier: `about`, `million`, `square`, `kilometres`.
    const MOST_UNIT_WORDS: usize = 4;
    let is_numeric = |character: char| character.is_ascii_digit() || matches!(character, '.' | '-' | '+');
    let start = text.find(|character: char| character.is_ascii_digit())?;
    let start = text[..start]
        .rfind(|character| !is_numeric(character))
        .map_or(0, |before| before + text[before..].chars().next().map_or(0, char::len_utf8));
    let length = text[start..].find(|character| !is_numeric(character)).unwrap_or(text.len() - start);
    let number = text[start..start + length].trim_end_matches(['.', '-', '+']);
    let (before, after) = (&text[..start], &text[start + length..]);
    let around = || before.split_whitespace().chain(after.split_whitespace());
    let is_unit = |word: &str| {
        let word = word.to_lowercase();
        !word.contains(|character: char| character.is_ascii_digit())
            && !["or", "and", "not", "to", "between", "is", "="].contains(&word.as_str())
    };
    // `B-17` and `x17` are names.
    let is_apart = before.chars().last().is_none_or(|last| !last.is_alphanumeric());
    let is_quantity = is_apart && around().count() <= MOST_UNIT_WORDS && around().all(is_unit);
    (is_quantity && parse_float(number).is_some()).then(|| number.to_owned())
}

/// Cuts lists at `and`, `&` and line ends too.
fn separator(sides: &Sides) -> Option<Sides> {
    sides.both(|text| {
        let text = text.replace(['\n', '|'], ",").replace(" & ", ",").replace(" and ", ",");
        let elements: Vec<&str> =
            text.split([',', ';']).map(str::trim).filter(|element| !element.is_empty()).collect();
        elements.join(",")
    })
}

/// Drops punctuation at the ends of every element.
fn punctuation(sides: &Sides) -> Option<Sides> {
    sides.both(|text| {
        by_element(text, |element| {
            let is_sign =
                |character: char| character.is_ascii_punctuation() && !matches!(character, '-' | '+');
            let trimmed =
                element.trim_end_matches(is_sign).trim_start_matches(|sign| is_sign(sign) && sign != '.');
            trimmed.trim().to_owned()
        })
    })
}

fn order(sides: &Sides) -> Option<Sides> {
    sides.both(|text| {
        let mut elements: Vec<String> =
            text.split([',', ';']).map(|element| element.trim().to_lowercase()).collect();
        elements.sort();
        elements.join(",")
    })
}

fn rounding(sides: &Sides) -> Option<Sides> {
    let (answer, truth) = (&number(&sides.answer)?, &number(&sides.truth)?);
    let is_rounded = |precise: &Number, rough: &Number| {
        let unit = 10f64.powi(-rough.decimals);
        // Half a unit, and the error of the doubles themselves.
        precise.decimals > rough.decimals && (precise.value - rough.value).abs() <= unit * (0.5 + 1e-9)
    };
    // Down to a whole number is as far as a rounding goes: `1.5` for `2` is another number.
    let is_fine = rounded_from_far(answer, truth);
    (is_fine && (is_rounded(answer, truth) || is_rounded(truth, answer))).then(|| sides.taken_as_right())
}

/// Whether what rounding took away is small: at most a twentieth of the number.
fn rounded_from_far(answer: &Number, truth: &Number) -> bool {
    const MOST_LOST_SHARE: f64 = 0.05;
    (answer.value - truth.value).abs() <= MOST_LOST_SHARE * truth.value.abs()
}

struct Number {
    value: f64,
    decimals: i32,
}

fn number(text: &str) -> Option<Number> {
    let text = text.replace(['$', '%', ','], "");
    let text = text.trim();
    let value = parse_float(text).filter(|value| value.is_finite())?;
    let digits = text.split_once('.').map_or("", |(_, fraction)| fraction);
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(Number { value, decimals: digits.len() as i32 })
}

fn magnitude(sides: &Sides) -> Option<Sides> {
    const FACTORS: [f64; 4] = [1e2, 1e3, 1e6, 1e9];
    let (answer, truth) = (number(&sides.answer)?.value, number(&sides.truth)?.value);
    let is_equal = |first: f64, second: f64| (first - second).abs() <= 1e-9 * second.abs();
    let is_shifted = truth != 0.0
        && FACTORS.iter().any(|factor| is_equal(answer * factor, truth) || is_equal(answer, truth * factor));
    is_shifted.then(|| sides.taken_as_right())
}

/// Finds the truth as whole words in a sentence that holds no second candidate and denies nothing.
fn extra_text(sides: &Sides) -> Option<Sides> {
    let words = |text: &str| {
        text.split(|character: char| !(character.is_alphanumeric() || matches!(character, '.' | '-' | '+')))
            .map(|word| word.trim_end_matches(['.', '-', '+']).to_lowercase())
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
    };
    let (answer, truth) = (words(&sides.answer), words(&sides.truth));
    let has_digits = |word: &String| word.contains(|character: char| character.is_ascii_digit());
    let denies = ["not", "no", "or", "never", "isn't", "neither", "nor"];
    let is_there = !truth.is_empty()
        && answer.len() > truth.len()
        && answer.windows(truth.len()).any(|window| window == truth)
        && !answer.iter().any(|word| denies.contains(&word.as_str()) && !truth.contains(word))
        // A second number is a second answer.
        && answer.iter().filter(|word| has_digits(word)).all(|word| truth.contains(word));
    is_there.then(|| sides.taken_as_right())
}

fn by_element(text: &str, read: impl Fn(&str) -> String) -> String {
    let elements: Vec<String> = text.split([',', ';']).map(|element| read(element.trim())).collect();
    elements.join(",")
}
