use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The row that the leaderboard counts although there is no question behind it: a submission for `test` must
/// hold it, or the percentages do not come out.
pub const PLACEHOLDER_TASK_ID: &str = "0-0-0-0-0";

/// One question.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// A safe file name of at most 200 bytes.
    pub task_id: String,
    pub question: String,
    /// 1 to 3.
    pub level: u8,
    /// `None` where the dataset hides it (`?` in the test split): such a sample cannot be scored here.
    pub truth: Option<String>,
    /// The attachment on this machine, inside the dataset's root.
    pub file: Option<PathBuf>,
    /// Name under which the agent sees the attachment.
    pub file_name: Option<String>,
    pub annotator: Annotator,
}

impl Sample {
    pub fn is_placeholder(&self) -> bool {
        self.task_id == PLACEHOLDER_TASK_ID
    }
}

/// How a person solved it. Never shown to an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotator {
    #[serde(default, rename = "Steps")]
    pub steps: Option<String>,
    #[serde(default, rename = "Number of steps")]
    pub number_of_steps: Option<String>,
    #[serde(default, rename = "How long did this take?")]
    pub time_taken: Option<String>,
    #[serde(default, rename = "Tools")]
    pub tools: Option<String>,
    #[serde(default, rename = "Number of tools")]
    pub number_of_tools: Option<String>,
}
