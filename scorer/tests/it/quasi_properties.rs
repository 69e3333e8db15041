use gaia_scorer::quasi;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn exact_implies_partial(pred in prop::option::of(any::<String>()), truth in any::<String>()) {
        let scored = quasi::score(pred.as_deref(), &truth);
        prop_assert!(scored.partial || !scored.exact);
    }

    #[test]
    fn a_truth_matches_itself_unless_it_is_empty(truth in any::<String>()) {
        prop_assert_eq!(quasi::score(Some(&truth), &truth).exact, !truth.is_empty());
    }

    #[test]
    fn the_order_of_a_list_never_decides(elements in prop::collection::vec("[a-zA-Z0-9 .$]{1,6}", 2..6)) {
        let forth = elements.join(",");
        let back = elements.iter().rev().cloned().collect::<Vec<_>>().join(",");
        prop_assert!(quasi::score(Some(&back), &forth).exact);
    }

    #[test]
    fn exact_is_symmetric(first in "[aA ,the.$1-3]{0,8}", second in "[aA ,the.$1-3]{0,8}") {
        prop_assert_eq!(quasi::score(Some(&first), &second).exact, quasi::score(Some(&second), &first).exact);
    }
}
