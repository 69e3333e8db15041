//! What the GAIA scorer trips over in the form of an answer.
//!
//! The scorer knows three kinds, chosen by the truth, which is not known here. A number: `$`, `%` and `,` are deleted
//! and the rest must be a Python float. A list: split at every `,` and `;`, punctuation of the elements kept. A string:
//! white space and ASCII punctuation deleted. So the advice names only what is wrong for at least one kind that the
//! answer may well be meant as, and is silent about what no kind minds.

/// Longer than any answer that could match exactly.
const MAX_ANSWER_CHARS: usize = 200;

/// One sentence for each thing to change; empty for most answers.
pub(super) fn advise(answer: &str) -> Vec<String> {
    [marker, explanation, markup, brackets, stop, separators, typography, number]
        .iter()
        .filter_map(|rule| rule(answer))
        .collect()
}

fn marker(answer: &str) -> Option<String> {
    let lower = answer.to_lowercase();
    ["final answer", "the answer is", "answer:"]
        .into_iter()
        .find(|marker| lower.contains(marker))
        .map(|marker| format!("leave out the words `{marker}`: give the answer alone"))
}

fn explanation(answer: &str) -> Option<String> {
    if answer.contains('\n') {
        Some("give one line without explanation".to_owned())
    } else if answer.chars().count() > MAX_ANSWER_CHARS {
        Some("it is very long: give the answer alone, without explanation".to_owned())
    } else {
        None
    }
}

fn markup(answer: &str) -> Option<String> {
    ["**", "`", "\\boxed", "\\text", "<answer>"]
        .into_iter()
        .find(|markup| answer.contains(markup))
        .map(|markup| format!("leave out the markup `{markup}`"))
}

fn brackets(answer: &str) -> Option<String> {
    let pairs =
        [('[', ']'), ('(', ')'), ('{', '}'), ('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’'), ('«', '»')];
    let inner = |open, close| answer.strip_prefix(open)?.strip_suffix(close);
    pairs.into_iter().find_map(|(open, close)| {
        let inner = inner(open, close)?;
        // Not `(a) and (b)`, whose ends only look like a pair.
        (!inner.contains(open) && !inner.contains(close))
            .then(|| format!("leave out the {open} {close} around it"))
    })
}

fn stop(answer: &str) -> Option<String> {
    let body = answer.strip_suffix('.')?;
    // `5.` is a number to the scorer; `U.S.` and `etc...` end so by right.
    let last = body.rsplit(char::is_whitespace).next().unwrap_or(body);
    let plain_number =
        !last.is_empty() && last.chars().all(|character| character.is_ascii_digit()) && last == body;
    (!plain_number && !last.contains('.') && !body.is_empty())
        .then(|| "leave out the full stop at the end".to_owned())
}

fn separators(answer: &str) -> Option<String> {
    if answer.ends_with([',', ';']) {
        return Some(
            "leave out the separator at the end: it counts as one more element of a list".to_owned(),
        );
    }
    let lower = answer.to_lowercase();
    [", and ", ", or ", "; and "].into_iter().find(|word| lower.contains(word)).map(|word| {
        format!("if it is a list, separate its elements by commas alone, without `{}`", word.trim())
    })
}

fn typography(answer: &str) -> Option<String> {
    let invisible = |character: char| {
        matches!(character, '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FEFF}' | '\u{180E}' | '\u{AD}')
    };
    if let Some(found) = answer.chars().find(|&character| invisible(character)) {
        return Some(format!("leave out the invisible character U+{:04X}", found as u32));
    }
    let curly = |character: &char| matches!(character, '‘' | '’' | '“' | '”');
    answer.chars().find(curly).map(|found| format!("write straight quotes (' or \") in place of {found}"))
}

/// What stands in the way of reading the answer, or an element of it, as a number.
fn number(answer: &str) -> Option<String> {
    if let Some(plain) = without_thousands_commas(answer) {
        return Some(format!(
            "if it is one number, write it without thousands commas: {plain}; if it is a list, submit it again as it is"
        ));
    }
    answer.split([',', ';']).find_map(|element| element_number(element.trim()))
}

fn without_thousands_commas(answer: &str) -> Option<String> {
    let mut found = false;
    let words: Vec<String> = answer
        .split(' ')
        .map(|word| {
            let groups: Vec<&str> = word.trim_start_matches(['$', '€', '£', '-', '+']).split(',').collect();
            let (integer, fraction) = match groups.last().and_then(|last| last.split_once('.')) {
                Some((last, fraction)) => (last, Some(fraction)),
                None => (groups.last().copied().unwrap_or_default(), None),
            };
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let thousands = groups.len() > 1
                && (1..=3).contains(&groups[0].len())
                && groups[..groups.len() - 1].iter().all(|group| digits(group))
                && groups[1..groups.len() - 1].iter().all(|group| group.len() == 3)
                && digits(integer)
                && integer.len() == 3
                && fraction.is_none_or(digits);
            found |= thousands;
            if thousands { word.replace(',', "") } else { word.to_owned() }
        })
        .collect();
    found.then(|| words.join(" "))
}

