use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a run goes from what is cheap to what is dear, and ends where it is clear that the rest is not worth it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct StagedConfig {
    /// First a quick check of a few samples of each level, then level after level; each begins when the one before was
    /// good enough. The same as `--staged`. It needs a split with truths, which no sample ever sees.
    pub enabled: bool,
    /// Samples of each level in the quick check, of which one must be answered at least. 0: no check.
    pub quick_samples: usize,
    /// More than this share of level 1 must be right before level 2 begins.
    #[schemars(range(min = 0, max = 1))]
    pub level_1: f64,
    /// More than this share of level 2 must be right before level 3 begins.
    #[schemars(range(min = 0, max = 1))]
    pub level_2: f64,
}

impl StagedConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The stages and thresholds that HelloAgents recommends.
impl Default for StagedConfig {
    fn default() -> Self {
        Self { enabled: false, quick_samples: 2, level_1: 0.6, level_2: 0.4 }
    }
}
