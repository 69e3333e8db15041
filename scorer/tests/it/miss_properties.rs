//! What holds for the diagnosis of any answer.

use gaia_scorer::miss::{Miss, diagnose};
use gaia_scorer::official;
use proptest::prelude::*;

proptest! {
    #[test]
    fn only_wrong_answers_have_a_diagnosis(answer in prop::option::of("\\PC{0,40}"), truth in "\\PC{0,40}") {
        let verdict = official::score(answer.as_deref(), &truth);
        prop_assert_eq!(diagnose(answer.as_deref(), &truth).is_none(), verdict.correct);
    }

    /// Text that looks like answers finds corners that random characters do not.
    #[test]
    fn what_looks_like_answers_is_read_without_harm(
        answer in "(the |about |-|\\$|€)?[0-9]{1,4}(,[0-9]{3})?(\\.[0-9]{1,3})?( km| %| and five|; b|, a)?",
        truth in "[0-9]{1,4}(,[0-9]{3})?(\\.[0-9]{1,3})?( km|, a|; b)?",
    ) {
        let miss = diagnose(Some(&answer), &truth);
        if let Some(Miss::Format { faults }) = miss {
            prop_assert!((1..=3).contains(&faults.len()));
        }
    }

    #[test]
    fn another_whole_number_is_never_a_matter_of_format(truth in 1u32..1000, other in 1u32..1000) {
        prop_assume!(truth != other && other != truth * 100 && truth != other * 100);
        let miss = diagnose(Some(&other.to_string()), &truth.to_string());
        prop_assert!(!matches!(miss, Some(Miss::Format { .. })), "{other} for {truth}: {miss:?}");
    }
}
