//! PID 1's loop: the host's requests, the commands' output, the children's ends, and time.

mod answers;
mod requests;
mod shells;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use gaia_sandbox_protocol::{GuestFrame, HostFrame, PROTOCOL_VERSION, Shell};

use crate::capture::SpillFiles;
use crate::job::{Job, KillStep};
use crate::link::{Broken, Link};
use crate::memory::KillCounter;
use crate::process_limit::ProcessLimit;
use crate::shell::{ShellProgram, WaitingShell};
use crate::state::ShellState;
use crate::system::{self, Child, Pid, Waiting};
use crate::tunnels::{Polled, Tunnels};

/// Between two progress reports of a command.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Silence before the host's first frame after which nobody will come: the container was started by hand, or again.
const INIT_LEASE: Duration = Duration::from_secs(120);

/// Id of the shell that runs nothing at the start: the host begins with 1.
const FRESH_SHELL_ID: u32 = 0;

/// How long a restart waits for what it killed. The kernel needs milliseconds, but one process in an uninterruptible
/// sleep must not keep the shell from being of use.
const RESTART_LIMIT: Duration = Duration::from_secs(2);

/// Free places in the process table a command needs to get anywhere: runner, shell and a small pipeline. With fewer,
/// something of an earlier command eats all there are.
const MIN_FREE_PROCESSES: u64 = 8;

/// Read buffer, shared by everything that is read.
const BUFFER_BYTES: usize = 256 << 10;

pub(crate) struct Guest {
    link: Link,
    children: OwnedFd,
    shell: ShellProgram,
    state: ShellState,
    jobs: Vec<Job>,
    pending: HashMap<u32, Pending>,
    pending_bytes: usize,
    /// A shell started ahead of the next command, which then need not wait for it.
    ready: Option<ReadyShell>,
    /// Whether the last answer may have changed what a ready shell should look like.
    wants_ready: bool,
    restarting: Option<Restart>,
    oom_kills: KillCounter,
    process_limit: ProcessLimit,
    spill_bytes: u64,
    spill_number: u32,
    spill_files: SpillFiles,
    tunnels: Tunnels,
    lease: Option<Duration>,
    last_heard: Instant,
    buffer: Vec<u8>,
}

#[derive(Default)]
struct Pending {
    script: Vec<u8>,
    input: Vec<u8>,
}

/// A restart of the shell that waits for the end of all that was killed.
struct Restart {
    id: u32,
    until: Instant,
}

struct ReadyShell {
    shell: WaitingShell,
    kind: Shell,
}

/// Whether any process is left below PID 1, which inherits every orphan.
#[derive(PartialEq, Eq)]
enum Children {
    Some,
    None,
}

/// What a descriptor in the poll list is for.
#[derive(Clone, Copy)]
enum Watched {
    Link,
    Children,
    Reports(usize),
    Output(usize),
    Input(usize),
    Tunnels(Polled),
}

impl Guest {
    pub(crate) fn new(link: Link, children: OwnedFd) -> Self {
        let shell = ShellProgram::find();
        let state = ShellState::fresh(shell.initial_names());
        Self {
            link,
            children,
            shell,
            state,
            jobs: Vec::new(),
            pending: HashMap::new(),
            pending_bytes: 0,
            ready: None,
            wants_ready: true,
            restarting: None,
            oom_kills: KillCounter::open(),
            process_limit: ProcessLimit::open(),
            spill_bytes: 0,
            spill_number: 0,
            spill_files: SpillFiles::default(),
            tunnels: Tunnels::default(),
            lease: Some(INIT_LEASE),
            last_heard: Instant::now(),
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// Serves the host until it is gone or says so.
    pub(crate) fn serve(&mut self) -> Result<Infallible, Broken> {
        self.link
            .send(0, &GuestFrame::Hello { version: PROTOCOL_VERSION, features: 0, shell: self.shell.kind });
        self.look_at_fresh_shell();
        loop {
            self.link.flush()?;
            self.prepare_shell();
            self.wait()?;
            self.tick()?;
            self.answer();
        }
    }

    fn wait(&mut self) -> Result<(), Broken> {
        let mut watched = vec![Watched::Link, Watched::Children];
        let link_events = match (self.link.has_room(), self.link.has_queued()) {
            (true, false) => libc::POLLIN,
            (true, true) => libc::POLLIN | libc::POLLOUT,
            (false, _) => libc::POLLOUT,
        };
        // A link that can be read and written may have two descriptors; the second one is added below.
        let entry = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let mut entries = vec![
            entry(self.link.input_fd(), link_events & libc::POLLIN),
            entry(self.children.as_raw_fd(), libc::POLLIN),
        ];
        for (index, job) in self.jobs.iter().enumerate() {
            let files = [(&job.reports, Watched::Reports(index)), (&job.output, Watched::Output(index))];
            for (file, what) in files {
                if let Some(file) = file {
                    entries.push(entry(file.as_raw_fd(), libc::POLLIN));
                    watched.push(what);
                }
            }
            if let Some(input) = &job.input
                && !input.queue.is_empty()
            {
                entries.push(entry(input.pipe.as_raw_fd(), libc::POLLOUT));
                watched.push(Watched::Input(index));
            }
        }
        for (entry, polled) in self.tunnels.watched(&self.link) {
            entries.push(entry);
            watched.push(Watched::Tunnels(polled));
        }
        if link_events & libc::POLLOUT != 0 {
            entries.push(entry(self.link.output_fd(), libc::POLLOUT));
        }
        let timeout = self.next_deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()));
        system::poll(&mut entries, timeout).map_err(|_| Broken)?;
        // Entries without a counterpart in `watched` only wake the loop, which flushes the link at its start.
        for (entry, what) in entries.iter().zip(watched) {
            if entry.revents != 0 {
                self.serve_descriptor(what)?;
            }
        }
        Ok(())
    }

