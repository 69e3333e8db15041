//! PID 1's loop: the host's requests, the commands' output, the children's ends, and time.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use gaia_sandbox_protocol::{
    Ending, ErrorKind, Exec, Exit, GuestFrame, HostFrame, Init, Input, Keep, PROTOCOL_VERSION, Process,
    Shell, Spill,
};

use crate::capture::Capture;
use crate::files;
use crate::job::{InputPipe, Job, KillStep};
use crate::link::{Broken, Link};
use crate::memory::KillCounter;
use crate::process_limit::ProcessLimit;
use crate::runner::{REPORT_BYTES, Report};
use crate::shell::{ShellProgram, WaitingShell};
use crate::state::{self, MAX_SNAPSHOT_BYTES, ShellState};
use crate::system::{self, Child, Pid, Waiting};

/// Between two progress reports of a command.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Most bytes of shell text and standard input that may wait for their `Exec`.
const MAX_PENDING_BYTES: usize = 96 << 20;

/// Id of the shell that runs nothing at the start: the host begins with 1.
const FRESH_SHELL_ID: u32 = 0;

/// Its time limit; it takes a millisecond.
const FRESH_SHELL_LIMIT_MS: u64 = 10_000;

/// Most background processes named in an answer.
const MAX_NAMED_PROCESSES: usize = 64;

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
    restarting: Option<u32>,
    oom_kills: KillCounter,
    process_limit: ProcessLimit,
    spill_bytes: u64,
    spill_number: u32,
    lease: Option<Duration>,
    last_heard: Instant,
    buffer: Vec<u8>,
}

#[derive(Default)]
struct Pending {
    script: Vec<u8>,
    input: Vec<u8>,
}

struct ReadyShell {
    shell: WaitingShell,
    kind: Shell,
}

/// What a descriptor in the poll list is for.
#[derive(Clone, Copy)]
enum Watched {
    Link,
    Children,
    Reports(usize),
    Output(usize),
    Input(usize),
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
            lease: None,
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

    /// Runs nothing in a fresh shell to learn what every shell has, so that later ones need not be given it.
    fn look_at_fresh_shell(&mut self) {
        if self.shell.kind != Shell::Bash {
            return;
        }
        let exec = Exec {
            timeout_ms: FRESH_SHELL_LIMIT_MS,
            input: Input::Empty,
            keep: Keep::Nothing,
            spill: Spill::WhenLong,
        };
        let Ok((mut shell, kind, _)) = self.take_shell(&exec, &Pending::default()) else { return };
        if shell.release(&self.state.restore_script(kind, &shell.cwd), b"").is_ok() {
            let capture = Capture::new(0, 0, exec.spill);
            self.jobs.push(Job::new(FRESH_SHELL_ID, &exec, shell, None, capture, 0));
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
            Watched::Reports(index) => self.jobs[index].take_reports(),
            Watched::Output(index) => self.jobs[index].take_output_in_turn(&mut self.buffer),
            Watched::Input(index) => {
                let job = &mut self.jobs[index];
                if job.input.as_mut().is_some_and(|input| !input.flush()) {
                    job.input = None;
                }
            }
        }
        Ok(())
    }

    fn obey(&mut self, id: u32, frame: HostFrame) -> Result<(), Broken> {
        match frame {
            HostFrame::Init(init) => return self.init(&init),
            HostFrame::Script(bytes) => self.keep_pending(id, &bytes, |pending| &mut pending.script),
            HostFrame::Stdin(bytes) => self.take_input(id, &bytes),
            HostFrame::StdinEof => self.close_input(id),
            HostFrame::Exec(exec) => self.execute(id, &exec),
            HostFrame::Cancel => {
                let runners = self.runners();
                if let Some(job) = self.running_job(id) {
                    job.begin_end(Ending::Cancelled, &runners);
                }
            }
            HostFrame::Signal(signal) => {
                let runners = self.runners();
                if let Some(job) = self.running_job(id) {
                    job.signal_members(signal, &runners);
                }
            }
            HostFrame::Restart => {
                for job in self.jobs.iter_mut().filter(|job| !job.is_answered) {
                    job.notes.push("killed by a restart of the shell".to_owned());
                }
                self.restarting = Some(id);
                self.kill_everything();
            }
            HostFrame::Read { offset, max_bytes, path } => {
                let answer = files::read(&self.state.cwd, &path, offset, max_bytes);
                self.link.send(id, &answer);
            }
            HostFrame::Write { start, path, bytes } => {
                let answer = files::write(&self.state.cwd, &path, start, &bytes);
                self.link.send(id, &answer);
            }
            HostFrame::Ping => self.link.send(id, &GuestFrame::Pong),
            HostFrame::Shutdown => return Err(Broken),
        }
        Ok(())
    }

