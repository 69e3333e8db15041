//! Reading and writing files, also where a command has laid traps.

use gaia_sandbox::{FileProblem, SandboxError, WriteMode};

use crate::support::{Run, sandbox};

#[tokio::test]
async fn files_are_written_and_read_whole_and_in_pieces() {
    let sandbox = sandbox().await;
    let data: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
    sandbox.write_file("/tmp/a/b/data", &data, WriteMode::Replace).await.unwrap();
    let whole = sandbox.read_file("/tmp/a/b/data", 0, u64::MAX).await.unwrap();
    assert!(whole.bytes == data && whole.end_of_file && whole.file_bytes == 3_000_000);
    let piece = sandbox.read_file("/tmp/a/b/data", 1_000_000, 600_000).await.unwrap();
    assert!(piece.bytes == data[1_000_000..1_600_000] && !piece.end_of_file);
    let beyond = sandbox.read_file("/tmp/a/b/data", 4_000_000, 10).await.unwrap();
    assert!(beyond.bytes.is_empty() && beyond.end_of_file);
    sandbox.write_file("/tmp/a/b/data", b"short", WriteMode::Replace).await.unwrap();
    sandbox.write_file("/tmp/a/b/data", b"+more", WriteMode::Append).await.unwrap();
    sandbox.write_file("/tmp/empty", b"", WriteMode::Replace).await.unwrap();
    assert_eq!(sandbox.says("cat /tmp/a/b/data; stat -c %s /tmp/empty").await, "short+more0");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn relative_paths_start_where_the_shell_is_and_odd_names_work() {
    let sandbox = sandbox().await;
    sandbox.says("mkdir /tmp/here; cd /tmp/here; printf x >$'-odd\\nname ü'").await;
    assert_eq!(sandbox.read_file("-odd\nname ü", 0, 10).await.unwrap().bytes, b"x");
    sandbox.write_file("new", b"y", WriteMode::Replace).await.unwrap();
    assert_eq!(sandbox.says("cat /tmp/here/new").await, "y");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn what_is_no_file_is_refused_and_nothing_waits() {
    let sandbox = sandbox().await;
    sandbox
        .says(
            "mkfifo /tmp/pipe; ln -s /tmp/pipe /tmp/link; ln -s /tmp/loop /tmp/loop; truncate -s 4G /tmp/sparse; \
             python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/socket\")'",
        )
        .await;
    for (path, problem) in [
        ("/nonexistent", Some(FileProblem::NotFound)),
        ("/tmp", Some(FileProblem::IsDirectory)),
        ("/tmp/pipe", Some(FileProblem::NotRegular)),
        ("/tmp/link", Some(FileProblem::NotRegular)),
        ("/tmp/socket", Some(FileProblem::NotRegular)),
        ("/dev/zero", Some(FileProblem::NotRegular)),
        ("/proc/1/fd/100", Some(FileProblem::NotRegular)),
        ("/tmp/loop", None),
        ("/proc/self/mem", None),
    ] {
        let error = sandbox.read_file(path, 0, 100).await.unwrap_err();
        let SandboxError::File { problem: found, .. } = &error else { panic!("`{path}`: {error:?}") };
        assert!(problem.as_ref().is_none_or(|problem| problem == found), "`{path}`: {error:?}");
    }
    for path in ["/tmp/pipe", "/tmp", "/dev/full"] {
        sandbox.write_file(path, b"x", WriteMode::Replace).await.unwrap_err();
    }
    let error = sandbox.write_file("/proc/version", b"x", WriteMode::Replace).await.unwrap_err();
    assert!(matches!(error, SandboxError::File { .. }), "{error:?}");
    let sparse = sandbox.read_file("/tmp/sparse", 3 << 30, 10).await.unwrap();
    assert_eq!((sparse.bytes.as_slice(), sparse.file_bytes), ([0; 10].as_slice(), 4 << 30));
    assert!(sandbox.read_file("/proc/1/root/etc/passwd", 0, 100).await.unwrap().bytes.starts_with(b"root:"));
    assert!(sandbox.read_file("/proc/meminfo", 0, 8).await.unwrap().bytes.starts_with(b"MemTotal"));
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_named() {
    let sandbox = sandbox().await;
    sandbox.sh("head -c 2G /dev/zero >/tmp/fill").await;
    let error = sandbox.write_file("/tmp/more", &[0; 65_536], WriteMode::Replace).await.unwrap_err();
    assert!(matches!(error, SandboxError::File { problem: FileProblem::NoSpace, .. }), "{error:?}");
    sandbox.close().await.unwrap();
}
