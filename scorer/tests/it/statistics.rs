//! Against an independent statistics library, and what must hold for any counts.

use gaia_scorer::statistics::{Proportion, majority_vote, mcnemar_exact, pass_at_k, pass_hat_k};
use proptest::prelude::*;
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};

fn close(first: f64, second: f64, tolerance: f64) -> bool {
    (first - second).abs() <= tolerance * first.abs().max(second.abs()).max(f64::MIN_POSITIVE)
}

proptest! {
    #[test]
    fn wilson_bounds_are_where_the_score_test_is_just_significant(successes in 0u64..400, failures in 0u64..400) {
        let observed = Proportion { successes, failures };
        prop_assume!(observed.trials() > 0);
        let share = observed.share().expect("trials");
        let interval = observed.wilson_interval().expect("trials");
        prop_assert!(0.0 <= interval.low && interval.low <= share && share <= interval.high && interval.high <= 1.0);
        // By definition: at a bound p, |share - p| is z standard errors of p.
        let normal = Normal::standard();
        for bound in [interval.low, interval.high] {
            if bound > 0.0 && bound < 1.0 {
                let error = (bound * (1.0 - bound) / observed.trials() as f64).sqrt();
                let p = 2.0 * normal.sf((share - bound).abs() / error);
                prop_assert!((p - 0.05).abs() < 1e-9, "p = {p} at {bound}");
            }
        }
    }

    #[test]
    fn wilson_is_mirrored_when_right_and_wrong_are_swapped(successes in 0u64..400, failures in 0u64..400) {
        prop_assume!(successes + failures > 0);
        let interval = Proportion { successes, failures }.wilson_interval().expect("trials");
        let mirrored = Proportion { successes: failures, failures: successes }.wilson_interval().expect("trials");
        prop_assert!((interval.low - (1.0 - mirrored.high)).abs() < 1e-12);
    }

    #[test]
    fn mcnemar_is_twice_the_binomial_tail(first in 0u64..200, second in 0u64..200) {
        let p = mcnemar_exact(first, second);
        let tail = Binomial::new(0.5, first + second).expect("a distribution").cdf(first.min(second));
        prop_assert!(close(p, (2.0 * tail).min(1.0), 1e-8), "{p} against {}", 2.0 * tail);
        prop_assert_eq!(p, mcnemar_exact(second, first));
    }

    #[test]
    fn attempts_add_up(attempts in 1u64..40, correct in 0u64..40, k in 1u64..40) {
        prop_assume!(correct <= attempts && k <= attempts);
        let any = pass_at_k(attempts, correct, k).expect("an estimate");
        let all = pass_hat_k(attempts, correct, k).expect("an estimate");
        prop_assert!((0.0..=1.0).contains(&any) && (0.0..=1.0).contains(&all) && all <= any + 1e-12);
        // All of k wrong is the opposite of any of k right.
        let all_wrong = pass_hat_k(attempts, attempts - correct, k).expect("an estimate");
        prop_assert!((any + all_wrong - 1.0).abs() < 1e-12);
        if k == 1 {
            prop_assert!((any - correct as f64 / attempts as f64).abs() < 1e-12 && (any - all).abs() < 1e-12);
        }
    }

    #[test]
    fn an_absolute_majority_wins_wherever_it_stands(others in prop::collection::vec("[b-z]{1,3}", 0..5), order in any::<prop::sample::Index>()) {
        let mut answers: Vec<Option<&str>> = others.iter().map(|other| Some(other.as_str())).collect();
        answers.extend(std::iter::repeat_n(Some("42"), others.len() + 1));
        let turn = order.index(answers.len());
        answers.rotate_left(turn);
        let winner = majority_vote(&answers).expect("votes");
        prop_assert_eq!(answers[winner], Some("42"));
        prop_assert!(!answers[..winner].contains(&Some("42")));
    }
}

#[test]
fn mcnemar_does_not_underflow_on_large_tables() {
    let p = mcnemar_exact(2_000, 2_100);
    assert!(p > 0.05 && p < 0.2, "{p}");
    assert_eq!(mcnemar_exact(0, 10_000), 0.0);
}
