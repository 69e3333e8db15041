//! One sample from its staged attachment to its committed outcome.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use gaia_agent::strategy::{ToolSource, never_began};
use gaia_agent::tools::{NoticeSink, Server, ServerSpec, SpilledFile, StartError, ToolHost};
use gaia_agent::{
    AgentEvent, Attachment, EventSink, Failure, FailureKind, Outcome, Status, StopReason, Task, Timing, Usage,
};
use tempfile::TempDir;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Secrets;
use crate::continuing::{Begin, Continuing};
use crate::dataset::{Sample, stage_attachment};
use crate::environment::{FILES_DIR, QUESTION, RUN_ID, SAMPLE_ID};
use crate::feed::Feed;
use crate::performer::{Part, Performer};
use crate::progress::{Progress, SampleProgress};
use crate::recording::Recording;
use crate::scoring::score_answer;
use crate::store::{EventLog, RunDirectory, SampleKey, SampleResult, SampleTiming, StoreError};
use crate::telemetry::{SampleSpans, Telemetry};

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
    /// One for each set of servers that is up or on its way up or down.
    pub sandboxes: Arc<Semaphore>,
    /// The servers that are on their way down.
    pub closing: TaskTracker,
    /// How samples begin of which an earlier session left a part.
    pub begin: Begin,
    pub secrets: Arc<Secrets>,
    pub progress: Arc<Progress>,
    /// Who hears of everything.
    pub feed: Option<Arc<Feed>>,
    /// Where spans go.
    pub telemetry: Option<Arc<Telemetry>>,
}

impl SampleContext {
    /// Takes down what an attempt had and did not use, beside the work on other samples.
    pub fn close(&self, opened: Opened) {
        self.closing.spawn(async move {
            if let Some(Ok(host)) = opened.take_host() {
                host.close().await;
            }
            if let Ok(staged) = opened.staged {
                staged.remove();
            }
        });
    }
}

/// What an attempt works with, made ready before its turn comes.
pub struct Opened {
    sink: Arc<SampleSink>,
    staged: Result<Staged, Failure>,
    /// Until somebody takes it.
    host: Mutex<Option<Result<ToolHost, StartError>>>,
    continuing: Option<Arc<Continuing>>,
    /// For servers while the sample works.
    waited: Mutex<Duration>,
    permit: Arc<Option<OwnedSemaphorePermit>>,
}

