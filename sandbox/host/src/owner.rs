//! Who a container belongs to, in a form that can still be judged when the owner is gone.

use std::path::Path;

/// A process on this boot of this machine. The pid alone would be reused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    boot_id: String,
    pid: u32,
    /// Clock ticks after boot, field 22 of proc_pid_stat(5).
    started: u64,
    /// Pids mean nothing outside their namespace: a harness in a container sees none of the others'.
    pid_namespace: String,
}

impl Owner {
    /// This process. On a system without `/proc` the fields are empty and such owners are never judged.
    pub(crate) fn this_process() -> Self {
        let pid = std::process::id();
        Self {
            boot_id: boot_id(),
            pid,
            started: start_time(pid).unwrap_or(0),
            pid_namespace: pid_namespace(),
        }
    }

    /// Value of the label `gaia.owner`.
    pub(crate) fn label(&self) -> String {
        format!("{}:{}:{}", self.boot_id, self.pid, self.started)
    }

    /// Value of the label `gaia.owner.namespace`.
    pub(crate) fn namespace_label(&self) -> &str {
        &self.pid_namespace
    }

    pub(crate) fn from_labels(owner: &str, namespace: Option<&String>) -> Option<Self> {
        let mut parts = owner.split(':');
        let parsed = Self {
            boot_id: parts.next()?.to_owned(),
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
            pid_namespace: namespace.cloned().unwrap_or_default(),
        };
        parts.next().is_none().then_some(parsed)
    }

    /// Whether the owner lives; `None` when that cannot be judged from here.
    pub(crate) fn is_alive(&self) -> Option<bool> {
        let is_judgeable =
            !self.boot_id.is_empty() && self.boot_id == boot_id() && self.pid_namespace == pid_namespace();
        is_judgeable.then(|| start_time(self.pid) == Some(self.started))
    }
}

fn boot_id() -> String {
    fs_err::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

fn pid_namespace() -> String {
    fs_err::read_link("/proc/self/ns/pid").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

/// `None` when there is no such process. A zombie is dead: it can own nothing any more.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs_err::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    // The name in parentheses may hold anything, so fields are counted after its last one.
    let mut fields = stat.rsplit_once(") ")?.1.split_ascii_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_survives_the_label() {
        let owner = Owner::this_process();
        let parsed = Owner::from_labels(&owner.label(), Some(&owner.namespace_label().to_owned()));
        assert_eq!(parsed.as_ref(), Some(&owner));
        assert_eq!(owner.is_alive(), Some(true));
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let owner = Owner { started: 1, ..Owner::this_process() };
        assert_eq!(owner.is_alive(), Some(false));
    }

    #[test]
    fn an_ended_process_is_dead_even_before_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let started = start_time(pid);
        // Waits for the end without reaping.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while start_time(pid).is_some() {
            assert!(std::time::Instant::now() < deadline, "`true` ends");
            std::thread::yield_now();
        }
        let owner = Owner { pid, started: started.unwrap_or(0), ..Owner::this_process() };
        assert_eq!(owner.is_alive(), Some(false));
        child.wait().unwrap();
    }

    #[test]
    fn owners_of_another_boot_or_namespace_are_not_judged() {
        let this = Owner::this_process();
        assert_eq!(Owner { boot_id: "other".to_owned(), ..this.clone() }.is_alive(), None);
        assert_eq!(Owner { pid_namespace: "pid:[1]".to_owned(), ..this }.is_alive(), None);
    }

    #[test]
    fn other_labels_are_nobody() {
        for label in ["", "a:b:c", "a:1", "a:1:2:3"] {
            assert_eq!(Owner::from_labels(label, None), None, "{label}");
        }
    }
}