    fn init(&mut self, init: &Init) -> Result<(), Broken> {
        if init.version != PROTOCOL_VERSION {
            return Err(Broken);
        }
        self.lease = (init.lease_seconds > 0).then(|| Duration::from_secs(init.lease_seconds.into()));
        self.spill_bytes = init.spill_bytes;
        Ok(())
    }

    fn running_job(&mut self, id: u32) -> Option<&mut Job> {
        let job = self.jobs.iter_mut().find(|job| job.id == id && !job.is_answered);
        if job.is_none() {
            let text = "it has ended, or never was".to_owned();
            self.link.send(id, &GuestFrame::Error { kind: ErrorKind::UnknownCommand, text });
        }
        job
    }

    fn keep_pending(&mut self, id: u32, bytes: &[u8], part: impl FnOnce(&mut Pending) -> &mut Vec<u8>) {
        if self.pending_bytes + bytes.len() > MAX_PENDING_BYTES {
            let text = "too much shell text and input waits to be run".to_owned();
            self.link.send(id, &GuestFrame::Error { kind: ErrorKind::Other, text });
            return;
        }
        self.pending_bytes += bytes.len();
        part(self.pending.entry(id).or_default()).extend_from_slice(bytes);
    }

    fn take_input(&mut self, id: u32, bytes: &[u8]) {
        let Some(job) = self.jobs.iter_mut().find(|job| job.id == id && !job.is_answered) else {
            return self.keep_pending(id, bytes, |pending| &mut pending.input);
        };
        let answer = match &mut job.input {
            None => GuestFrame::Error { kind: ErrorKind::Other, text: "its input is closed".to_owned() },
            Some(input) => {
                let is_taken = input.push(bytes);
                if !input.flush() {
                    job.input = None;
                }
                if is_taken {
                    GuestFrame::Done
                } else {
                    let text = "1 MiB of input waits for it to read already".to_owned();
                    GuestFrame::Error { kind: ErrorKind::NoSpace, text }
                }
            }
        };
        self.link.send(id, &answer);
    }

    fn close_input(&mut self, id: u32) {
        if let Some(job) = self.running_job(id) {
            if let Some(input) = &mut job.input {
                input.close_when_empty = true;
                if !input.flush() {
                    job.input = None;
                }
            }
            self.link.send(id, &GuestFrame::Done);
        }
    }

