//! A command from its start until nothing of it is left.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use gaia_sandbox_protocol::{Ending, Exec, Keep};

use crate::capture::Capture;
use crate::processes::{self, Belonging, Process};
use crate::runner::{REPORT_BYTES, Report};
use crate::shell::WaitingShell;
use crate::system::{self, Pid};

/// Between the polite signal and the other one: long enough for an interpreter to flush its output.
const GRACE: Duration = Duration::from_millis(500);

/// Between two looks at what is still alive.
const KILL_INTERVAL: Duration = Duration::from_millis(2);

/// Looks after which processes outrun us (or cannot die): everything in the container is killed.
const MAX_KILL_ROUNDS: u32 = 200;

/// Looks after which we answer although something cannot be killed, for example in uninterruptible sleep.
const MAX_WAIT_ROUNDS: u32 = 1000;

/// Between two looks whether a shell has begun to save its state.
const SAVE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Longest time a shell may take to save its state: a normal one takes a millisecond.
const SAVE_LIMIT: Duration = Duration::from_secs(3);

/// Most bytes read from one command before the others get their turn.
const MAX_BYTES_PER_TURN: usize = 4 << 20;

/// Bytes of standard input that may wait for a reader.
const MAX_INPUT_BYTES: usize = 1 << 20;

pub(crate) struct Job {
    pub(crate) id: u32,
    pub(crate) keep: Keep,
    pub(crate) runner: Runner,
    pub(crate) reports: Option<File>,
    pub(crate) output: Option<File>,
    pub(crate) input: Option<InputPipe>,
    pub(crate) snapshot: Option<File>,
    pub(crate) capture: Capture,
    pub(crate) ending: Ending,
    pub(crate) started: Instant,
    /// Hundredths of a second after boot.
    since: u64,
    deadline: Option<Instant>,
    phase: Phase,
    pub(crate) killed: HashSet<Pid>,
    pub(crate) notes: Vec<String>,
    pub(crate) oom_kills_before: u64,
    /// The host has its `Exit`; what is left runs in the background.
    pub(crate) is_answered: bool,
    pub(crate) last_progress: Instant,
    pub(crate) reported_bytes: u64,
    saving: Saving,
}

/// How far the shell is with saving its state.
enum Saving {
    /// Not begun when last looked; to be looked at again then.
    NotBegun(Instant),
    /// Begun; given up then.
    Begun(Instant),
    /// Took too long: the shell was killed.
    GivenUp,
}

/// What is known of the runner and the shell below it.
pub(crate) struct Runner {
    pub(crate) pid: Pid,
    pub(crate) is_alive: bool,
    /// A signal ended it while it had something to watch: what was below it hangs below PID 1 now.
    pub(crate) is_lost: bool,
    pub(crate) shell: Option<Pid>,
    /// Wait status of the shell once it has ended.
    pub(crate) status: Option<i32>,
    /// Nobody knows how the shell ended: a runner that was killed took it along. What the shell saved may say.
    pub(crate) is_status_lost: bool,
    pub(crate) left_running: bool,
    /// Why there was no shell.
    pub(crate) failure: Option<Report>,
}

enum Phase {
    Running,
    /// Asked to end; killed at this time.
    Terminating(Instant),
    /// Being killed, with the next look at this time.
    Killing {
        next: Instant,
        rounds: u32,
    },
    /// Nothing is left of it that could be killed.
    Cleared,
}

/// What a look at a command that is being killed says.
#[derive(PartialEq, Eq)]
pub(crate) enum KillStep {
    Waiting,
    /// It outruns us: only killing everything at once will end it.
    Hopeless,
}

pub(crate) struct InputPipe {
    pub(crate) pipe: File,
    pub(crate) queue: Vec<u8>,
    pub(crate) close_when_empty: bool,
}

impl Job {
    pub(crate) fn new(
        id: u32,
        exec: &Exec,
        shell: WaitingShell,
        input: Option<InputPipe>,
        capture: Capture,
        oom_kills_before: u64,
    ) -> Self {
        let started = Instant::now();
        Self {
            id,
            keep: exec.keep,
            runner: Runner {
                pid: shell.runner,
                is_alive: true,
                is_lost: false,
                shell: shell.shell,
                status: None,
                is_status_lost: false,
                left_running: false,
                failure: None,
            },
            reports: Some(shell.reports),
            output: Some(shell.output),
            input,
            snapshot: Some(shell.snapshot),
            capture,
            ending: Ending::Itself,
            started,
            since: system::ticks_since_boot(),
            deadline: started.checked_add(Duration::from_millis(exec.timeout_ms)),
            phase: Phase::Running,
            killed: HashSet::new(),
            notes: Vec::new(),
            oom_kills_before,
            is_answered: false,
            last_progress: started,
            reported_bytes: 0,
            saving: Saving::NotBegun(started + SAVE_CHECK_INTERVAL),
        }
    }

