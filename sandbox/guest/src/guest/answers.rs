//! What the host is told about commands that are over.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use gaia_sandbox_protocol::{Exit, GuestFrame, Keep, Process};

use super::{Children, FRESH_SHELL_ID, Guest, micros};
use crate::runner::Report;
use crate::shell::ShellProgram;
use crate::state::{self, MAX_SNAPSHOT_BYTES};
use crate::system;

/// Most background processes named in an answer.
const MAX_NAMED_PROCESSES: usize = 64;

impl Guest {
    /// Answers what is over and forgets what is gone.
    pub(super) fn answer(&mut self) {
        for index in 0..self.jobs.len() {
            if self.jobs[index].is_over() {
                self.finish(index);
            }
        }
        self.jobs.retain(|job| !job.is_gone());
        if let Some(restart) = &self.restarting {
            let (id, until) = (restart.id, restart.until);
            let is_all_gone = self.reap() == Children::None || until <= Instant::now();
            if is_all_gone && self.jobs.iter().all(|job| job.is_answered && !job.runner.is_alive) {
                self.jobs.clear();
                self.state.forget();
                self.restarting = None;
                self.link.send(id, &GuestFrame::Done);
            }
        }
    }

    pub(super) fn finish(&mut self, index: usize) {
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
        if (job.is_saving_given_up() || job.runner.is_status_lost)
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
        self.spill_files.add(&spill_path, spilled_bytes);
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
        self.process_limit.look();
        if self.jobs.iter().all(|job| job.is_answered && !job.runner.left_running && !job.runner.is_lost) {
            self.process_limit.forget();
        }
    }
}

/// What a shell has saved. Of one that is too long only the beginning, which is no complete snapshot.
fn read_snapshot(snapshot: &File) -> Vec<u8> {
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
