/// Two-sided p-value of the exact McNemar test: could two systems that differ on these samples be equally good?
///
/// `only_first` and `only_second` count the samples that just the one or the other got right. Samples on which they
/// agree carry no information. 1 when there is no disagreement.
pub fn mcnemar_exact(only_first: u64, only_second: u64) -> f64 {
    let (smaller, larger) = (only_first.min(only_second), only_first.max(only_second));
    if smaller == larger {
        return 1.0;
    }
    let trials = (smaller + larger) as f64;
    // Twice the lower tail of Binomial(trials, 1/2). By logarithms, for 2^-trials is 0 from 1075 disagreements on.
    let log_probability: f64 =
        (1..=smaller).map(|k| ((trials - k as f64 + 1.0) / k as f64).ln()).sum::<f64>()
            - trials * std::f64::consts::LN_2;
    let mut term = 1.0;
    let mut tail = 1.0;
    for k in (1..=smaller).rev() {
        term *= k as f64 / (trials - k as f64 + 1.0);
        tail += term;
    }
    (2.0 * tail * log_probability.exp()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(only_first: u64, only_second: u64, expected: f64) {
        let p = mcnemar_exact(only_first, only_second);
        assert!((p - expected).abs() < 1e-12, "{only_first}, {only_second}: {p}");
    }

    #[test]
    fn small_tables_are_sums_of_coin_throws() {
        check(0, 0, 1.0);
        check(1, 0, 1.0);
        check(0, 5, 2.0 / 32.0);
        check(1, 5, 2.0 * 7.0 / 64.0);
        check(9, 2, 2.0 * 67.0 / 2048.0);
        check(3, 3, 1.0);
    }
}
