//! MCP Inspector's command line, which connects anew for every call.

use serde_json::{Value, json};
use tokio::process::Command;

use crate::installed::node;
use crate::server::{HttpServer, PATIENCE, Run};

const INSPECTOR: &str = "@modelcontextprotocol/inspector/clients/cli/build/index.js";
const ERAS: [&str; 2] = ["legacy", "modern"];
/// With a URL that names its container even a client that connects anew finds its files.
const NAMED: &str = "/sandbox/5d1a9c1e-3c39-4c7c-8f0e-2b7f6e6a1d42/mcp";

/// The exit code of a tool call whose result is an error.
const TOOL_ERROR: i32 = 5;

struct Inspector<'a> {
    era: &'a str,
    target: Vec<String>,
    /// Holds what the program keeps in its user's home.
    home: tempfile::TempDir,
}

impl<'a> Inspector<'a> {
    fn new(era: &'a str, target: Vec<String>) -> Self {
        Self { era, target, home: tempfile::tempdir().unwrap() }
    }

    /// Its exit code and the one JSON object on its stdout.
    async fn run(&self, args: &[&str]) -> (i32, Value) {
        let mut command: Command = node(INSPECTOR);
        command.env("HOME", self.home.path());
        command.args(["--cli", "--format", "json", "--quiet", "--protocol-era", self.era]);
        // The default of 15 s is little for a container on a busy machine.
        command.args(["--connect-timeout", "60000"]).args(args).args(&self.target);
        let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{args:?}: {stdout} {stderr}"));
        (output.status.code().unwrap(), value)
    }

    async fn bash(&self, arguments: Value) -> (i32, Value) {
        let arguments = arguments.to_string();
        let (code, mut said) = self
            .run(&["--method", "tools/call", "--tool-name", "bash", "--tool-args-json", &arguments])
            .await;
        (code, said["result"].take())
    }

    async fn check(&self) {
        let (code, listed) = self.run(&["--method", "tools/list"]).await;
        assert_eq!((code, &listed["result"]["tools"][0]["name"]), (0, &json!("bash")), "{}", self.era);
        let (code, result) = self.bash(json!({ "command": "echo hi; echo oh >&2; exit 3" })).await;
        assert_eq!(code, 0, "{result}");
        assert!(result["content"][0]["text"].as_str().unwrap().starts_with("hi\noh\n[exit 3"), "{result}");
        assert_eq!(result["structuredContent"]["exit_code"], 3, "{result}");
        let (code, result) = self.bash(json!({ "command": 5 })).await;
        assert_eq!((code, &result["isError"]), (TOOL_ERROR, &json!(true)), "{result}");
    }
}

#[tokio::test]
async fn inspector_over_stdio() {
    for era in ERAS {
        let run = Run::new();
        let target = [vec!["--transport".to_owned(), "stdio".to_owned()], run.bash()].concat();
        Inspector::new(era, target).check().await;
        run.containers_gone().await;
    }
}

#[tokio::test]
async fn inspector_over_http() {
    let run = Run::new();
    let server = HttpServer::start(&run.bash()).await;
    for era in ERAS {
        let url = format!("{}{NAMED}", server.base);
        let target = ["--transport", "http", "--server-url", &url].map(ToOwned::to_owned).to_vec();
        let inspector = Inspector::new(era, target);
        inspector.check().await;
        inspector.bash(json!({ "command": "export X=1; cd /tmp" })).await;
        let (_code, result) = inspector.bash(json!({ "command": "echo $X $PWD" })).await;
        assert!(result["content"][0]["text"].as_str().unwrap().starts_with("1 /tmp\n"), "{result}");
        let response = reqwest::Client::new().delete(&url).send().await.unwrap();
        assert_eq!(response.status(), reqwest::StatusCode::NO_CONTENT);
        run.containers_gone().await;
    }
    server.stop().await;
}

/// Portability of the schemas, as Inspector judges it.
#[tokio::test]
async fn inspector_finds_no_fault_in_the_schemas() {
    let run = Run::new();
    let submit = gaia_tests::machine::program("gaia-mcp-submit").display().to_string();
    for command_line in [run.bash(), vec![submit]] {
        let target = [vec!["--transport".to_owned(), "stdio".to_owned()], command_line].concat();
        let (code, listed) =
            Inspector::new("legacy", target).run(&["--method", "tools/list", "--strict"]).await;
        assert_eq!(code, 0, "{listed}");
    }
    run.containers_gone().await;
}