    fn serve_descriptor(&mut self, what: Watched) -> Result<(), Broken> {
        match what {
            Watched::Link => {
                self.link.receive(&mut self.buffer)?;
                self.last_heard = Instant::now();
                while let Some(frame) = self.link.next_frame()? {
                    let id = frame.id;
                    if let Some(frame) = HostFrame::decode(frame).map_err(|_| Broken)? {
                        self.obey(id, frame)?;
                    }
                }
            }
            Watched::Children => {
                let mut signals = File::from(self.children.try_clone().map_err(|_| Broken)?);
                let _ = signals.read(&mut self.buffer);
                self.reap();
            }
            Watched::Reports(index) => {
                self.jobs[index].take_reports();
                self.jobs[index].note_lost_shell();
            }
            Watched::Output(index) => self.jobs[index].take_output_in_turn(&mut self.buffer),
            Watched::Tunnels(polled) => self.tunnels.serve(polled, &mut self.link, &mut self.buffer),
            Watched::Input(index) => {
                let job = &mut self.jobs[index];
                if job.input.as_mut().is_some_and(|input| !input.flush()) {
                    job.input = None;
                }
            }
        }
        Ok(())
    }

    fn runners(&self) -> HashSet<Pid> {
        self.jobs
            .iter()
            .filter(|job| job.runner.is_alive)
            .map(|job| job.runner.pid)
            .chain(self.ready.as_ref().map(|ready| ready.shell.runner))
            .collect()
    }

    /// Takes note of all that has ended, and tells whether anything is left.
    fn reap(&mut self) -> Children {
        let left = loop {
            match system::wait_for_child(Waiting::Look) {
                Child::Ended(pid, status) => {
                    if self.ready.as_ref().is_some_and(|ready| ready.shell.runner == pid) {
                        self.ready = None;
                        self.wants_ready = true;
                    }
                    self.jobs.iter_mut().for_each(|job| job.note_reaped(pid, status));
                }
                // A stopped runner would never tell that its shell has ended.
                Child::Stopped(pid) if self.runners().contains(&pid) => {
                    system::kill(pid, libc::SIGCONT);
                }
                Child::Stopped(_) => {}
                Child::Running => break Children::Some,
                Child::None => break Children::None,
            }
        };
        for job in &mut self.jobs {
            job.note_lost_shell();
            job.note_if_cleared();
        }
        left
    }

    /// Ends a process table that is full. Killing one by one would lose against what fills it; this is one step for
    /// the kernel, in which nothing can fork.
    fn clear_process_table(&mut self, notes: &mut Vec<String>) {
        self.kill_everything();
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            self.reap();
            if self.jobs.iter().all(|job| !job.runner.is_alive)
                && self.process_limit.free().is_none_or(|free| free >= MIN_FREE_PROCESSES)
            {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.process_limit.look();
        self.process_limit.forget();
        let note = "no more processes could be started, so everything that ran in the sandbox was killed";
        notes.push(note.to_owned());
        for job in self.jobs.iter_mut().filter(|job| !job.is_answered) {
            job.notes.push(note.to_owned());
        }
    }

    /// Kills every process of the container but this one.
    fn kill_everything(&mut self) {
        system::kill(-1, libc::SIGKILL);
        self.ready = None;
        self.wants_ready = true;
    }

    fn next_deadline(&self) -> Option<Instant> {
        let progress = self
            .jobs
            .iter()
            .filter(|job| !job.is_answered && job.capture.total_bytes != job.reported_bytes)
            .map(|job| job.last_progress + PROGRESS_INTERVAL);
        self.jobs
            .iter()
            .filter_map(Job::next_deadline)
            .chain(progress)
            .chain(
                self.restarting.as_ref().map(|restart| restart.until).filter(|until| *until > Instant::now()),
            )
            .chain(self.lease.map(|lease| self.last_heard + lease))
            .min()
    }

    fn tick(&mut self) -> Result<(), Broken> {
        let now = Instant::now();
        if self.lease.is_some_and(|lease| self.last_heard + lease <= now) {
            return Err(Broken);
        }
        let runners = self.runners();
        let mut is_hopeless = false;
        for job in &mut self.jobs {
            is_hopeless |= job.tick(now, &runners) == KillStep::Hopeless;
            let is_due = !job.is_answered
                && job.capture.total_bytes != job.reported_bytes
                && job.last_progress + PROGRESS_INTERVAL <= now;
            if is_due {
                job.last_progress = now;
                job.reported_bytes = job.capture.total_bytes;
                let progress = GuestFrame::Progress {
                    elapsed_us: micros(now - job.started),
                    total_bytes: job.capture.total_bytes,
                    total_lines: job.capture.total_lines,
                    last_line: job.capture.last_line(),
                };
                self.link.send(job.id, &progress);
            }
        }
        if is_hopeless {
            self.kill_everything();
            for job in self.jobs.iter_mut().filter(|job| !job.is_answered) {
                job.notes.push(
                    "a command's processes multiplied faster than they could be killed, so everything that ran in \
                     the sandbox was killed"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }
}

fn micros(duration: Duration) -> u64 {
    duration.as_micros().min(u64::MAX.into()) as u64
}
