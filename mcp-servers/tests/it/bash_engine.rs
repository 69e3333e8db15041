//! What the server asks of its engine: where it is, an image that is not there, containers ahead of their clients.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::support::{
    BASH, CONTAINER_ID, Era, Process, command, container_exists, container_gone, http, image, owned_by, text,
};

/// A busy engine starts a container in seconds.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_pool_gives_a_new_client_a_container_that_runs_already_and_ends_with_the_server() {
    let image = image();
    let mut server = http(BASH, &["--image", &image, "--pool", "2"], &[]).await;
    let pid = server.process.child.id().unwrap();
    let filled = async {
        while owned_by(pid).await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, filled).await.expect("the pool is filled before anybody asks");
    let ahead = owned_by(pid).await;
    let client = server.connect("/mcp", Era::Legacy).await;
    let result = client.call("bash", json!({ "command": CONTAINER_ID })).await;
    let container = text(&result).lines().next().unwrap().to_owned();
    assert!(ahead.contains(&container), "{container} is none of {ahead:?}");
    client.close().await;
    container_gone(&container, Duration::from_secs(5)).await;
    server.process.signal("TERM").await;
    assert_eq!(server.process.wait(Duration::from_secs(10)).await, Some(0));
    for id in ahead {
        assert!(!container_exists(&id).await, "{id} of the pool is left");
    }
    assert_eq!(owned_by(pid).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_pool_without_http_is_refused() {
    let (code, _, stderr) = Process::spawn(command(BASH, &["--image", "x", "--pool", "1"])).end().await;
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--pool has no effect without --http"), "{stderr}");
}

#[tokio::test]
async fn an_image_that_cannot_be_had_is_an_error_before_anything_is_served() {
    // Nobody listens there: a pull ends at once.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let image = format!("{free}/absent:1");
    let (code, stdout, stderr) = Process::spawn(command(BASH, &["--image", &image])).end().await;
    assert_eq!((code, stdout.as_str()), (Some(4), ""), "{stderr}");
    assert!(stderr.contains(&format!("pulling image `{image}`")), "{stderr}");
    assert!(stderr.contains(&format!("failed to pull image `{image}`")), "{stderr}");
    let never = Process::spawn(command(BASH, &["--image", &image, "--pull", "never"]));
    let (code, _, stderr) = never.end().await;
    assert_eq!(code, Some(4));
    assert!(
        !stderr.contains("pulling") && stderr.contains(&format!("failed to find image `{image}`")),
        "{stderr}"
    );
}

/// An ssh server on the loopback interface that lets root in with one key, and a folder with an `ssh` that uses it.
struct Ssh {
    server: Child,
    folder: TempDir,
    port: u16,
}

impl Ssh {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        run("dropbearkey", &["-t", "ed25519", "-f", &path("host").display().to_string()]);
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path("key").display().to_string()]);
        fs_err::create_dir_all(path("home/.ssh")).unwrap();
        fs_err::copy(path("key.pub"), path("home/.ssh/authorized_keys")).unwrap();
        let server = dropbear(folder.path(), port);
        let config = format!(
            "Host *\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  StrictHostKeyChecking no\n",
            path("key").display(),
            path("known").display()
        );
        fs_err::write(path("config"), config).unwrap();
        let program = format!("#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n", path("config").display());
        fs_err::write(path("ssh"), program).unwrap();
        fs_err::set_permissions(path("ssh"), std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { server, folder, port }
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// In a mount namespace of its own: the server looks for keys in the home folder of root, which is another one there.
fn dropbear(folder: &Path, port: u16) -> Child {
    let script = format!(
        "mount --bind '{0}/home' /root && exec dropbear -F -E -s -r '{0}/host' -P '{0}/pid' -p 127.0.0.1:{port}",
        folder.display()
    );
    let is_root = run("id", &["-u"]).trim() == "0";
    let words: &[&str] = if is_root { &["unshare"] } else { &["sudo", "-n", "unshare"] };
    std::process::Command::new(words[0])
        .args(&words[1..])
        .args(["--mount", "sh", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap()
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn an_engine_behind_ssh_is_as_good_as_a_local_one() {
    let ssh = Ssh::start();
    let listening = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", ssh.port)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let log = || fs_err::read_to_string(ssh.folder.path().join("log")).unwrap();
    tokio::time::timeout(PATIENCE, listening).await.unwrap_or_else(|_| panic!("no ssh server: {}", log()));
    let check = async |destination: &str| {
        let mut server = command(BASH, &["--image", &image(), "--check"]);
        let path = format!("{}:{}", ssh.folder.path().display(), std::env::var("PATH").unwrap());
        server.env("PATH", path).env("DOCKER_HOST", destination);
        Process::spawn(server).end().await
    };
    let (code, _, stderr) = check(&format!("ssh://root@127.0.0.1:{}", ssh.port)).await;
    assert_eq!(code, Some(0), "{stderr}\nthe ssh server says: {}", log());
    assert!(stderr.contains("started, ran a command and is gone"), "{stderr}");
    assert!(log().contains("Pubkey auth succeeded"), "{}", log());

    let (code, _, stderr) = check(&format!("ssh://nobody@127.0.0.1:{}", ssh.port)).await;
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("failed to connect to Docker at `ssh://nobody@127.0.0.1"), "{stderr}");
    assert!(stderr.contains("a login without a password"), "{stderr}");
}
