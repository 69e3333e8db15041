//! The frames to and from one guest, shared by everything that waits for an answer.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bollard::container::LogOutput;
use futures_util::{Stream, StreamExt};
use gaia_sandbox_protocol::{Decoder, GuestFrame, HostFrame};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::egress::Egress;
use crate::tunnels::{Lane, Tunnels};

/// Silence after which the guest gives the host up, should the end of the connection not reach it.
pub(crate) const LEASE_SECONDS: u32 = 600;

/// Between two pings; several may be lost before the lease ends.
const PING_INTERVAL: Duration = Duration::from_secs(60);

/// Time for the streams to deliver what was sent before the container ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Frames of tunnels that wait to be written. A command's frames overtake them.
const LANE_FRAMES: usize = 4;

/// Bytes of standard error kept to explain a failure.
const MAX_STDERR_BYTES: usize = 4096;

pub(crate) type EngineOutput = Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;
pub(crate) type EngineInput = Pin<Box<dyn AsyncWrite + Send>>;

#[derive(Debug)]
pub(crate) struct Connection {
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    lane: Lane,
    shared: Arc<Shared>,
    next_id: AtomicU32,
}

#[derive(Debug)]
struct Shared {
    routes: Mutex<HashMap<u32, mpsc::UnboundedSender<GuestFrame>>>,
    /// Why nothing more will come.
    end_reason: OnceLock<String>,
    ended: CancellationToken,
    stderr: Mutex<Vec<u8>>,
    /// Set when the guest may open tunnels.
    tunnels: OnceLock<Tunnels>,
}

/// Frames that answer one id. Forgets the id when dropped.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) id: u32,
    receiver: mpsc::UnboundedReceiver<GuestFrame>,
    shared: Arc<Shared>,
}

impl Connection {
    /// Takes over the streams of a container.
    pub(crate) fn open(output: EngineOutput, input: EngineInput) -> Self {
        let shared = Arc::new(Shared {
            routes: Mutex::default(),
            end_reason: OnceLock::new(),
            ended: CancellationToken::new(),
            stderr: Mutex::default(),
            tunnels: OnceLock::new(),
        });
        let (outgoing, waiting) = mpsc::unbounded_channel();
        let (lane, pieces) = mpsc::channel(LANE_FRAMES);
        tokio::spawn(read_frames(output, Arc::clone(&shared)));
        tokio::spawn(write_frames(input, waiting, pieces, Arc::clone(&shared)));
        Self { outgoing, lane, shared, next_id: AtomicU32::new(1) }
    }

    /// Lets the guest open tunnels, which lead to this proxy.
    pub(crate) fn serve_tunnels(&self, egress: Egress) {
        let ended = self.shared.ended.clone();
        let _ = self.shared.tunnels.set(Tunnels::new(Arc::new(egress), self.lane.clone(), ended));
    }

    /// A new id, and what will come for it.
    pub(crate) fn expect_answers(&self) -> Answers {
        self.expect_answers_to(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// What will come for an id: 0 is that of the guest's greeting.
    pub(crate) fn expect_answers_to(&self, id: u32) -> Answers {
        let (sender, receiver) = mpsc::unbounded_channel();
        lock(&self.shared.routes).insert(id, sender);
        if self.shared.ended.is_cancelled() {
            // The reader has cleared the routes already, so nobody else would end this wait.
            lock(&self.shared.routes).remove(&id);
        }
        Answers { id, receiver, shared: Arc::clone(&self.shared) }
    }

    /// Queues frames to go out together. Lost when the connection has ended: whoever waits for the answer is told.
    pub(crate) fn send<'a>(&self, id: u32, frames: impl IntoIterator<Item = &'a HostFrame>) {
        let mut bytes = Vec::new();
        for frame in frames {
            frame.encode(id, &mut bytes);
        }
        let _ = self.outgoing.send(bytes);
    }

    /// Declares the connection over. The first reason stays.
    pub(crate) fn end(&self, reason: &str) {
        self.shared.end(reason);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.shared.ended.is_cancelled()
    }

    pub(crate) async fn ended(&self) {
        self.shared.ended.cancelled().await;
    }

    pub(crate) fn end_reason(&self) -> String {
        let reason = self.shared.end_reason.get().cloned().unwrap_or_default();
        let stderr = lock(&self.shared.stderr);
        match String::from_utf8_lossy(&stderr).trim() {
            "" => reason,
            said => format!("{reason}; it wrote: {said}"),
        }
    }

    /// Ends the connection when the engine says that the container has ended: the streams may stay open.
    pub(crate) fn end_after(&self, container_end: impl Future<Output = String> + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            tokio::select! {
                reason = container_end => {
                    // What the guest said last may still be on its way.
                    let _ = tokio::time::timeout(LAST_WORDS, shared.ended.cancelled()).await;
                    shared.end(&reason);
                }
                () = shared.ended.cancelled() => {}
            }
        });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Also stops the tasks, which closes the engine's connection: the guest then ends the container.
        self.shared.end("the sandbox was closed");
    }
}

impl Answers {
    /// The next frame, or `None` once the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<GuestFrame> {
        self.receiver.recv().await
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        lock(&self.shared.routes).remove(&self.id);
    }
}

impl Shared {
    fn end(&self, reason: &str) {
        let _ = self.end_reason.set(reason.to_owned());
        self.ended.cancel();
        lock(&self.routes).clear();
    }
}

