//! One sample from its staged attachment to its committed outcome.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use gaia_agent::strategy::{ToolSource, never_began};
use gaia_agent::tools::{NoticeSink, Server, ServerSpec, SpilledFile, StartError, ToolHost};
use gaia_agent::{
    AgentEvent, Attachment, EventSink, Failure, FailureKind, Outcome, Status, StopReason, Task, Timing, Usage,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::config::Secrets;
use crate::dataset::{Sample, stage_attachment};
use crate::environment::{FILES_DIR, QUESTION, RUN_ID, SAMPLE_ID};
use crate::performer::{Part, Performer};
use crate::progress::{Progress, SampleProgress};
use crate::scoring::score_answer;
use crate::store::{EventLog, RunDirectory, SampleKey, SampleResult, SampleTiming, StoreError};

/// Further attempts, with fresh servers, of a sample that a failing server ended. One: what fails twice in a row is no
/// accident, and restarts within the sample come before this.
const SAMPLE_RETRIES: u32 = 1;

/// Of a question, what servers are told.
const MAX_QUESTION_CHARS: usize = 16_000;

/// Where the agent's tools find the attachment.
const SANDBOX_FILES: &str = "/shared_files";

/// What all samples of a run share.
pub struct SampleContext {
    pub run_id: String,
    pub run: RunDirectory,
    pub performer: Performer,
    /// Started anew for each sample.
    pub servers: Vec<ServerSpec>,
    /// Stay open when a sample ends.
    pub shared_servers: Vec<Arc<Server>>,
    pub secrets: Arc<Secrets>,
    pub progress: Arc<Progress>,
}

/// What became of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum SampleEnd {
    /// `result.json` is written.
    Committed(Box<SampleResult>),
    /// Cancelled: nothing is committed, so a resume runs it again.
    Cancelled,
    /// The provider refuses all requests. Nothing is committed: the sample is not to blame.
    Refused(String),
}

/// Works on one sample and commits its outcome.
///
/// # Errors
/// Only when the run directory cannot be written: then the run cannot go on.
pub async fn run_sample(
    context: &SampleContext,
    sample: &Sample,
    epoch: u32,
    cancel: &CancellationToken,
) -> Result<SampleEnd, StoreError> {
    let key = SampleKey { task_id: sample.task_id.clone(), epoch };
    let directory = context.run.sample(&key);
    let progress = Arc::new(context.progress.start(&key, sample.level));
    let mut usage = Usage::default();
    let mut cost_usd = None;
    let mut retries = 0;
    let (outcome, timing) = loop {
        let sink = Arc::new(SampleSink {
            log: directory.start_attempt(context.secrets.clone())?,
            progress: progress.clone(),
        });
        let (outcome, timing) = attempt(context, sample, &sink, cancel).await;
        sink.log.close()?;
        usage += outcome.usage;
        if let Some(cost) = outcome.cost_usd {
            *cost_usd.get_or_insert(0.0) += cost;
        }
        // Not when the model is unavailable: it had all its own retries.
        let failed = outcome.error.as_ref().is_some_and(|error| error.kind == FailureKind::Server);
        if !failed || retries == SAMPLE_RETRIES || cancel.is_cancelled() {
            break (outcome, timing);
        }
        retries += 1;
    };
    match outcome.error {
        Some(Failure { kind: FailureKind::Cancelled, .. }) => return Ok(SampleEnd::Cancelled),
        Some(Failure { kind: FailureKind::ModelRefused, message }) => return Ok(SampleEnd::Refused(message)),
        _ if outcome.stop == StopReason::Cancelled => return Ok(SampleEnd::Cancelled),
        _ => {}
    }
    let answer = outcome.answer.filter(|_| outcome.status == Status::Answered);
    let result = SampleResult {
        task_id: key.task_id,
        epoch,
        level: sample.level,
        status: outcome.status,
        score: score_answer(answer.as_deref(), sample.truth.as_deref()),
        answer,
        raw_answer: outcome.raw_answer,
        steps: outcome.steps,
        tool_calls: outcome.tool_calls,
        usage,
        cost_usd,
        timing,
        error: outcome
            .error
            .map(|error| Failure { message: context.secrets.redact(&error.message).into_owned(), ..error }),
    };
    directory.commit(&result)?;
    context.progress.finish(&result);
    Ok(SampleEnd::Committed(Box::new(result)))
}

/// One attempt: stage, start, work, close. It always has an outcome.
async fn attempt(
    context: &SampleContext,
    sample: &Sample,
    sink: &Arc<SampleSink>,
    cancel: &CancellationToken,
) -> (Outcome, SampleTiming) {
    let started = Instant::now();
    let staged = match Staged::of(&context.run_id, sample) {
        Ok(staged) => staged,
        Err(error) => {
            let message = format!("failed to stage the attachment of task `{}`: {error}", sample.task_id);
            let failure = Failure { kind: FailureKind::Internal, message };
            return (never_began(sink.log.attempt(), sink.as_ref(), failure), SampleTiming::default());
        }
    };
    let environment = BTreeMap::from([
        (RUN_ID.to_owned(), context.run_id.clone()),
        (SAMPLE_ID.to_owned(), sample.task_id.clone()),
        (FILES_DIR.to_owned(), staged.files.to_string_lossy().into_owned()),
        (QUESTION.to_owned(), for_variable(&sample.question)),
    ]);
    let task = Task {
        id: sample.task_id.clone(),
        question: sample.question.clone(),
        attachment: staged.attachment.clone(),
        attempt: sink.log.attempt(),
    };
    let tools = SampleTools { context, environment, sink, spent: Mutex::default() };
    let part = Part { task: &task, files: &staged.files, tools: &tools, sink: sink.clone(), cancel };
    let outcome = context.performer.work(part).await;
    let sandbox = *tools.spent.lock().unwrap_or_else(PoisonError::into_inner);
    let timing = timing(started.elapsed(), sandbox, outcome.timing);
    staged.remove();
    (outcome, timing)
}

