//! Our programs, and the containers they leave.

use std::process::Stdio;
use std::time::Duration;

use gaia_tests::machine::{program, sandbox_image};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A test that waits longer than this hangs. Docker on a busy machine needs many seconds for one container.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// How long a container may outlive its client.
const GONE: Duration = Duration::from_secs(5);

/// The run that a test's containers are labelled with. Tests run at the same time, each in a process of its own.
#[derive(Debug, Clone)]
pub(crate) struct Run(String);

impl Run {
    pub(crate) fn new() -> Self {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Self(format!("clients-{}-{}", std::process::id(), time.as_nanos()))
    }

    /// The command line of gaia-mcp-bash.
    pub(crate) fn bash(&self) -> Vec<String> {
        let program = program("gaia-mcp-bash").display().to_string();
        [&program, "--image", &sandbox_image(), "--run-id", &self.0].map(ToOwned::to_owned).to_vec()
    }

    /// The ids of its containers.
    pub(crate) async fn containers(&self) -> Vec<String> {
        let filter = format!("label=gaia.run={}", self.0);
        let output = Command::new("docker")
            .args(["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter])
            .output()
            .await
            .expect("docker is here");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
    }

    /// Waits until Docker knows none of its containers.
    pub(crate) async fn containers_gone(&self) {
        let gone = async {
            while !self.containers().await.is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(GONE, gone).await.is_err() {
            panic!("containers of {self:?} are there after {GONE:?}: {:?}", self.containers().await);
        }
    }
}

/// A server on a loopback port.
pub(crate) struct HttpServer {
    child: Child,
    /// `http://127.0.0.1:PORT`
    pub(crate) base: String,
}

impl HttpServer {
    /// Starts it with a command line that does not say where to listen.
    pub(crate) async fn start(command_line: &[String]) -> Self {
        // The port must be known first, for the origin. Somebody else may take it meanwhile.
        for _trial in 0..5 {
            let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            if let Some(server) = Self::listen(command_line, port).await {
                return server;
            }
        }
        panic!("the server did not start");
    }

    async fn listen(command_line: &[String], port: u16) -> Option<Self> {
        let base = format!("http://127.0.0.1:{port}");
        let mut child = Command::new(&command_line[0])
            .args(&command_line[1..])
            .args(["--http", &format!("127.0.0.1:{port}"), "--allowed-origin", &base])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains("listening on ") {
                    return true;
                }
                eprintln!("{line}");
            }
            false
        };
        let ready = tokio::time::timeout(PATIENCE, ready).await.expect("the server starts in time");
        // Read on, so that the server never waits for us.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                eprintln!("{line}");
            }
        });
        ready.then_some(Self { child, base })
    }

    /// Ends it as an administrator does.
    pub(crate) async fn stop(mut self) {
        let pid = self.child.id().expect("the server runs").to_string();
        assert!(Command::new("kill").arg(&pid).status().await.unwrap().success());
        let status = tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("the server ends");
        assert!(status.unwrap().success());
    }
}
