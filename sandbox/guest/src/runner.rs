//! The process between PID 1 and a shell.
//!
//! It is the subreaper of everything the command starts, so whatever detaches itself (`setsid`, double fork) stays
//! below it and can be found. It reports to PID 1 through a pipe and ends when nothing is left below it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use crate::system::{self, Child, Fork, Pid, Waiting};

/// What a runner tells PID 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The shell has this pid.
    Shell(Pid),
    /// The shell ended with this wait status.
    Ended { status: i32, left_running: bool },
    /// The shell's process could not be made, for this reason (errno).
    NoFork(i32),
    /// The shell's program could not be executed, for this reason (errno).
    NoExecute(i32),
}

/// Bytes of a report on the pipe; far below PIPE_BUF, so written whole or not at all.
pub(crate) const REPORT_BYTES: usize = 8;

impl Report {
    fn encode(self) -> [u8; REPORT_BYTES] {
        let (kind, flag, value) = match self {
            Self::Shell(pid) => (1, 0, pid),
            Self::Ended { status, left_running } => (2, u8::from(left_running), status),
            Self::NoFork(reason) => (3, 0, reason),
            Self::NoExecute(reason) => (4, 0, reason),
        };
        let value = value.to_le_bytes();
        [kind, flag, 0, 0, value[0], value[1], value[2], value[3]]
    }

    pub(crate) fn decode(bytes: [u8; REPORT_BYTES]) -> Option<Self> {
        let value = i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        match bytes[0] {
            1 => Some(Self::Shell(value)),
            2 => Some(Self::Ended { status: value, left_running: bytes[1] != 0 }),
            3 => Some(Self::NoFork(value)),
            4 => Some(Self::NoExecute(value)),
            _ => None,
        }
    }
}

/// Makes the shell and waits for it and for everything it leaves behind. Called in the forked runner.
pub(crate) fn run(report_to: &File, become_shell: impl FnOnce() -> io::Error) -> ! {
    system::become_subreaper();
    let tell = |report: Report| {
        let mut pipe = report_to;
        let _ = pipe.write_all(&report.encode());
    };
    match system::fork() {
        Err(error) => {
            tell(Report::NoFork(error.raw_os_error().unwrap_or(0)));
            system::end_child(0)
        }
        Ok(Fork::Child) => {
            // Not the runner says it: the shell's first command could kill that before it had.
            tell(Report::Shell(std::process::id().cast_signed()));
            let error = become_shell();
            tell(Report::NoExecute(error.raw_os_error().unwrap_or(0)));
            system::end_child(127)
        }
        Ok(Fork::Parent(shell)) => {
            // Otherwise this process would keep pipes of this and other commands open.
            system::close_all_but(report_to.as_raw_fd());
            wait_for_all(shell, tell)
        }
    }
}

fn wait_for_all(shell: Pid, tell: impl Fn(Report)) -> ! {
    loop {
        match system::wait_for_child(Waiting::Block) {
            Child::Ended(pid, status) if pid == shell => {
                let left_running = loop {
                    match system::wait_for_child(Waiting::Look) {
                        Child::Ended(..) => {}
                        Child::Running | Child::Stopped(_) => break true,
                        Child::None => break false,
                    }
                };
                tell(Report::Ended { status, left_running });
            }
            Child::Ended(..) | Child::Stopped(_) | Child::Running => {}
            Child::None => system::end_child(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_pipe() {
        for report in [
            Report::Shell(7),
            Report::Ended { status: 9, left_running: true },
            Report::Ended { status: 0x0700, left_running: false },
            Report::NoFork(11),
            Report::NoExecute(2),
        ] {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
        assert_eq!(Report::decode([0; REPORT_BYTES]), None);
    }
}
