//! Containers that run before anybody asks for them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::error::SandboxError;
use crate::options::SandboxOptions;
use crate::sandbox::{Sandbox, invalid};
use crate::shared_folder;
use crate::start::FilesArrival;

/// A guest answers in well under a millisecond. One that takes this long is stopped or lost, and not handed out.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Between two looks whether those that wait still live; each checkout looks too.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Pauses after starts that failed while nobody waited; a caller who waits is told at once instead.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A supply of started containers, refilled in the background.
///
/// Close it with [`Pool::close`]; dropping it removes its containers too, but without waiting. Those that were checked
/// out belong to whoever has them.
#[derive(Debug)]
pub struct Pool {
    requests: mpsc::UnboundedSender<Request>,
    ready: watch::Receiver<usize>,
    size: usize,
    has_own_files: bool,
}

#[derive(Debug)]
enum Request {
    CheckOut(oneshot::Sender<Result<Sandbox, SandboxError>>),
    Close(oneshot::Sender<Result<(), SandboxError>>),
}

impl Pool {
    /// Begins to start `size` containers, about as many at a time as the engine's host has processors, and returns at
    /// once. Must be called within a tokio runtime.
    ///
    /// With [`SandboxOptions::files_dir`] every container shows that folder; without, each can be given the files of
    /// its sample at checkout.
    pub fn new(engine: Engine, options: SandboxOptions, size: usize) -> Self {
        let (requests, incoming) = mpsc::unbounded_channel();
        let (ready_count, ready) = watch::channel(0);
        let has_own_files = options.files_dir.is_none();
        let keeper = Keeper {
            concurrency: engine.processors(),
            engine,
            options,
            size,
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            starting: JoinSet::new(),
            pause: FIRST_PAUSE,
            paused_until: Instant::now(),
            ready_count,
        };
        tokio::spawn(keeper.run(incoming));
        Self { requests, ready, size, has_own_files }
    }

    /// A container that answers, now owned by the caller: one that waits, else the next to be ready. Its place is
    /// filled in the background. `files_dir` is what [`SandboxOptions::files_dir`] is to a container of its own: the
    /// files are placed, read-only, into a private folder which the container has had at `/shared_files` from its
    /// creation.
    ///
    /// The container carries the labels of the pool's options: labels cannot be changed later.
    pub async fn check_out(&self, files_dir: Option<&Path>) -> Result<Sandbox, SandboxError> {
        if files_dir.is_some() && !self.has_own_files {
            let reason = "the pool's containers show a folder already".to_owned();
            return Err(invalid("share a folder with a sandbox of the pool", reason));
        }
        // Those that waited may all have died; after them come fresh ones.
        let mut attempts = self.size + 2;
        let sandbox = loop {
            let (reply, answer) = oneshot::channel();
            self.requests.send(Request::CheckOut(reply)).map_err(|_| closed())?;
            let sandbox = answer.await.map_err(|_| closed())??;
            if sandbox.answers_within(ANSWER_LIMIT).await {
                break sandbox;
            }
            attempts -= 1;
            let error = sandbox.dead();
            tracing::info!(%error, "replaced a sandbox of the pool that had died");
            if attempts == 0 {
                return Err(error);
            }
        };
        if let Some(folder) = files_dir {
            sandbox.place_files(folder).await?;
        }
        Ok(sandbox)
    }

    /// Containers that wait to be checked out.
    pub fn ready(&self) -> usize {
        *self.ready.borrow()
    }

    /// Returns when as many containers wait as the pool is to hold, or when it was closed.
    pub async fn filled(&self) {
        let _ = self.ready.clone().wait_for(|ready| *ready >= self.size).await;
    }

    /// Removes the containers that wait and those that are being started, and returns once the engine no longer has
    /// them. Callers that wait for one are told that the pool was closed.
    pub async fn close(&self) -> Result<(), SandboxError> {
        let (reply, answer) = oneshot::channel();
        match self.requests.send(Request::Close(reply)) {
            Ok(()) => answer.await.unwrap_or(Ok(())),
            Err(_) => Ok(()),
        }
    }
}

fn closed() -> SandboxError {
    invalid("take a sandbox from the pool", "the pool was closed".to_owned())
}

/// The only one that touches the containers which nobody has checked out.
struct Keeper {
    engine: Engine,
    options: SandboxOptions,
    size: usize,
    /// Starts at the same time. More only make each other slower: the engine and the kernel do them one after another.
    concurrency: usize,
    ready: VecDeque<Sandbox>,
    waiting: VecDeque<oneshot::Sender<Result<Sandbox, SandboxError>>>,
    starting: JoinSet<Result<Sandbox, SandboxError>>,
    pause: Duration,
    paused_until: Instant,
    ready_count: watch::Sender<usize>,
}

