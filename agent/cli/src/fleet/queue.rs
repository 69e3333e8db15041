//! The queue of a worker: samples of one run, given out by JetStream.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::kv::UpdateErrorKind;
use async_trait::async_trait;
use futures_util::StreamExt;
use gaia_agent::{Failure, FailureKind, Status, Usage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::channel::RunChannel;
use super::forward::{Followed, Forwarder};
use super::presence::Presence;
use super::retry::{PAUSE, persist};
use super::wire::{ClaimRules, Job, SampleState, state_key};
use super::{FleetError, parcel};
use crate::dataset::{Annotator, Sample};
use crate::queue::{Hold, Pending, SampleQueue};
use crate::sample::SampleEnd;
use crate::store::{RunDirectory, SampleKey, SampleResult, SampleTiming, artefact_name};

/// Of one request for a sample. Then the place is offered to the other runs.
const PULL_LIMIT: Duration = Duration::from_secs(2);

/// How long an outcome is held when the server is away. Longer than a server is ever restarted for; whoever is cut off
/// for longer has lost the sample anyway.
const COMMIT_LIMIT: Duration = Duration::from_secs(15 * 60);

/// For what only spares others a wait.
const COURTESY_LIMIT: Duration = Duration::from_secs(5);

/// Attachments that a job needs, before it is handed back.
const FETCH_LIMIT: Duration = Duration::from_secs(60);

pub(super) struct JetStreamQueue {
    shared: Arc<Shared>,
    /// The claim that goes on when a caller does not wait for it.
    claiming: tokio::sync::Mutex<Option<JoinHandle<Option<Pending>>>>,
}

struct Shared {
    channel: Arc<RunChannel>,
    rules: ClaimRules,
    worker: String,
    /// Where samples are written on this machine.
    run: RunDirectory,
    /// Places of the worker, for all runs together.
    places: Arc<Semaphore>,
    /// Of the run.
    ended: CancellationToken,
    /// No further sample is wanted.
    closing: CancellationToken,
    held: Mutex<HashMap<SampleKey, Held>>,
    /// Common artefacts that are in the object store.
    common: Arc<tokio::sync::Mutex<BTreeSet<String>>>,
    presence: Arc<Presence>,
}

/// A sample that is ours for now.
struct Held {
    message: Arc<jetstream::Message>,
    revision: u64,
    begun: u32,
    forwarder: Forwarder,
    _place: OwnedSemaphorePermit,
}

/// What a queue belongs to.
pub(super) struct Place {
    pub(super) channel: RunChannel,
    pub(super) rules: ClaimRules,
    pub(super) worker: String,
    pub(super) run: RunDirectory,
    pub(super) places: Arc<Semaphore>,
    pub(super) ended: CancellationToken,
    pub(super) presence: Arc<Presence>,
}

impl JetStreamQueue {
    pub(super) fn new(place: Place) -> Self {
        let Place { channel, rules, worker, run, places, ended, presence } = place;
        let shared = Shared {
            channel: Arc::new(channel),
            rules,
            worker,
            run,
            places,
            ended,
            closing: CancellationToken::new(),
            held: Mutex::default(),
            common: Arc::default(),
            presence,
        };
        Self { shared: Arc::new(shared), claiming: tokio::sync::Mutex::default() }
    }

    /// Hands back what was claimed for a caller who did not wait for it.
    pub(super) async fn close(&self) {
        self.shared.closing.cancel();
        let claiming = self.claiming.lock().await.take();
        if let Some(claiming) = claiming
            && let Ok(Some(claimed)) = claiming.await
        {
            self.release(&claimed).await;
        }
    }
}

#[async_trait]
impl SampleQueue for JetStreamQueue {
    fn extend_interval(&self) -> Duration {
        Duration::from_millis(self.shared.rules.timeout_ms) / 3
    }

    async fn claim(&self) -> Option<Pending> {
        let mut claiming = self.claiming.lock().await;
        let running = claiming.get_or_insert_with(|| tokio::spawn(next(self.shared.clone())));
        let claimed = running.await;
        *claiming = None;
        claimed.unwrap_or_default()
    }

    async fn extend(&self, claimed: &Pending) -> Hold {
        let key = key_of(claimed);
        let held = self.shared.held().get(&key).map(|held| (held.message.clone(), held.revision));
        let Some((message, revision)) = held else { return Hold::Lost };
        // Whoever is cut off works on: if nobody else begins the sample meanwhile, nothing is lost.
        if let Err(error) = message.double_ack_with(AckKind::Progress).await {
            tracing::info!("no sign of life for task `{}` could be given: {error}", key.task_id);
            return Hold::Kept;
        }
        match self.shared.channel.states.entry(state_key(&key.task_id, key.epoch)).await {
            Ok(Some(entry)) if entry.revision != revision => Hold::Lost,
            Ok(_) | Err(_) => Hold::Kept,
        }
    }

    async fn finish(&self, claimed: &Pending, end: &SampleEnd) {
        let SampleEnd::Committed(result) = end else { return };
        let key = key_of(claimed);
        let Some(held) = self.shared.held().remove(&key) else { return };
        match self.shared.commit(&key, held, result).await {
            Ok(Commit::Done) => self.shared.presence.committed(&self.shared.channel.run, result),
            Ok(Commit::Refused) => tracing::warn!(
                "the outcome of task `{}` does not count: another worker has begun it anew",
                key.task_id
            ),
            Err(error) => tracing::warn!("the outcome of task `{}` is lost: {error}", key.task_id),
        }
        self.shared.forget(&key);
    }

    async fn release(&self, claimed: &Pending) {
        let key = key_of(claimed);
        let Some(held) = self.shared.held().remove(&key) else { return };
        self.shared.hand_back(&key, held).await;
        self.shared.forget(&key);
    }
}

fn key_of(pending: &Pending) -> SampleKey {
    SampleKey { task_id: pending.sample.task_id.clone(), epoch: pending.epoch }
}

/// Waits for a place and then for a sample. Goes on when nobody waits for it.
async fn next(shared: Arc<Shared>) -> Option<Pending> {
    loop {
        if shared.closing.is_cancelled() {
            return None;
        }
        let place = tokio::select! {
            place = shared.places.clone().acquire_owned() => place.ok()?,
            () = shared.closing.cancelled() => return None,
            () = shared.ended.cancelled() => return None,
        };
        let message = tokio::select! {
            message = shared.pull() => message,
            () = shared.ended.cancelled() => return None,
        };
        match message {
            Ok(Some(message)) => match shared.take(message, place).await {
                Ok(Some(pending)) => return Some(pending),
                Ok(None) => {}
                Err(error) => tracing::warn!("a sample could not be begun: {error}"),
            },
            Ok(None) => {}
            Err(error) => {
                drop(place);
                tracing::info!("no sample could be asked for: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

enum Commit {
    Done,
    /// Somebody else has the sample.
    Refused,
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, HashMap<SampleKey, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pull(&self) -> Result<Option<jetstream::Message>, async_nats::Error> {
        let request = self.channel.jobs.batch().max_messages(1).expires(PULL_LIMIT);
        request.messages().await?.next().await.transpose()
    }

    /// Makes a sample ours, unless it has an outcome or is somebody's.
    async fn take(
        &self,
        message: jetstream::Message,
        place: OwnedSemaphorePermit,
    ) -> Result<Option<Pending>, FleetError> {
        let job: Job = match serde_json::from_slice(&message.payload) {
            Ok(job) => job,
            Err(error) => {
                message.ack_with(AckKind::Term).await.ok();
                return Err(FleetError::Unreadable(error.to_string()));
            }
        };
        if let Err(reason) = job.check() {
            message.ack_with(AckKind::Term).await.ok();
            return Err(FleetError::Unreadable(format!("a job is refused: {reason}")));
        }
        let state_key = state_key(&job.task_id, job.epoch);
        let states = &self.channel.states;
        let entry = persist("reading a state", COURTESY_LIMIT, || states.entry(&state_key)).await?;
        let (revision, begun) = match &entry {
            None => (0, 0),
            Some(entry) => match self.read(&entry.value).await? {
                SampleState::Committed { .. } => {
                    message.double_ack().await.ok();
                    return Ok(None);
                }
                // Published twice; the one who has it has been given another message.
                SampleState::Claimed { .. } if message.info().is_ok_and(|info| info.delivered <= 1) => {
                    let later = Duration::from_millis(self.rules.timeout_ms);
                    message.ack_with(AckKind::Nak(Some(later))).await.ok();
                    return Ok(None);
                }
                SampleState::Claimed { begun, .. } | SampleState::Released { begun, .. } => {
                    (entry.revision, begun)
                }
            },
        };
        if begun >= self.rules.max_begun {
            self.give_up(&job, begun, revision).await?;
            message.double_ack().await.ok();
            return Ok(None);
        }
        let claim = SampleState::Claimed {
            task_id: job.task_id.clone(),
            epoch: job.epoch,
            worker: self.worker.clone(),
            begun: begun + 1,
        };
        let Some(revision) = self.write(&state_key, &claim, revision, COURTESY_LIMIT).await? else {
            message.ack_with(AckKind::Nak(Some(PAUSE))).await.ok();
            return Ok(None);
        };
        let key = SampleKey { task_id: job.task_id.clone(), epoch: job.epoch };
        let offset = self.prepare(&key, job.attempts + begun)?;
        let forwarder = Forwarder::start(Followed {
            channel: self.channel.clone(),
            run: self.run.clone(),
            key: key.clone(),
            revision,
            worker: self.worker.clone(),
            offset,
            common: self.common.clone(),
        });
        let begun = begun + 1;
        let held = Held { message: Arc::new(message), revision, begun, forwarder, _place: place };
        match self.sample(job).await {
            Ok(sample) => {
                self.presence.begins(&self.channel.run, &key);
                self.held().insert(key.clone(), held);
                Ok(Some(Pending { sample: Arc::new(sample), epoch: key.epoch }))
            }
            Err(error) => {
                self.hand_back(&key, held).await;
                Err(error)
            }
        }
    }

    /// An empty place for the sample, whose attempts count on from those of others. Returns where its log begins.
    fn prepare(&self, key: &SampleKey, attempts: u32) -> Result<u64, FleetError> {
        let sample = self.run.sample(key);
        if sample.path().exists() {
            fs_err::remove_dir_all(sample.path())?;
        }
        fs_err::create_dir_all(sample.path())?;
        let before = "{\"type\":\"started\"}\n".repeat(attempts as usize);
        fs_err::write(sample.events_path(), &before)?;
        Ok(before.len() as u64)
    }

    async fn sample(&self, job: Job) -> Result<Sample, FleetError> {
        let mut sample = Sample {
            task_id: job.task_id,
            question: job.question,
            level: job.level,
            truth: None,
            file: None,
            file_name: None,
            annotator: Annotator::default(),
        };
        if let Some(attachment) = job.attachment {
            let folder = self.run.path().join("attachments");
            let path = folder.join(&attachment.object);
            if !path.is_file() {
                let content = parcel::get(&self.channel.objects, &attachment.object, FETCH_LIMIT).await?;
                // The name stands for the content.
                if artefact_name("attachment", &content) != attachment.object {
                    let reason =
                        format!("the attachment of task `{}` is not what it is named", sample.task_id);
                    return Err(FleetError::Unreadable(reason));
                }
                fs_err::create_dir_all(&folder)?;
                crate::store::write_atomically(&path, &content)?;
            }
            sample.file = Some(path);
            sample.file_name = Some(attachment.name);
        }
        Ok(sample)
    }

    /// The conditional write: whoever took the sample over meanwhile keeps it.
    async fn commit(&self, key: &SampleKey, held: Held, result: &SampleResult) -> Result<Commit, FleetError> {
        let events = held.forwarder.finish().await?;
        // Nothing to score with is on this machine.
        let result = Box::new(SampleResult { score: None, ..result.clone() });
        let state = SampleState::Committed { worker: self.worker.clone(), events, result };
        let name = state_key(&key.task_id, key.epoch);
        let written = self.write(&name, &state, held.revision, COMMIT_LIMIT).await?;
        if written.is_none() {
            return Ok(Commit::Refused);
        }
        // If this does not arrive, whoever is given the sample next sees that it has an outcome.
        held.message.double_ack().await.ok();
        Ok(Commit::Done)
    }

    /// A sample that takes whoever works on it down is not worked on for ever.
    async fn give_up(&self, job: &Job, begun: u32, revision: u64) -> Result<(), FleetError> {
        let message = format!(
            "the sample was begun {begun} times, and each time its worker was gone before it ended; what it did is in \
             its trajectory"
        );
        let result = Box::new(SampleResult {
            task_id: job.task_id.clone(),
            epoch: job.epoch,
            level: job.level,
            status: Status::Error,
            answer: None,
            raw_answer: None,
            steps: 0,
            tool_calls: 0,
            usage: Usage::default(),
            cost_usd: None,
            timing: SampleTiming::default(),
            score: None,
            error: Some(Failure { kind: FailureKind::Internal, message }),
        });
        let state = SampleState::Committed { worker: self.worker.clone(), events: 0, result };
        self.write(&state_key(&job.task_id, job.epoch), &state, revision, COURTESY_LIMIT).await?;
        Ok(())
    }

    /// What was done stands in the trajectory; whoever is next begins anew.
    async fn hand_back(&self, key: &SampleKey, held: Held) {
        // Best effort, all of it: what is not said here shows when the claim runs out.
        tokio::time::timeout(COURTESY_LIMIT, held.forwarder.finish()).await.ok();
        let state =
            SampleState::Released { task_id: key.task_id.clone(), epoch: key.epoch, begun: held.begun - 1 };
        let name = state_key(&key.task_id, key.epoch);
        if let Ok(Some(_)) = self.write(&name, &state, held.revision, COURTESY_LIMIT).await {
            held.message.ack_with(AckKind::Nak(None)).await.ok();
        }
    }

    /// Writes a state over the one of this revision. `None` when there is another by now, which is not ours.
    async fn write(
        &self,
        key: &str,
        state: &SampleState,
        revision: u64,
        limit: Duration,
    ) -> Result<Option<u64>, FleetError> {
        let content = serde_json::to_vec(state).map_err(std::io::Error::from)?;
        let content = parcel::pack(&self.channel.objects, &content, limit).await?;
        let states = &self.channel.states;
        persist("writing a state", limit, || async {
            match states.update(key, content.clone(), revision).await {
                Ok(revision) => Ok(Some(revision)),
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {
                    // An earlier try of ours may have come through, though we did not hear of it.
                    let entry = states.entry(key).await.map_err(|error| error.to_string())?;
                    Ok(entry.filter(|entry| entry.value == content).map(|entry| entry.revision))
                }
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }

    async fn read(&self, content: &[u8]) -> Result<SampleState, FleetError> {
        let content = parcel::unpack(&self.channel.objects, content, COURTESY_LIMIT).await?;
        serde_json::from_slice(&content).map_err(|error| FleetError::Unreadable(error.to_string()))
    }

    /// The place on this machine is needed no more.
    fn forget(&self, key: &SampleKey) {
        self.presence.ends(&self.channel.run, key);
        if let Err(error) = fs_err::remove_dir_all(self.run.sample(key).path()) {
            tracing::debug!("{error}");
        }
    }
}
