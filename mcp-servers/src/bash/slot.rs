//! The container of one client: started when first needed, and again when it died.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gaia_sandbox::{Engine, EngineError, Pool, Sandbox, SandboxError, SandboxOptions};
use tokio::sync::{OwnedRwLockReadGuard, OwnedSemaphorePermit, RwLock, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::args::{FILES_VARIABLE, SAMPLE_VARIABLE};
use super::jobs::Jobs;
use crate::toolset::Variables;

/// What every container of a server is made from.
#[derive(Debug)]
pub(super) struct Blueprint {
    engine: Engine,
    options: SandboxOptions,
    /// Containers that run before a client asks for one.
    pub(super) pool: Option<Pool>,
    /// Starts at the same time. More only make each other slower: the engine and the kernel do them one after another,
    /// and the first to be asked for should be the first to be ready.
    starts: Arc<Semaphore>,
}

impl Blueprint {
    pub(super) fn new(engine: Engine, options: SandboxOptions, pool: Option<Pool>) -> Arc<Self> {
        let starts = Arc::new(Semaphore::new(engine.processors()));
        Arc::new(Self { engine, options, pool, starts })
    }

    /// For the container of one among many, with what a server of its own would have found in its environment.
    pub(super) fn of_one(&self, variables: &Variables) -> Self {
        let given = |name: &str| variables.get(name).filter(|value| !value.is_empty()).cloned();
        let mut options = self.options.clone();
        options.files_dir = given(FILES_VARIABLE).map(Into::into);
        options.labels.sample = given(SAMPLE_VARIABLE);
        // The containers of a pool are all alike.
        Self { engine: self.engine.clone(), options, pool: None, starts: Arc::clone(&self.starts) }
    }

    async fn start(&self) -> Result<Sandbox, SandboxError> {
        if let Some(pool) = &self.pool {
            return pool.check_out(None).await;
        }
        // Never closed.
        let _permit = self.starts.acquire().await;
        Sandbox::start(&self.engine, &self.options).await
    }
}

/// Why a call has no container to run in; the text is for the model and its user.
#[derive(Debug, thiserror::Error)]
pub(super) enum SlotError {
    #[error("cancelled")]
    Cancelled,
    #[error("the server is stopping, or this sandbox was removed")]
    Closed,
    #[error(
        "all {0} containers of this server are in use; wait for another client to end, or start the server with a \
         larger --max-containers"
    )]
    Full(usize),
    #[error(
        "this client has no sandbox: it keeps no session (protocol 2026-07-28), so the URL or a bearer token must name one; \
         connect to {0} in place of /mcp (this id was made for you; any unguessable one will do)"
    )]
    Unaddressed(String),
    #[error("{0}")]
    Start(String),
}

pub(super) struct Slot {
    blueprint: Arc<Blueprint>,
    permits: Arc<Semaphore>,
    max_containers: usize,
    /// Calls hold it for reading while they run; starting and ending a container needs it alone.
    state: Arc<RwLock<State>>,
    /// What the next call must be told about the container before this one.
    reset: Arc<Mutex<Option<String>>>,
    used: Arc<Mutex<Use>>,
    closed: CancellationToken,
}

enum State {
    Fresh,
    Starting(JoinHandle<Result<Sandbox, SandboxError>>, OwnedSemaphorePermit),
    Running(Box<Container>, OwnedSemaphorePermit),
    /// There was one, and the reason it is gone.
    Ended(String),
    Closed,
}

/// A container and what its one client has started in it.
struct Container {
    sandbox: Sandbox,
    jobs: Jobs,
}

#[derive(Debug, Clone, Copy)]
struct Use {
    calls: usize,
    last: Instant,
}

/// A call's hold on a living container.
pub(super) struct Place {
    container: OwnedRwLockReadGuard<State, Container>,
    reset: Arc<Mutex<Option<String>>>,
    closed: CancellationToken,
    _presence: Presence,
}

/// Counts a call for as long as it exists.
struct Presence(Arc<Mutex<Use>>);

impl Slot {
    pub(super) fn new(blueprint: Arc<Blueprint>, permits: Arc<Semaphore>, max_containers: usize) -> Self {
        Self {
            blueprint,
            permits,
            max_containers,
            state: Arc::new(RwLock::new(State::Fresh)),
            reset: Arc::default(),
            used: Arc::new(Mutex::new(Use { calls: 0, last: Instant::now() })),
            closed: CancellationToken::new(),
        }
    }

    /// Starts the container without waiting for it.
    pub(super) fn prepare(&self) {
        if let Ok(mut state) = self.state.try_write()
            && matches!(*state, State::Fresh)
            && let Ok(starting) = self.begin()
        {
            *state = starting;
        }
    }

