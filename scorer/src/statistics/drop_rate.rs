use serde::Serialize;

use super::Proportion;

/// How much accuracy falls from one level to the next harder one. Negative when it rises.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DropRate {
    /// Difference of the two shares, from -1 to 1.
    pub absolute: f64,
    /// The difference as a share of the easier level's accuracy; `None` when that is 0.
    pub relative: Option<f64>,
}

impl DropRate {
    /// `None` when either level has no samples.
    pub fn between(easier: Proportion, harder: Proportion) -> Option<DropRate> {
        let (easier, harder) = (easier.share()?, harder.share()?);
        let absolute = easier - harder;
        Some(DropRate { absolute, relative: (easier > 0.0).then(|| absolute / easier) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_to_a_quarter_is_a_drop_by_half() {
        let half = Proportion { successes: 2, failures: 2 };
        let quarter = Proportion { successes: 1, failures: 3 };
        let none = Proportion { successes: 0, failures: 4 };
        assert_eq!(DropRate::between(half, quarter), Some(DropRate { absolute: 0.25, relative: Some(0.5) }));
        assert_eq!(
            DropRate::between(quarter, half),
            Some(DropRate { absolute: -0.25, relative: Some(-1.0) })
        );
        assert_eq!(DropRate::between(none, half), Some(DropRate { absolute: -0.5, relative: None }));
        assert_eq!(DropRate::between(half, Proportion::default()), None);
    }
}
