//! Connections of a sandbox's programs to the egress proxy, which the guest carries over the link.
//!
//! The guest may be hostile. What it can make this side hold is bounded by credit and by the number of tunnels; one that
//! does not keep to them loses its connection, and with it the sandbox.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gaia_sandbox_protocol::{
    Credit, GuestFrame, HostFrame, MAX_TUNNELS, TUNNEL_PIECE_BYTES, TUNNEL_WINDOW_BYTES,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::egress::Egress;

/// Consumed bytes for which credit is given back: often enough that the guest never runs dry.
const CREDIT_STEP_BYTES: u32 = TUNNEL_WINDOW_BYTES / 4;

/// Proxy connections that may still be winding down beside those that are open.
const MAX_TASKS: usize = 2 * MAX_TUNNELS;

/// Encoded frames of tunnels, of which only a few wait to be written: commands go before them.
pub(crate) type Lane = mpsc::Sender<Vec<u8>>;

#[derive(Debug)]
pub(crate) struct Tunnels {
    egress: Arc<Egress>,
    lane: Lane,
    open: Arc<Mutex<Open>>,
    tasks: Arc<Semaphore>,
    /// The connection's end.
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct Open {
    tunnels: HashMap<u32, Entry>,
    last_id: u32,
}

/// What arrives for a tunnel is handed to its task through this.
#[derive(Debug)]
struct Entry {
    events: mpsc::UnboundedSender<Event>,
    ledger: Arc<Ledger>,
    closed: CancellationToken,
}

#[derive(Debug)]
enum Event {
    Data(Vec<u8>),
    End,
}

/// Credit in both directions.
#[derive(Debug, Default)]
struct Ledger {
    /// What the guest may still send.
    guest: Mutex<Credit>,
    /// What we may still send.
    host: Mutex<Credit>,
    host_gained: Notify,
    /// When something last went through, in milliseconds after the start of its task.
    last_active_ms: AtomicU64,
}

impl Tunnels {
    pub(crate) fn new(egress: Arc<Egress>, lane: Lane, ended: CancellationToken) -> Self {
        Self { egress, lane, open: Arc::default(), tasks: Arc::new(Semaphore::new(MAX_TASKS)), ended }
    }

    /// Takes a frame of the guest's. The error says what rule it breaks.
    pub(crate) fn take(&self, id: u32, frame: GuestFrame) -> Result<(), &'static str> {
        let mut open = lock(&self.open);
        if frame == GuestFrame::TunnelOpen {
            if id <= open.last_id {
                return Err("it opened a tunnel twice");
            }
            open.last_id = id;
            if open.tunnels.len() >= MAX_TUNNELS {
                return Err("it opened too many tunnels");
            }
            let Ok(permit) = Arc::clone(&self.tasks).try_acquire_owned() else {
                return Err("it opened tunnels faster than they can be closed");
            };
            let (events, incoming) = mpsc::unbounded_channel();
            let (ledger, closed) = (Arc::<Ledger>::default(), self.ended.child_token());
            open.tunnels.insert(id, Entry { events, ledger: Arc::clone(&ledger), closed: closed.clone() });
            let tunnel = Tunnel {
                id,
                egress: Arc::clone(&self.egress),
                lane: self.lane.clone(),
                open: Arc::clone(&self.open),
                ledger,
                closed,
            };
            tokio::spawn(async move {
                tunnel.carry(incoming).await;
                drop(permit);
            });
            return Ok(());
        }
        // For a tunnel that we have closed, something may still be under way.
        let Some(entry) = open.tunnels.get(&id) else { return Ok(()) };
        match frame {
            GuestFrame::TunnelData(bytes) => {
                lock(&entry.ledger.guest).spend(bytes.len()).ok_or("it sent more than it may")?;
                let _ = entry.events.send(Event::Data(bytes));
            }
            GuestFrame::TunnelCredit(bytes) => {
                lock(&entry.ledger.host).add(bytes).ok_or("it gave more credit than there is")?;
                entry.ledger.host_gained.notify_one();
            }
            GuestFrame::TunnelEnd => {
                let _ = entry.events.send(Event::End);
            }
            GuestFrame::TunnelClose => {
                entry.closed.cancel();
                open.tunnels.remove(&id);
            }
            _ => return Err("it mixed frames up"),
        }
        Ok(())
    }
}

