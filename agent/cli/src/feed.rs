//! `--events`: everything that happens in a run as JSON lines on stdout, for whoever watches it with a program.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use gaia_agent::{Status, Usage};
use serde::Serialize;
use time::OffsetDateTime;

use crate::config::Secrets;
use crate::store::{LineTap, RunTotals, SampleKey, SampleResult};

/// Of lines that nobody has read yet. A reader that is further behind loses events and is told how many: a run waits for
/// nobody who watches it.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// What happens to the run as a whole. The events of samples ([`gaia_agent::AgentEvent`]) stand between these, each with
/// `task_id` and `epoch`, as they are in the sample's `events.jsonl`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunEvent<'a> {
    /// The first.
    RunStarted { run: &'a str, path: &'a Path, model: &'a str, requested: usize, concurrency: usize },
    /// After the last event of the sample.
    SampleEnded(SampleEnded<'a>),
    /// By `gaia ctl`.
    RunChanged { what: &'a str },
    /// Nothing new starts; what runs goes on.
    RunStopping { reason: &'a str },
    /// The last.
    RunEnded { exit_code: u8, totals: &'a RunTotals },
    /// Here the reader was too slow.
    EventsLost { count: u64 },
}

/// How a sample ended. The truth is not here.
#[derive(Debug, Serialize)]
pub struct SampleEnded<'a> {
    task_id: &'a str,
    epoch: u32,
    /// Absent when it has no outcome: it was cancelled, or the provider refuses all requests.
    status: Option<Status>,
    answer: Option<&'a str>,
    /// Absent when there is nothing to compare with.
    correct: Option<bool>,
    steps: Option<u32>,
    usage: Option<Usage>,
    cost_usd: Option<f64>,
    error: Option<&'a str>,
}

impl<'a> SampleEnded<'a> {
    pub fn with(result: &'a SampleResult) -> Self {
        Self {
            task_id: &result.task_id,
            epoch: result.epoch,
            status: Some(result.status),
            answer: result.answer.as_deref(),
            correct: result.score.as_ref().map(|score| score.correct),
            steps: Some(result.steps),
            usage: Some(result.usage),
            cost_usd: result.cost_usd,
            error: result.error.as_ref().map(|error| error.message.as_str()),
        }
    }

    pub fn without_outcome(task_id: &'a str, epoch: u32, error: Option<&'a str>) -> Self {
        Self {
            task_id,
            epoch,
            status: None,
            answer: None,
            correct: None,
            steps: None,
            usage: None,
            cost_usd: None,
            error,
        }
    }
}

/// Writes events in the order in which they are handed in, from a thread of its own. A reader that goes away is no
/// fault: the rest goes nowhere.
#[derive(Debug)]
pub struct Feed {
    secrets: Secrets,
    state: Mutex<State>,
    waiting_bytes: Arc<AtomicUsize>,
    writing: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct State {
    /// Absent once the feed is closed.
    lines: Option<mpsc::Sender<String>>,
    lost: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(with = "time::serde::rfc3339")]
    time: OffsetDateTime,
    #[serde(flatten)]
    event: &'a RunEvent<'a>,
}

impl Feed {
    /// Of stdout.
    pub fn start(secrets: Secrets) -> io::Result<Self> {
        Self::writing_to(secrets, io::stdout())
    }

    fn writing_to(secrets: Secrets, mut sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel::<String>();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let waiting = waiting_bytes.clone();
        // A thread, since a reader may keep it waiting for as long as it likes.
        let writing = std::thread::Builder::new().name("events".to_owned()).spawn(move || {
            for line in lines {
                let written = sink.write_all(line.as_bytes()).and_then(|()| sink.flush());
                waiting.fetch_sub(line.len(), Ordering::Relaxed);
                if let Err(error) = written {
                    tracing::info!("nobody reads the events any more: {error}");
                    return;
                }
            }
        })?;
        let state = Mutex::new(State { lines: Some(sender), lost: 0 });
        Ok(Self { secrets, state, waiting_bytes, writing: Mutex::new(Some(writing)) })
    }

    pub fn tell(&self, event: &RunEvent<'_>) {
        if let Some(line) = self.line(event) {
            self.push(line);
        }
    }

    /// For the event log of a sample, whose lines hold no secret.
    pub fn of_sample(self: &Arc<Self>, key: &SampleKey) -> LineTap {
        let task_id = serde_json::Value::from(key.task_id.as_str());
        let (feed, head) = (self.clone(), format!("{{\"task_id\":{task_id},\"epoch\":{},", key.epoch));
        Box::new(move |line| {
            if let Some(rest) = line.strip_prefix('{') {
                feed.push([&head, rest].concat());
            }
        })
    }

    /// Waits until all is written, or nobody is there to read it.
    pub fn close(&self) {
        self.state().lines = None;
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if writing.is_some_and(|writing| writing.join().is_err()) {
            tracing::error!("the events were not written to their end");
        }
    }

    fn line(&self, event: &RunEvent<'_>) -> Option<String> {
        let line = serde_json::to_string(&Line { time: OffsetDateTime::now_utc(), event });
        let line = line.inspect_err(|error| tracing::error!("an event cannot be written: {error}")).ok()?;
        Some(self.secrets.redact(&line).into_owned() + "\n")
    }

    fn push(&self, line: String) {
        let mut state = self.state();
        if self.waiting_bytes.load(Ordering::Relaxed) + line.len() > MAX_WAITING_BYTES {
            state.lost += 1;
            return;
        }
        if state.lost > 0 {
            let lost = RunEvent::EventsLost { count: std::mem::take(&mut state.lost) };
            self.send(&state, self.line(&lost).unwrap_or_default());
        }
        self.send(&state, line);
    }

    fn send(&self, state: &State, line: String) {
        let length = line.len();
        self.waiting_bytes.fetch_add(length, Ordering::Relaxed);
        // Nobody reads any more, or the feed is closed.
        if state.lines.as_ref().is_none_or(|lines| lines.send(line).is_err()) {
            self.waiting_bytes.fetch_sub(length, Ordering::Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes what it is given once it is told to.
    struct Slow {
        may_write: mpsc::Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once nobody says any more when, always.
            self.may_write.recv().ok();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn changed(what: &str) -> RunEvent<'_> {
        RunEvent::RunChanged { what }
    }

    #[test]
    fn a_slow_reader_loses_events_and_is_told_how_many() {
        let (may, may_write) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let sink = Slow { may_write, written: written.clone() };
        let feed = Arc::new(Feed::writing_to(Secrets::default(), sink).unwrap());
        let tap = feed.of_sample(&SampleKey { task_id: "a\"b".into(), epoch: 2 });
        tap("{\"type\":\"x\"}\n");
        let long = "y".repeat(MAX_WAITING_BYTES - 1000);
        feed.tell(&changed(&long));
        for _ in 0..3 {
            feed.tell(&changed(&"z".repeat(2000)));
        }
        drop(may);
        while feed.waiting_bytes.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        feed.tell(&changed("end"));
        feed.close();
        let written = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let lines: Vec<serde_json::Value> =
            written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0], serde_json::json!({"task_id": "a\"b", "epoch": 2, "type": "x"}));
        assert_eq!((&lines[2]["type"], &lines[2]["count"]), (&"events_lost".into(), &3.into()));
        assert_eq!((lines.len(), &lines[3]["what"]), (4, &"end".into()));
    }

    #[test]
    fn nobody_there_to_read_is_no_fault_and_no_secret_is_told() {
        let feed = Feed::writing_to(Secrets::default(), Gone).unwrap();
        for _ in 0..100 {
            feed.tell(&changed("x"));
        }
        feed.close();
        feed.tell(&changed("after the end"));

        let mut secrets = Secrets::default();
        secrets.insert("s3cret-key");
        let (_, may_write) = mpsc::channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let feed = Feed::writing_to(secrets, Slow { may_write, written: written.clone() }).unwrap();
        feed.tell(&changed("the key s3cret-key"));
        feed.close();
        assert!(!String::from_utf8_lossy(&written.lock().unwrap()).contains("s3cret"));
    }
}
