use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Between two looks at whether all are gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Leaders of the groups that live. Of the process and not of a host: it is for the moment in which every host is dropped
/// and the runtime, whose tasks watch the servers, goes.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// For a program that leaves at once: asks every server that is not closed yet to end, and after `grace` kills it and all
/// that it started, whatever it ignores. It blocks, and returns at once when no server is left.
pub fn end_left_servers(grace: Duration) {
    signal_all(Signal::TERM);
    let asked = Instant::now();
    while !groups().is_empty() && asked.elapsed() < grace {
        std::thread::sleep(LOOK_INTERVAL);
    }
    signal_all(Signal::KILL);
}

pub(super) fn enter(leader: Pid) {
    groups().insert(leader.as_raw_nonzero().get());
}

/// Its end was seen: its id may soon belong to somebody else.
pub(super) fn leave(leader: Pid) {
    groups().remove(&leader.as_raw_nonzero().get());
}

/// Under the lock, so that none is signalled that has left.
fn signal_all(signal: Signal) {
    for leader in groups().iter().copied().filter_map(Pid::from_raw) {
        // The only error is that nobody is left.
        let _ = kill_process_group(leader, signal);
    }
}

fn groups() -> MutexGuard<'static, BTreeSet<i32>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}
