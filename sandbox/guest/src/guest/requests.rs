//! What the host asks for.

use std::time::{Duration, Instant};

use gaia_sandbox_protocol::{
    Ending, ErrorKind, Exec, GuestFrame, HostFrame, Init, PROTOCOL_VERSION, Shell, Spill,
};

use super::{Guest, MIN_FREE_PROCESSES, Pending, RESTART_LIMIT, Restart};
use crate::capture::Capture;
use crate::files;
use crate::job::Job;
use crate::link::Broken;
use crate::state;
use crate::system;

/// Most bytes of shell text and standard input that may wait for their `Exec`.
const MAX_PENDING_BYTES: usize = 96 << 20;

impl Guest {
    pub(super) fn obey(&mut self, id: u32, frame: HostFrame) -> Result<(), Broken> {
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
                self.restarting = Some(Restart { id, until: Instant::now() + RESTART_LIMIT });
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
            HostFrame::Ping => {
                self.link.send(id, &GuestFrame::Pong { free_disk_bytes: system::free_disk_bytes(c"/") });
            }
            HostFrame::Shutdown => return Err(Broken),
            HostFrame::Listen { port } => {
                let answer = match self.tunnels.listen(port) {
                    Ok(()) => GuestFrame::Done,
                    Err(error) => GuestFrame::Error { kind: ErrorKind::Other, text: error.to_string() },
                };
                self.link.send(id, &answer);
            }
            HostFrame::TunnelData(bytes) => return self.tunnels.take_data(id, &bytes, &mut self.link),
            HostFrame::TunnelCredit(bytes) => return self.tunnels.take_credit(id, bytes),
            HostFrame::TunnelEnd => self.tunnels.take_end(id, &mut self.link),
            HostFrame::TunnelClose => self.tunnels.take_close(id, &mut self.link),
        }
        Ok(())
    }

    pub(super) fn init(&mut self, init: &Init) -> Result<(), Broken> {
        if init.version != PROTOCOL_VERSION {
            return Err(Broken);
        }
        self.lease = (init.lease_seconds > 0).then(|| Duration::from_secs(init.lease_seconds.into()));
        self.spill_bytes = init.spill_bytes;
        Ok(())
    }

    pub(super) fn running_job(&mut self, id: u32) -> Option<&mut Job> {
        let job = self.jobs.iter_mut().find(|job| job.id == id && !job.is_answered);
        if job.is_none() {
            let text = "it has ended, or never was".to_owned();
            self.link.send(id, &GuestFrame::Error { kind: ErrorKind::UnknownCommand, text });
        }
        job
    }

    pub(super) fn keep_pending(
        &mut self,
        id: u32,
        bytes: &[u8],
        part: impl FnOnce(&mut Pending) -> &mut Vec<u8>,
    ) {
        if self.pending_bytes + bytes.len() > MAX_PENDING_BYTES {
            let text = "too much shell text and input waits to be run".to_owned();
            self.link.send(id, &GuestFrame::Error { kind: ErrorKind::Other, text });
            return;
        }
        self.pending_bytes += bytes.len();
        part(self.pending.entry(id).or_default()).extend_from_slice(bytes);
    }

    pub(super) fn take_input(&mut self, id: u32, bytes: &[u8]) {
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

    pub(super) fn close_input(&mut self, id: u32) {
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

    pub(super) fn execute(&mut self, id: u32, exec: &Exec) {
        let pending = self.pending.remove(&id).unwrap_or_default();
        self.pending_bytes -= pending.script.len() + pending.input.len();
        let mut notes = Vec::new();
        self.process_limit.look();
        let is_full = self.process_limit.free().is_some_and(|free| free < MIN_FREE_PROCESSES);
        // No other command waits for its end, and something of an earlier one still runs.
        let is_bomb = self.process_limit.was_reached_lately()
            && self.jobs.iter().all(|job| job.is_answered)
            && self.jobs.iter().any(|job| job.runner.is_alive || job.runner.is_lost);
        if is_full || is_bomb {
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
        if exec.spill == Spill::Always {
            // Only then is there something to tell; else it would wake the engine and the host while the command runs.
            self.link.send(id, &GuestFrame::Started { spill_path: capture.spilled().0 });
        }
        let oom_kills = self.oom_kills.read();
        if let Err(error) = shell.release(&self.state.restore_script(kind, &shell.cwd), &pending.script) {
            notes.push(format!("the command could not be handed to the shell: {error}"));
        }
        let mut job = Job::new(id, exec, shell, input, capture, oom_kills);
        job.notes = notes;
        job.take_reports();
        self.jobs.push(job);
    }
}
