//! What a command can reach.

use gaia_sandbox::{Network, Sandbox};

use crate::support::{Run, engine, options, sandbox, text_of};

#[tokio::test]
async fn without_network_there_is_only_the_loopback_interface() {
    let sandbox = sandbox().await;
    assert_eq!(sandbox.says("ls /sys/class/net").await, "lo");
    assert_eq!(sandbox.says("cat /proc/net/route | wc -l").await, "1");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn on_a_bridge_there_is_another_one() {
    let engine = engine().await;
    let mut options = options(&engine).await;
    options.network = Network::Bridge;
    let sandbox = Sandbox::start(&engine, &options).await.unwrap();
    assert_eq!(sandbox.says("ls /sys/class/net | grep -c eth").await, "1");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn shared_files_can_be_read_but_not_changed_and_their_neighbours_not_seen() {
    let engine = engine().await;
    let mut options = options(&engine).await;
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    fs_err::create_dir(&mine).unwrap();
    fs_err::write(mine.join("data.csv"), "a,b\n").unwrap();
    fs_err::write(folder.path().join("others.csv"), "secret").unwrap();
    options.files_dir = Some(mine.clone());
    let sandbox = Sandbox::start(&engine, &options).await.unwrap();
    assert_eq!(sandbox.says("ls -A /shared_files; cat /shared_files/data.csv").await, "data.csv\na,b");
    for text in [
        "echo x >>/shared_files/data.csv",
        "rm /shared_files/data.csv",
        "touch /shared_files/new",
        "chmod 777 /shared_files/data.csv",
        "mount -o remount,rw /shared_files",
        "umount /shared_files",
    ] {
        assert_ne!(sandbox.sh(text).await.exit_code, 0, "`{text}`");
    }
    assert_eq!(sandbox.sh("cat /shared_files/../others.csv").await.exit_code, 1);
    assert_eq!(fs_err::read_to_string(mine.join("data.csv")).unwrap(), "a,b\n");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_folder_that_is_absent_is_refused_by_name() {
    let engine = engine().await;
    let mut options = options(&engine).await;
    options.files_dir = Some("/nonexistent/folder".into());
    let error = Sandbox::start(&engine, &options).await.unwrap_err();
    assert!(error.to_string().contains("/nonexistent/folder"), "{error}");
}

#[tokio::test]
async fn pid_1_is_out_of_reach() {
    let sandbox = sandbox().await;
    for text in [
        "cat /proc/1/environ",
        "readlink /proc/1/fd/100",
        "echo x >/proc/1/fd/101",
        "readlink /proc/$PPID/fd/1",
        "head -c 1 /proc/1/mem",
        "readlink /proc/1/exe",
        "ls /proc/1/root/",
    ] {
        let output = sandbox.sh(text).await;
        assert_ne!(output.exit_code, 0, "`{text}` said: {}", text_of(&output));
        assert!(
            text_of(&output).contains("Permission denied") || text_of(&output).is_empty(),
            "{}",
            text_of(&output)
        );
    }
    // Nor is what the shells inherit more than it needs to be.
    let descriptors = sandbox.says("ls /proc/self/fd | sort -n | tr '\\n' ' '").await;
    assert_eq!(descriptors, "0 1 2 3 197 ", "three standard ones, the folder being listed, the snapshot");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn powers_are_dropped() {
    let sandbox = sandbox().await;
    for text in [
        "mount -t tmpfs none /mnt",
        "mknod /tmp/device b 8 0",
        "unshare -r true",
        "unshare -m true",
        "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'",
        "chroot / true",
        "ls /var/run/docker.sock",
        "echo 1 >/proc/sys/kernel/hostname",
        "ulimit -n 100000",
    ] {
        assert_ne!(sandbox.sh(text).await.exit_code, 0, "`{text}`");
    }
    let sacrificed =
        sandbox.says("cat /proc/self/oom_score_adj; awk '/Seccomp:/ {print $2}' /proc/self/status").await;
    assert_eq!(sacrificed, "1000\n2", "the kernel shall kill commands, not PID 1, and filter system calls");
    assert_eq!(sandbox.says("awk '/NoNewPrivs/ {print $2}' /proc/self/status").await, "1");
    assert_eq!(
        sandbox.says("useradd someone && chown someone /workspace && su someone -c 'id -un'").await,
        "someone"
    );
    assert_eq!(
        sandbox.says("cp /bin/true /tmp/t && /tmp/t && echo ran").await,
        "ran",
        "/tmp allows programs"
    );
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn the_environment_is_the_images_and_ours_only() {
    let engine = engine().await;
    let mut options = options(&engine).await;
    options.environment.insert("EXTRA".to_owned(), "given value".to_owned());
    options.environment.insert("PAGER".to_owned(), "less".to_owned());
    let sandbox = Sandbox::start(&engine, &options).await.unwrap();
    assert_eq!(sandbox.says("printenv EXTRA PAGER TERM HOME").await, "given value\nless\ndumb\n/root");
    let names = sandbox.says("env | cut -d= -f1 | sort").await;
    assert!(!names.contains("GAIA") && !names.contains("CARGO") && !names.contains("BASH_ENV"), "{names}");
    sandbox.close().await.unwrap();
}