fn element_number(element: &str) -> Option<String> {
    let lower = element.to_lowercase();
    for word in ["about ", "approximately ", "approx. ", "around ", "roughly ", "~", "≈"] {
        if let Some(rest) = lower.strip_prefix(word)
            && starts_like_number(rest.trim_start())
        {
            return Some(format!("leave out `{}` before the number", word.trim()));
        }
    }
    if let Some(rest) = element.strip_prefix(['−', '–', '—'])
        && starts_like_number(rest)
    {
        return Some("write the minus as an ASCII hyphen `-`".to_owned());
    }
    if let Some(currency) =
        element.chars().next().filter(|character| matches!(character, '€' | '£' | '¥' | '₹'))
    {
        return Some(format!("leave out the currency sign {currency}"));
    }
    let unsigned = element.strip_prefix(['-', '+', '$']).unwrap_or(element);
    let digits = unsigned.find(|character: char| !character.is_ascii_digit() && character != '.')?;
    let (value, rest) = unsigned.split_at(digits);
    if !starts_like_number(value) {
        return None;
    }
    let spaced = rest.trim_start_matches([' ', '\u{A0}', '\u{202F}', '\'']);
    if spaced.len() < rest.len() && groups_of_three(spaced) && value.len() <= 3 {
        return Some("write the number without spaces or marks between its digits".to_owned());
    }
    let unit = rest.trim();
    if unit.is_empty() || unit == "%" || unit.contains(char::is_whitespace) || !looks_like_unit(unit) {
        return None;
    }
    // `20th`, `3D`, `4a`: part of the word, not a unit.
    let attached = !rest.starts_with(char::is_whitespace);
    let ordinal = ["st", "nd", "rd", "th"].contains(&unit.to_lowercase().as_str());
    if attached
        && (ordinal
            || (unit.chars().count() == 1 && !matches!(unit, "m" | "g" | "s" | "°" | "€" | "£" | "¥")))
    {
        return None;
    }
    Some(format!("leave out the unit `{unit}` after the number, unless the question asks for it"))
}

fn starts_like_number(text: &str) -> bool {
    let text = text.strip_prefix('.').unwrap_or(text);
    text.starts_with(|character: char| character.is_ascii_digit())
}

fn groups_of_three(text: &str) -> bool {
    let integer = text.split('.').next().unwrap_or(text);
    !integer.is_empty()
        && integer
            .split([' ', '\u{A0}', '\u{202F}', '\''])
            .all(|group| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit()))
}

fn looks_like_unit(text: &str) -> bool {
    let mut letters = 0;
    for character in text.chars() {
        match character {
            _ if character.is_alphabetic() => letters += 1,
            '/' | '²' | '³' | '·' | '^' | '*' | '2' | '3' | '-' => {}
            '°' | 'µ' | 'Ω' | '€' | '£' | '¥' | '\'' | '"' => letters += 1,
            _ => return false,
        }
    }
    letters > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, expected: &[&str]) {
        let advice = advise(answer);
        assert_eq!(advice.len(), expected.len(), "`{answer}`: {advice:?}");
        for (advice, part) in advice.iter().zip(expected) {
            assert!(advice.contains(part), "`{answer}`: `{advice}` should mention `{part}`");
        }
    }

    #[test]
    fn ordinary_answers_pass() {
        for answer in [
            "17",
            "-5",
            "3.14",
            "5.",
            "1e5",
            "50%",
            "$50",
            "1,5",
            "egalitarian",
            "Claude Shannon",
            "20th Century Fox",
            "the 20th",
            "3D",
            "4a",
            "U.S.",
            "10:30",
            "2023-05-14",
            "a, b, c",
            "1, 2, 3",
            "red;green;blue",
            "Rock and Roll",
            "C++",
            "(a) or (b)",
            "12 Angry Men",
            "100 Years of Solitude, 1984",
            "Braintree, Honolulu",
            "Wojciech",
            "O'Brien",
            "fluffy (the cat)",
            "192.168.1.1",
            "#",
        ] {
            check(answer, &[]);
        }
    }

    #[test]
    fn units_and_decoration_of_numbers_are_named() {
        check("17 km", &["unit `km`"]);
        check("17km", &["unit `km`"]);
        check("3.5 m²", &["unit `m²`"]);
        check("60 km/h", &["unit `km/h`"]);
        check("21 °C", &["unit `°C`"]);
        check("5 apples", &["unit `apples`"]);
        check("3 m, 4 m", &["unit `m`"]);
        check("about 17", &["`about`"]);
        check("~17", &["`~`"]);
        check("−5", &["ASCII hyphen"]);
        check("€17", &["currency"]);
        check("1 000", &["without spaces"]);
        check("1\u{202F}000\u{202F}000", &["without spaces"]);
    }

    #[test]
    fn a_thousands_comma_is_named_with_the_plain_number() {
        check("1,000", &["thousands commas: 1000;"]);
        check("$1,234,567.89", &["thousands commas: $1234567.89;"]);
        check("1,234 km", &["thousands commas: 1234 km;"]);
        check("1, 000", &[]);
        check("12,34", &[]);
        check("1,2345", &[]);
        check("2019,2020", &[]);
    }

    #[test]
    fn wrapping_is_named() {
        check("FINAL ANSWER: 5", &["final answer"]);
        check("The answer is 5", &["the answer is"]);
        check("[a, b]", &["[ ]"]);
        check("\"word\"", &["\" \""]);
        check("**5**", &["**"]);
        check("\\boxed{5}", &["\\boxed"]);
        check("a, b.", &["full stop"]);
        check("egalitarian.", &["full stop"]);
        check("a, b,", &["separator"]);
        check("a, b, and c", &[", and"]);
        check("Don’t", &["straight quotes"]);
        check("12\u{200B}", &["U+200B"]);
        check("5\nbecause of that", &["one line"]);
        check(&"word ".repeat(100), &["very long"]);
    }

    #[test]
    fn several_things_are_all_named() {
        check("FINAL ANSWER: [17 km, 18 km].", &["final answer", "full stop"]);
        check("“17 km”", &["“ ”", "straight quotes"]);
    }
}
