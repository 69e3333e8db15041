use serde_json::json;

use super::*;

fn check(pred: &str, truth: &str, correct: bool, kind: Kind, reason: &str) {
    let verdict = score(Some(pred), truth);
    assert_eq!(
        (verdict.correct, verdict.kind, verdict.reason.to_string().as_str()),
        (correct, kind, reason),
        "{pred:?} against {truth:?}"
    );
}

#[test]
fn numbers_lose_three_symbols_and_must_then_be_the_same_double() {
    check("$1,7%", "17", true, Kind::Number, "both are the number `17`");
    check("17 km", "17", false, Kind::Number, "answer `17 km` is not a number (`float` refuses it)");
    check("0.30000000000000004", "0.3", false, Kind::Number, "number `0.30000000000000004` is not `0.3`");
    check("1e300", "-2e-9", false, Kind::Number, "number `1e300` is not `-2e-9`");
    check("-0", "0", true, Kind::Number, "both are the number `-0`");
}

#[test]
fn infinity_is_what_an_unreadable_answer_counts_as() {
    check(
        "a lot",
        "inf",
        true,
        Kind::Number,
        "answer `a lot` is not a number, which counts as the infinity expected",
    );
    check("inf", "1e400", true, Kind::Number, "both are the number `inf`");
    check("a lot", "-inf", false, Kind::Number, "answer `a lot` is not a number (`float` refuses it)");
    check("nan", "nan", false, Kind::Number, "the truth is `nan`, which equals nothing");
}

#[test]
fn lists_compare_position_by_position() {
    check("A ; b", "a,b", true, Kind::List, "all 2 elements are equal");
    check("a, b,", "a,b", false, Kind::List, "lists differ in length: 3 against 2");
    check("a, B.", "a, b", false, Kind::List, "element 2: `b.` is not `b`");
    check(
        "$1; 2 m",
        "1, 2",
        false,
        Kind::List,
        "element 2: answer ` 2 m` is not a number (`float` refuses it)",
    );
    check("1000", "1,000", false, Kind::List, "lists differ in length: 1 against 2");
}

#[test]
fn strings_ignore_whitespace_case_and_ascii_punctuation() {
    check(
        "St. Peters burg!",
        "st petersburg",
        true,
        Kind::String,
        "equal after normalisation: `stpetersburg`",
    );
    check("the cat", "cat", false, Kind::String, "`thecat` is not `cat`");
}

#[test]
fn a_missing_answer_is_the_text_none() {
    assert!(score(None, "none.").correct);
    assert_eq!(score(None, "17").reason, Reason::NotANumber { answer: "None".to_owned() });
}

#[test]
fn a_long_answer_is_cut_in_the_reason() {
    let reason = score(Some(&"é".repeat(5000)), "17").reason.to_string();
    assert_eq!(reason, format!("answer `{}…` is not a number (`float` refuses it)", "é".repeat(160)));
}

#[test]
fn verdict_serialises_as_three_plain_fields() {
    let verdict = serde_json::to_value(score(Some("x"), "17")).expect("JSON");
    assert_eq!(
        verdict,
        json!({"correct": false, "kind": "number", "reason": "answer `x` is not a number (`float` refuses it)"})
    );
}

#[test]
fn explanation_shows_each_element_as_it_was_compared() {
    let explanation = serde_json::to_value(explain(Some("X; No Way"), "1, noway")).expect("JSON");
    assert_eq!(
        explanation,
        json!({
            "verdict": {
                "correct": false,
                "kind": "list",
                "reason": "element 1: answer `X` is not a number (`float` refuses it)",
            },
            "answer": ["inf", "noway"],
            "truth": [1.0, "noway"],
            "elements": [
                {"correct": false, "answer": "inf", "truth": 1.0,
                 "reason": "answer `X` is not a number (`float` refuses it)"},
                {"correct": true, "answer": "noway", "truth": "noway",
                 "reason": "equal after normalisation: `noway`"},
            ],
        })
    );
}
