//! Starting a shell that waits to be told what to run.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use gaia_sandbox_protocol::Shell;

use crate::runner;
use crate::state::SNAPSHOT_FD;
use crate::system::{self, Fork, Pid};

/// Descriptors the waiting shell reads from: what restores the state, the command, and the gate that says "go".
pub(crate) const RESTORE_FD: i32 = 196;
pub(crate) const SCRIPT_FD: i32 = 198;
pub(crate) const GATE_FD: i32 = 199;

/// Above all of these, for copies on the way to them.
const LOWEST_COPY_FD: RawFd = 300;

/// Pipe for output: a writer is rarely stopped by a reader that has something else to do for a moment.
const OUTPUT_PIPE_BYTES: i32 = 1 << 20;

/// Waits at the gate, restores the state, runs the command, saves the state. One line, so that messages name line 1
/// for the first line of the command. The descriptors are closed before a function named `exec` can come back with the
/// state (and `builtin exec` would not close them). The command comes through a descriptor and REPLY, never through the
/// environment or an argument: those have a length limit, and a snapshot would keep and replay the former.
const BASH_BOOT: &str = "read -r -u 199; read -r -d '' -u 196; set -- \"$REPLY\"; read -r -d '' -u 198; \
    exec 196<&- 198<&- 199<&-; eval \"$1\" 2>/dev/null; builtin shift; builtin eval -- \"$REPLY\"; \
    { __gaia_save; } >/dev/null 2>&1";

/// The same for a plain shell, which cannot name descriptors above 9 but can open them again.
const SH_BOOT: &str =
    "read -r REPLY </proc/self/fd/199; . /proc/self/fd/196 2>/dev/null; . /proc/self/fd/198";

/// The image's shell and the environment it is started with.
pub(crate) struct ShellProgram {
    pub(crate) kind: Shell,
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A shell that waits at the gate.
pub(crate) struct WaitingShell {
    pub(crate) runner: Pid,
    /// The shell itself, once its runner has reported it.
    pub(crate) shell: Option<Pid>,
    /// Reports of the runner; see [`runner::Report`].
    pub(crate) reports: File,
    /// What the shell and everything below it writes, in order.
    pub(crate) output: File,
    /// What the shell saves at its end.
    pub(crate) snapshot: File,
    /// Directory it was started in.
    pub(crate) cwd: String,
    restore: File,
    script: File,
    gate: File,
}

impl ShellProgram {
    /// Looks for a shell. Done again for every shell: a command may remove or install one.
    pub(crate) fn find() -> Self {
        let bash = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];
        let sh = ["/bin/sh", "/usr/bin/sh", "/bin/ash", "/bin/dash"];
        let first = |paths: &[&'static str]| paths.iter().copied().find(|path| Path::new(path).exists());
        let (kind, path, arguments): (_, _, &[&str]) = match (first(&bash), first(&sh)) {
            (Some(path), _) => {
                (Shell::Bash, path, &["bash", "--norc", "--noprofile", "-c", BASH_BOOT, "bash"])
            }
            (None, Some(path)) => (Shell::Sh, path, &["sh", "-c", SH_BOOT, "sh"]),
            (None, None) => (Shell::None, bash[0], &["bash"]),
        };
        let text = |text: &str| CString::new(text).unwrap_or_default();
        Self {
            kind,
            path: text(path),
            arguments: arguments.iter().map(|argument| text(argument)).collect(),
            environment: initial_environment(),
        }
    }

    pub(crate) fn initial_names(&self) -> Vec<String> {
        self.environment.iter().filter_map(|(name, _)| String::from_utf8(name.clone()).ok()).collect()
    }

