//! System calls. The only module with unsafe code; everything it offers is safe to call.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

pub(crate) type Pid = libc::pid_t;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A pipe whose ends are closed on exec: reading end, writing end.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors the call writes.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: the call succeeded, so both are open and belong to nobody else.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// A file in memory without a name, closed on exec.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: `name` ends with a NUL and outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_memfd_create, name.as_ptr(), libc::MFD_CLOEXEC) };
    let fd = check(fd as libc::c_int)?;
    // SAFETY: the call succeeded, so the descriptor is open and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

pub(crate) fn set_nonblocking(fd: &impl AsRawFd) -> io::Result<()> {
    let fd = fd.as_raw_fd();
    // SAFETY: fcntl with these commands takes and returns integers only.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// Asks for a larger pipe. A refusal (limits of the user or the kernel) only costs speed.
pub(crate) fn widen_pipe(fd: &impl AsRawFd, bytes: libc::c_int) {
    // SAFETY: fcntl with this command takes and returns integers only.
    let _ = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) };
}

/// Bytes that wait in a pipe.
pub(crate) fn waiting_bytes(fd: &impl AsRawFd) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int to where it is told.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD as _, &raw mut count) };
    if result < 0 { 0 } else { count.max(0) as usize }
}

/// Copies `fd` to a number of at least `lowest`, closed on exec.
pub(crate) fn copy_above(fd: RawFd, lowest: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl with this command takes and returns integers only.
    let copy = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, lowest) })?;
    // SAFETY: the call succeeded, so the descriptor is open and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Makes `number` a copy of `fd` that stays open on exec.
pub(crate) fn place(fd: &impl AsRawFd, number: RawFd) -> io::Result<()> {
    // SAFETY: dup2 takes and returns integers only.
    check(unsafe { libc::dup2(fd.as_raw_fd(), number) }).map(drop)
}

/// Closes every descriptor but `keep`. For a forked process that never returns to Rust code owning any of them.
pub(crate) fn close_all_but(keep: RawFd) {
    let keep = keep as libc::c_uint;
    let close = |first: libc::c_uint, last: libc::c_uint| {
        // SAFETY: close_range takes integers only; the caller owns no descriptor in the range any more.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } < 0 {
            // Kernels before 5.9: the container's own limit of open files is 4096 unless set higher.
            for fd in first..=last.min(65_535) {
                // SAFETY: closing takes an integer only.
                let _ = unsafe { libc::close(fd as RawFd) };
            }
        }
    };
    if keep > 0 {
        close(0, keep - 1);
    }
    close(keep + 1, libc::c_uint::MAX);
}

pub(crate) enum Fork {
    Parent(Pid),
    Child,
}

/// Forks. The process has one thread, so the child may run any code.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: single-threaded, so no lock can be held by a thread that does not exist in the child.
    match check(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Ends a forked child at once, without running what Rust would run at exit.
pub(crate) fn end_child(code: i32) -> ! {
    // SAFETY: ends the process; nothing is assumed afterwards.
    unsafe { libc::_exit(code) }
}

/// Replaces the program. Returns only the reason why that failed.
pub(crate) fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |texts: &[CString]| {
        let mut pointers: Vec<*const libc::c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        pointers.push(std::ptr::null());
        pointers
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: both lists end with null and point to NUL-terminated texts that outlive the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Sends a signal; false when there is no such process.
pub(crate) fn kill(pid: Pid, signal: i32) -> bool {
    // SAFETY: kill takes integers only.
    unsafe { libc::kill(pid, signal) == 0 }
}

/// What waiting for children found.
pub(crate) enum Child {
    /// One has ended, with this wait status.
    Ended(Pid, i32),
    /// One was stopped.
    Stopped(Pid),
    /// There are children, but nothing to report (only when asked not to block).
    Running,
    /// There are no children.
    None,
}

pub(crate) enum Waiting {
    Block,
    Look,
}

pub(crate) fn wait_for_child(waiting: Waiting) -> Child {
    let flags = match waiting {
        Waiting::Block => 0,
        Waiting::Look => libc::WNOHANG | libc::WUNTRACED,
    };
    loop {
        let mut status = 0;
        // SAFETY: the call writes one int to `status`.
        match unsafe { libc::waitpid(-1, &raw mut status, flags) } {
            0 => return Child::Running,
            pid if pid > 0 && libc::WIFSTOPPED(status) => return Child::Stopped(pid),
            pid if pid > 0 => return Child::Ended(pid, status),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return Child::None,
        }
    }
}

/// Exit code and signal of a wait status; the code is 128 + signal as shells have it.
pub(crate) fn exit_of(status: i32) -> (i32, i32) {
    if libc::WIFSIGNALED(status) {
        (128 + libc::WTERMSIG(status), libc::WTERMSIG(status))
    } else {
        (libc::WEXITSTATUS(status), 0)
    }
}

/// Blocks SIGCHLD and returns a descriptor that becomes readable when a child changes state. No other signal is
/// touched: PID 1 keeps the default dispositions of TERM, INT and HUP, which the kernel then never delivers to it.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: a signal set is plain data for which all zeros is valid; the calls only write to it.
    let fd = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
        check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?
    };
    // SAFETY: the call succeeded, so the descriptor is open and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives a child the signal state a login shell would start with.
pub(crate) fn reset_signals() {
    // SAFETY: a signal set is plain data for which all zeros is valid; the calls only read it and change this process.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        // Rust's runtime ignores SIGPIPE, and what is ignored stays so across exec.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Own session, so that the process group of a command is not ours.
pub(crate) fn new_session() {
    // SAFETY: takes nothing, changes this process only.
    let _ = unsafe { libc::setsid() };
}

/// Orphans below this process become its children.
pub(crate) fn become_subreaper() {
    // SAFETY: prctl with this option takes integers only.
    let _ = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

pub(crate) enum Dumpable {
    Yes,
    No,
}

/// Whether other processes of the same user may read this one's memory and descriptors through /proc.
pub(crate) fn set_dumpable(dumpable: Dumpable) {
    let value: libc::c_ulong = match dumpable {
        Dumpable::Yes => 1,
        Dumpable::No => 0,
    };
    // SAFETY: prctl with this option takes integers only.
    let _ = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, value, 0, 0, 0) };
}

/// Bytes left on the file system that holds a path; `u64::MAX` when it does not say.
pub(crate) fn free_disk_bytes(path: &CStr) -> u64 {
    // SAFETY: a statvfs is plain data for which all zeros is valid; the path ends with a NUL; the call writes the struct.
    let (result, facts) = unsafe {
        let mut facts: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &raw mut facts), facts)
    };
    if result == 0 { facts.f_bavail.saturating_mul(facts.f_frsize) } else { u64::MAX }
}

/// Hundredths of a second since boot: the unit of start times in /proc.
pub(crate) fn ticks_since_boot() -> u64 {
    // SAFETY: a timespec is plain data for which all zeros is valid; the call writes it.
    let now = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now);
        now
    };
    now.tv_sec as u64 * 100 + now.tv_nsec as u64 / 10_000_000
}

/// Waits until a descriptor is ready, a signal comes or the time is over.
pub(crate) fn poll(entries: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<()> {
    let milliseconds = match timeout {
        None => -1,
        // Rounded up: a timer that is due in half a millisecond must not make the loop spin.
        Some(timeout) => timeout.as_micros().div_ceil(1000).min(i32::MAX as u128) as libc::c_int,
    };
    // SAFETY: the pointer and the length describe `entries`.
    let result = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, milliseconds) };
    match check(result) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}
