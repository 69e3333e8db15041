//! The streams and buckets of one run.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::kv::Store;
use async_nats::jetstream::object_store::{self, ObjectStore};
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, StorageType, Stream};

use super::retry::persist;
use super::wire::ClaimRules;
use super::{FleetError, Link};

/// The bucket of runs that want workers.
const RUNS_BUCKET: &str = "GAIA_RUNS";

/// The bucket of workers.
const WORKERS_BUCKET: &str = "GAIA_WORKERS";

/// A worker that says nothing for so long is not there any more.
pub(super) const WORKER_LIFE: Duration = Duration::from_secs(60);

/// How long a sample that was published is known to have been: longer than anybody leaves a run that crashed.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(30 * 24 * 3600);

/// For what a command cannot begin without.
pub(super) const START_LIMIT: Duration = Duration::from_secs(10);

const CONSUMER: &str = "all";

/// What belongs to one run.
#[derive(Clone)]
pub(super) struct RunChannel {
    pub(super) link: Link,
    pub(super) run: String,
    pub(super) jobs: PullConsumer,
    pub(super) states: Store,
    pub(super) objects: ObjectStore,
}

/// Of the one reader of trajectories, which takes its time over a long block.
const READ_PATIENCE: Duration = Duration::from_secs(120);

/// Messages of trajectories from the first that is not acknowledged.
pub(super) struct Unread {
    pub(super) reader: PullConsumer,
    pub(super) messages: pull::Stream,
    /// The last before it.
    pub(super) gone: u64,
}

fn jobs_stream(run: &str) -> String {
    format!("GAIA_{run}_JOBS")
}

fn events_stream(run: &str) -> String {
    format!("GAIA_{run}_EVENTS")
}

fn bucket(run: &str) -> String {
    format!("GAIA_{run}")
}

impl RunChannel {
    /// What a killed coordinator left is taken up.
    pub(super) async fn create(link: &Link, run: &str, rules: ClaimRules) -> Result<Self, FleetError> {
        persist("making the streams of the run", START_LIMIT, || async {
            let context = &link.context;
            let work_queue = |name, subject| stream::Config {
                name,
                subjects: vec![subject],
                retention: RetentionPolicy::WorkQueue,
                storage: StorageType::File,
                ..stream::Config::default()
            };
            let jobs = stream::Config {
                duplicate_window: DUPLICATE_WINDOW,
                ..work_queue(jobs_stream(run), jobs_subject(run))
            };
            let jobs = context.get_or_create_stream(jobs).await.map_err(text)?;
            let events = work_queue(events_stream(run), events_subject(run));
            context.get_or_create_stream(events).await.map_err(text)?;
            let patience = Duration::from_millis(rules.timeout_ms);
            consumer(&jobs, patience).await?;
            let states = bucket_stream(&bucket(run), StorageType::File, Duration::ZERO);
            context.get_or_create_stream(states).await.map_err(text)?;
            if context.get_object_store(bucket(run)).await.is_err() {
                let objects = object_store::Config { bucket: bucket(run), ..object_store::Config::default() };
                context.create_object_store(objects).await.map_err(text)?;
            }
            Ok::<_, String>(())
        })
        .await?;
        Self::open(link, run).await
    }

    pub(super) async fn open(link: &Link, run: &str) -> Result<Self, FleetError> {
        persist("opening the streams of the run", START_LIMIT, || async {
            let context = &link.context;
            Ok::<_, String>(Self {
                link: link.clone(),
                run: run.to_owned(),
                jobs: context.get_consumer_from_stream(CONSUMER, jobs_stream(run)).await.map_err(text)?,
                states: context.get_key_value(bucket(run)).await.map_err(text)?,
                objects: context.get_object_store(bucket(run)).await.map_err(text)?,
            })
        })
        .await
    }

    /// The stream of samples that nobody has begun or nobody has ended.
    pub(super) async fn waiting(&self) -> Result<Stream, FleetError> {
        let context = &self.link.context;
        persist("looking at the queue", START_LIMIT, || context.get_stream(jobs_stream(&self.run))).await
    }

