//! Whole numbers in English words.

/// The text with every number that is written in words as digits: `two thousand and five dogs` becomes `2005 dogs`.
pub(super) fn in_digits(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut read: Vec<String> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        match longest_number(&words[at..]) {
            Some((value, used)) => {
                // What was glued to the last word stays: `two, three`.
                let last = words[at + used - 1];
                let tail = &last[last.trim_end_matches(|sign: char| sign.is_ascii_punctuation()).len()..];
                read.push(format!("{value}{tail}"));
                at += used;
            }
            None => {
                read.push(words[at].to_owned());
                at += 1;
            }
        }
    }
    read.join(" ")
}

/// The number at the head of these words and how many of them it takes.
fn longest_number(words: &[&str]) -> Option<(u64, usize)> {
    let mut number = Reading::default();
    let mut used = None;
    for (index, word) in words.iter().enumerate() {
        let bare = word.trim_end_matches(|sign: char| sign.is_ascii_punctuation());
        let parts: Vec<String> = bare.split('-').map(str::to_lowercase).collect();
        let is_and = index > 0 && bare.len() == word.len() && parts == ["and"];
        if !is_and {
            if !parts.iter().all(|part| number.take(part)) {
                break;
            }
            used = Some((number.value(), index + 1));
            if bare.len() < word.len() {
                break;
            }
        }
    }
    used
}

/// A number as far as it has been read.
#[derive(Default)]
struct Reading {
    /// Whole thousands, millions and so on.
    finished: u64,
    /// Below the next scale word.
    open: Option<u64>,
    last_scale: Option<u64>,
}

impl Reading {
    /// Takes one more word; false when it does not continue the number.
    fn take(&mut self, word: &str) -> bool {
        if let Some(small) = SMALL.iter().position(|name| *name == word).map(|index| index as u64) {
            let fits = match self.open {
                None => true,
                // `twenty five`, `hundred five`, not `five five` nor `ten five`.
                Some(open) => {
                    small > 0 && (open % 100 == 0 || (open % 100 >= 20 && open % 10 == 0 && small < 10))
                }
            };
            return fits && self.set(self.open.unwrap_or(0) + small);
        }
        if let Some(tens) = TENS.iter().position(|name| *name == word).map(|index| 20 + 10 * index as u64) {
            let fits = self.open.is_none_or(|open| open % 100 == 0 && open > 0);
            return fits && self.set(self.open.unwrap_or(0) + tens);
        }
        if word == "hundred" {
            let fits = self.open.is_none_or(|open| (1..100).contains(&open));
            return fits && self.set(self.open.unwrap_or(1) * 100);
        }
        let Some((_, scale)) = SCALES.iter().find(|(name, _)| *name == word) else { return false };
        if self.last_scale.is_some_and(|last| last <= *scale) {
            return false;
        }
        let Some(scaled) = self.open.unwrap_or(1).checked_mul(*scale) else { return false };
        self.finished += scaled;
        self.open = None;
        self.last_scale = Some(*scale);
        true
    }

    fn set(&mut self, value: u64) -> bool {
        self.open = Some(value);
        true
    }

    fn value(&self) -> u64 {
        self.finished + self.open.unwrap_or(0)
    }
}

const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const SCALES: [(&str, u64); 3] = [("thousand", 1_000), ("million", 1_000_000), ("billion", 1_000_000_000)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_digits_and_other_words_stay() {
        for (text, expected) in [
            ("seventeen", "17"),
            ("Twenty-Five", "25"),
            ("one hundred and five", "105"),
            ("two thousand twenty four", "2024"),
            ("three million two hundred thousand and one", "3200001"),
            ("two, three", "2, 3"),
            ("five five", "5 5"),
            ("nineteen eighty", "19 80"),
            ("cats and dogs", "cats and dogs"),
            ("one and only", "1 and only"),
            ("zero", "0"),
            ("", ""),
        ] {
            assert_eq!(in_digits(text), expected, "{text:?}");
        }
    }
}