    fn execute(&mut self, id: u32, exec: &Exec) {
        let pending = self.pending.remove(&id).unwrap_or_default();
        self.pending_bytes -= pending.script.len() + pending.input.len();
        let mut notes = Vec::new();
        if self.process_limit.free().is_some_and(|free| free < MIN_FREE_PROCESSES) {
            self.clear_process_table(&mut notes);
        }
        let mut shell = self.take_shell(exec, &pending);
        if shell.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EAGAIN)) {
            self.clear_process_table(&mut notes);
            shell = self.take_shell(exec, &pending);
        }
        let (mut shell, kind, input) = match shell {
            Ok(shell) => shell,
            Err(error) => {
                let text = format!("the sandbox cannot start a process: {error}");
                return self.link.send(id, &GuestFrame::Error { kind: ErrorKind::Other, text });
            }
        };
        let cwd_exists = std::fs::metadata(&self.state.cwd).is_ok_and(|metadata| metadata.is_dir());
        if !cwd_exists {
            let fallback = state::HOME_DIRECTORY;
            let _ = std::fs::DirBuilder::new().create(fallback);
            notes.push(format!("`{}` no longer exists: this command started in {fallback}", self.state.cwd));
            fallback.clone_into(&mut self.state.cwd);
        }
        if kind == Shell::Sh {
            notes.push("this image has no bash: sh ran the command".to_owned());
        }
        if pending.script.contains(&0) {
            notes.push("the command was cut at its first NUL character".to_owned());
        }
        self.spill_number += 1;
        let capture = Capture::new(self.spill_number, self.spill_bytes, exec.spill);
        self.link.send(id, &GuestFrame::Started { spill_path: capture.spilled().0 });
        let oom_kills = self.oom_kills.read();
        if let Err(error) = shell.release(&self.state.restore_script(kind, &shell.cwd), &pending.script) {
            notes.push(format!("the command could not be handed to the shell: {error}"));
        }
        let mut job = Job::new(id, exec, shell, input, capture, oom_kills);
        job.notes = notes;
        job.take_reports();
        self.jobs.push(job);
    }

    /// A shell with the standard input that is asked for: the one that is ready, if it fits, else a new one.
    fn take_shell(
        &mut self,
        exec: &Exec,
        pending: &Pending,
    ) -> std::io::Result<(WaitingShell, Shell, Option<InputPipe>)> {
        if exec.input == Input::Empty
            && let Some(ready) = self.take_ready()
        {
            return Ok((ready.shell, ready.kind, None));
        }
        self.shell = ShellProgram::find();
        let (input, pipe) = match exec.input {
            Input::Empty => (File::open("/dev/null")?, None),
            Input::Bytes => {
                use std::os::unix::fs::FileExt;
                let input = system::memory_file(c"stdin")?;
                input.write_all_at(&pending.input, 0)?;
                (input, None)
            }
            Input::Open => {
                let (reader, writer) = system::pipe()?;
                system::set_nonblocking(&writer)?;
                let pipe =
                    InputPipe { pipe: writer.into(), queue: pending.input.clone(), close_when_empty: false };
                (reader.into(), Some(pipe))
            }
        };
        let shell = self.shell.start(&self.state.cwd, &input)?;
        Ok((shell, self.shell.kind, pipe))
    }

    /// The ready shell, unless something has happened to it or to the image's shell.
    fn take_ready(&mut self) -> Option<ReadyShell> {
        self.reap();
        let mut ready = self.ready.take()?;
        let mut bytes = [0; REPORT_BYTES];
        loop {
            match ready.shell.reports.read(&mut bytes) {
                Ok(REPORT_BYTES) => match Report::decode(bytes) {
                    Some(Report::Shell(pid)) => ready.shell.shell = Some(pid),
                    // It has ended, or never began.
                    _ => return None,
                },
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Some(ready),
                _ => return None,
            }
        }
    }

    /// Starts a shell ahead, when nothing else is to be done.
    fn prepare_shell(&mut self) {
        let is_idle = self.jobs.iter().all(|job| job.is_answered) && !self.link.has_queued();
        if !self.wants_ready || !is_idle || self.restarting.is_some() {
            return;
        }
        self.wants_ready = false;
        self.ready = None;
        if self.process_limit.free().is_some_and(|free| free < 4 * MIN_FREE_PROCESSES) {
            return;
        }
        self.shell = ShellProgram::find();
        if self.shell.kind != Shell::Bash {
            return;
        }
        self.ready = File::open("/dev/null")
            .and_then(|input| self.shell.start(&self.state.cwd, &input))
            .map(|shell| ReadyShell { shell, kind: self.shell.kind })
            .ok();
    }

    fn runners(&self) -> HashSet<Pid> {
        self.jobs
            .iter()
            .filter(|job| job.runner.is_alive)
            .map(|job| job.runner.pid)
            .chain(self.ready.as_ref().map(|ready| ready.shell.runner))
            .collect()
    }

    fn reap(&mut self) {
        loop {
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
                Child::Running | Child::None => break,
            }
        }
        for job in &mut self.jobs {
            job.note_lost_shell();
            job.note_if_cleared();
        }
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
        }
        Ok(())
    }

    /// Answers what is over and forgets what is gone.
    fn answer(&mut self) {
        for index in 0..self.jobs.len() {
            if self.jobs[index].is_over() {
                self.finish(index);
            }
        }
        self.jobs.retain(|job| !job.is_gone());
        if let Some(id) = self.restarting
            && self.jobs.iter().all(|job| job.is_answered && !job.runner.is_alive)
        {
            self.jobs.clear();
            self.state.forget();
            self.restarting = None;
            self.link.send(id, &GuestFrame::Done);
        }
    }

    fn finish(&mut self, index: usize) {
        let runners = self.runners();
        let oom_kills = self.oom_kills.read();
        let job = &mut self.jobs[index];
        job.drain_output(&mut self.buffer);
        job.input = None;
        if let Some(failure) = job.runner.failure {
            let message = cannot_start(failure, &self.shell);
            job.capture.push(message.as_bytes());
        }
        let status = job.runner.status.unwrap_or(0);
        let (mut exit_code, mut signal) = system::exit_of(status);
        let is_left = job.runner.is_lost || (job.runner.left_running && job.runner.is_alive);
        let background = if is_left { job.members(&runners) } else { Vec::new() };
        if job.output.is_some() {
            // Someone below it may still write: that is kept, with what came before.
            job.capture.open_spill();
        }
        let snapshot = job.snapshot.take().map(|snapshot| read_snapshot(&snapshot)).unwrap_or_default();
        if job.is_saving_given_up()
            && let Some(status) = state::status_of(&snapshot)
        {
            (exit_code, signal) = (status, 0);
        }
        if job.id == FRESH_SHELL_ID {
            job.is_answered = true;
            self.wants_ready = true;
            return self.state.learn_baseline(&snapshot);
        }
        if job.keep == Keep::State {
            job.notes.extend(self.state.adopt(self.shell.kind, &snapshot));
        }
        if job.capture.is_lost() {
            job.notes.push("the disk is full: the middle of the output was not kept".to_owned());
        }
        let (spill_path, spilled_bytes) = job.capture.spilled();
        let exit = Exit {
            exit_code,
            signal,
            ending: job.ending,
            oom_killed: oom_kills > job.oom_kills_before,
            duration_us: micros(job.started.elapsed()),
            total_bytes: job.capture.total_bytes,
            total_lines: job.capture.total_lines,
            head: job.capture.head(),
            tail: job.capture.tail(),
            spill_path,
            spilled_bytes,
            cwd: self.state.cwd.clone(),
            processes_killed: job.killed.len() as u32,
            background: background
                .into_iter()
                .take(MAX_NAMED_PROCESSES)
                .map(|process| Process { pid: process.pid.unsigned_abs(), name: process.name })
                .collect(),
            notes: std::mem::take(&mut job.notes),
        };
        job.is_answered = true;
        self.link.send(job.id, &GuestFrame::Exit(Box::new(exit)));
        self.wants_ready = true;
    }
}

/// What a shell has saved. Of one that is too long only the beginning, which is no complete snapshot.
fn read_snapshot(snapshot: &File) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let length = snapshot.metadata().map_or(0, |metadata| metadata.len()).min(MAX_SNAPSHOT_BYTES);
    let mut bytes = vec![0; length as usize];
    match snapshot.read_exact_at(&mut bytes, 0) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}

fn cannot_start(failure: Report, shell: &ShellProgram) -> String {
    let (what, reason) = match failure {
        Report::NoExecute(reason) => (format!("execute {}", shell.path().to_string_lossy()), reason),
        Report::NoFork(reason) => ("start a process".to_owned(), reason),
        Report::Shell(_) | Report::Ended { .. } => return String::new(),
    };
    format!("cannot {what}: {}\n", std::io::Error::from_raw_os_error(reason))
}

fn micros(duration: Duration) -> u64 {
    duration.as_micros().min(u64::MAX.into()) as u64
}
