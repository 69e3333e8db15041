//! The static program that is PID 1 in a sandbox container.
//!
//! It is spoken to with the frames of `gaia-sandbox-protocol` over standard input and output. It runs commands, each
//! in a shell of its own below a runner that is the subreaper of everything the command starts; carries the shell's
//! state from one to the next; bounds and counts their output; and kills all of a command when its time is over. When
//! its input closes, the host is gone: it kills everything and ends, and with it the container.
//!
//! One thread, one poll loop. PID 1 must never wait for anything a command controls.

mod capture;
mod files;
mod guest;
mod job;
mod link;
mod memory;
mod process_limit;
mod processes;
mod runner;
mod shell;
mod state;
mod system;
mod tunnels;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    // At its end it kills every process it can: outside a container of its own that would be the user's session.
    if std::process::id() != 1 {
        let _ = writeln!(std::io::stderr(), "this program runs as PID 1 of a sandbox container only");
        return ExitCode::from(2);
    }
    // Commands may run as the same user; they shall not read our memory or use our descriptors.
    system::set_dumpable(system::Dumpable::No);
    let guest = link::Link::open().and_then(|link| Ok(guest::Guest::new(link, system::child_signals()?)));
    match guest {
        Ok(mut guest) => {
            // The end of the connection is the only way this ends.
            let Err(link::Broken) = guest.serve();
            system::kill(-1, libc::SIGKILL);
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "the sandbox cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}
