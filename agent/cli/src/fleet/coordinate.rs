//! The coordinator's side: publishes the samples of a run, takes down what workers send, and decides when the run ends.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::kv::{Entry, Operation, Watch};
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use futures_util::StreamExt;
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::channel::{RunChannel, Unread, WORKER_LIFE, runs_bucket, workers_bucket};
use super::collect::Collector;
use super::retry::{PAUSE, persist};
use super::wire::{ClaimRules, Job, JobAttachment, Offer, Refusal, WorkerState};
use super::{Connection, FleetError, Link, command_error, parcel};
use crate::agent::Agent;
use crate::config::Loaded;
use crate::console::Console;
use crate::control::{Controls, Sandboxes};
use crate::dataset::Dataset;
use crate::exit_code::{CommandError, CommandResult};
use crate::preflight::{Ready, chosen_agent};
use crate::progress::Progress;
use crate::queue::{Pending, fair};
use crate::sandbox_image::sandbox_images;
use crate::schedule::{Limits, Starts};
use crate::session::{Missing, cannot_write, missing};
use crate::signals::Interrupt;
use crate::store::{RunDirectory, RunRecord, SampleKey, SampleResult, Session, StoreError, artefact_name};
use crate::work::{OnError, Spent, Stopped, error_that_stops, used_up};

/// Between two looks at what no message tells: time that is up, workers that fell silent.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A worker that says nothing for so long is told about; it speaks every five seconds.
const SILENCE: Duration = Duration::from_secs(20);

/// While a run goes on, the server may be away for so long.
const OUTAGE_LIMIT: Duration = Duration::from_secs(3600);

/// Samples that are published without waiting for the server's word on the first of them.
const IN_FLIGHT: usize = 256;

/// Who works on a run, and by which rules.
pub(crate) struct Coordination {
    pub(crate) connection: Connection,
    pub(crate) rules: ClaimRules,
    pub(crate) earlier: Earlier,
}

/// What becomes of that which a coordinator that was killed left at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// Outcomes are taken, and samples that are being worked on stay with their workers.
    TakeUp,
    /// Some outcomes are wanted anew.
    Discard,
}

/// Before anything is started or written.
///
/// # Errors
/// When the config wants what only one machine has.
pub(crate) fn check_fits(loaded: &Loaded) -> CommandResult<()> {
    let is_human = chosen_agent(loaded)? == Some(Agent::Human);
    match loaded.config.run.staged.enabled || is_human {
        true => Err(CommandError::usage(anyhow::anyhow!(
            "--nats goes neither with --staged nor with --agent human: both want one machine"
        ))),
        false => Ok(()),
    }
}

