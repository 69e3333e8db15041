//! Getting an image from a registry: the distribution's own, on the loopback interface.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gaia_sandbox::{EngineError, PullProgress};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::support::{PLENTY, engine, eventually};

/// Where `.ci/setup` unpacks it.
const UNPACKED: &str = "gaia-tests/docker-registry/usr/bin/docker-registry";

struct Registry {
    process: Child,
    address: String,
    _folder: TempDir,
}

impl Registry {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let config = folder.path().join("config.yml");
        let text = format!(
            "version: 0.1\nlog: {{ level: error }}\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\nhttp: {{ addr: '{address}' }}\n",
            folder.path().display()
        );
        fs_err::write(&config, text).unwrap();
        let process = Command::new(registry_program())
            .arg("serve")
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the registry listens", PLENTY, async || TcpStream::connect(&address).await.is_ok()).await;
        Self { process, address, _folder: folder }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn registry_program() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
    let unpacked = cache.unwrap_or_default().join(UNPACKED);
    assert!(unpacked.exists(), "`{}` is absent: run `.ci/setup clients`", unpacked.display());
    unpacked
}

fn docker(arguments: &[&str], input: &[u8]) -> String {
    let mut child = Command::new("docker")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// An image of one file, in two tags, of which the second is not to be pulled along.
fn image_files() -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    // Not compressible, and too long for one piece, so that there is progress to tell.
    let bytes: Vec<u8> = (0..4_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, "data", bytes.as_slice()).unwrap();
    archive.into_inner().unwrap()
}

#[tokio::test]
async fn an_image_that_is_absent_is_pulled_with_progress() {
    let engine = engine().await;
    let registry = Registry::start().await;
    let name = format!("{}/gaia/pull-test", registry.address);
    for tag in ["latest", "other"] {
        docker(&["import", "-", &format!("{name}:{tag}")], &image_files());
        docker(&["push", "--quiet", &format!("{name}:{tag}")], b"");
        docker(&["rmi", &format!("{name}:{tag}")], b"");
    }
    assert!(matches!(engine.image(&name).await, Err(EngineError::ImageAbsent { .. })));

    let mut seen: Vec<PullProgress> = Vec::new();
    let image = engine.pull(&name, |progress| seen.push(progress)).await.unwrap();
    assert!(image.size_bytes >= 4_000_000, "{image:?}");
    let last = *seen.last().unwrap();
    assert_eq!((last.layers, last.layers_done), (1, 1), "{seen:?}");
    assert!(last.bytes == last.total_bytes && last.total_bytes > 1000, "{last:?}");
    assert!(engine.image(&format!("{name}:other")).await.is_err(), "only the tag that was asked for");
    docker(&["rmi", &name], b"");

    let error = engine.pull(&format!("{name}:absent"), |_| {}).await.unwrap_err();
    assert!(matches!(error, EngineError::Pull { .. }), "{error:?}");
    assert!(error.to_string().contains("manifest unknown"), "{error}");
    drop(registry);
    let error = engine.pull(&name, |_| {}).await.unwrap_err();
    assert!(matches!(error, EngineError::Pull { .. }), "without a registry: {error:?}");
}
