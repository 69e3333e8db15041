//! Figures that others published, to compare with. Each is its publisher's own claim.

/// One published figure of GAIA.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Published {
    pub who: &'static str,
    /// Share of correct answers.
    pub score: f64,
    /// US dollars for all samples of the split together.
    pub cost_usd: Option<f64>,
    pub of: Questions,
    pub source: &'static str,
    /// As exact as it is known.
    pub date: &'static str,
}

/// Which questions a figure is of. Figures of different ones are not comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Questions {
    /// All 466 of the paper.
    All,
    Validation,
    Test,
}

impl Questions {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::All => "all 466 questions",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }

    /// Samples that the costs are divided by.
    pub(super) fn samples(self) -> f64 {
        match self {
            Self::All => 466.0,
            Self::Validation => 165.0,
            Self::Test => 301.0,
        }
    }
}

/// People who were asked the questions.
pub(super) const HUMAN: Published = Published {
    who: "people",
    score: 0.92,
    cost_usd: None,
    of: Questions::All,
    source: "GAIA paper, arXiv 2311.12983",
    date: "November 2023",
};

const HAL: &str = "HAL leaderboard, hal.cs.princeton.edu (costs its own)";

/// Best first.
pub(super) const PUBLISHED: [Published; 9] = [
    Published {
        who: "OPS-Agentic-Search (several models)",
        score: 0.9236,
        cost_usd: None,
        of: Questions::Test,
        source: "official leaderboard as kept by leaderboard.steel.dev",
        date: "April 2026",
    },
    HUMAN,
    Published {
        who: "Co-Sight",
        score: 0.844,
        cost_usd: None,
        of: Questions::Validation,
        source: "the project's own report",
        date: "as of November 2026",
    },
    Published {
        who: "HAL, Claude Sonnet 4.5",
        score: 0.7455,
        cost_usd: None,
        of: Questions::Validation,
        source: HAL,
        date: "as of July 2026",
    },
    Published {
        who: "OpenAI Deep Research",
        score: 0.6736,
        cost_usd: None,
        of: Questions::Validation,
        source: "the maker's own report",
        date: "February 2025",
    },
    Published {
        who: "HAL, Claude Opus 4 high",
        score: 0.648,
        cost_usd: Some(666.0),
        of: Questions::Validation,
        source: HAL,
        date: "as of July 2026",
    },
    Published {
        who: "HAL, Claude 3.7 Sonnet high",
        score: 0.642,
        cost_usd: Some(122.0),
        of: Questions::Validation,
        source: HAL,
        date: "as of July 2026",
    },
    Published {
        who: "HAL, o4-mini low",
        score: 0.582,
        cost_usd: Some(73.0),
        of: Questions::Validation,
        source: HAL,
        date: "as of July 2026",
    },
    Published {
        who: "GPT-4 with plugins chosen by hand",
        score: 0.15,
        cost_usd: None,
        of: Questions::All,
        source: "GAIA paper, arXiv 2311.12983",
        date: "November 2023",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order_and_every_figure_says_whose_it_is() {
        assert!(PUBLISHED.is_sorted_by(|first, second| first.score >= second.score));
        for figure in PUBLISHED {
            assert!((0.0..=1.0).contains(&figure.score), "{figure:?}");
            assert!(!figure.source.is_empty() && figure.date.contains("202"), "{figure:?}");
        }
    }
}
