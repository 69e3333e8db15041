//! The verdict of a stored answer.

use std::sync::Arc;

use gaia_agent::strategy::SameAnswer;
use gaia_scorer::official;
use gaia_scorer::statistics::same_answer;

use crate::store::SampleScore;

/// Scores by the official scorer; `None` where the truth is hidden. A sample without an answer is wrong, even where
/// the truth is the text that the official scorer puts in place of a missing answer.
pub fn score_answer(answer: Option<&str>, truth: Option<&str>) -> Option<SampleScore> {
    let truth = truth?;
    let verdict = official::score(answer, truth);
    let (correct, reason) = match answer {
        Some(_) => (verdict.correct, verdict.reason.to_string()),
        None => (false, "no answer was given".to_owned()),
    };
    Some(SampleScore { correct, kind: kind_name(verdict.kind).to_owned(), reason, truth: truth.to_owned() })
}

/// The scorer's own equality, for strategies that compare answers. The truth plays no part.
pub fn equality() -> SameAnswer {
    Arc::new(same_answer)
}

fn kind_name(kind: official::Kind) -> &'static str {
    match kind {
        official::Kind::Number => "number",
        official::Kind::List => "list",
        official::Kind::String => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_answer_is_wrong_whatever_the_truth() {
        let score = score_answer(None, Some("None")).unwrap();
        assert!(!score.correct);
        assert_eq!(score.reason, "no answer was given");
        assert!(score_answer(Some("none"), Some("None")).unwrap().correct);
    }

    #[test]
    fn a_hidden_truth_gives_no_score() {
        assert_eq!(score_answer(Some("42"), None), None);
    }

    #[test]
    fn kind_is_that_of_the_truth() {
        for (truth, kind) in [("42", "number"), ("a, b", "list"), ("Paris", "string")] {
            let score = score_answer(Some(truth), Some(truth)).unwrap();
            assert_eq!((score.correct, score.kind.as_str()), (true, kind));
        }
    }
}
