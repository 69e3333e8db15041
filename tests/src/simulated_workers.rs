//! Workers that work on nothing: they claim samples, send trajectories and commit outcomes as `gaia worker` does, over
//! the same streams and buckets, and need neither a model nor a container. Many of them fit on one machine, so that what
//! is left of a run is its coordinator and its nats-server.

use std::time::Duration;

use anyhow::Context as _;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::kv::Store;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, Message};
use futures_util::StreamExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// For a coordinator to offer its run; it reads its dataset before.
const OFFER_LIMIT: Duration = Duration::from_secs(120);

/// Of one request for a sample.
const PULL_LIMIT: Duration = Duration::from_secs(2);

/// Between two signs of life, as those of a real worker.
const SIGN_INTERVAL: Duration = Duration::from_secs(5);

/// Precedes what is sent as it is, neither compressed nor elsewhere.
const PLAIN: u8 = 0;

/// What the workers of a simulation do.
#[derive(Debug, Clone)]
pub struct SimulatedWorkers {
    /// Of the nats-server.
    pub url: String,
    pub workers: usize,
    /// Of each sample: a reply of the model, a call and its result. Each is sent by itself, as when they take a while.
    pub turns: usize,
    /// Of each result.
    pub output_bytes: usize,
    /// The answer to everything.
    pub answer: String,
}

impl SimulatedWorkers {
    /// Works on the one run that is offered until `ended`. Returns how many outcomes were committed.
    ///
    /// # Errors
    /// When the server fails, or nothing is offered for two minutes.
    pub async fn work(self, ended: CancellationToken) -> anyhow::Result<usize> {
        let run = offered_run(&self.url).await?;
        let mut tasks = JoinSet::new();
        for number in 0..self.workers {
            let worker = SimulatedWorker::connect(&self, &run, number).await?;
            tasks.spawn(worker.work(ended.clone()));
        }
        let mut committed = 0;
        while let Some(task) = tasks.join_next().await {
            committed += task??;
        }
        Ok(committed)
    }
}

/// How many messages of trajectories the coordinator of a run has taken down.
///
/// # Errors
/// When there is no such run at the server.
pub async fn messages_taken_down(context: &jetstream::Context, run: &str) -> anyhow::Result<u64> {
    let stream = context.get_stream(format!("GAIA_{run}_EVENTS")).await?;
    let state = &stream.cached_info().state;
    // What is acknowledged is gone.
    Ok(if state.messages == 0 { state.last_sequence } else { state.first_sequence.saturating_sub(1) })
}