/// Has what is missing run by workers. The caller holds the lock of the run.
pub(crate) async fn coordinate(
    run: &RunDirectory,
    record: &mut RunRecord,
    (dataset, ready): (Dataset, Ready),
    loaded: &Loaded,
    coordination: &Coordination,
    interrupt: &Interrupt,
    console: &Console,
) -> CommandResult<Stopped> {
    let endpoint = loaded.secrets.redact(&ready.base_url).into_owned();
    // They were started to see that they start; from here on workers have their own.
    ready.close().await;
    let link = Link::connect(&coordination.connection, &format!("gaia run {}", record.id)).await;
    let link = link.map_err(|error| command_error(error.into()))?;
    let before = record.sessions.last().and_then(|session| session.config.clone());
    record.sessions.push(Session {
        started: OffsetDateTime::now_utc(),
        ended: None,
        concurrency: 0,
        endpoint,
        images: sandbox_images(loaded),
        config: (loaded.effective != record.config).then(|| loaded.effective.clone()),
        changes: Vec::new(),
    });
    let same_settings = record.sessions.last().is_some_and(|session| session.config == before);
    record.ended = None;
    run.write_record(record).map_err(|error| cannot_write(error, run))?;

    let progress = Arc::new(Progress::new(console.clone()));
    // Nothing is worked on here: they only name the samples.
    let sandboxes = Sandboxes { permits: Arc::new(Semaphore::new(0)), configured: None };
    let limits = Limits { worked_on: NonZeroUsize::MIN, ahead: 0, starts: Starts::Allowed };
    let controls = Controls::new(limits, sandboxes, Some("workers have places of their own"));
    let budget = loaded.config.run.budget;
    let Missing { pending, spent, .. } = missing(run, record, dataset, &progress, &controls, budget)?;
    if !same_settings || coordination.earlier == Earlier::Discard {
        // What workers still do for an earlier session is wanted no more.
        RunChannel::delete(&link, &record.id).await;
    }
    let channel = RunChannel::create(&link, &record.id, coordination.rules).await.map_err(command_error)?;
    let samples = pending.iter().map(|item| (key_of(item), item.sample.clone()));
    let collector = Collector::new(channel.clone(), run.clone(), progress.clone(), samples);
    let mut fleet = Fleet {
        collector,
        channel: channel.clone(),
        workers: BTreeMap::new(),
        loaded,
        spent,
        began: Instant::now(),
        early: None,
        console,
        most_places: 0,
    };
    offer(&link, &channel, record, loaded, coordination.rules).await.map_err(command_error)?;
    console.say(&format!(
        "run {}: waiting for workers at {}; `gaia worker --nats URL` starts one",
        record.id,
        coordination.connection.shown()
    ));
    let publishing = publish(channel.clone(), run.clone(), pending);
    let stopped = fleet.until_the_end(publishing, interrupt).await;
    progress.clear();
    let places = fleet.most_places;
    if let Ok(runs) = runs_bucket(&link).await {
        runs.delete(&record.id).await.ok();
    }
    // A run that stops in order takes everything along: whoever resumes it begins with what is on the disk.
    RunChannel::delete(&link, &record.id).await;
    link.close().await;
    let now = OffsetDateTime::now_utc();
    record.ended = Some(now);
    if let Some(session) = record.sessions.last_mut() {
        session.ended = Some(now);
        session.concurrency = places;
    }
    match stopped {
        Err(FleetError::Store(error)) => Err(cannot_write(error, run)),
        stopped => stopped.map_err(command_error),
    }
}

fn key_of(item: &Pending) -> SampleKey {
    SampleKey { task_id: item.sample.task_id.clone(), epoch: item.epoch }
}

/// Tells workers of the run.
async fn offer(
    link: &Link,
    channel: &RunChannel,
    record: &RunRecord,
    loaded: &Loaded,
    rules: ClaimRules,
) -> Result<(), FleetError> {
    let mut record = record.clone();
    record.dataset.samples.clear();
    record.dataset.unselected = None;
    record.dataset.needs = None;
    record.shard = None;
    record.config.clone_from(&loaded.effective);
    record.config_base.clone_from(&loaded.base);
    // Its images are what answers must be comparable with; the times of sessions would make each offer a new one.
    record.sessions.truncate(1);
    for session in &mut record.sessions {
        session.ended = None;
        session.concurrency = 0;
    }
    record.ended = None;
    record.totals = None;
    let offer = Offer { program_version: env!("CARGO_PKG_VERSION").to_owned(), record, rules };
    let content = Bytes::from(serde_json::to_vec(&offer).map_err(std::io::Error::from)?);
    let runs = runs_bucket(link).await?;
    persist("offering the run", Duration::from_secs(10), || runs.put(&channel.run, content.clone())).await?;
    Ok(())
}

/// Publishes the samples, each with its attachment, beside the work on the first of them. One that the stream has
/// already is dropped by the server.
fn publish(
    channel: RunChannel,
    run: RunDirectory,
    pending: Vec<Pending>,
) -> AbortOnDropHandle<Result<(), FleetError>> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut items = fair(pending).into_iter().peekable();
        while items.peek().is_some() {
            let mut sent = Vec::with_capacity(IN_FLIGHT);
            for item in items.by_ref().take(IN_FLIGHT) {
                let job = job(&channel, &run, &item).await?;
                let id = format!("{}/{}/{}", channel.run, job.task_id, job.epoch);
                let content = Bytes::from(serde_json::to_vec(&job).map_err(std::io::Error::from)?);
                let message = || PublishMessage::build().payload(content.clone()).message_id(&id);
                let context = &channel.link.context;
                let ack = persist("publishing a sample", OUTAGE_LIMIT, || {
                    context.send_publish(channel.jobs_subject(), message())
                })
                .await?;
                sent.push((ack, id, content));
            }
            for (ack, id, content) in sent {
                if ack.await.is_ok() {
                    continue;
                }
                persist("publishing a sample", OUTAGE_LIMIT, || async {
                    let message = PublishMessage::build().payload(content.clone()).message_id(&id);
                    channel.link.context.send_publish(channel.jobs_subject(), message).await?.await
                })
                .await?;
            }
        }
        Ok(())
    }))
}

