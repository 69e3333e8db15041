//! Starts our servers and talks to them.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult, ProtocolVersion, Tool};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A test that waits longer than this hangs. Docker on a busy machine needs many seconds for one container.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) const SUBMIT: &str = env!("CARGO_BIN_EXE_gaia-mcp-submit");
pub(crate) const BASH: &str = env!("CARGO_BIN_EXE_gaia-mcp-bash");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

impl Era {
    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Legacy => ClientLifecycleMode::Initialize,
            Self::Modern => {
                ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
            }
        }
    }
}

/// A server process whose stderr is collected.
pub(crate) struct Process {
    pub(crate) child: Child,
    stderr: Arc<Mutex<String>>,
    grown: watch::Receiver<usize>,
    /// Ends with the process's stderr.
    reading: JoinHandle<()>,
}

pub(crate) fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).kill_on_drop(true);
    for name in ["GAIA_RUN_ID", "GAIA_SAMPLE_ID", "GAIA_FILES_DIR", "GAIA_LOG"] {
        command.env_remove(name);
    }
    command
}

impl Process {
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server's program starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let stderr = Arc::new(Mutex::new(String::new()));
        let (sender, grown) = watch::channel(0);
        let collected = Arc::clone(&stderr);
        let reading = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let mut text = collected.lock().unwrap();
                text.push_str(&line);
                text.push('\n');
                sender.send_replace(text.len());
            }
        });
        Self { child, stderr, grown, reading }
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until a line of stderr contains `part`, and returns that line.
    pub(crate) async fn stderr_line(&mut self, part: &str) -> String {
        let waiting = async {
            loop {
                if let Some(line) = self.stderr().lines().find(|line| line.contains(part)) {
                    return line.to_owned();
                }
                if self.grown.changed().await.is_err() {
                    panic!("the server ended without `{part}` on stderr: {}", self.stderr());
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("no `{part}` on stderr"))
    }

    /// Waits for the end; returns the exit code, stdout and stderr.
    pub(crate) async fn end(mut self) -> (Option<i32>, String, String) {
        drop(self.child.stdin.take());
        let mut stdout = String::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            pipe.read_to_string(&mut stdout).await.unwrap();
        }
        let status = self.wait(PATIENCE).await;
        self.reading.await.unwrap();
        let stderr = self.stderr.lock().unwrap().clone();
        (status, stdout, stderr)
    }

    pub(crate) async fn wait(&mut self, limit: Duration) -> Option<i32> {
        let status = tokio::time::timeout(limit, self.child.wait()).await;
        status
            .unwrap_or_else(|_| panic!("the server did not end within {limit:?}: {}", self.stderr()))
            .unwrap()
            .code()
    }

    pub(crate) async fn signal(&self, name: &str) {
        let pid = self.child.id().expect("the server runs").to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().await.unwrap().success());
    }
}

/// A connected client.
pub(crate) struct Client<H: ClientHandler = ()> {
    pub(crate) service: RunningService<RoleClient, H>,
}

/// Starts a server on stdio and connects to it.
pub(crate) async fn stdio(program: &str, args: &[&str], era: Era) -> (Process, Client) {
    stdio_of(command(program, args), era, ()).await
}

pub(crate) async fn stdio_of<H: ClientHandler>(
    command: Command,
    era: Era,
    handler: H,
) -> (Process, Client<H>) {
    let mut process = Process::spawn(command);
    let transport = (process.child.stdout.take().unwrap(), process.child.stdin.take().unwrap());
    let connected =
        tokio::time::timeout(PATIENCE, handler.serve_with_lifecycle(transport, era.lifecycle())).await;
    match connected.expect("the server answers in time") {
        Ok(service) => (process, Client { service }),
        Err(error) => panic!("failed to connect: {error}; stderr: {}", process.stderr()),
    }
}

/// A server on a free loopback port.
pub(crate) struct HttpServer {
    pub(crate) process: Process,
    /// `http://127.0.0.1:PORT`
    pub(crate) base: String,
}

pub(crate) async fn http(program: &str, args: &[&str], environment: &[(&str, &str)]) -> HttpServer {
    let mut command = command(program, &[args, &["--http", "127.0.0.1:0"]].concat());
    command.envs(environment.iter().copied());
    let mut process = Process::spawn(command);
    let line = process.stderr_line("listening on ").await;
    let url = line.split("listening on ").nth(1).unwrap();
    HttpServer { process, base: url.trim_end_matches("/mcp").to_owned() }
}

impl HttpServer {
    pub(crate) async fn connect(&self, path: &str, era: Era) -> Client {
        self.connect_with(path, era, None).await.expect("the server takes the client")
    }

