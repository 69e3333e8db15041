//! What the files of a run hold. A change to a struct here asks for a look at every older reader: fields may
//! be added with a default; anything else raises the version.

use std::collections::{BTreeMap, HashSet};
use std::ops::AddAssign;
use std::path::PathBuf;

use gaia_agent::{Failure, Status, Usage};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::dataset::Needs;

/// Version of the run directory as a whole, kept in `run.json`.
pub const RUN_FORMAT_VERSION: u32 = 2;

pub(crate) const RUN_FILE: &str = "run.json";
pub(super) const LOCK_FILE: &str = "lock";
/// Where the process that works on the run takes orders; there only as long as it does.
pub(crate) const CONTROL_SOCKET: &str = "control";
pub(super) const SAMPLES_FOLDER: &str = "samples";
pub(super) const EVENTS_FILE: &str = "events.jsonl";
pub(super) const RESULT_FILE: &str = "result.json";
pub(super) const ARTEFACTS_FOLDER: &str = "files";

/// `run.json`: what was asked for, and where and with what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub format_version: u32,
    pub id: String,
    pub program_version: String,
    /// The model is scripted: the score says nothing about a model.
    pub rehearsal: bool,
    /// For an agent that is not gaia's loop, what it is.
    pub model: String,
    /// How each answer came about.
    #[serde(default)]
    pub strategy: Method,
    #[serde(with = "time::serde::rfc3339")]
    pub started: OffsetDateTime,
    /// When the last session ended; absent while one works or after a crash.
    #[serde(with = "time::serde::rfc3339::option")]
    pub ended: Option<OffsetDateTime>,
    /// The effective config without secrets, variables unexpanded.
    pub config: toml::Table,
    /// The file the config was read from.
    pub config_path: Option<PathBuf>,
    /// The folder that relative paths of the config belong to.
    pub config_base: PathBuf,
    pub dataset: DatasetRecord,
    pub epochs: u32,
    /// Present when the samples are a part of a larger selection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardRecord>,
    /// Fingerprint of the system prompt; absent in runs of before it was recorded.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Canonical names of the tools that were offered.
    pub tools: Vec<String>,
    pub host: HostFacts,
    /// The processes that worked on the run, first to last.
    pub sessions: Vec<Session>,
    /// Written when a session ends.
    pub totals: Option<RunTotals>,
    /// Of a run in stages: how they came out, written when a session ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<StagedRecord>,
}

impl RunRecord {
    /// Tasks that were not run because a stage before them was not good enough.
    pub fn withheld(&self) -> HashSet<&str> {
        let stopped = self.staged.as_ref().and_then(|staged| staged.stopped.as_ref());
        stopped.into_iter().flat_map(|stopped| &stopped.withheld).map(String::as_str).collect()
    }
}

/// The stages that came to their end, and why there is no further one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StagedRecord {
    pub stages: Vec<StageRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StagedStop>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageRecord {
    pub name: String,
    pub samples: u64,
    pub correct: u64,
    /// More than this share of them had to be right.
    pub needed: Option<f64>,
    /// Of a quick check, which passes with one answer, right or wrong: it asks whether model and tools work at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<u64>,
    pub passed: bool,
}

impl StageRecord {
    /// For reports: `level 1: 2 of 4 right, more than 60 % needed: not passed`, `quick check: 5 of 6 answered, one needed,
    /// right or wrong (2 right): passed`.
    pub fn label(&self) -> String {
        let needed = self.needed.map(|share| format!(", more than {:.0} % needed", 100.0 * share));
        let passed = if self.passed { "passed" } else { "not passed" };
        if let Some(answered) = self.answered {
            return format!(
                "{}: {answered} of {} answered, one needed, right or wrong ({} right): {passed}",
                self.name, self.samples, self.correct
            );
        }
        format!(
            "{}: {} of {} right{}: {passed}",
            self.name,
            self.correct,
            self.samples,
            needed.unwrap_or_default()
        )
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StagedStop {
    pub reason: String,
    /// Ids of the tasks that were not run.
    pub withheld: Vec<String>,
    pub saved: Saved,
}

/// What was not spent, estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    pub samples: u64,
    pub cost_usd: Option<f64>,
    pub tokens: u64,
    pub seconds: f64,
}

/// How the one answer of a sample and epoch came about. Scores that came about differently are not compared without
/// saying so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Method {
    /// One run of the loop.
    #[default]
    React,
    Plan,
    /// By majority of several runs.
    Vote {
        runs: u32,
    },
    Verify,
    Delegate,
    /// By an agent that is not the loop.
    Agent,
}

impl Method {
    /// For tables and reports.
    pub fn label(self) -> String {
        match self {
            Self::React => "single run".to_owned(),
            Self::Plan => "single run with plans".to_owned(),
            Self::Vote { runs } => format!("vote of {runs} runs"),
            Self::Verify => "single run, verified".to_owned(),
            Self::Delegate => "single run with helpers".to_owned(),
            Self::Agent => "single run of another agent".to_owned(),
        }
    }
}

