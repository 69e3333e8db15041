//! Connections of the container's programs to the egress proxy, which is on the host: each is carried in a tunnel over
//! the link.
//!
//! Credit bounds what waits here for a slow program, and nothing is read from a program while the link is behind: a
//! transfer never delays an answer by more than [`MAX_AHEAD_BYTES`].

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use gaia_sandbox_protocol::{Credit, GuestFrame, MAX_TUNNELS, TUNNEL_PIECE_BYTES, TUNNEL_WINDOW_BYTES};

use crate::link::{Broken, Link};

/// Bytes that may wait in the link before nothing more is read from programs.
const MAX_AHEAD_BYTES: usize = 128 << 10;

/// Consumed bytes for which credit is given back: often enough that the host never runs dry.
const CREDIT_STEP_BYTES: u32 = TUNNEL_WINDOW_BYTES / 4;

#[derive(Default)]
pub(crate) struct Tunnels {
    listener: Option<TcpListener>,
    open: Vec<Tunnel>,
    last_id: u32,
}

struct Tunnel {
    id: u32,
    program: TcpStream,
    /// What the program has yet to take.
    queue: Vec<u8>,
    /// Bytes at the front of `queue` that it has taken.
    written: usize,
    /// What the host may still send.
    host_credit: Credit,
    /// Taken by the program and not given back to the host as credit.
    owed: u32,
    /// What we may still send.
    credit: Credit,
    program_side: Side,
    host_side: Side,
    /// The host has given it up. What the program still sends is thrown away: closing at once would make the kernel
    /// reset the connection, and the program might lose what it has not read.
    is_given_up: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Sending,
    /// Has sent its last byte.
    Ended,
    /// Of the host: the program has been told, too.
    Passed,
}

/// What became of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Gone,
}

/// A descriptor to poll.
#[derive(Clone, Copy)]
pub(crate) enum Polled {
    Listener,
    Tunnel(u32),
}

impl Tunnels {
    pub(crate) fn listen(&mut self, port: u16) -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// What to poll, and for what.
    pub(crate) fn watched(&self, link: &Link) -> Vec<(libc::pollfd, Polled)> {
        let entry = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let mut watched = Vec::new();
        if let Some(listener) = &self.listener
            && (self.open.len() < MAX_TUNNELS || self.open.iter().any(|tunnel| tunnel.is_given_up))
        {
            watched.push((entry(listener.as_raw_fd(), libc::POLLIN), Polled::Listener));
        }
        let may_read = link.queued_bytes() < MAX_AHEAD_BYTES;
        for tunnel in &self.open {
            let mut events = 0;
            let may_send = tunnel.is_given_up || (may_read && tunnel.credit.bytes() > 0);
            if may_send && tunnel.program_side == Side::Sending {
                events |= libc::POLLIN;
            }
            if tunnel.has_queued() {
                events |= libc::POLLOUT;
            }
            // Without an event to wait for, a program that hung up would wake the loop for ever.
            if events != 0 {
                watched.push((entry(tunnel.program.as_raw_fd(), events), Polled::Tunnel(tunnel.id)));
            }
        }
        watched
    }

    /// Does what a descriptor is ready for.
    pub(crate) fn serve(&mut self, polled: Polled, link: &mut Link, buffer: &mut [u8]) {
        match polled {
            Polled::Listener => self.accept(link),
            Polled::Tunnel(id) => {
                let Some(tunnel) = self.open.iter_mut().find(|tunnel| tunnel.id == id) else { return };
                let mut state = tunnel.write(link);
                if state == State::Open && (tunnel.is_given_up || link.queued_bytes() < MAX_AHEAD_BYTES) {
                    state = tunnel.read(link, buffer);
                }
                self.drop_if_gone(id, state, link);
            }
        }
    }

    fn accept(&mut self, link: &mut Link) {
        let Some(listener) = &self.listener else { return };
        loop {
            if self.open.len() >= MAX_TUNNELS {
                // The oldest that only waits for its program to hang up makes room.
                let Some(index) = self.open.iter().position(|tunnel| tunnel.is_given_up) else { return };
                self.open.remove(index);
            }
            // Out of descriptors or a connection that is gone again: the next turn tries again.
            let Ok((program, _)) = listener.accept() else { return };
            // Ids are never used twice, so that frames under way cannot reach the wrong tunnel.
            let Some(id) = self.last_id.checked_add(1) else { return };
            if program.set_nonblocking(true).is_err() {
                continue;
            }
            // Costs speed only.
            let _ = program.set_nodelay(true);
            self.last_id = id;
            link.send(id, &GuestFrame::TunnelOpen);
            self.open.push(Tunnel {
                id,
                program,
                queue: Vec::new(),
                written: 0,
                host_credit: Credit::default(),
                owed: 0,
                credit: Credit::default(),
                program_side: Side::Sending,
                host_side: Side::Sending,
                is_given_up: false,
            });
        }
    }