    pub(crate) async fn connect_with(
        &self,
        path: &str,
        era: Era,
        token: Option<&str>,
    ) -> Result<Client, String> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(format!("{}{path}", self.base));
        config.reinit_on_expired_session = false;
        config.auth_header = token.map(ToOwned::to_owned);
        let transport = StreamableHttpClientTransport::from_config(config);
        let connecting = ().serve_with_lifecycle(transport, era.lifecycle());
        let service = tokio::time::timeout(PATIENCE, connecting).await.expect("the server answers in time");
        Ok(Client { service: service.map_err(|error| error.to_string())? })
    }
}

impl<H: ClientHandler> Client<H> {
    pub(crate) async fn tools(&self) -> Vec<Tool> {
        tokio::time::timeout(PATIENCE, self.service.list_all_tools())
            .await
            .expect("tools are listed in time")
            .unwrap()
    }

    /// Calls a tool and checks the result against the tool's own output schema.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        let result = self.try_call(tool, arguments).await.expect("the call is answered with a result");
        if result.is_error != Some(true) {
            let tools = self.tools().await;
            let declared = tools.iter().find(|known| known.name == tool).expect("the tool is listed");
            match declared.output_schema {
                Some(_) => crate::schemas::check_output(declared, result.structured_content.as_ref()),
                None => assert_eq!(result.structured_content, None, "{tool}"),
            }
        }
        result
    }

    pub(crate) async fn try_call(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<CallToolResult, ServiceError> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        tokio::time::timeout(PATIENCE, self.service.call_tool(request))
            .await
            .expect("the call is answered in time")
    }

    /// Ends the connection as a well-behaved client does.
    pub(crate) async fn close(mut self) {
        self.service.close_with_timeout(PATIENCE).await.unwrap();
    }
}

pub(crate) fn text(result: &CallToolResult) -> &str {
    match &result.content[..] {
        [only] => &only.as_text().expect("the content is text").text,
        other => panic!("one content block expected: {other:?}"),
    }
}

pub(crate) fn fact<'a>(result: &'a CallToolResult, name: &str) -> &'a Value {
    &result.structured_content.as_ref().expect("the result is structured")[name]
}

/// The image for containers: `GAIA_TEST_IMAGE`, else `GAIA_SANDBOX_IMAGE` from the environment or the repository's
/// `.env`, else the development image, else the one the product uses by default.
pub(crate) fn image() -> String {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(image) = set("GAIA_TEST_IMAGE").or_else(|| set("GAIA_SANDBOX_IMAGE")) {
        return image;
    }
    let dotenv = fs_err::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../.env")).unwrap_or_default();
    let named = dotenv.lines().find_map(|line| line.trim().strip_prefix("GAIA_SANDBOX_IMAGE="));
    if let Some(image) = named {
        return image.trim_matches(['"', '\'']).to_owned();
    }
    let development = "gaia-dev:bookworm";
    let inspected = std::process::Command::new("docker")
        .args(["image", "inspect", development])
        .output()
        .expect("docker is here");
    if inspected.status.success() { development.to_owned() } else { "python:3.11".to_owned() }
}

/// Prints the id of the container it runs in: the engine mounts files from a folder of that name.
pub(crate) const CONTAINER_ID: &str =
    r"grep -om1 'containers/[0-9a-f]\{64\}' /proc/self/mountinfo | cut -d/ -f2";

/// Whether Docker knows the container.
pub(crate) async fn container_exists(id: &str) -> bool {
    let output = Command::new("docker")
        .args(["ps", "--all", "--quiet", "--filter", &format!("id={id}")])
        .output()
        .await
        .expect("docker is here");
    assert!(output.status.success(), "{output:?}");
    !output.stdout.is_empty()
}

/// Waits until Docker no longer knows the container.
pub(crate) async fn container_gone(id: &str, limit: Duration) {
    let gone = async {
        while container_exists(id).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(limit, gone)
        .await
        .unwrap_or_else(|_| panic!("container {id} is there after {limit:?}"));
}

/// Containers whose owner is this process, in any state.
pub(crate) async fn owned_by(pid: u32) -> Vec<String> {
    let output = Command::new("docker")
        .args(["ps", "--all", "--no-trunc", "--filter", "label=gaia.owner", "--format"])
        .arg("{{.ID}} {{.Label \"gaia.owner\"}}")
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let is_its = |owner: &str| owner.split(':').nth(1) == Some(pid.to_string().as_str());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| {
            line.split_once(' ').filter(|(_, owner)| is_its(owner)).map(|(id, _)| id.to_owned())
        })
        .collect()
}
