//! A sandbox to test with, and short ways to ask it something.

use std::path::Path;
use std::time::{Duration, Instant};

use gaia_sandbox::{Command, Engine, Output, Sandbox, SandboxError, SandboxOptions};
use tokio::net::{TcpListener, UnixStream};
use tokio_util::sync::CancellationToken;

/// Label `gaia.run` of every container these tests make.
pub(crate) const RUN_LABEL: &str = "gaia-sandbox-tests";

/// Time limit of commands that are expected to end by themselves; the machine may be busy with other tests.
pub(crate) const PLENTY: Duration = Duration::from_secs(60);

/// How much later than its time limit a command may answer: half a second of grace, and a busy machine.
pub(crate) const LATENESS: Duration = Duration::from_secs(5);

pub(crate) async fn engine() -> Engine {
    Engine::connect().await.unwrap_or_else(|error| panic!("these tests need a Docker engine: {error}"))
}

/// The image to test with: GAIA_TEST_IMAGE, GAIA_SANDBOX_IMAGE (from the environment or the `.env` file at the root of
/// the repository), else the first of the usual ones that is there.
pub(crate) async fn image(engine: &Engine) -> String {
    let from_environment = ["GAIA_TEST_IMAGE", "GAIA_SANDBOX_IMAGE"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .or_else(|| from_env_file("GAIA_SANDBOX_IMAGE"))
        .filter(|name| !name.is_empty());
    if let Some(name) = from_environment {
        engine.image(&name).await.unwrap_or_else(|error| panic!("these tests need an image: {error}"));
        return name;
    }
    for name in ["gaia-dev:bookworm", "python:3.11"] {
        if engine.image(name).await.is_ok() {
            return name.to_owned();
        }
    }
    panic!("these tests need an image: set GAIA_TEST_IMAGE to one with bash and python3, or pull python:3.11")
}

fn from_env_file(name: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.env");
    let text = fs_err::read_to_string(path).ok()?;
    text.lines()
        .filter_map(|line| line.split_once('='))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().trim_matches('"').to_owned())
}

pub(crate) async fn options(engine: &Engine) -> SandboxOptions {
    let mut options = SandboxOptions::new(image(engine).await);
    options.labels.run = Some(RUN_LABEL.to_owned());
    options
}

pub(crate) async fn sandbox() -> Sandbox {
    let engine = engine().await;
    let options = options(&engine).await;
    Sandbox::start(&engine, &options).await.unwrap()
}

/// Short ways to run something.
pub(crate) trait Run {
    async fn command(&self, command: Command) -> Result<Output, SandboxError>;

    /// Runs a text that is expected to end by itself.
    async fn sh(&self, text: &str) -> Output {
        self.command(Command::new(text, PLENTY)).await.unwrap_or_else(|error| panic!("`{text}`: {error}"))
    }

    /// What a text prints, without the newline at the end. It must exit with 0.
    async fn says(&self, text: &str) -> String {
        let output = self.sh(text).await;
        let said = text_of(&output);
        assert_eq!(output.exit_code, 0, "`{text}` said: {said}");
        said.trim_end_matches('\n').to_owned()
    }

    /// Runs a text with a time limit and checks that the answer is not late.
    async fn within(&self, text: &str, timeout: Duration) -> Output {
        let started = Instant::now();
        let output = self.command(Command::new(text, timeout)).await.unwrap();
        let took = started.elapsed();
        assert!(took < timeout + LATENESS, "`{text}` answered after {took:?}");
        output
    }
}

impl Run for Sandbox {
    async fn command(&self, command: Command) -> Result<Output, SandboxError> {
        self.run(command, |_| {}, &CancellationToken::new()).await
    }
}

/// Head and tail as text.
pub(crate) fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&[output.head.as_slice(), &output.tail].concat()).into_owned()
}

/// Waits for something that another process does.
pub(crate) async fn eventually(what: &str, limit: Duration, mut check: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + limit;
    while !check().await {
        assert!(Instant::now() < until, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Forwards a port of the loopback interface to the engine's socket.
pub(crate) async fn forwarded(engine: &Engine) -> String {
    let socket = engine.address().strip_prefix("unix://").expect("a local engine").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let socket = socket.clone();
            tokio::spawn(async move {
                let mut engine = UnixStream::connect(socket).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut engine).await;
            });
        }
    });
    address
}
