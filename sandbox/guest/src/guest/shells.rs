//! Shells, some of them started ahead of what they will run.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use gaia_sandbox_protocol::{Exec, Input, Keep, Shell, Spill};

use super::{FRESH_SHELL_ID, Guest, MIN_FREE_PROCESSES, Pending, ReadyShell};
use crate::capture::Capture;
use crate::job::{InputPipe, Job};
use crate::runner::{REPORT_BYTES, Report};
use crate::shell::{ShellProgram, WaitingShell};
use crate::system;

/// Time limit of the shell that runs nothing; it takes a millisecond.
const FRESH_SHELL_LIMIT_MS: u64 = 10_000;

impl Guest {
    /// Runs nothing in a fresh shell to learn what every shell has, so that later ones need not be given it.
    pub(super) fn look_at_fresh_shell(&mut self) {
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

    /// A shell with the standard input that is asked for: the one that is ready, if it fits, else a new one.
    pub(super) fn take_shell(
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
    pub(super) fn take_ready(&mut self) -> Option<ReadyShell> {
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
    pub(super) fn prepare_shell(&mut self) {
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
}