impl Keeper {
    async fn run(mut self, mut incoming: mpsc::UnboundedReceiver<Request>) {
        let _ = tokio::task::spawn_blocking(shared_folder::remove_abandoned).await;
        let reply = loop {
            self.hand_out();
            self.refill();
            self.ready_count.send_replace(self.ready.len());
            let wake = self.paused_until.max(Instant::now() + Duration::from_millis(1));
            let wake = if self.starting.is_empty() && self.ready.len() < self.size {
                wake
            } else {
                Instant::now() + CHECK_INTERVAL
            };
            tokio::select! {
                request = incoming.recv() => match request {
                    Some(Request::CheckOut(reply)) => self.waiting.push_back(reply),
                    Some(Request::Close(reply)) => break Some(reply),
                    None => break None,
                },
                Some(started) = self.starting.join_next() => self.take_in(started),
                () = tokio::time::sleep_until(wake) => {}
            }
        };
        // From here on a request is answered with "closed", since nobody holds the other end of the channel.
        drop(incoming);
        let result = self.close().await;
        if let Some(reply) = reply {
            let _ = reply.send(result);
        }
    }

    /// Gives those that wait, the oldest first, what is ready.
    fn hand_out(&mut self) {
        self.waiting.retain(|reply| !reply.is_closed());
        // A dropped sandbox removes what is left of its container.
        self.ready.retain(Sandbox::is_alive);
        while !self.ready.is_empty()
            && let Some(reply) = self.waiting.pop_front()
        {
            if let Some(sandbox) = self.ready.pop_front()
                && let Err(Ok(unwanted)) = reply.send(Ok(sandbox))
            {
                self.ready.push_front(unwanted);
            }
        }
    }

    fn refill(&mut self) {
        let stock = if self.paused_until <= Instant::now() { self.size } else { 0 };
        let wanted = self.waiting.len() + stock;
        while self.ready.len() + self.starting.len() < wanted && self.starting.len() < self.concurrency {
            let (engine, options) = (self.engine.clone(), self.options.clone());
            let arrival = match options.files_dir {
                Some(_) => FilesArrival::AtStart,
                None => FilesArrival::Later,
            };
            self.starting.spawn(async move { Sandbox::start_with(&engine, &options, arrival).await });
        }
    }

    fn take_in(&mut self, started: Result<Result<Sandbox, SandboxError>, tokio::task::JoinError>) {
        match started {
            Ok(Ok(sandbox)) => {
                self.pause = FIRST_PAUSE;
                self.ready.push_back(sandbox);
            }
            Ok(Err(error)) => {
                self.paused_until = Instant::now() + self.pause;
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                // Those for whom a start is still under way may yet be served.
                if self.starting.len() < self.waiting.len()
                    && let Some(reply) = self.waiting.pop_front()
                {
                    let _ = reply.send(Err(error));
                } else {
                    tracing::warn!(%error, "failed to start a sandbox for the pool");
                }
            }
            Err(error) => tracing::warn!(%error, "a start for the pool broke off"),
        }
    }

    async fn close(mut self) -> Result<(), SandboxError> {
        self.waiting.clear();
        let mut all = std::mem::take(&mut self.ready);
        // A start that is under way cannot be called back; what comes of it is removed like the others.
        while let Some(started) = self.starting.join_next().await {
            all.extend(started.ok().and_then(Result::ok));
        }
        self.ready_count.send_replace(0);
        let mut closing = stream::iter(all).map(Sandbox::close).buffer_unordered(self.concurrency);
        let mut result = Ok(());
        while let Some(closed) = closing.next().await {
            result = result.and(closed);
        }
        result
    }
}

impl Sandbox {
    /// Puts the files of a folder to where a sandbox started with [`FilesArrival::Later`] shows them.
    async fn place_files(&self, folder: &Path) -> Result<(), SandboxError> {
        let failed = |reason: String| invalid(&format!("share the folder `{}`", folder.display()), reason);
        match &self.shared {
            Some(shared) => {
                let (from, to) = (folder.to_owned(), shared.path());
                tokio::task::spawn_blocking(move || shared_folder::place(&from, &to))
                    .await
                    .map_err(std::io::Error::other)
                    .and_then(|placed| placed)
                    .map_err(|error| failed(error.to_string()))
            }
            None => {
                let from: PathBuf = folder.to_owned();
                let files = tokio::task::spawn_blocking(move || shared_folder::regular_files(&from))
                    .await
                    .map_err(std::io::Error::other)
                    .and_then(|files| files)
                    .map_err(|error| failed(error.to_string()))?;
                for (path, inside) in files {
                    let file =
                        fs_err::tokio::File::open(path).await.map_err(|error| failed(error.to_string()))?;
                    self.send_file(file, &inside).await?;
                }
                Ok(())
            }
        }
    }
}
