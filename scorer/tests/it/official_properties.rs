use gaia_scorer::official::{self, Kind};
use gaia_scorer::python::{is_whitespace, parse_float};
use proptest::prelude::*;

/// Any Unicode, and texts built from the pieces on which the rules turn.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(",".to_owned()),
        Just(";".to_owned()),
        Just("nan".to_owned()),
        Just("-INF".to_owned()),
        Just("None".to_owned()),
        Just("$".to_owned()),
        Just("_".to_owned()),
        Just("1e".to_owned()),
        Just("Σ".to_owned()),
        Just("\u{1C}".to_owned()),
        Just("\u{661}".to_owned()),
        "[ .%+e0-9-]{0,4}",
        "[a-zA-Z ]{0,4}",
        any::<char>().prop_map(String::from),
    ];
    prop_oneof![any::<String>(), prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())]
}

fn is_nan(text: &str) -> bool {
    parse_float(text).is_some_and(f64::is_nan)
}

/// The only truths that do not match themselves.
fn holds_nan(truth: &str) -> bool {
    is_nan(truth) || (parse_float(truth).is_none() && truth.split([',', ';']).any(is_nan))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_pair_gets_a_verdict_that_agrees_with_its_explanation(pred in prop::option::of(text()), truth in text()) {
        let explanation = official::explain(pred.as_deref(), &truth);
        // As text: a `nan` in a reason is not equal to itself.
        prop_assert_eq!(format!("{:?}", official::score(pred.as_deref(), &truth)), format!("{:?}", explanation.verdict));
        prop_assert!(!explanation.verdict.reason.to_string().is_empty());
        if !explanation.elements.is_empty() {
            let all = explanation.elements.iter().all(|element| element.correct);
            prop_assert_eq!(explanation.verdict.correct, all);
        }
        prop_assert!(serde_json::to_string(&explanation).is_ok());
    }

    #[test]
    fn a_truth_matches_itself_unless_it_or_an_element_is_nan(truth in text()) {
        prop_assert_eq!(official::score(Some(&truth), &truth).correct, !holds_nan(&truth));
    }

    #[test]
    fn a_missing_answer_is_the_text_none(truth in text()) {
        let verdict = |pred| format!("{:?}", official::score(pred, &truth));
        prop_assert_eq!(verdict(None), verdict(Some("None")));
    }

    #[test]
    fn the_answer_has_no_say_in_the_kind(first in text(), second in text(), truth in text()) {
        let kind = official::score(Some(&first), &truth).kind;
        prop_assert_eq!(official::score(Some(&second), &truth).kind, kind);
    }

    #[test]
    fn two_strings_match_in_both_directions_or_neither(first in text(), second in text()) {
        let (first, second) = (first.replace([',', ';'], ""), second.replace([',', ';'], ""));
        let (forth, back) = (official::score(Some(&first), &second), official::score(Some(&second), &first));
        prop_assume!(forth.kind == Kind::String && back.kind == Kind::String);
        prop_assert_eq!(forth.correct, back.correct);
    }

    #[test]
    fn two_numbers_match_in_both_directions_or_neither(first in any::<f64>(), second in any::<f64>()) {
        let (first, second) = (first.to_string(), second.to_string());
        let (forth, back) = (official::score(Some(&first), &second), official::score(Some(&second), &first));
        prop_assert_eq!(forth.correct, back.correct);
    }

    #[test]
    fn whitespace_and_ascii_case_never_decide_about_a_string(
        pred in "[a-zA-Z0-9 .!-]{0,12}", truth in "[a-zA-Z .!-]{1,12}", space in any::<char>().prop_filter("\\s", |c| is_whitespace(*c)),
    ) {
        prop_assume!(official::score(None, &truth).kind == Kind::String);
        let correct = official::score(Some(&pred), &truth).correct;
        let spaced: String = pred.chars().flat_map(|character| [space, character.to_ascii_uppercase()]).collect();
        prop_assert_eq!(official::score(Some(&spaced), &truth).correct, correct);
    }

    #[test]
    fn the_three_symbols_never_decide_about_a_number(pred in text(), truth in any::<f64>(), at in any::<prop::sample::Index>()) {
        let truth = truth.to_string();
        let mut cut = at.index(pred.len() + 1);
        while !pred.is_char_boundary(cut) {
            cut -= 1;
        }
        let decorated = format!("{}$%,{}", &pred[..cut], &pred[cut..]);
        let (plain, decorated) = (official::score(Some(&pred), &truth), official::score(Some(&decorated), &truth));
        prop_assert_eq!(plain.correct, decorated.correct);
    }

    #[test]
    fn either_separator_makes_the_same_list(elements in prop::collection::vec("[a-z0-9. ]{0,5}", 2..6), pred in text()) {
        let (commas, semicolons) = (elements.join(","), elements.join(";"));
        prop_assume!(official::score(None, &commas).kind == Kind::List);
        let (first, second) = (official::score(Some(&pred), &commas), official::score(Some(&pred), &semicolons));
        prop_assert_eq!((first.correct, first.kind), (second.correct, second.kind));
        prop_assert_eq!(first.reason.to_string(), second.reason.to_string());
    }

    #[test]
    fn what_rust_prints_of_a_double_python_reads_back(value in any::<f64>()) {
        let parsed = parse_float(&value.to_string());
        prop_assert!(parsed.is_some_and(|parsed| parsed == value || (parsed.is_nan() && value.is_nan())));
    }
}
