//! Outcomes of the real scorers over pairs composed for this project; no GAIA question or answer is among them.

use gaia_scorer::{official, quasi};
use serde::Deserialize;

#[test]
fn official_scorer_agrees_with_every_line() {
    #[derive(Deserialize)]
    struct Line {
        pred: Option<String>,
        truth: String,
        correct: bool,
        kind: official::Kind,
        note: String,
    }
    check(include_str!("../vectors/scorer_vectors.jsonl"), 20_338, |line: Line| {
        let verdict = official::score(line.pred.as_deref(), &line.truth);
        if (verdict.correct, verdict.kind) == (line.correct, line.kind) {
            return Ok(());
        }
        Err(format!("{:?} against {:?} ({}): {verdict:?}", line.pred, line.truth, line.note))
    });
}

#[test]
fn quasi_scorer_agrees_with_every_line() {
    #[derive(Deserialize)]
    struct Line {
        pred: Option<String>,
        truth: String,
        exact: bool,
        partial: bool,
        norm_pred: String,
        norm_truth: String,
        note: String,
    }
    check(include_str!("../vectors/quasi_vectors.jsonl"), 4_940, |line: Line| {
        let expected = quasi::Quasi {
            exact: line.exact,
            partial: line.partial,
            norm_pred: line.norm_pred,
            norm_truth: line.norm_truth,
        };
        let scored = quasi::score(line.pred.as_deref(), &line.truth);
        if scored == expected {
            return Ok(());
        }
        Err(format!("{:?} against {:?} ({}): {scored:?}, not {expected:?}", line.pred, line.truth, line.note))
    });
}

fn check<Line: for<'a> Deserialize<'a>>(
    file: &str,
    expected: usize,
    line: impl Fn(Line) -> Result<(), String>,
) {
    let outcomes: Vec<Result<(), String>> = file
        .lines()
        .enumerate()
        .map(|(index, text)| {
            let parsed =
                serde_json::from_str(text).map_err(|error| format!("line {}: {error}", index + 1))?;
            line(parsed).map_err(|failure| format!("line {}: {failure}", index + 1))
        })
        .collect();
    assert_eq!(outcomes.len(), expected, "the file has lost or gained lines");
    let failures: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(
        failures.is_empty(),
        "{} of {expected} lines differ, the first of them:\n{}",
        failures.len(),
        failures.iter().take(20).cloned().collect::<Vec<_>>().join("\n")
    );
}
