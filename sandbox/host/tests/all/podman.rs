//! Podman's Docker socket in the place of Docker's.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gaia_sandbox::{Engine, Sandbox};
use tempfile::TempDir;

use crate::support::{PLENTY, Run, engine, eventually, options, text_of};

/// From the owner's end to the container's.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A service of the test's own, with a store of its own.
struct Podman {
    service: Child,
    folder: TempDir,
}

impl Podman {
    async fn start() -> (Self, Engine) {
        let folder = tempfile::Builder::new().prefix("gaia-podman-").tempdir_in("/tmp").unwrap();
        let address = format!("unix://{}/podman.sock", folder.path().display());
        let service = podman(&folder)
            .args(["system", "service", "--time", "0", &address])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("`.ci/setup clients` installs podman: {error}"));
        let podman = Self { service, folder };
        let mut connected = None;
        eventually("Podman answers", PLENTY, async || {
            connected = Engine::connect_to(&address).await.ok();
            connected.is_some()
        })
        .await;
        (podman, connected.unwrap())
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = podman(&self.folder).args(["rm", "--all", "--force"]).output();
        let _ = self.service.kill();
        let _ = self.service.wait();
        // It leaves its store mounted on itself. `system reset` would do more than that: networks are the machine's.
        let _ = Command::new("umount").arg(self.folder.path().join("root/overlay")).output();
    }
}

fn podman(folder: &TempDir) -> Command {
    let path = |name: &str| folder.path().join(name);
    let mut command = Command::new("podman");
    command.arg("--root").arg(path("root")).arg("--runroot").arg(path("run"));
    command.args(["--cgroup-manager", "cgroupfs"]);
    // crun, which Podman takes by itself, refuses machines that keep controllers in both versions of cgroups.
    let second = fs_err::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers").unwrap_or_default();
    if !second.trim().is_empty() {
        command.args(["--runtime", "runc"]);
    }
    command
}

#[tokio::test]
async fn a_sandbox_in_podman_is_as_good_as_one_in_docker() {
    let docker = engine().await;
    let (podman_service, engine) = Podman::start().await;
    let mut options = options(&docker).await;
    let mut save =
        Command::new("docker").args(["save", &options.image]).stdout(Stdio::piped()).spawn().unwrap();
    let load =
        podman(&podman_service.folder).arg("load").stdin(save.stdout.take().unwrap()).output().unwrap();
    assert!(save.wait().unwrap().success() && load.status.success(), "{load:?}");
    options.image = format!("localhost/{}", options.image);
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("a.txt"), "attached\n").unwrap();
    options.files_dir = Some(folder.path().to_owned());

    let sandbox = Sandbox::start(&engine, &options).await.unwrap();
    let id = sandbox.container_id().to_owned();
    assert_eq!(sandbox.says("cat /shared_files/a.txt").await, "attached");
    assert_eq!(sandbox.sh("echo x >>/shared_files/a.txt").await.exit_code, 1);
    sandbox.says("cd /tmp; export FRUIT=pear").await;
    assert_eq!(sandbox.says("echo $PWD $FRUIT").await, "/tmp pear");
    assert_eq!(sandbox.says("ls /sys/class/net").await, "lo");
    let output = sandbox.within("setsid sleep 300 & sleep 300", Duration::from_secs(1)).await;
    assert!(output.timed_out && output.processes_killed >= 2, "{output:?}");
    let output = sandbox.sh("python3 -c 'x = bytearray(4 << 30)'").await;
    assert_eq!((output.exit_code, output.oom_killed), (137, true), "{}", text_of(&output));
    let capabilities = sandbox.says("grep CapEff /proc/self/status").await;
    assert!(!capabilities.ends_with("ffffffff"), "{capabilities}");
    sandbox.close().await.unwrap();
    let is_present = async |id: &str| {
        let all = engine.list(&gaia_sandbox::LabelFilter::default()).await.unwrap();
        all.iter().any(|container| container.id == id)
    };
    assert!(!is_present(&id).await, "closed");

    let sandbox = Sandbox::start(&engine, &options).await.unwrap();
    let id = sandbox.container_id().to_owned();
    drop(sandbox);
    eventually("it ends with its owner", END_LIMIT, async || !is_present(&id).await).await;
}
