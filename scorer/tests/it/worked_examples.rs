//! Figures that were worked out by other means than this library's: with fractions, or with fifty decimals.

use gaia_scorer::statistics::{
    DropRate, Interval, Proportion, fisher_exact, majority_vote, mcnemar_exact, paired_bootstrap, pass_at_k,
    pass_hat_k,
};

fn close(what: &str, value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-9, "{what}: {value} and not {expected}");
}

fn proportion(successes: u64, trials: u64) -> Proportion {
    Proportion { successes, failures: trials - successes }
}

/// The ten samples of HelloAgents' example, then the levels of the validation split, then the ends.
#[test]
fn intervals() {
    for (successes, trials, low, high) in [
        (3, 3, 0.438_502_968_244_954, 1.0),
        (2, 3, 0.207_659_600_802_048, 0.938_508_055_279_604),
        (2, 4, 0.150_038_989_152_149, 0.849_961_010_847_851),
        (7, 10, 0.396_778_147_461_145, 0.892_208_732_593_699),
        (45, 53, 0.729_457_507_238_047, 0.921_475_821_491_537),
        (57, 86, 0.557_825_607_589_722, 0.753_834_514_224_222),
        (10, 26, 0.224_285_944_357_128, 0.574_651_499_148_845),
        (112, 165, 0.604_170_505_852_756, 0.745_269_734_785_396),
        (0, 26, 0.0, 0.128_728_921_859_215),
        (165, 165, 0.977_248_130_598_222, 1.0),
        (1, 1, 0.206_549_314_377_237, 1.0),
        (278, 301, 0.887_954_648_529_945, 0.948_545_744_121_664),
    ] {
        let interval = proportion(successes, trials).wilson_interval().unwrap();
        close(&format!("low of {successes}/{trials}"), interval.low, low);
        close(&format!("high of {successes}/{trials}"), interval.high, high);
    }
}

#[test]
fn paired_comparisons() {
    for (only_first, only_second, expected) in [
        (0, 1, 1.0),
        (0, 5, 0.0625),
        (0, 6, 0.03125),
        (1, 7, 0.070_312_5),
        (2, 9, 0.065_429_687_5),
        (3, 12, 0.035_156_25),
        (10, 25, 0.016_673_847_800_120_71),
        (5, 5, 1.0),
    ] {
        close(&format!("{only_first}:{only_second}"), mcnemar_exact(only_first, only_second), expected);
    }
    // Three of four tasks gained and one lost: half a task on average.
    let difference = paired_bootstrap(&[(0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (1.0, 0.0)], 1).unwrap();
    close("mean gain", difference.mean, 0.5);
    assert_eq!(difference.interval, Interval { low: -0.5, high: 1.0 });
}

#[test]
fn a_harder_level_that_scores_better() {
    for ((first, second), expected) in [
        (((1, 4), (3, 4)), 0.242_857_142_857_142_85),
        (((2, 10), (6, 10)), 0.084_901_166_944_510_6),
        (((30, 53), (60, 86)), 0.081_918_849_319_542_64),
        (((10, 26), (20, 26)), 0.005_373_065_570_652_591),
        (((0, 5), (5, 5)), 0.003_968_253_968_253_968),
    ] {
        let chance = fisher_exact(proportion(first.0, first.1), proportion(second.0, second.1));
        close(&format!("{first:?} and {second:?}"), chance, expected);
    }
}

#[test]
fn repeated_attempts() {
    for ((attempts, correct, k), any, all) in [
        ((5, 2, 1), 0.4, 0.4),
        ((5, 2, 3), 0.9, 0.0),
        ((10, 3, 5), 0.916_666_666_666_666_6, 0.0),
        ((8, 8, 4), 1.0, 1.0),
        ((8, 0, 4), 0.0, 0.0),
        ((4, 1, 4), 1.0, 0.0),
        ((4, 3, 2), 1.0, 0.5),
    ] {
        close(&format!("pass@{k} of {correct}/{attempts}"), pass_at_k(attempts, correct, k).unwrap(), any);
        close(&format!("pass^{k} of {correct}/{attempts}"), pass_hat_k(attempts, correct, k).unwrap(), all);
    }
}

#[test]
fn votes() {
    for (answers, winner) in [
        (&[Some("17"), Some("18"), Some("17.0")][..], Some(0)),
        (&[Some("18"), Some("$17"), Some("17")], Some(1)),
        (&[Some("a, b"), Some("c"), Some("b; a")], Some(0)),
        (&[None, Some("x"), None], Some(1)),
        (&[None, None], None),
    ] {
        assert_eq!(majority_vote(answers), winner, "{answers:?}");
    }
}

/// 3 of 3, 2 of 3, 2 of 4: drops of 33 % and 25 %, as HelloAgents' chapter has them; its code has the difference.
#[test]
fn drops_from_level_to_level() {
    for ((easier, harder), absolute, relative) in [
        (((3, 3), (2, 3)), 1.0 / 3.0, Some(1.0 / 3.0)),
        (((2, 3), (2, 4)), 1.0 / 6.0, Some(0.25)),
        (((45, 53), (57, 86)), 0.186_265_906_099_166_3, Some(0.219_379_844_961_240_3)),
        (((1, 4), (2, 4)), -0.25, Some(-1.0)),
        (((0, 4), (1, 4)), -0.25, None),
    ] {
        let drop = DropRate::between(proportion(easier.0, easier.1), proportion(harder.0, harder.1)).unwrap();
        close(&format!("{easier:?} to {harder:?}"), drop.absolute, absolute);
        assert_eq!(drop.relative.is_some(), relative.is_some());
        close("relative", drop.relative.unwrap_or_default(), relative.unwrap_or_default());
    }
}
