//! Runs the `gaia` program as a user would.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::process::Command;

use gaia_tests::machine::{program, sandbox_image};

/// A folder with a config and, unless a test says otherwise, a dataset; the program runs in it.
pub(crate) struct Desk {
    pub(crate) folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// The server tables of a config whose model has a shell without network and hands its answer in.
pub(crate) const SHELL_AND_SUBMIT: &str = r#"
[mcp_servers.bash]
command = "gaia-mcp-bash"
args = ["--image", "${GAIA_SANDBOX_IMAGE}", "--network", "off"]
enabled_tools = ["bash"]

[mcp_servers.submit]
command = "gaia-mcp-submit"
"#;

/// What a program printed and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The first column of the table of results, as one text: a label wider than it goes on in the next line.
    pub(crate) fn labels(&self) -> String {
        let cells = self.stdout.lines().filter_map(|line| line.strip_prefix("│ ")?.split('┆').next());
        cells.map(str::trim).collect::<Vec<_>>().join(" ")
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A variable in the environment of the program.
    #[must_use]
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, text).unwrap();
        path
    }

    /// A snapshot with one line for each of `(task id, question, level, answer)`.
    pub(crate) fn dataset(&self, rows: &[(&str, &str, u8, &str)]) {
        let lines = rows.iter().map(|(task_id, question, level, answer)| {
            serde_json::json!({
                "task_id": task_id, "Question": question, "Level": level, "Final answer": answer, "file_name": "",
            })
            .to_string()
        });
        self.write("samples/2023/validation/metadata.jsonl", &lines.collect::<Vec<_>>().join("\n"));
    }

    /// The command with an environment of its own: nothing of the test's leaks in but PATH and HOME.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("gaia"));
        command.args(arguments).current_dir(self.path()).env_clear().kill_on_drop(true);
        for name in ["PATH", "HOME", "DOCKER_HOST"] {
            if let Ok(value) = std::env::var(name) {
                command.env(name, value);
            }
        }
        command.env("GAIA_SANDBOX_IMAGE", sandbox_image());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) async fn gaia(&self, arguments: &[&str]) -> Ended {
        self.command(arguments).output().await.unwrap().into()
    }

    /// The folders of runs, oldest first.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs_err::read_dir(self.path().join("runs")) else { return Vec::new() };
        let mut runs: Vec<PathBuf> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.join("run.json").is_file())
            .collect();
        runs.sort();
        runs
    }
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_str(&fs_err::read_to_string(path).unwrap()).unwrap()
}

/// Every `result.json` of a run.
pub(crate) fn results(run: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    for task in fs_err::read_dir(run.join("samples")).unwrap() {
        for epoch in fs_err::read_dir(task.unwrap().path()).unwrap() {
            let path = epoch.unwrap().path().join("result.json");
            if path.is_file() {
                found.push(json(&path));
            }
        }
    }
    found
}

/// Ids of containers of ours that exist, running or not, with the given value of a label.
pub(crate) async fn containers(label: &str, value: &str) -> Vec<String> {
    let filter = format!("label={label}={value}");
    let output = Command::new("docker").args(["ps", "-aq", "--filter", &filter]).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}