/// The id of the run that wants workers.
///
/// # Errors
/// When the server fails, or nothing is offered for two minutes.
pub async fn offered_run(url: &str) -> anyhow::Result<String> {
    let context = jetstream::new(async_nats::connect(url).await?);
    let look = async {
        loop {
            // The bucket comes with the first coordinator.
            if let Ok(runs) = context.get_key_value("GAIA_RUNS").await
                && let Some(Ok(run)) = runs.keys().await?.next().await
            {
                return Ok(run);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(OFFER_LIMIT, look).await.context("no run is offered")?
}

struct SimulatedWorker {
    simulation: SimulatedWorkers,
    run: String,
    id: String,
    context: jetstream::Context,
    jobs: PullConsumer,
    states: Store,
    signs: Store,
    started: OffsetDateTime,
}

impl SimulatedWorker {
    async fn connect(simulation: &SimulatedWorkers, run: &str, number: usize) -> anyhow::Result<Self> {
        let context = jetstream::new(async_nats::connect(&simulation.url).await?);
        Ok(Self {
            simulation: simulation.clone(),
            run: run.to_owned(),
            id: format!("simulated-{number:03}"),
            jobs: context.get_consumer_from_stream("all", format!("GAIA_{run}_JOBS")).await?,
            states: context.get_key_value(format!("GAIA_{run}")).await?,
            signs: context.get_key_value("GAIA_WORKERS").await?,
            context,
            started: OffsetDateTime::now_utc(),
        })
    }

    async fn work(self, ended: CancellationToken) -> anyhow::Result<usize> {
        let mut committed = 0;
        let mut sign = tokio::time::interval(SIGN_INTERVAL);
        loop {
            // A request that is dropped may have been given a sample, which nobody works on then.
            let pull = self.pull();
            tokio::pin!(pull);
            let message = loop {
                tokio::select! {
                    () = ended.cancelled() => return Ok(committed),
                    message = &mut pull => break message,
                    _ = sign.tick() => self.give_sign(committed).await?,
                }
            };
            match message {
                Ok(Some(message)) => {
                    self.sample(&message).await?;
                    committed += 1;
                }
                Ok(None) => {}
                // With its last outcome the coordinator takes the stream away.
                Err(_) if ended.is_cancelled() || self.is_over().await => return Ok(committed),
                Err(error) => return Err(error),
            }
        }
    }

    async fn pull(&self) -> anyhow::Result<Option<Message>> {
        let mut batch = self.jobs.batch().max_messages(1).expires(PULL_LIMIT).messages().await?;
        batch.next().await.transpose().map_err(anyhow::Error::from_boxed)
    }

    async fn is_over(&self) -> bool {
        self.context.get_stream(format!("GAIA_{}_JOBS", self.run)).await.is_err()
    }

    async fn give_sign(&self, committed: usize) -> anyhow::Result<()> {
        let state = json!({
            "id": self.id, "host": "simulated", "version": env!("CARGO_PKG_VERSION"), "concurrency": 1, "running": [],
            "committed": committed, "refused": {}, "is_draining": false, "started": self.started.format(&Rfc3339)?,
            "at": OffsetDateTime::now_utc().format(&Rfc3339)?,
        });
        self.signs.put(&self.id, serde_json::to_vec(&state)?.into()).await?;
        Ok(())
    }

    /// Claims a sample, sends its trajectory and commits its outcome.
    async fn sample(&self, message: &Message) -> anyhow::Result<()> {
        let job: Value = serde_json::from_slice(&message.payload)?;
        let (task_id, epoch) = (job["task_id"].as_str().context("a job names its task")?, &job["epoch"]);
        let key = state_key(task_id, epoch);
        let claim = json!({
            "state": "claimed", "task_id": task_id, "epoch": epoch, "worker": self.id, "begun": 1,
        });
        let revision = self.states.update(&key, plain(&claim, "")?, 0).await?;
        let head = json!({
            "task_id": task_id, "epoch": epoch, "revision": revision, "worker": self.id, "files": [], "common": [],
        });
        let mut last = 0;
        for (number, lines) in self.trajectory(&job)?.into_iter().enumerate() {
            let message = PublishMessage::build()
                .payload(plain(&head, &lines)?)
                .message_id(format!("{task_id}/{epoch}/{revision}/{number}"));
            let ack = self.context.send_publish(format!("gaia.{}.events", self.run), message).await?.await?;
            last = ack.sequence;
        }
        let turns = self.simulation.turns;
        let result = json!({
            "task_id": task_id, "epoch": epoch, "level": job["level"], "status": "answered",
            "answer": self.simulation.answer, "raw_answer": self.simulation.answer, "steps": turns, "tool_calls": turns,
            "usage": usage(turns), "cost_usd": null,
            "timing": {"wall": 0.1, "model": 0.0, "tool": 0.0, "sandbox": 0.0, "overhead": 0.1},
            "score": null, "error": null,
        });
        let commit = json!({"state": "committed", "worker": self.id, "events": last, "result": result});
        self.states.update(&key, plain(&commit, "")?, revision).await?;
        message.double_ack().await.map_err(anyhow::Error::from_boxed)
    }

    /// The lines of each message.
    fn trajectory(&self, job: &Value) -> anyhow::Result<Vec<String>> {
        let tool = "bash/bash";
        let started = json!({
            "type": "started", "attempt": job["attempts"].as_u64().unwrap_or(0) + 1, "tools": [tool],
            "messages": [{"role": "user", "content": [{"type": "text", "text": job["question"]}]}],
        });
        let mut messages = vec![vec![started]];
        for step in 1..=self.simulation.turns {
            let id = format!("call-{step}");
            let arguments = json!({"command": "seq 1 100"});
            messages.push(vec![
                json!({"type": "model_call", "step": step}),
                json!({"type": "model_reply", "step": step, "content": null, "finish_reason": "tool_calls",
                    "tool_calls": [{"id": id, "name": "bash__bash", "arguments": arguments.to_string()}],
                    "usage": usage(1), "duration_ms": 1}),
                json!({"type": "tool_started", "step": step, "call_id": id, "tool": tool, "arguments": arguments}),
                json!({"type": "tool_result", "step": step, "call_id": id, "tool": tool, "is_error": false,
                    "content": [{"type": "text", "text": "x".repeat(self.simulation.output_bytes)}], "duration_ms": 1}),
            ]);
        }
        let time = OffsetDateTime::now_utc().format(&Rfc3339)?;
        let text = |events: Vec<Value>| {
            events.into_iter().map(|mut event| {
                event["time"] = json!(time);
                format!("{event}\n")
            })
        };
        Ok(messages.into_iter().map(|events| text(events).collect()).collect())
    }
}

fn usage(turns: usize) -> Value {
    json!({
        "input_tokens": 900 * turns, "output_tokens": 60 * turns, "cached_tokens": 0, "reasoning_tokens": 0,
    })
}

fn plain(head: &Value, rest: &str) -> anyhow::Result<bytes::Bytes> {
    let mut content = vec![PLAIN];
    content.extend(serde_json::to_vec(head)?);
    if !rest.is_empty() {
        content.push(b'\n');
        content.extend_from_slice(rest.as_bytes());
    }
    Ok(content.into())
}

fn state_key(task_id: &str, epoch: &Value) -> String {
    let digest = Sha256::digest(task_id.as_bytes());
    let hash: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{epoch}.{hash}")
}
