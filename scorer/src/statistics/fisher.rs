use super::Proportion;

/// One-sided p-value of Fisher's exact test: the chance to see the second group do at least this much better than the
/// first if both were equally hard.
///
/// 1 when a group is empty or everything in both went the same way.
pub fn fisher_exact(first: Proportion, second: Proportion) -> f64 {
    let (successes, trials) = (first.successes + second.successes, first.trials() + second.trials());
    let drawn = second.trials();
    // Ways to have `k` of the successes in the second group, as a logarithm: 466 samples make numbers beyond a double.
    let log_ways = |k: u64| {
        log_choose(successes, k) + log_choose(trials - successes, drawn - k) - log_choose(trials, drawn)
    };
    let most = successes.min(drawn);
    (second.successes..=most).map(|k| log_ways(k).exp()).sum::<f64>().min(1.0)
}

fn log_choose(all: u64, chosen: u64) -> f64 {
    let chosen = chosen.min(all - chosen);
    (1..=chosen).map(|k| ((all - chosen + k) as f64 / k as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(first: (u64, u64), second: (u64, u64)) -> f64 {
        let proportion = |(successes, failures)| Proportion { successes, failures };
        fisher_exact(proportion(first), proportion(second))
    }

    #[test]
    fn the_lady_tasting_tea() {
        // Fisher (1935): 3 of 4 cups told right: 17 of 70 ways do as well; all 4: 1 of 70.
        assert!((p((1, 3), (3, 1)) - 17.0 / 70.0).abs() < 1e-14);
        assert!((p((0, 4), (4, 0)) - 1.0 / 70.0).abs() < 1e-14);
        assert!((p((3, 1), (1, 3)) - 69.0 / 70.0).abs() < 1e-14);
    }

    #[test]
    fn nothing_can_be_said_of_empty_groups() {
        assert_eq!(p((0, 0), (3, 1)), 1.0);
        assert_eq!(p((3, 1), (0, 0)), 1.0);
        assert_eq!(p((2, 0), (5, 0)), 1.0);
    }
}
