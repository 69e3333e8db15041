use serde::Serialize;

/// How many of a set of samples were right. The set is every sample that was asked for, errors included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Proportion {
    pub successes: u64,
    pub failures: u64,
}

/// A closed interval of shares, or of differences between shares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// Quantile 0.975 of the standard normal distribution: what makes a two-sided interval hold 95 %.
const Z_95: f64 = 1.959963984540054;

impl Proportion {
    pub fn trials(self) -> u64 {
        self.successes + self.failures
    }

    /// The share of successes, from 0 to 1; `None` of an empty set.
    pub fn share(self) -> Option<f64> {
        (self.trials() > 0).then(|| self.successes as f64 / self.trials() as f64)
    }

    /// The 95 % score interval of Wilson (1927), without continuity correction; `None` of an empty set.
    ///
    /// Unlike the textbook interval it stays within 0 and 1 and keeps its width at 0 and 100 %.
    pub fn wilson_interval(self) -> Option<Interval> {
        self.clustered_wilson_interval(1)
    }

    /// The same for trials that come in clusters of `size` alike ones, such as the epochs of one question. Repeats
    /// of a question tell nothing about other questions: each cluster counts as one trial, which is the widest the
    /// interval can be. `None` of an empty set or of clusters without a member.
    pub fn clustered_wilson_interval(self, size: u32) -> Option<Interval> {
        let share = self.share().filter(|_| size > 0)?;
        let trials = self.trials() as f64 / f64::from(size);
        let z2 = Z_95 * Z_95;
        let centre = share + z2 / (2.0 * trials);
        let half_width = Z_95 * (share * (1.0 - share) / trials + z2 / (4.0 * trials * trials)).sqrt();
        let scale = 1.0 + z2 / trials;
        // The ends are exact at 0 and 100 % but for rounding.
        let low = if self.successes == 0 { 0.0 } else { ((centre - half_width) / scale).max(0.0) };
        let high = if self.failures == 0 { 1.0 } else { ((centre + half_width) / scale).min(1.0) };
        Some(Interval { low, high })
    }
}

/// Counts `true` as success.
impl FromIterator<bool> for Proportion {
    fn from_iter<I: IntoIterator<Item = bool>>(outcomes: I) -> Self {
        outcomes.into_iter().fold(Proportion::default(), |counted, success| Proportion {
            successes: counted.successes + u64::from(success),
            failures: counted.failures + u64::from(!success),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(successes: u64, failures: u64, low: f64, high: f64) {
        let interval = Proportion { successes, failures }.wilson_interval().expect("trials");
        assert!((interval.low - low).abs() < 1e-4, "{interval:?}");
        assert!((interval.high - high).abs() < 1e-4, "{interval:?}");
    }

    #[test]
    fn interval_agrees_with_published_figures() {
        // Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        check(81, 182, 0.2553, 0.3662);
        check(15, 133, 0.0624, 0.1605);
        check(0, 20, 0.0, 0.1611);
        check(1, 28, 0.0061, 0.1718);
    }

    #[test]
    fn repeats_of_a_question_do_not_narrow_the_interval() {
        let once = Proportion { successes: 2, failures: 1 };
        let thrice = Proportion { successes: 6, failures: 3 };
        assert_eq!(thrice.clustered_wilson_interval(3), once.wilson_interval());
        assert_eq!(once.clustered_wilson_interval(0), None);
    }

    #[test]
    fn an_empty_set_has_neither_share_nor_interval() {
        assert_eq!(Proportion::default().share(), None);
        assert_eq!(Proportion::default().wilson_interval(), None);
    }

    #[test]
    fn outcomes_are_counted() {
        assert_eq!(Proportion::from_iter([true, false, true]), Proportion { successes: 2, failures: 1 });
    }
}
