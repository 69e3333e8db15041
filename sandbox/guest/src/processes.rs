//! Which processes there are and whose they are.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;

use crate::system::Pid;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) parent: Pid,
    pub(crate) name: String,
    pub(crate) is_zombie: bool,
    /// Hundredths of a second after boot.
    pub(crate) started: u64,
}

/// All processes of the container. `/proc/*/stat` and not `/proc/*/children`, which many kernels are built without.
pub(crate) fn all_processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut stat = Vec::with_capacity(512);
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<Pid>().ok())
        .filter_map(|pid| {
            stat.clear();
            // A process that ended meanwhile has no stat file any more.
            File::open(format!("/proc/{pid}/stat")).ok()?.read_to_end(&mut stat).ok()?;
            parse_stat(pid, &String::from_utf8_lossy(&stat))
        })
        .collect()
}

/// Fields are in proc_pid_stat(5): state is the 3rd, parent the 4th, start time the 22nd. The name may hold anything,
/// also blanks and parentheses, so fields are counted from its last `)`.
fn parse_stat(pid: Pid, stat: &str) -> Option<Process> {
    let (front, fields) = stat.rsplit_once(") ")?;
    let name = front.split_once('(')?.1.to_owned();
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Process { pid, parent, name, is_zombie: matches!(state, "Z" | "X"), started })
}

/// Which processes belong to a command.
pub(crate) enum Belonging<'a> {
    /// Descendants of this runner.
    Below(Pid),
    /// The runner was killed, so what was below it hangs below PID 1 now, with the orphans of nobody else: all that
    /// no living runner owns and that is not older than the command.
    Orphans { since: u64, runners: &'a HashSet<Pid> },
}

/// Living processes that belong to a command. The runners themselves never do.
pub(crate) fn members(processes: &[Process], belonging: &Belonging<'_>) -> Vec<Process> {
    let parents: HashMap<Pid, Pid> = processes.iter().map(|process| (process.pid, process.parent)).collect();
    let ancestors = |pid: Pid| {
        let mut steps = 0;
        std::iter::successors(parents.get(&pid).copied(), |parent| parents.get(parent).copied()).take_while(
            move |_| {
                // Pids reused between two reads could form a ring.
                steps += 1;
                steps < 4096
            },
        )
    };
    processes
        .iter()
        .filter(|process| !process.is_zombie && process.pid != 1)
        .filter(|process| match belonging {
            Belonging::Below(runner) => ancestors(process.pid).any(|ancestor| ancestor == *runner),
            Belonging::Orphans { since, runners } => {
                process.started >= *since
                    && !runners.contains(&process.pid)
                    && !ancestors(process.pid).any(|ancestor| runners.contains(&ancestor))
            }
        })
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: Pid, parent: Pid, started: u64) -> Process {
        Process { pid, parent, name: String::new(), is_zombie: false, started }
    }

    fn pids(processes: &[Process], belonging: &Belonging<'_>) -> Vec<Pid> {
        members(processes, belonging).iter().map(|process| process.pid).collect()
    }

    #[test]
    fn a_name_with_parentheses_and_blanks_does_not_shift_the_fields() {
        let stat = "42 (a) Z (b) S 7 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        let parsed = parse_stat(42, stat).unwrap();
        assert_eq!(
            parsed,
            Process { pid: 42, parent: 7, name: "a) Z (b".to_owned(), is_zombie: false, started: 987_654 }
        );
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_zombies_are_not_counted() {
        let mut processes =
            vec![process(1, 0, 0), process(2, 1, 5), process(3, 2, 5), process(4, 3, 6), process(5, 1, 6)];
        processes.push(Process { is_zombie: true, ..process(6, 3, 7) });
        assert_eq!(pids(&processes, &Belonging::Below(2)), [3, 4]);
    }

    #[test]
    fn orphans_are_what_no_living_runner_owns_and_what_is_not_older() {
        let processes = [
            process(1, 0, 0),
            process(10, 1, 5), // a living runner
            process(11, 10, 9),
            process(20, 1, 4), // older than the command
            process(21, 1, 8),
            process(22, 21, 9),
        ];
        let runners = HashSet::from([10]);
        assert_eq!(pids(&processes, &Belonging::Orphans { since: 5, runners: &runners }), [21, 22]);
    }

    #[test]
    fn a_ring_of_parents_ends() {
        let processes = [process(2, 3, 0), process(3, 2, 0)];
        assert_eq!(pids(&processes, &Belonging::Below(9)), Vec::<Pid>::new());
    }
}
