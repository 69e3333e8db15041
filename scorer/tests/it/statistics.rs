//! Against an independent statistics library, and what must hold for any counts.

use gaia_scorer::statistics::{
    DropRate, Proportion, Summary, fisher_exact, majority_vote, mcnemar_exact, paired_bootstrap, pass_at_k,
    pass_hat_k,
};
use proptest::prelude::*;
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Hypergeometric, Normal};
use statrs::statistics::{Data, OrderStatistics, Statistics};

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
    fn fisher_is_the_hypergeometric_tail(first in (0u64..60, 0u64..60), second in (0u64..60, 0u64..60)) {
        let of = |(successes, failures)| Proportion { successes, failures };
        let p = fisher_exact(of(first), of(second));
        let (successes, all) = (first.0 + second.0, first.0 + first.1 + second.0 + second.1);
        let drawn = Hypergeometric::new(all, successes, second.0 + second.1).expect("a distribution");
        let tail = second.0.checked_sub(1).map_or(1.0, |below| drawn.sf(below));
        prop_assert!((p - tail).abs() < 1e-9, "{p} against {tail}");
    }

    #[test]
    fn a_summary_is_that_of_the_library(values in prop::collection::vec(-1e6f64..1e6, 2..60)) {
        let summary = Summary::of(values.iter().copied()).expect("values");
        prop_assert!(close(summary.mean, (&values).mean(), 1e-9) || summary.mean.abs() < 1e-6);
        prop_assert!(close(summary.standard_deviation, (&values).std_dev(), 1e-9));
        let mut data = Data::new(values);
        prop_assert!((summary.median - data.median()).abs() < 1e-9);
        prop_assert!(summary.minimum <= summary.first_quartile && summary.first_quartile <= summary.median);
        prop_assert!(summary.median <= summary.third_quartile && summary.third_quartile <= summary.maximum);
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

proptest! {
    // Ten thousand draws each.
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// For many tasks the mean of a draw is nearly normal, with the population's variance over the number of tasks.
    #[test]
    fn the_bootstrap_is_as_wide_as_theory_says(outcomes in prop::collection::vec((any::<bool>(), any::<bool>()), 150..400), seed: u64) {
        let tasks: Vec<(f64, f64)> =
            outcomes.iter().map(|(first, second)| (f64::from(u8::from(*first)), f64::from(u8::from(*second)))).collect();
        let difference = paired_bootstrap(&tasks, seed).expect("tasks");
        let gains: Vec<f64> = tasks.iter().map(|(first, second)| second - first).collect();
        prop_assert!((difference.mean - (&gains).mean()).abs() < 1e-9);
        let error = (&gains).population_std_dev() / (gains.len() as f64).sqrt();
        let quantile = Normal::standard().inverse_cdf(0.975);
        for (end, expected) in [
            (difference.interval.low, difference.mean - quantile * error),
            (difference.interval.high, difference.mean + quantile * error),
        ] {
            prop_assert!((end - expected).abs() < 0.2 * error, "{end} against {expected}, error {error}");
        }
        prop_assert_eq!(paired_bootstrap(&tasks, seed), Some(difference), "the same seed gives the same interval");
    }
}

#[test]
fn mcnemar_does_not_underflow_on_large_tables() {
    let p = mcnemar_exact(2_000, 2_100);
    assert!(p > 0.05 && p < 0.2, "{p}");
    assert_eq!(mcnemar_exact(0, 10_000), 0.0);
}

/// HelloAgents' worked example: ten samples, 3 of 3, 2 of 3 and 2 of 4; and what it and its code call a drop.
#[test]
fn the_worked_example_of_helloagents_drops_by_a_third_and_by_a_quarter() {
    let levels = [(3, 0), (2, 1), (2, 2)].map(|(successes, failures)| Proportion { successes, failures });
    let drop = |from: usize, to: usize| DropRate::between(levels[from], levels[to]).expect("samples");
    assert!(
        (drop(0, 1).absolute - 1.0 / 3.0).abs() < 1e-12
            && (drop(0, 1).relative.unwrap() - 1.0 / 3.0).abs() < 1e-12
    );
    assert!(
        (drop(1, 2).absolute - 1.0 / 6.0).abs() < 1e-12
            && (drop(1, 2).relative.unwrap() - 0.25).abs() < 1e-12
    );
}