impl Opened {
    fn take_host(&self) -> Option<Result<ToolHost, StartError>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
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

/// Works on one sample and commits its outcome. `ready` is its first attempt, perhaps still being made ready.
///
/// # Errors
/// Only when the run directory cannot be written: then the run cannot go on.
pub async fn run_sample(
    context: &SampleContext,
    sample: &Sample,
    epoch: u32,
    ready: JoinHandle<Result<Opened, StoreError>>,
    cancel: &CancellationToken,
) -> Result<SampleEnd, StoreError> {
    let key = SampleKey { task_id: sample.task_id.clone(), epoch };
    let directory = context.run.sample(&key);
    let progress = Arc::new(context.progress.start(&key, sample.level));
    let mut usage = Usage::default();
    let mut cost_usd = None;
    let mut retries = 0;
    let mut ready = AbortOnDrop(ready);
    let (outcome, timing) = loop {
        let started = Instant::now();
        let opened = tokio::select! {
            opened = &mut ready.0 => opened.map_err(io::Error::other)??,
            // What is dropped here is ended by its server, or with it.
            () = cancel.cancelled() => return Ok(SampleEnd::Cancelled),
        };
        let waited = started.elapsed();
        // Its first events may have come before anybody looked.
        opened.sink.progress.set(progress.clone()).ok();
        let outcome = attempt(context, sample, &opened, cancel).await;
        let waited = waited + *opened.waited.lock().unwrap_or_else(PoisonError::into_inner);
        let timing = timing(started.elapsed(), waited, outcome.timing);
        let log_closed = opened.sink.log.close();
        let has_diverged = opened.continuing.as_ref().is_some_and(|continuing| continuing.has_diverged());
        context.close(opened);
        log_closed?;
        if has_diverged && !cancel.is_cancelled() {
            let anew = open(context, sample, epoch, Begin::Anew).await;
            ready = AbortOnDrop(tokio::spawn(std::future::ready(anew)));
            continue;
        }
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
        let again = open(context, sample, epoch, Begin::Anew).await;
        ready = AbortOnDrop(tokio::spawn(std::future::ready(again)));
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

/// Nobody waits for it any more when this goes.
struct AbortOnDrop(JoinHandle<Result<Opened, StoreError>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Makes an attempt ready: its log, its attachment, its servers.
///
/// # Errors
/// Only when the run directory cannot be written.
pub async fn open(
    context: &SampleContext,
    sample: &Sample,
    epoch: u32,
    begin: Begin,
) -> Result<Opened, StoreError> {
    // Fails only when closed, which it never is.
    let permit = context.sandboxes.clone().acquire_owned().await.ok();
    let key = SampleKey { task_id: sample.task_id.clone(), epoch };
    let directory = context.run.sample(&key);
    let tap = context.feed.as_ref().map(|feed| feed.of_sample(&key));
    let log = directory.start_attempt(context.secrets.clone())?.with_tap(tap);
    let continuing = match begin {
        // Where several roles take turns, nobody knows whose turn was the last.
        Begin::WhereItStopped if context.performer.lone_model().is_some() => {
            Recording::read(&directory)?.map(Continuing::of).transpose()?.flatten()
        }
        Begin::WhereItStopped | Begin::Anew => None,
    };
    let spans = context
        .telemetry
        .clone()
        .map(|telemetry| SampleSpans::new(telemetry, context.secrets.clone(), key.clone(), sample.level));
    let sink = Arc::new(SampleSink {
        log,
        spans,
        progress: OnceLock::new(),
        continuing: continuing.clone(),
        seam: OnceLock::new(),
    });
    let staged = stage(context, sample);
    let mut host = match &staged {
        Ok(staged) => Some(start_servers(context, &environment(context, sample, staged), &sink, None).await),
        Err(_) => None,
    };
    if let Some(continuing) = &continuing {
        host = host.map(|host| host.map(|host| host.with_stand_in(continuing.clone())));
    }
    let (host, permit) = (Mutex::new(host), Arc::new(permit));
    Ok(Opened { sink, staged, host, continuing, waited: Mutex::default(), permit })
}

fn stage(context: &SampleContext, sample: &Sample) -> Result<Staged, Failure> {
    Staged::of(&context.run_id, sample).map_err(|error| Failure {
        kind: FailureKind::Internal,
        message: format!("failed to stage the attachment of task `{}`: {error}", sample.task_id),
    })
}

fn environment(context: &SampleContext, sample: &Sample, staged: &Staged) -> BTreeMap<String, String> {
    BTreeMap::from([
        (RUN_ID.to_owned(), context.run_id.clone()),
        (SAMPLE_ID.to_owned(), sample.task_id.clone()),
        (FILES_DIR.to_owned(), staged.files.to_string_lossy().into_owned()),
        (QUESTION.to_owned(), for_variable(&sample.question)),
    ])
}

async fn start_servers(
    context: &SampleContext,
    environment: &BTreeMap<String, String>,
    sink: &Arc<SampleSink>,
    branch: Option<&str>,
) -> Result<ToolHost, StartError> {
    let answer_tool = Some(context.performer.settings().answer_tool.as_str());
    let notices = notices(sink, branch);
    ToolHost::start(&context.servers, &context.shared_servers, environment, notices, answer_tool).await
}

/// One attempt with what was made ready for it. It always has an outcome.
async fn attempt(
    context: &SampleContext,
    sample: &Sample,
    opened: &Opened,
    cancel: &CancellationToken,
) -> Outcome {
    let sink = &opened.sink;
    let staged = match &opened.staged {
        Ok(staged) => staged,
        Err(failure) => return never_began(sink.log.attempt(), sink.as_ref(), failure.clone()),
    };
    let task = Task {
        id: sample.task_id.clone(),
        question: sample.question.clone(),
        attachment: staged.attachment.clone(),
        attempt: sink.log.attempt(),
    };
    let tools = SampleTools { context, environment: environment(context, sample, staged), opened };
    let mut part =
        Part { task: &task, files: &staged.files, tools: &tools, sink: sink.clone(), cancel, model: None };
    let (Some(continuing), Some(model)) = (&opened.continuing, context.performer.lone_model()) else {
        return context.performer.work(part).await;
    };
    part.model = Some(Arc::new(continuing.model(model.clone())));
    part.cancel = continuing.give_up();
    let working = context.performer.work(part);
    tokio::pin!(working);
    tokio::select! {
        outcome = &mut working => outcome,
        () = cancel.cancelled() => {
            continuing.give_up().cancel();
            working.await
        }
    }
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
    opened: &'a Opened,
}

#[async_trait]
impl ToolSource for SampleTools<'_> {
    /// The first time, what was made ready.
    async fn open(&self, branch: Option<&str>) -> Result<Arc<ToolHost>, StartError> {
        let first = self.opened.take_host();
        if let Some(host) = first {
            return host.map(Arc::new);
        }
        let begun = Instant::now();
        let host = start_servers(self.context, &self.environment, &self.opened.sink, branch).await;
        *self.opened.waited.lock().unwrap_or_else(PoisonError::into_inner) += begun.elapsed();
        host.map(Arc::new)
    }

    /// Beside the work on other samples.
    async fn close(&self, tools: Arc<ToolHost>) {
        let permit = self.opened.permit.clone();
        self.context.closing.spawn(async move {
            tools.close().await;
            // Only now another may be made.
            drop(permit);
        });
    }
}

/// Writes the events of one attempt and shows them.
struct SampleSink {
    log: EventLog,
    spans: Option<SampleSpans>,
    /// Set when the work begins.
    progress: OnceLock<Arc<SampleProgress>>,
    continuing: Option<Arc<Continuing>>,
    /// Set when the log has been told that an attempt goes on.
    seam: OnceLock<()>,
}

impl EventSink for SampleSink {
    fn emit(&self, event: AgentEvent) {
        if let Some(progress) = self.progress.get() {
            progress.observe(&event);
        }
        if let Some(continuing) = &self.continuing {
            if continuing.has_diverged() || continuing.is_told(&event) {
                return;
            }
            // In front of the first event of the new part.
            if continuing.is_new(&event) && self.seam.set(()).is_ok() {
                let after_step = continuing.after_step;
                self.log.emit(AgentEvent::Continued { attempt: self.log.attempt(), after_step });
            }
        }
        if let Some(spans) = &self.spans {
            spans.observe(None, &event);
        }
        self.log.emit(event);
    }

    fn emit_from(&self, branch: &str, event: AgentEvent) {
        if let Some(progress) = self.progress.get() {
            progress.observe_branch(branch, &event);
        }
        if let Some(spans) = &self.spans {
            spans.observe(Some(branch), &event);
        }
        self.log.emit_from(branch, event);
    }

    fn keep(&self, text: &str) -> Option<String> {
        self.log.keep(text)
    }

    fn keep_offer(&self, offer: &str) -> Option<String> {
        self.log.keep_offer(offer)
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
pub struct Staged {
    folder: TempDir,
    files: PathBuf,
    pub attachment: Option<Attachment>,
}

impl Staged {
    /// The folder that the sample's servers are given.
    pub fn files(&self) -> &Path {
        &self.files
    }

    pub fn of(run_id: &str, sample: &Sample) -> io::Result<Self> {
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

    pub fn remove(self) {
        if let Err(error) = self.folder.close() {
            tracing::warn!("failed to remove staged files: {error}");
        }
    }
}

pub(crate) fn staged_prefix(run_id: &str) -> String {
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