    /// Whether the answer can be given: the shell has ended, and where it was made to end, all it started has too.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_answered
            && self.runner.status.is_some()
            && (self.ending == Ending::Itself || matches!(self.phase, Phase::Cleared))
    }

    /// Whether nothing of it is left.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_answered && self.output.is_none() && self.reports.is_none() && !self.runner.is_alive
    }

    /// When [`Job::tick`] has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        if self.is_answered {
            return None;
        }
        match self.phase {
            Phase::Running => match self.saving {
                Saving::NotBegun(next) | Saving::Begun(next) => {
                    Some(self.deadline.map_or(next, |deadline| deadline.min(next)))
                }
                Saving::GivenUp => self.deadline,
            },
            Phase::Terminating(until) => Some(until),
            Phase::Killing { next, .. } => Some(next),
            Phase::Cleared => None,
        }
    }

    /// Asks everything that belongs to the command to end.
    pub(crate) fn begin_end(&mut self, ending: Ending, runners: &HashSet<Pid>) {
        if self.is_answered || !matches!(self.phase, Phase::Running) {
            return;
        }
        self.ending = ending;
        self.signal_members(libc::SIGTERM, runners);
        self.phase = Phase::Terminating(Instant::now() + GRACE);
        self.note_if_cleared();
    }

    /// Sends a signal to everything that belongs to the command.
    pub(crate) fn signal_members(&mut self, signal: i32, runners: &HashSet<Pid>) {
        for process in self.members(runners) {
            // A stopped process would not see it before it is continued.
            if system::kill(process.pid, signal) && matches!(signal, libc::SIGTERM | libc::SIGKILL) {
                self.killed.insert(process.pid);
            }
        }
    }

    pub(crate) fn members(&self, runners: &HashSet<Pid>) -> Vec<Process> {
        let belonging = if self.runner.is_alive {
            Belonging::Below(self.runner.pid)
        } else if self.runner.is_lost {
            Belonging::Orphans { since: self.since, runners }
        } else {
            return Vec::new();
        };
        processes::members(&processes::all_processes(), &belonging)
    }

    /// Does what time demands: the time limit, the end of the grace period, the next round of killing.
    pub(crate) fn tick(&mut self, now: Instant, runners: &HashSet<Pid>) -> KillStep {
        match self.phase {
            Phase::Running if !self.is_answered && self.deadline.is_some_and(|deadline| deadline <= now) => {
                self.begin_end(Ending::TimedOut, runners);
                KillStep::Waiting
            }
            Phase::Running if !self.is_answered => {
                self.check_saving(now);
                KillStep::Waiting
            }
            Phase::Terminating(until) if until <= now => self.kill_round(0, runners),
            Phase::Killing { next, rounds } if next <= now => self.kill_round(rounds, runners),
            _ => KillStep::Waiting,
        }
    }

    fn check_saving(&mut self, now: Instant) {
        match self.saving {
            Saving::NotBegun(next) if next <= now => {
                let length = self.snapshot.as_ref().and_then(|snapshot| snapshot.metadata().ok());
                self.saving = if length.is_some_and(|metadata| metadata.len() > 0) {
                    Saving::Begun(now + SAVE_LIMIT)
                } else {
                    Saving::NotBegun(now + SAVE_CHECK_INTERVAL)
                };
            }
            Saving::Begun(until) if until <= now => {
                self.saving = Saving::GivenUp;
                if let Some(shell) = self.runner.shell {
                    system::kill(shell, libc::SIGKILL);
                }
                let note =
                    "variables and functions took too long to save: those of this command were not kept";
                self.notes.push(note.to_owned());
            }
            _ => {}
        }
    }

    /// Whether the shell was killed although the command had ended.
    pub(crate) fn is_saving_given_up(&self) -> bool {
        matches!(self.saving, Saving::GivenUp)
    }

    fn kill_round(&mut self, rounds: u32, runners: &HashSet<Pid>) -> KillStep {
        // Stopped first: what is stopped cannot fork, so the set of the living stops growing and one sweep gets all.
        let mut stopped = HashSet::new();
        loop {
            let fresh: Vec<Process> =
                self.members(runners).into_iter().filter(|process| !stopped.contains(&process.pid)).collect();
            if fresh.is_empty() || stopped.len() > 65_536 {
                break;
            }
            for process in fresh {
                system::kill(process.pid, libc::SIGSTOP);
                stopped.insert(process.pid);
            }
        }
        for pid in &stopped {
            system::kill(*pid, libc::SIGKILL);
        }
        self.killed.extend(&stopped);
        if stopped.is_empty() && self.runner.is_alive {
            // Nothing is left below it, yet it is there: it may have been stopped.
            system::kill(self.runner.pid, libc::SIGKILL);
        }
        let is_settled = stopped.is_empty() && self.runner.status.is_some();
        self.phase = if is_settled {
            Phase::Cleared
        } else if rounds >= MAX_WAIT_ROUNDS {
            self.notes.push("some processes could not be killed".to_owned());
            self.runner.status.get_or_insert(libc::SIGKILL);
            Phase::Cleared
        } else {
            Phase::Killing { next: Instant::now() + KILL_INTERVAL, rounds: rounds + 1 }
        };
        if rounds == MAX_KILL_ROUNDS { KillStep::Hopeless } else { KillStep::Waiting }
    }

    /// When the runner has ended by itself nothing is left below it: no need to wait for the grace period.
    pub(crate) fn note_if_cleared(&mut self) {
        let is_ending = matches!(self.phase, Phase::Terminating(_) | Phase::Killing { .. });
        if is_ending && !self.runner.is_alive && !self.runner.is_lost && self.runner.status.is_some() {
            self.phase = Phase::Cleared;
        }
    }

    /// Reads what the runner reports.
    pub(crate) fn take_reports(&mut self) {
        while let Some(pipe) = &mut self.reports {
            let mut bytes = [0; REPORT_BYTES];
            match pipe.read(&mut bytes) {
                Ok(REPORT_BYTES) => match Report::decode(bytes) {
                    Some(Report::Shell(pid)) => self.runner.shell = Some(pid),
                    Some(Report::Ended { status, left_running }) => {
                        self.runner.status = Some(status);
                        self.runner.left_running = left_running;
                    }
                    Some(failure) => {
                        self.runner.failure = Some(failure);
                        self.runner.status.get_or_insert(127 << 8);
                    }
                    None => self.reports = None,
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => self.reports = None,
            }
        }
    }

    /// A process has been reaped by PID 1.
    pub(crate) fn note_reaped(&mut self, pid: Pid, status: i32) {
        if pid == self.runner.pid && self.runner.is_alive {
            self.runner.is_alive = false;
            self.runner.is_lost = system::exit_of(status).1 != 0;
            // What it reported before it ended comes first. A shell that has not yet said which it is still will.
            self.take_reports();
            if self.runner.shell.is_some() {
                self.reports = None;
            }
        } else if Some(pid) == self.runner.shell && self.runner.status.is_none() {
            // The runner was killed and the shell became ours.
            self.runner.status = Some(status);
        }
    }

    /// A killed runner may have reaped the shell without having said so, or never made one.
    pub(crate) fn note_lost_shell(&mut self) {
        if !self.runner.is_alive && self.runner.status.is_none() {
            let is_lost = match self.runner.shell {
                Some(shell) => !system::kill(shell, 0),
                None => self.reports.is_none(),
            };
            if is_lost {
                self.runner.status = Some(libc::SIGKILL);
                self.runner.is_status_lost = true;
            }
        }
    }

    fn take_output(&mut self, buffer: &mut [u8], most: usize) {
        let mut taken = 0;
        while taken < most {
            let Some(output) = &mut self.output else { return };
            let wanted = buffer.len().min(most - taken);
            match output.read(&mut buffer[..wanted]) {
                Ok(0) => self.output = None,
                Ok(count) => {
                    self.capture.push(&buffer[..count]);
                    taken += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.output = None,
            }
        }
    }

    /// Reads output, but not for ever.
    pub(crate) fn take_output_in_turn(&mut self, buffer: &mut [u8]) {
        self.take_output(buffer, MAX_BYTES_PER_TURN);
    }

    /// Reads what the shell wrote before it ended. Not to the end of the file: a background process may hold the pipe
    /// open, and one that writes for ever would keep us here.
    pub(crate) fn drain_output(&mut self, buffer: &mut [u8]) {
        let waiting = self.output.as_ref().map_or(0, system::waiting_bytes);
        self.take_output(buffer, waiting);
        // One more look, which finds out whether a writer is left.
        self.take_output(buffer, 1);
    }
}

impl InputPipe {
    /// Queues bytes for the reader; false when too many wait already.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        if self.queue.len() + bytes.len() > MAX_INPUT_BYTES {
            return false;
        }
        self.queue.extend_from_slice(bytes);
        true
    }

    /// Writes what the reader takes; false once the pipe is of no use any more.
    pub(crate) fn flush(&mut self) -> bool {
        while !self.queue.is_empty() {
            match self.pipe.write(&self.queue) {
                Ok(count) => drop(self.queue.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        !self.close_when_empty
    }
}