/// A variable cannot hold a zero byte, nor more than the system allows for one; a question is far shorter.
pub(crate) fn for_variable(question: &str) -> String {
    question.chars().filter(|character| *character != '\0').take(MAX_QUESTION_CHARS).collect()
}

fn timing(wall: Duration, sandbox: Duration, task: Timing) -> SampleTiming {
    let (wall, sandbox) = (wall.as_secs_f64(), sandbox.as_secs_f64());
    // Tools that ran at the same time count once each, so the parts can exceed the whole.
    let overhead = (wall - sandbox - task.model - task.tool).max(0.0);
    // Whole microseconds: what is below is noise of the arithmetic.
    let [wall, model, tool, sandbox, overhead] =
        [wall, task.model, task.tool, sandbox, overhead].map(|seconds| (seconds * 1e6).round() / 1e6);
    SampleTiming { wall, model, tool, sandbox, overhead }
}

/// Starts the servers of a sample, as often as its strategy asks for fresh ones.
struct SampleTools<'a> {
    context: &'a SampleContext,
    environment: BTreeMap<String, String>,
    sink: &'a Arc<SampleSink>,
    /// Time to start and to end servers.
    spent: Mutex<Duration>,
}

impl SampleTools<'_> {
    fn count(&self, since: Instant) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) += since.elapsed();
    }
}

#[async_trait]
impl ToolSource for SampleTools<'_> {
    async fn open(&self, branch: Option<&str>) -> Result<Arc<ToolHost>, StartError> {
        let begun = Instant::now();
        let context = self.context;
        let host = ToolHost::start(
            &context.servers,
            &context.shared_servers,
            &self.environment,
            notices(self.sink, branch),
            Some(&context.performer.settings().answer_tool),
        )
        .await;
        self.count(begun);
        host.map(Arc::new)
    }

    async fn close(&self, tools: Arc<ToolHost>) {
        let begun = Instant::now();
        tools.close().await;
        self.count(begun);
    }
}

/// Writes the events of one attempt and shows them.
struct SampleSink {
    log: EventLog,
    progress: Arc<SampleProgress>,
}

impl EventSink for SampleSink {
    fn emit(&self, event: AgentEvent) {
        self.progress.observe(&event);
        self.log.emit(event);
    }

    fn emit_from(&self, branch: &str, event: AgentEvent) {
        self.progress.observe_branch(branch, &event);
        self.log.emit_from(branch, event);
    }

    fn keep(&self, text: &str) -> Option<String> {
        self.log.keep(text)
    }

    fn keep_file(&self, file: &SpilledFile) -> Option<String> {
        self.log.keep_file(file)
    }
}

fn notices(sink: &Arc<SampleSink>, branch: Option<&str>) -> NoticeSink {
    let (sink, branch) = (sink.clone(), branch.map(str::to_owned));
    Arc::new(move |notice| {
        let event =
            AgentEvent::ServerNotice { server: notice.server, level: notice.level, text: notice.text };
        match &branch {
            Some(branch) => sink.emit_from(branch, event),
            None => sink.emit(event),
        }
    })
}

/// A folder outside of the run that holds the sample's own attachment and nothing else.
struct Staged {
    folder: TempDir,
    files: PathBuf,
    attachment: Option<Attachment>,
}

impl Staged {
    fn of(run_id: &str, sample: &Sample) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(&staged_prefix(run_id)).tempdir()?;
        // The outer folder is private to this user; the inner one is mounted, and read there by any user.
        let files = folder.path().join("files");
        fs_err::create_dir(&files)?;
        fs_err::set_permissions(&files, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let host_path = stage_attachment(sample, &files)?;
        let attachment = host_path.zip(sample.file_name.as_ref()).map(|(host_path, name)| Attachment {
            sandbox_path: format!("{SANDBOX_FILES}/{name}"),
            host_path,
        });
        Ok(Self { folder, files, attachment })
    }

    fn remove(self) {
        if let Err(error) = self.folder.close() {
            tracing::warn!("failed to remove staged files: {error}");
        }
    }
}

fn staged_prefix(run_id: &str) -> String {
    format!("gaia-files-{run_id}-")
}

/// Removes staged folders that a killed session of the run left. The caller holds the run's lock.
pub fn remove_staged_leftovers(run_id: &str) -> io::Result<()> {
    let prefix = staged_prefix(run_id);
    for entry in fs_err::read_dir(std::env::temp_dir())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            fs_err::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "sample_tests.rs"]
pub(crate) mod tests;