/// Which samples were asked for. The truth is not here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetRecord {
    pub name: String,
    pub path: PathBuf,
    pub split: String,
    /// Changes when a row or an attachment changes.
    pub fingerprint: String,
    /// The split has truths, so answers can be scored here.
    pub has_truth: bool,
    pub samples: Vec<PlannedSample>,
    /// The other rows of the split, which a submission must hold too; absent in runs of before they were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unselected: Option<Vec<PlannedSample>>,
    /// What people needed for each sample, by task; absent in runs of before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<BTreeMap<String, Needs>>,
    /// File with truths that are known to be wrong, for a second score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrections: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedSample {
    pub task_id: String,
    pub level: u8,
}

/// Part `index` of `count`, the first being 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    pub index: u32,
    pub count: u32,
    /// The samples of all parts, in order.
    pub of: Vec<PlannedSample>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    pub os: String,
    pub architecture: String,
    pub cpus: usize,
    pub docker_version: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    #[serde(with = "time::serde::rfc3339")]
    pub started: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    pub ended: Option<OffsetDateTime>,
    pub concurrency: usize,
    /// The model endpoint in full, variables expanded.
    #[serde(default)]
    pub endpoint: String,
    /// The sandbox image of each bash server by name, variables expanded.
    #[serde(default)]
    pub images: BTreeMap<String, String>,
    /// The effective config of this session, when it is not that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<toml::Table>,
    /// What `gaia ctl` changed on the way, first to last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// Something that was changed while a session worked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    #[serde(with = "time::serde::rfc3339")]
    pub time: OffsetDateTime,
    /// In words.
    pub what: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunTotals {
    pub requested: u64,
    pub answered: u64,
    pub no_answer: u64,
    pub error: u64,
    pub missing: u64,
    /// Not run in stages, and so neither requested nor missing.
    #[serde(default)]
    pub withheld: u64,
    pub correct: u64,
    /// All that was used, `lost` included.
    pub usage: Usage,
    pub cost_usd: Option<f64>,
    /// Of it what led to no outcome: attempts that were cancelled, cut off or done again.
    #[serde(default)]
    pub lost: Expense,
    /// Sum over samples, in seconds.
    pub sample_seconds: f64,
}

impl RunTotals {
    /// What was spent is spent, whatever came of it.
    pub fn lose(&mut self, lost: Expense) {
        self.lost += lost;
        self.spend(lost);
    }

    pub fn spend(&mut self, spent: Expense) {
        self.usage += spent.usage;
        if let Some(cost) = spent.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
    }
}

/// Tokens, and US dollars where a price is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Expense {
    pub usage: Usage,
    pub cost_usd: Option<f64>,
}

impl Expense {
    /// What an outcome says of itself.
    pub fn of_result(result: &SampleResult) -> Self {
        Self { usage: result.usage, cost_usd: result.cost_usd }
    }

    /// Of two counts of the same the larger: an outcome knows of lost attempts no more than a log of an agent's own model.
    pub fn or_more(self, other: Self) -> Self {
        if self.usage.total() >= other.usage.total() { self } else { other }
    }

    /// What of it is in no outcome, if `counted` is.
    pub fn beyond(self, counted: Self) -> Self {
        let (all, part) = (self.usage, counted.usage);
        if all.total() <= part.total() {
            return Self::default();
        }
        let cost = self.cost_usd.map(|cost| (cost - counted.cost_usd.unwrap_or_default()).max(0.0));
        Self {
            usage: Usage {
                input_tokens: all.input_tokens.saturating_sub(part.input_tokens),
                output_tokens: all.output_tokens.saturating_sub(part.output_tokens),
                cached_tokens: all.cached_tokens.saturating_sub(part.cached_tokens),
                reasoning_tokens: all.reasoning_tokens.saturating_sub(part.reasoning_tokens),
            },
            cost_usd: cost,
        }
    }
}

impl AddAssign for Expense {
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
        if let Some(cost) = other.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
    }
}

/// Identity of one sample in a run. Epochs count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleKey {
    pub task_id: String,
    pub epoch: u32,
}

/// `result.json`: how a sample ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleResult {
    pub task_id: String,
    pub epoch: u32,
    pub level: u8,
    pub status: Status,
    pub answer: Option<String>,
    pub raw_answer: Option<String>,
    pub steps: u32,
    pub tool_calls: u32,
    pub usage: Usage,
    pub cost_usd: Option<f64>,
    pub timing: SampleTiming,
    /// Absent when the split has no truths.
    pub score: Option<SampleScore>,
    pub error: Option<Failure>,
}

/// Seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleTiming {
    /// From the start of the servers to their end.
    pub wall: f64,
    pub model: f64,
    pub tool: f64,
    /// Starting and closing the sample's own servers.
    pub sandbox: f64,
    /// What is left: ours.
    pub overhead: f64,
}

/// The verdict of the official scorer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleScore {
    pub correct: bool,
    /// `number`, `list` or `string`: what the truth was taken for.
    pub kind: String,
    pub reason: String,
    pub truth: String,
}