    /// The container, started or replaced first if need be.
    pub(super) async fn enter(&self, cancel: &CancellationToken) -> Result<Place, SlotError> {
        let presence = Presence::new(&self.used);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(SlotError::Cancelled),
            () = self.closed.cancelled() => Err(SlotError::Closed),
            container = self.living() => {
                Ok(Place {
                    container: container?,
                    reset: Arc::clone(&self.reset),
                    closed: self.closed.clone(),
                    _presence: presence,
                })
            }
        }
    }

    async fn living(&self) -> Result<OwnedRwLockReadGuard<State, Container>, SlotError> {
        loop {
            let state = Arc::clone(&self.state).read_owned().await;
            if let Ok(container) = OwnedRwLockReadGuard::try_map(state, |state| match state {
                State::Running(container, _permit) if container.sandbox.is_alive() => Some(&**container),
                _ => None,
            }) {
                return Ok(container);
            }
            self.advance(&mut *Arc::clone(&self.state).write_owned().await).await?;
        }
    }

    /// One step towards a running container. Cancelled at any await it leaves a state that the next call goes on from.
    async fn advance(&self, state: &mut State) -> Result<(), SlotError> {
        match state {
            State::Closed => return Err(SlotError::Closed),
            State::Fresh => *state = self.begin()?,
            State::Ended(reason) => {
                let reason = std::mem::take(reason);
                let began = self.begin();
                match began {
                    Ok(starting) => {
                        self.remember_reset(reason);
                        *state = starting;
                    }
                    Err(error) => {
                        *state = State::Ended(reason);
                        return Err(error);
                    }
                }
            }
            State::Running(container, _permit) if container.sandbox.is_alive() => {}
            State::Running(..) => {
                let reason = "its container was gone".to_owned();
                if let State::Running(container, permit) = std::mem::replace(state, State::Ended(reason)) {
                    // The next container takes its place at once; what is left of this one does not count.
                    drop(permit);
                    tokio::spawn(close(container.sandbox));
                }
            }
            State::Starting(starting, _permit) => {
                let started = starting.await;
                let State::Starting(_, permit) = std::mem::replace(state, State::Fresh) else {
                    return Ok(());
                };
                match started {
                    Ok(Ok(sandbox)) => {
                        let container = Container { sandbox, jobs: Jobs::default() };
                        *state = State::Running(Box::new(container), permit);
                    }
                    Ok(Err(error)) => return Err(SlotError::Start(error.to_string())),
                    Err(crash) => {
                        return Err(SlotError::Start(format!("failed to start a container: {crash}")));
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&self) -> Result<State, SlotError> {
        let permit = Arc::clone(&self.permits)
            .try_acquire_owned()
            .map_err(|_full| SlotError::Full(self.max_containers))?;
        let blueprint = Arc::clone(&self.blueprint);
        let starting = tokio::spawn(async move {
            let sandbox = blueprint.start().await?;
            tracing::debug!(container = sandbox.container_id(), "container started");
            Ok(sandbox)
        });
        Ok(State::Starting(starting, permit))
    }

    fn remember_reset(&self, reason: String) {
        *self.reset.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    /// Ends the container when no call has used it for this long. The slot stays, to tell the next call.
    pub(super) async fn end_if_idle(&self, idle: Duration) {
        if !self.is_idle(idle) {
            return;
        }
        let mut state = self.state.write().await;
        if !self.is_idle(idle) {
            return;
        }
        let reason = format!("it was idle for {} s", idle.as_secs());
        if let State::Running(..) | State::Starting(..) = *state {
            end(std::mem::replace(&mut *state, State::Ended(reason))).await;
        }
    }

    fn is_idle(&self, idle: Duration) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.calls == 0 && used.last.elapsed() >= idle
    }

    /// How long no call has used it, when it holds no container; for the choice of what to forget.
    pub(super) fn forgettable_since(&self) -> Option<Instant> {
        let state = self.state.try_read().ok()?;
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = matches!(*state, State::Ended(_) | State::Fresh) && used.calls == 0;
        empty.then_some(used.last)
    }

    /// Ends the container once its calls have ended; calls that wait for it are turned away.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        let mut state = self.state.write().await;
        end(std::mem::replace(&mut *state, State::Closed)).await;
    }
}

async fn end(state: State) {
    match state {
        // The permit is held until the container is gone.
        State::Running(container, _permit) => close(container.sandbox).await,
        State::Starting(starting, _permit) => {
            if let Ok(Ok(sandbox)) = starting.await {
                close(sandbox).await;
            }
        }
        State::Fresh | State::Ended(_) | State::Closed => {}
    }
}

async fn close(sandbox: Sandbox) {
    match sandbox.close().await {
        Ok(()) => {}
        // Removed from outside, or Docker stopped: gone is what was wanted.
        Err(SandboxError::Dead { .. } | SandboxError::Engine(EngineError::NotRunning { .. })) => {}
        Err(error) => tracing::warn!("failed to remove a container: {error}"),
    }
}

impl Place {
    pub(super) fn sandbox(&self) -> &Sandbox {
        &self.container.sandbox
    }

    pub(super) fn jobs(&self) -> &Jobs {
        &self.container.jobs
    }

    /// The result of `work`, unless the container is removed meanwhile; then `work` is dropped, which ends it.
    pub(super) async fn unless_closed<V>(&self, work: impl Future<Output = V>) -> Result<V, SlotError> {
        tokio::select! {
            biased;
            value = work => Ok(value),
            () = self.closed.cancelled() => Err(SlotError::Closed),
        }
    }

    /// Why this container replaces another one; told once.
    pub(super) fn take_reset(&self) -> Option<String> {
        self.reset.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Presence {
    fn new(used: &Arc<Mutex<Use>>) -> Self {
        used.lock().unwrap_or_else(PoisonError::into_inner).calls += 1;
        Self(Arc::clone(used))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        used.calls -= 1;
        used.last = Instant::now();
    }
}
