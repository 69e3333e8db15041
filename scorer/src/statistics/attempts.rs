/// Estimate of the chance that at least one of `k` attempts is right, from `correct` of `attempts` seen.
///
/// The unbiased estimator of Chen et al. (2021, arXiv 2107.03374): one minus the share of sets of `k` attempts that
/// are all wrong. `None` unless `1 <= k <= attempts` and `correct <= attempts`.
pub fn pass_at_k(attempts: u64, correct: u64, k: u64) -> Option<f64> {
    let wrong = attempts.checked_sub(correct)?;
    Some(1.0 - share_of_sets(attempts, wrong, k)?)
}

/// Estimate of the chance that `k` attempts are all right (pass^k), from `correct` of `attempts` seen.
///
/// The unbiased estimator of Yao et al. (2024, arXiv 2406.12045): the share of sets of `k` attempts that are all
/// right. `None` unless `1 <= k <= attempts` and `correct <= attempts`.
pub fn pass_hat_k(attempts: u64, correct: u64, k: u64) -> Option<f64> {
    share_of_sets(attempts, correct, k)
}

/// Share of the sets of `k` of `all` things that lie within a part of `part` things: C(part, k) / C(all, k).
fn share_of_sets(all: u64, part: u64, k: u64) -> Option<f64> {
    if k == 0 || k > all || part > all {
        return None;
    }
    if k > part {
        return Some(0.0);
    }
    Some((0..k).map(|drawn| (part - drawn) as f64 / (all - drawn) as f64).product())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_four_right() {
        let close =
            |value: Option<f64>, expected: f64| (value.expect("an estimate") - expected).abs() < 1e-15;
        assert!(close(pass_at_k(4, 2, 1), 0.5));
        assert!(close(pass_at_k(4, 2, 2), 5.0 / 6.0));
        assert!(close(pass_at_k(4, 2, 3), 1.0));
        assert!(close(pass_hat_k(4, 2, 1), 0.5));
        assert!(close(pass_hat_k(4, 2, 2), 1.0 / 6.0));
        assert!(close(pass_hat_k(4, 2, 3), 0.0));
    }

    #[test]
    fn what_was_not_tried_cannot_be_estimated() {
        for (attempts, correct, k) in [(4, 2, 0), (4, 2, 5), (4, 5, 1), (0, 0, 1)] {
            assert_eq!(pass_at_k(attempts, correct, k), None);
            assert_eq!(pass_hat_k(attempts, correct, k), None);
        }
    }
}