async fn job(channel: &RunChannel, run: &RunDirectory, item: &Pending) -> Result<Job, FleetError> {
    let sample = &item.sample;
    let attachment = match (&sample.file, &sample.file_name) {
        (Some(path), Some(name)) => {
            let content = tokio::fs::read(path).await?;
            let object = artefact_name("attachment", &content);
            parcel::put(&channel.objects, &object, &content, OUTAGE_LIMIT).await?;
            Some(JobAttachment { name: name.clone(), object })
        }
        _ => None,
    };
    Ok(Job {
        task_id: sample.task_id.clone(),
        epoch: item.epoch,
        level: sample.level,
        question: sample.question.clone(),
        attachment,
        attempts: run.sample(&key_of(item)).attempts().map_err(StoreError::from)?,
    })
}

/// A run while workers work on it.
struct Fleet<'a> {
    collector: Collector,
    channel: RunChannel,
    workers: BTreeMap<String, Seen>,
    loaded: &'a Loaded,
    spent: Spent,
    began: Instant,
    early: Option<String>,
    console: &'a Console,
    /// Places of all workers at their most.
    most_places: usize,
}

struct Seen {
    state: WorkerState,
    at: Instant,
    is_silent: bool,
}

/// What the next thing to do is about.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Next {
    State(Option<Entry>),
    Block(Option<async_nats::jetstream::Message>),
    Worker(Option<Entry>),
    Published(Result<(), FleetError>),
    Look,
    Drain,
    Cancel,
}

