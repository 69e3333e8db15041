//! What HelloAgents would say of a level. Its thresholds and its advice in our words; they change no figure of ours.

/// What a share of exact answers is called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rating {
    pub name: &'static str,
    /// What to do about it; empty where all is well.
    pub advice: &'static str,
    pub excellent: f64,
    pub good: f64,
}

/// Thresholds of the exact rate by level, for `excellent` and `good`, and its advice below them.
const RATINGS: [(u8, f64, f64, &str); 3] = [
    (
        1,
        0.6,
        0.4,
        "check the system prompt, the extraction of answers and whether the model is strong enough",
    ),
    (2, 0.4, 0.2, "look at reasoning over several steps and at the use of tools"),
    (3, 0.2, 0.1, "look at long contexts, complex reasoning and at tools used together"),
];

/// `None` of a level that GAIA does not have.
pub(super) fn rating(level: u8, score: f64) -> Option<Rating> {
    let (_, excellent, good, advice) = *RATINGS.iter().find(|(of, ..)| *of == level)?;
    let (name, advice) = match score {
        score if score >= excellent => ("excellent", ""),
        score if score >= good => ("good", ""),
        _ => ("to be improved", advice),
    };
    Some(Rating { name, advice, excellent, good })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_thresholds_of_its_own_which_belong_to_the_better_name() {
        for (level, excellent, good) in [(1, 0.6, 0.4), (2, 0.4, 0.2), (3, 0.2, 0.1)] {
            let name = |score| rating(level, score).unwrap().name;
            assert_eq!([name(excellent), name(excellent - 0.01), name(good)], ["excellent", "good", "good"]);
            assert!(rating(level, good - 0.01).unwrap().advice.starts_with(['c', 'l']));
        }
        assert_eq!(rating(4, 1.0), None);
    }
}