/// A panic elsewhere while the lock was held cannot leave a map of senders in a bad state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read_frames(mut output: EngineOutput, shared: Arc<Shared>) {
    let mut decoder = Decoder::default();
    let reason = loop {
        let piece = tokio::select! {
            piece = output.next() => piece,
            () = shared.ended.cancelled() => return,
        };
        match piece {
            Some(Ok(LogOutput::StdOut { message })) => {
                decoder.push(&message);
                if let Err(error) = route_frames(&mut decoder, &shared) {
                    break format!("its guest broke the protocol: {error}");
                }
            }
            Some(Ok(LogOutput::StdErr { message })) => {
                tracing::warn!(text = %String::from_utf8_lossy(&message), "standard error of a sandbox's guest");
                let mut stderr = lock(&shared.stderr);
                let room = MAX_STDERR_BYTES.saturating_sub(stderr.len()).min(message.len());
                stderr.extend_from_slice(&message[..room]);
            }
            Some(Ok(_)) => break "the engine sent something that is not of the container".to_owned(),
            Some(Err(error)) => break format!("the connection to it broke: {error}"),
            None => break "its container ended".to_owned(),
        }
    };
    shared.end(&reason);
}

fn route_frames(decoder: &mut Decoder, shared: &Shared) -> Result<(), String> {
    while let Some(raw) = decoder.next_frame().map_err(|error| error.to_string())? {
        let id = raw.id;
        match GuestFrame::decode(&raw).map_err(|error| error.to_string())? {
            None => {}
            Some(
                frame @ (GuestFrame::TunnelOpen
                | GuestFrame::TunnelData(_)
                | GuestFrame::TunnelCredit(_)
                | GuestFrame::TunnelEnd
                | GuestFrame::TunnelClose),
            ) => shared.tunnels.get().ok_or("it has no network")?.take(id, frame)?,
            Some(frame) => {
                if let Some(route) = lock(&shared.routes).get(&id) {
                    let _ = route.send(frame);
                }
            }
        }
    }
    Ok(())
}

async fn write_frames(
    mut input: EngineInput,
    mut waiting: mpsc::UnboundedReceiver<Vec<u8>>,
    mut pieces: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
) {
    let mut pings = tokio::time::interval_at(tokio::time::Instant::now() + PING_INTERVAL, PING_INTERVAL);
    let mut ping = Vec::new();
    HostFrame::Ping.encode(u32::MAX, &mut ping);
    loop {
        let bytes = tokio::select! {
            // In this order: no transfer delays a command.
            biased;
            () = shared.ended.cancelled() => return,
            bytes = waiting.recv() => bytes,
            _ = pings.tick() => Some(ping.clone()),
            Some(piece) = pieces.recv() => Some(piece),
        };
        let Some(bytes) = bytes else { return };
        let written = tokio::select! {
            written = async { input.write_all(&bytes).await?; input.flush().await } => written,
            () = shared.ended.cancelled() => return,
        };
        if let Err(error) = written {
            return shared.end(&format!("the connection to it broke: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(pieces: Vec<Vec<u8>>) -> Connection {
        let pieces = pieces.into_iter().map(|piece| Ok(LogOutput::StdOut { message: piece.into() }));
        // Nothing more comes after the pieces, but the stream stays open.
        let output = futures_util::stream::iter(pieces).chain(futures_util::stream::pending());
        Connection::open(Box::pin(output), Box::pin(tokio::io::sink()))
    }

    fn encoded(id: u32, frame: &GuestFrame) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame.encode(id, &mut bytes);
        bytes
    }

    #[tokio::test]
    async fn frames_reach_whom_they_answer_however_the_stream_is_cut() {
        let mut stream = encoded(9, &GuestFrame::Done);
        stream.extend([6, 0, 0, 0, 0x7f, 1, 0, 0, 0, 0]);
        let pong = GuestFrame::Pong { free_disk_bytes: 1 };
        stream.extend(encoded(1, &pong));
        let connection = connection(stream.into_iter().map(|byte| vec![byte]).collect());
        let mut answers = connection.expect_answers();
        assert_eq!(answers.id, 1);
        assert_eq!(answers.next().await, Some(pong), "others' and unknown frames are skipped");
        assert!(!connection.has_ended());
    }

    #[tokio::test]
    async fn a_guest_that_breaks_the_protocol_ends_the_connection() {
        for bytes in [vec![0xff; 16], vec![0; 16], vec![6, 0, 0, 0, 0x84, 1, 0, 0, 0, 0]] {
            let connection = connection(vec![bytes.clone()]);
            let mut answers = connection.expect_answers();
            assert_eq!(answers.next().await, None, "{bytes:?}");
            assert!(connection.end_reason().contains("broke the protocol"), "{}", connection.end_reason());
            // Neither does a later request wait.
            assert_eq!(connection.expect_answers().next().await, None);
        }
    }

    #[tokio::test]
    async fn a_guest_without_a_network_that_opens_a_tunnel_ends_the_connection() {
        let connection = connection(vec![encoded(1, &GuestFrame::TunnelOpen)]);
        assert_eq!(connection.expect_answers().next().await, None);
        assert!(connection.end_reason().contains("it has no network"), "{}", connection.end_reason());
    }

    #[tokio::test]
    async fn the_end_of_the_stream_ends_every_wait_and_names_what_was_said() {
        let pieces = [Ok(LogOutput::StdErr { message: "exec format error\n".into() })];
        let output = futures_util::stream::iter(pieces);
        let connection = Connection::open(Box::pin(output), Box::pin(tokio::io::sink()));
        assert_eq!(connection.expect_answers().next().await, None);
        assert_eq!(connection.end_reason(), "its container ended; it wrote: exec format error");
    }
}
