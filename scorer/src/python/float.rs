/// What Python's `float(text)` returns; `None` where it raises `ValueError`.
///
/// Accepted: whitespace at both ends, one sign, digits with single underscores between them, a dot with digits on
/// at least one side, an exponent, and `inf`, `infinity` and `nan` in any case. Every decimal digit of Unicode 14
/// counts as its value. A number too large becomes infinite.
pub fn parse_float(text: &str) -> Option<f64> {
    // `float` strips less than `\s` matches: not U+001C to U+001F, which makes it exactly Rust's set.
    let ascii = to_ascii_digits(text.trim())?;
    // On what is left Rust's grammar is Python's: same spellings, same rounding (half to even), same overflow.
    without_digit_separators(&ascii)?.parse().ok()
}

/// The text with every decimal digit in its ASCII form; `None` when another character outside ASCII is in it.
fn to_ascii_digits(text: &str) -> Option<String> {
    text.chars()
        .map(|character| if character.is_ascii() { Some(character) } else { ascii_digit(character) })
        .collect()
}

/// The text without its underscores; `None` when one of them does not stand between two digits.
fn without_digit_separators(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let well_placed = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'_')
        .all(|(at, _)| is_digit(at.checked_sub(1)) && is_digit(at.checked_add(1)));
    well_placed.then(|| text.replace('_', ""))
}

fn ascii_digit(character: char) -> Option<char> {
    let row = ZEROS.partition_point(|zero| *zero <= character).checked_sub(1)?;
    let value = u32::from(character) - u32::from(ZEROS[row]);
    char::from_digit(value, 10)
}

/// The zero of each of the 66 rows of ten decimal digits (general category Nd) of Unicode 14, in order.
#[rustfmt::skip]
const ZEROS: [char; 66] = [
    '\u{30}', '\u{660}', '\u{6F0}', '\u{7C0}', '\u{966}', '\u{9E6}', '\u{A66}', '\u{AE6}', '\u{B66}', '\u{BE6}',
    '\u{C66}', '\u{CE6}', '\u{D66}', '\u{DE6}', '\u{E50}', '\u{ED0}', '\u{F20}', '\u{1040}', '\u{1090}', '\u{17E0}',
    '\u{1810}', '\u{1946}', '\u{19D0}', '\u{1A80}', '\u{1A90}', '\u{1B50}', '\u{1BB0}', '\u{1C40}', '\u{1C50}',
    '\u{A620}', '\u{A8D0}', '\u{A900}', '\u{A9D0}', '\u{A9F0}', '\u{AA50}', '\u{ABF0}', '\u{FF10}', '\u{104A0}',
    '\u{10D30}', '\u{11066}', '\u{110F0}', '\u{11136}', '\u{111D0}', '\u{112F0}', '\u{11450}', '\u{114D0}',
    '\u{11650}', '\u{116C0}', '\u{11730}', '\u{118E0}', '\u{11950}', '\u{11C50}', '\u{11D50}', '\u{11DA0}',
    '\u{16A60}', '\u{16AC0}', '\u{16B50}', '\u{1D7CE}', '\u{1D7D8}', '\u{1D7E2}', '\u{1D7EC}', '\u{1D7F6}',
    '\u{1E140}', '\u{1E2F0}', '\u{1E950}', '\u{1FBF0}',
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<f64>) {
        assert_eq!(parse_float(text), expected, "{text:?}");
    }

    #[test]
    fn takes_what_python_takes() {
        for (text, value) in [
            ("17", 17.0),
            (" \t17\r\n", 17.0),
            ("\u{A0}17\u{3000}\u{85}", 17.0),
            ("+.5", 0.5),
            ("-5.", -5.0),
            ("1_000.000_1", 1000.0001),
            ("1_0e1_0", 1e11),
            ("1E+2", 100.0),
            ("1e400", f64::INFINITY),
            ("-1e-400", -0.0),
            ("-iNfInItY", f64::NEG_INFINITY),
            ("\u{661}\u{662}", 12.0),
            ("1_\u{661}.\u{FF15}e\u{7C1}", 115.0),
            ("9007199254740993", 9007199254740992.0),
        ] {
            check(text, Some(value));
        }
        assert!(parse_float("+NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn refuses_what_python_refuses() {
        for text in [
            "",
            " ",
            ".",
            "+",
            "-.",
            "e5",
            ".e5",
            "1e",
            "1e+",
            "1 000",
            "1\u{A0}000",
            "_1",
            "1_",
            "1__0",
            "1_.0",
            "1._0",
            "1e_5",
            "1_e5",
            "in_f",
            "--1",
            "+ 1",
            "1/2",
            "1.2.3",
            "0x10",
            "1,000",
            "\u{2212}1",
            "\u{BD}",
            "\u{B2}",
            "\u{2460}",
            "\u{4E00}",
            "1\0",
            "\0",
            "\u{1C}1",
            "1\u{1F}\u{A0}",
            "\u{200B}1",
            "nan1",
            "infin",
            "1\u{1FBFA}",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn every_row_of_digits_counts_from_zero_to_nine() {
        assert!(ZEROS.is_sorted());
        for zero in ZEROS {
            for value in 0..10 {
                let digit = char::from_u32(u32::from(zero) + value).expect("a digit");
                check(&digit.to_string(), Some(f64::from(value)));
            }
        }
    }
}