/// One tunnel, as its task sees it.
struct Tunnel {
    id: u32,
    egress: Arc<Egress>,
    lane: Lane,
    open: Arc<Mutex<Open>>,
    ledger: Arc<Ledger>,
    closed: CancellationToken,
}

/// The proxy's end of a tunnel hung up, or the link ended.
struct HungUp;

impl Tunnel {
    /// Serves the program behind it until one of the two is done.
    async fn carry(&self, incoming: mpsc::UnboundedReceiver<Event>) {
        let started = Instant::now();
        let (near, far) = tokio::io::duplex(2 * TUNNEL_PIECE_BYTES);
        let (reader, writer) = tokio::io::split(near);
        let served = async { tokio::join!(self.egress.serve(far), self.carry_out(reader, started)) };
        let carried_in = async {
            // Hung up on, it waits for the other direction, which then ends, too.
            let _ = self.carry_in(incoming, writer, started).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = served => {}
            () = carried_in => {}
            () = self.idle(started) => tracing::debug!("a connection of a sandbox was idle for too long"),
            () = self.closed.cancelled() => {}
        }
        // First, so that the guest may open another one as soon as it knows.
        if lock(&self.open).tunnels.remove(&self.id).is_some() {
            let _ = self.send(&HostFrame::TunnelClose).await;
        }
    }

    /// From the guest to the proxy.
    async fn carry_in(
        &self,
        mut incoming: mpsc::UnboundedReceiver<Event>,
        mut writer: WriteHalf<DuplexStream>,
        started: Instant,
    ) -> Result<(), HungUp> {
        let mut owed = 0;
        while let Some(event) = incoming.recv().await {
            match event {
                Event::End => return writer.shutdown().await.map_err(|_| HungUp),
                Event::Data(bytes) => {
                    writer.write_all(&bytes).await.map_err(|_| HungUp)?;
                    self.note_activity(started);
                    owed += bytes.len() as u32;
                }
            }
            if owed >= CREDIT_STEP_BYTES {
                // Cannot fail: it is no more than the guest has spent.
                let _ = lock(&self.ledger.guest).add(owed);
                self.send(&HostFrame::TunnelCredit(owed)).await?;
                owed = 0;
            }
        }
        Err(HungUp)
    }

    /// From the proxy to the guest.
    async fn carry_out(&self, mut reader: ReadHalf<DuplexStream>, started: Instant) -> Result<(), HungUp> {
        let mut piece = vec![0; TUNNEL_PIECE_BYTES];
        loop {
            let room = self.wait_for_credit().await.min(TUNNEL_PIECE_BYTES);
            let count = reader.read(&mut piece[..room]).await.map_err(|_| HungUp)?;
            if count == 0 {
                return self.send(&HostFrame::TunnelEnd).await;
            }
            // Cannot fail: it is no more than there was.
            let _ = lock(&self.ledger.host).spend(count);
            self.note_activity(started);
            self.send(&HostFrame::TunnelData(piece[..count].to_vec())).await?;
        }
    }

    async fn wait_for_credit(&self) -> usize {
        loop {
            let credit = lock(&self.ledger.host).bytes();
            if credit > 0 {
                return credit;
            }
            self.ledger.host_gained.notified().await;
        }
    }

    async fn idle(&self, started: Instant) {
        let limit = self.egress.options.idle_timeout;
        loop {
            let last = Duration::from_millis(self.ledger.last_active_ms.load(Ordering::Relaxed));
            let until = started + last + limit;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    fn note_activity(&self, started: Instant) {
        self.ledger.last_active_ms.store(started.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    async fn send(&self, frame: &HostFrame) -> Result<(), HungUp> {
        let mut bytes = Vec::new();
        frame.encode(self.id, &mut bytes);
        self.lane.send(bytes).await.map_err(|_| HungUp)
    }
}

/// A panic elsewhere while a lock was held cannot leave what these protect in a bad state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "tunnels_tests.rs"]
mod tests;