impl Fleet<'_> {
    async fn until_the_end(
        &mut self,
        mut publishing: AbortOnDropHandle<Result<(), FleetError>>,
        interrupt: &Interrupt,
    ) -> Result<Stopped, FleetError> {
        let mut states = watch(&self.channel.states).await?;
        let workers_store = workers_bucket(&self.channel.link).await?;
        let mut workers = watch(&workers_store).await?;
        let mut unread = self.read_events().await?;
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        let mut is_published = false;
        let mut is_draining = false;
        while self.collector.remaining() > 0 {
            if is_draining && self.nobody_is_at_work() {
                break;
            }
            let next = tokio::select! {
                entry = states.next() => Next::State(entry.and_then(Result::ok)),
                block = unread.messages.next() => Next::Block(block.and_then(Result::ok)),
                entry = workers.next() => Next::Worker(entry.and_then(Result::ok)),
                ended = &mut publishing, if !is_published => {
                    Next::Published(ended.unwrap_or_else(|error| Err(std::io::Error::other(error).into())))
                }
                _ = look.tick() => Next::Look,
                () = interrupt.drain.cancelled(), if !is_draining => Next::Drain,
                () = interrupt.cancel.cancelled() => Next::Cancel,
            };
            match next {
                Next::State(Some(entry)) if entry.operation == Operation::Put => {
                    let completed = self.collector.state(&entry.value).await?;
                    self.count(&completed);
                }
                Next::State(Some(_)) => {}
                // A watch that ended is begun anew with all there is.
                Next::State(None) => states = again(&self.channel.states).await?,
                Next::Block(Some(message)) => {
                    let sequence = message.info().map_or(0, |info| info.stream_sequence);
                    if self.collector.misses(sequence) {
                        unread = self.read_events().await?;
                        continue;
                    }
                    let completed = self.collector.block(sequence, &message.payload).await?;
                    self.count(&completed);
                    message.ack().await.ok();
                }
                Next::Block(None) => {
                    tokio::time::sleep(PAUSE).await;
                    unread = self.read_events().await?;
                }
                Next::Worker(Some(entry)) => self.heard_of(entry),
                Next::Worker(None) => workers = again(&workers_store).await?,
                Next::Published(result) => {
                    result?;
                    is_published = true;
                }
                Next::Look => self.look(&unread.reader).await?,
                Next::Drain => {
                    is_draining = true;
                    self.stop_publishing(&publishing).await?;
                }
                Next::Cancel => break,
            }
            if self.early.is_some() && !is_draining {
                is_draining = true;
                self.stop_publishing(&publishing).await?;
            }
        }
        Ok(match self.early.take() {
            Some(reason) => Stopped::Early(reason),
            None if self.collector.remaining() > 0 => Stopped::Interrupted,
            None => Stopped::Done,
        })
    }

    /// Nothing new is begun. What runs has no message any more, and a place in the bucket of states.
    async fn stop_publishing(
        &self,
        publishing: &AbortOnDropHandle<Result<(), FleetError>>,
    ) -> Result<(), FleetError> {
        publishing.abort();
        let waiting = self.channel.waiting().await?;
        persist("emptying the queue", Duration::from_secs(10), || async { waiting.purge().await }).await?;
        Ok(())
    }

    fn nobody_is_at_work(&self) -> bool {
        let is_alive =
            |worker: &str| self.workers.get(worker).is_some_and(|seen| seen.at.elapsed() < WORKER_LIFE);
        !self.collector.workers_at_work().any(is_alive)
    }

    fn count(&mut self, completed: &[SampleResult]) {
        for result in completed {
            self.spent.usage += result.usage;
            self.spent.cost_usd += result.cost_usd.unwrap_or_default();
            let on_error = OnError::of(self.loaded);
            if let Some(reason) = error_that_stops(result, on_error) {
                self.early.get_or_insert(reason);
            }
        }
        if let Some(reason) = used_up(self.loaded.config.run.budget, &self.spent, self.began.elapsed()) {
            self.early.get_or_insert(reason);
        }
    }

    fn heard_of(&mut self, entry: Entry) {
        if entry.operation != Operation::Put {
            if self.workers.remove(&entry.key).is_some() {
                self.console.say(&format!("worker {} left", entry.key));
            }
            return;
        }
        let Ok(state) = serde_json::from_slice::<WorkerState>(&entry.value) else { return };
        let before = self.workers.get(&state.id);
        if before.is_none() {
            self.console.say(&format!("worker {}: {} samples at a time", state.id, state.concurrency));
        }
        if before.is_some_and(|seen| seen.is_silent) {
            self.console.say(&format!("worker {} is back", state.id));
        }
        let refusal = state.refused.get(&self.channel.run);
        if refusal != before.and_then(|seen| seen.state.refused.get(&self.channel.run)) {
            match refusal {
                Some(Refusal::Unable(reason)) => {
                    self.console.warn(&format!("worker {} does not work on the run: {reason}", state.id));
                }
                Some(Refusal::Paused(reason)) => {
                    self.early.get_or_insert(reason.clone());
                }
                None => {}
            }
        }
        let seen = Seen { state, at: Instant::now(), is_silent: false };
        self.workers.insert(seen.state.id.clone(), seen);
        let places = self.workers.values().map(|seen| seen.state.concurrency).sum();
        self.most_places = self.most_places.max(places);
    }

    async fn look(&mut self, reader: &PullConsumer) -> Result<(), FleetError> {
        self.count(&[]);
        for seen in self.workers.values_mut().filter(|seen| !seen.is_silent && seen.at.elapsed() > SILENCE) {
            seen.is_silent = true;
            self.console.warn(&format!(
                "worker {} has said nothing for {} s; its samples go to others",
                seen.state.id,
                SILENCE.as_secs()
            ));
        }
        // An outcome waits for lines that an earlier coordinator wrote and acknowledged out of order.
        if self.collector.waits()
            && let Some(last) = self.channel.all_is_read(reader).await
        {
            let completed = self.collector.has_written(last)?;
            self.count(&completed);
        }
        Ok(())
    }

    async fn read_events(&mut self) -> Result<Unread, FleetError> {
        let unread = self.channel.read_events(OUTAGE_LIMIT).await?;
        self.collector.begins_to_read();
        let completed = self.collector.has_written(unread.gone)?;
        self.count(&completed);
        Ok(unread)
    }
}

async fn watch(store: &async_nats::jetstream::kv::Store) -> Result<Watch, FleetError> {
    persist("watching a bucket", OUTAGE_LIMIT, || store.watch_with_history(">")).await
}

async fn again(store: &async_nats::jetstream::kv::Store) -> Result<Watch, FleetError> {
    tokio::time::sleep(PAUSE).await;
    watch(store).await
}
