use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use gaia_tests::machine::program;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Much longer than anything takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// `gaia view` at work.
pub(crate) struct Viewer {
    child: Child,
    /// Without a slash at its end.
    pub(crate) url: String,
}

impl Viewer {
    pub(crate) async fn start(runs: &Path) -> Self {
        // From within: then no page names a folder of this machine.
        Self::start_in(runs, &["."], &[]).await
    }

    pub(crate) async fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::start_in(Path::new("."), arguments, environment).await
    }

    async fn start_in(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program("gaia"));
        command.current_dir(folder).arg("view").args(arguments);
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.envs(environment.iter().copied()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = tokio::time::timeout(LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap_or_default();
        let rest = said.split("http://").nth(1).unwrap_or_else(|| panic!("no address in `{said}`"));
        let url = format!("http://{}", rest.split_whitespace().next().unwrap());
        Self { child, url: url.trim_end_matches('/').to_owned() }
    }

    pub(crate) async fn text(&self, path: &str) -> String {
        reqwest::get(format!("{}{path}", self.url)).await.unwrap().text().await.unwrap()
    }

    /// Ctrl-C; it must end by itself, and well.
    pub(crate) async fn end(mut self) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().await.unwrap().success());
        let status = tokio::time::timeout(LIMIT, self.child.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(0));
    }
}