    /// Starts a shell in `cwd` that waits at the gate. Its standard input is `input`.
    pub(crate) fn start(&self, cwd: &str, input: &File) -> io::Result<WaitingShell> {
        let (reports, report_to) = system::pipe()?;
        let (output, output_to) = system::pipe()?;
        let (gate, open_gate) = system::pipe()?;
        system::widen_pipe(&output_to, OUTPUT_PIPE_BYTES);
        system::set_nonblocking(&reports)?;
        system::set_nonblocking(&output)?;
        let waiting = WaitingShell {
            runner: 0,
            shell: None,
            reports: reports.into(),
            output: output.into(),
            snapshot: system::memory_file(c"snapshot")?,
            cwd: cwd.to_owned(),
            restore: system::memory_file(c"restore")?,
            script: system::memory_file(c"script")?,
            gate: open_gate.into(),
        };
        match system::fork()? {
            Fork::Parent(runner) => Ok(WaitingShell { runner, ..waiting }),
            Fork::Child => {
                let report_to = File::from(report_to);
                runner::run(&report_to, || self.become_shell(&waiting, input, &output_to, &gate))
            }
        }
    }

    /// In the process that becomes the shell. Returns only what went wrong.
    fn become_shell(
        &self,
        waiting: &WaitingShell,
        input: &File,
        output: &OwnedFd,
        gate: &OwnedFd,
    ) -> io::Error {
        system::new_session();
        system::reset_signals();
        // The memory of this process is still the guest's: it is unreadable for others, and with it the file below is
        // not writable unless we are root.
        system::set_dumpable(system::Dumpable::Yes);
        // The kernel shall choose a command, not PID 1, when the memory is used up.
        if let Ok(mut file) = File::options().write(true).open("/proc/self/oom_score_adj") {
            let _ = file.write_all(b"1000");
        }
        let places = [
            (input.as_raw_fd(), 0),
            (output.as_raw_fd(), 1),
            (output.as_raw_fd(), 2),
            (waiting.restore.as_raw_fd(), RESTORE_FD),
            (waiting.snapshot.as_raw_fd(), SNAPSHOT_FD),
            (waiting.script.as_raw_fd(), SCRIPT_FD),
            (gate.as_raw_fd(), GATE_FD),
        ];
        if let Err(error) = place_all(places) {
            return error;
        }
        // A directory that vanished meanwhile: the shell starts where PID 1 is, which is the root.
        let _ = std::env::set_current_dir(&waiting.cwd);
        let environment: Vec<CString> = self
            .environment
            .iter()
            .map(|(name, value)| [name, b"=".as_slice(), value].concat())
            // Names the directory as the command did, through symbolic links.
            .chain([[b"PWD=".as_slice(), waiting.cwd.as_bytes()].concat()])
            .filter_map(|entry| CString::new(entry).ok())
            .collect();
        system::execute(&self.path, &self.arguments, &environment)
    }

    pub(crate) fn path(&self) -> &CStr {
        &self.path
    }
}

impl WaitingShell {
    /// Opens the gate.
    pub(crate) fn release(&mut self, restore: &[u8], script: &[u8]) -> io::Result<()> {
        // At an offset: the shell shares ours.
        self.restore.write_all_at(restore, 0)?;
        self.script.write_all_at(script, 0)?;
        self.gate.write_all(b"\n")
    }
}

/// Copied above all places first: with many background jobs one of the sources may have the number of a place.
fn place_all(places: [(RawFd, RawFd); 7]) -> io::Result<()> {
    let copies =
        places.map(|(source, place)| system::copy_above(source, LOWEST_COPY_FD).map(|copy| (copy, place)));
    for copy in copies {
        let (copy, place) = copy?;
        system::place(&copy, place)?;
    }
    Ok(())
}

/// The container's environment, and what programs expect to find when it lacks it.
fn initial_environment() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut environment: Vec<(Vec<u8>, Vec<u8>)> = std::env::vars_os()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .filter(|(name, _)| {
            !matches!(name.as_slice(), b"PWD" | b"OLDPWD" | b"SHLVL" | b"_" | b"BASH_ENV" | b"ENV")
        })
        .collect();
    let defaults = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/root"),
        ("USER", "root"),
        ("SHELL", "/bin/bash"),
    ];
    for (name, value) in defaults {
        if !environment.iter().any(|(present, _)| present == name.as_bytes()) {
            environment.push((name.into(), value.into()));
        }
    }
    environment
}