    /// Bytes for a program. Those for a tunnel that is gone are dropped: the host does not know yet.
    pub(crate) fn take_data(&mut self, id: u32, bytes: &[u8], link: &mut Link) -> Result<(), Broken> {
        let Some(tunnel) = self.open.iter_mut().find(|tunnel| tunnel.id == id) else { return Ok(()) };
        tunnel.host_credit.spend(bytes.len()).ok_or(Broken)?;
        if tunnel.written > 0 {
            tunnel.queue.drain(..tunnel.written);
            tunnel.written = 0;
        }
        tunnel.queue.extend_from_slice(bytes);
        let state = tunnel.write(link);
        self.drop_if_gone(id, state, link);
        Ok(())
    }

    pub(crate) fn take_credit(&mut self, id: u32, bytes: u32) -> Result<(), Broken> {
        match self.open.iter_mut().find(|tunnel| tunnel.id == id) {
            Some(tunnel) => tunnel.credit.add(bytes).ok_or(Broken),
            None => Ok(()),
        }
    }

    pub(crate) fn take_end(&mut self, id: u32, link: &mut Link) {
        if let Some(tunnel) = self.open.iter_mut().find(|tunnel| tunnel.id == id) {
            if tunnel.host_side == Side::Sending {
                tunnel.host_side = Side::Ended;
            }
            let state = tunnel.write(link);
            self.drop_if_gone(id, state, link);
        }
    }

    /// The host has given a tunnel up: what it sent before still reaches the program.
    pub(crate) fn take_close(&mut self, id: u32, link: &mut Link) {
        if let Some(tunnel) = self.open.iter_mut().find(|tunnel| tunnel.id == id) {
            tunnel.is_given_up = true;
        }
        self.take_end(id, link);
    }

    fn drop_if_gone(&mut self, id: u32, state: State, link: &mut Link) {
        if state == State::Gone
            && let Some(index) = self.open.iter().position(|tunnel| tunnel.id == id)
            && !self.open.remove(index).is_given_up
        {
            link.send(id, &GuestFrame::TunnelClose);
        }
    }
}

impl Tunnel {
    fn has_queued(&self) -> bool {
        self.written < self.queue.len()
    }

    /// Passes on what the program takes, and how much that was.
    fn write(&mut self, link: &mut Link) -> State {
        let before = self.written;
        if self.flush().is_err() {
            return State::Gone;
        }
        self.owed += (self.written - before) as u32;
        if !self.is_given_up && self.owed >= CREDIT_STEP_BYTES && self.host_credit.add(self.owed).is_some() {
            link.send(self.id, &GuestFrame::TunnelCredit(self.owed));
            self.owed = 0;
        }
        if !self.has_queued() {
            self.queue.clear();
            self.written = 0;
            if self.host_side == Side::Ended {
                self.host_side = Side::Passed;
                // It has hung up already if this fails, which reading will tell.
                let _ = self.program.shutdown(Shutdown::Write);
            }
        }
        self.state()
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.has_queued() {
            match self.program.write(&self.queue[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes one piece from the program, so that others get their turn.
    fn read(&mut self, link: &mut Link, buffer: &mut [u8]) -> State {
        if self.program_side != Side::Sending {
            return self.state();
        }
        let credit = if self.is_given_up { TUNNEL_PIECE_BYTES } else { self.credit.bytes() };
        let room = credit.min(TUNNEL_PIECE_BYTES).min(buffer.len());
        if room == 0 {
            return State::Open;
        }
        match self.program.read(&mut buffer[..room]) {
            Ok(0) => {
                self.program_side = Side::Ended;
                if !self.is_given_up {
                    link.send(self.id, &GuestFrame::TunnelEnd);
                }
            }
            Ok(_) if self.is_given_up => {}
            Ok(count) => {
                // Never more than there was, since `room` is what there was.
                let _ = self.credit.spend(count);
                link.send(self.id, &GuestFrame::TunnelData(buffer[..count].to_vec()));
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return State::Gone,
        }
        self.state()
    }

    fn state(&self) -> State {
        if self.program_side == Side::Ended && self.host_side == Side::Passed {
            State::Gone
        } else {
            State::Open
        }
    }
}
