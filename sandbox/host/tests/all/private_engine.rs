//! An engine of the test's own, to be stopped and killed as the test likes.
//!
//! It has a network namespace of its own, because a second engine with `--bridge=none` beside another one removes the
//! bridge of the first; a mount namespace of its own, in which no other containerd is found; and its data in a small
//! memory file system, which can be filled to the last byte and inode without harm to the machine.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gaia_sandbox::Engine;
use tempfile::TempDir;

use crate::support::eventually;

/// A busy machine starts containerd and dockerd in some seconds.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The engine knows gVisor, whose platform `ptrace` needs no virtual machine. In a network namespace like this one it
/// takes itself to be on the host, and wants to be told that there is no network.
const GVISOR: &str = r#"{ "runtimes": { "runsc": { "path": "/usr/bin/runsc", "runtimeArgs": ["--platform=ptrace", "--network=none"] } } }"#;

/// Room for an image, once packed and once unpacked, and files beside.
const DISK: &str = "size=1600m,nr_inodes=150k";

pub(crate) struct PrivateEngine {
    folder: TempDir,
    /// Holds both namespaces, and the memory file system, while the engine is down.
    holder: Child,
    daemon: Option<Child>,
}

impl PrivateEngine {
    /// An engine that has one image: that of another engine.
    pub(crate) async fn start(source: &Engine, image: &str) -> Self {
        // Not in the target folder: paths of sockets have at most 107 bytes.
        let folder = tempfile::Builder::new().prefix("gaia-engine-").tempdir_in("/tmp").unwrap();
        fs_err::create_dir(folder.path().join("data")).unwrap();
        // That of the machine is for the machine's own engine.
        fs_err::write(folder.path().join("config.json"), GVISOR).unwrap();
        let script = format!(
            "mount -t tmpfs -o {DISK} tmpfs '{0}/data' && if [ -d /run/containerd ]; then \
             mount -t tmpfs tmpfs /run/containerd; fi; ip link set lo up; echo ready; exec cat",
            folder.path().display()
        );
        let mut holder = as_root("unshare")
            .args(["--net", "--mount", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let output = holder.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut ready).unwrap();
        assert_eq!(ready, "ready\n", "namespaces of its own need root, or sudo without a password");
        let mut engine = Self { folder, holder, daemon: None };
        engine.resume().await;
        let script = format!(
            "docker -H '{}' save '{image}' | docker -H '{}' load --quiet",
            source.address(),
            engine.address()
        );
        assert!(Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).status().unwrap().success());
        engine
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}/docker.sock", self.folder.path().display())
    }

    /// Starts the daemon, for the first time or again, and waits until it answers.
    pub(crate) async fn resume(&mut self) -> Engine {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let log = fs_err::File::options().create(true).append(true).open(path("log")).unwrap().into_parts().0;
        let holder = self.inner_holder().to_string();
        let daemon = as_root("nsenter")
            .args(["--target", &holder, "--net", "--mount", "dockerd"])
            .args(["--data-root", &path("data"), "--exec-root", &path("exec"), "--pidfile", &path("pid")])
            .args(["--host", &self.address(), "--iptables=false", "--ip6tables=false", "--bridge=none"])
            .args(["--config-file", &path("config.json")])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.daemon = Some(daemon);
        let address = self.address();
        let mut engine = None;
        eventually("the private engine answers", START_LIMIT, async || {
            let status = self.daemon.as_mut().unwrap().try_wait().unwrap();
            assert!(status.is_none(), "the private engine ended: {}", self.log());
            engine = Engine::connect_to(&address).await.ok();
            engine.is_some()
        })
        .await;
        engine.unwrap()
    }

    /// Sends the daemon a signal; `KILL` and `TERM` end it.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = fs_err::read_to_string(self.folder.path().join("pid")).unwrap();
        assert!(as_root("kill").args([&format!("-{signal}"), pid.trim()]).status().unwrap().success());
    }

    /// Waits for the daemon's end.
    pub(crate) fn wait(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.wait().unwrap();
        }
        // A killed daemon takes its containerd with it, but where nobody reaps that, the next daemon takes the zombie
        // for a living one and waits for it in vain.
        let pid = self.folder.path().join("exec/containerd/containerd.pid");
        let _ = as_root("rm").args(["-f", &pid.display().to_string()]).status();
    }

    pub(crate) fn log(&self) -> String {
        let log = fs_err::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// The process in the namespaces: `sudo` may stand between it and us.
    fn inner_holder(&self) -> u32 {
        let mut pid = self.holder.id();
        loop {
            let children =
                fs_err::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            match children.split_whitespace().next() {
                Some(child) => pid = child.parse().unwrap(),
                None => return pid,
            }
        }
    }
}

impl Drop for PrivateEngine {
    fn drop(&mut self) {
        // Everything that was started in the namespaces: shims, containerd, the daemon.
        let namespace = format!("/proc/{}/ns/mnt", self.inner_holder());
        if let Ok(namespace) = fs_err::read_link(PathBuf::from(namespace))
            && namespace != fs_err::read_link("/proc/self/ns/mnt").unwrap_or_default()
        {
            let script = format!(
                "for process in /proc/[0-9]*; do [ \"$(readlink $process/ns/mnt)\" = '{}' ] && \
                 kill -9 ${{process#/proc/}}; done; true",
                namespace.display()
            );
            let _ = as_root("sh").args(["-c", &script]).status();
        }
        self.wait();
        let _ = self.holder.wait();
        // The daemon's files are root's.
        let _ = as_root("rm").args(["-rf", &self.folder.path().display().to_string()]).status();
    }
}

/// A command that is run as root, with the words of the test if that is not possible.
fn as_root(program: &str) -> Command {
    let is_root = std::os::unix::fs::MetadataExt::uid(&fs_err::metadata("/proc/self").unwrap()) == 0;
    if is_root {
        Command::new(program)
    } else {
        let mut command = Command::new("sudo");
        command.args(["-n", program]);
        command
    }
}