    /// What trajectories hold that nobody has acknowledged, in order from the first message on. Whoever read before is
    /// cut off: what was delivered and got lost on the way would come after what is new, and only when its time is up.
    pub(super) async fn read_events(&self, limit: Duration) -> Result<Unread, FleetError> {
        persist("reading trajectories", limit, || async {
            let stream = self.link.context.get_stream(events_stream(&self.run)).await.map_err(text)?;
            // There is none the first time.
            stream.delete_consumer(CONSUMER).await.ok();
            let reader = consumer(&stream, READ_PATIENCE).await?;
            let state = &stream.cached_info().state;
            let gone = if state.messages == 0 { state.last_sequence } else { state.first_sequence - 1 };
            let messages = reader.messages().await.map_err(text)?;
            Ok::<_, String>(Unread { reader, messages, gone })
        })
        .await
    }

    /// The last message of trajectories, when everything up to it is acknowledged.
    pub(super) async fn all_is_read(&self, reader: &PullConsumer) -> Option<u64> {
        let stream = self.link.context.get_stream(events_stream(&self.run)).await.ok()?;
        let read = reader.get_info().await.ok()?;
        (read.num_pending == 0 && read.num_ack_pending == 0)
            .then_some(stream.cached_info().state.last_sequence)
    }

    /// Takes everything away that the run has at the server.
    pub(super) async fn delete(link: &Link, run: &str) {
        let context = &link.context;
        let gone = [
            context.delete_stream(jobs_stream(run)).await.map(|_| ()).map_err(text),
            context.delete_stream(events_stream(run)).await.map(|_| ()).map_err(text),
            context.delete_key_value(bucket(run)).await.map(|_| ()).map_err(text),
            context.delete_object_store(bucket(run)).await.map_err(text),
        ];
        for error in gone.into_iter().filter_map(Result::err) {
            tracing::debug!("of run {run} something was not there to be taken away: {error}");
        }
    }

    pub(super) fn jobs_subject(&self) -> String {
        jobs_subject(&self.run)
    }

    pub(super) fn events_subject(&self) -> String {
        events_subject(&self.run)
    }
}

fn jobs_subject(run: &str) -> String {
    format!("gaia.{run}.jobs")
}

fn events_subject(run: &str) -> String {
    format!("gaia.{run}.events")
}

/// Nothing is given up by the server: how often a sample is begun is counted where its state is.
async fn consumer(stream: &Stream, patience: Duration) -> Result<PullConsumer, String> {
    let config = pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: patience,
        max_ack_pending: -1,
        ..pull::Config::default()
    };
    stream.create_consumer(config).await.map_err(text)
}

/// Of runs that want workers.
pub(super) async fn runs_bucket(link: &Link) -> Result<Store, FleetError> {
    common_bucket(link, RUNS_BUCKET, StorageType::File, Duration::ZERO).await
}

/// Of workers; what they say vanishes when they do.
pub(super) async fn workers_bucket(link: &Link) -> Result<Store, FleetError> {
    common_bucket(link, WORKERS_BUCKET, StorageType::Memory, WORKER_LIFE).await
}

async fn common_bucket(
    link: &Link,
    name: &str,
    storage: StorageType,
    max_age: Duration,
) -> Result<Store, FleetError> {
    persist("opening a bucket", START_LIMIT, || async {
        let stream = bucket_stream(name, storage, max_age);
        link.context.get_or_create_stream(stream).await.map_err(text)?;
        link.context.get_key_value(name).await.map_err(text)
    })
    .await
}

/// A key-value bucket as its stream: to make one itself, the library wants to know more of the account than older
/// servers say. Zero is no limit.
fn bucket_stream(bucket: &str, storage: StorageType, max_age: Duration) -> stream::Config {
    stream::Config {
        name: format!("KV_{bucket}"),
        subjects: vec![format!("$KV.{bucket}.>")],
        max_messages_per_subject: 1,
        max_age,
        storage,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        discard: DiscardPolicy::New,
        // Not longer than what it is about.
        duplicate_window: if max_age.is_zero() {
            Duration::from_secs(120)
        } else {
            max_age.min(Duration::from_secs(120))
        },
        ..stream::Config::default()
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
