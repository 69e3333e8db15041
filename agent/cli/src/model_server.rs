//! A model server of the run's own: started before the run, ended with it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::ChildStdin;
use tokio::time::timeout;

use crate::config::ModelServerConfig;
use crate::environment::Environment;

/// Lines of stderr that an error shows.
const SHOWN_STDERR_LINES: usize = 20;

/// What an orderly program needs at most to end once its standard input has ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A running model server in a process group of its own.
#[derive(Debug)]
pub struct ModelServer {
    base_url: String,
    child: Box<dyn ChildWrapper>,
    /// Open as long as the server is wanted.
    stdin: Option<ChildStdin>,
}

/// The server cannot be used. The text is complete.
#[derive(Debug, thiserror::Error)]
#[error("failed to start the model server `{command}`: {reason}")]
pub struct ModelServerError {
    command: String,
    reason: String,
}

/// The line that a server prints when it is ready.
#[derive(Deserialize)]
struct Ready {
    base_url: String,
}

type Tail = Arc<Mutex<VecDeque<String>>>;

impl ModelServer {
    /// Starts the program in the folder of the config and waits for its `{"base_url": …}` on stdout.
    pub async fn start(
        config: &ModelServerConfig,
        base: &Path,
        environment: &Environment,
    ) -> Result<Self, ModelServerError> {
        let failed = |reason: String| ModelServerError { command: config.command.clone(), reason };
        let program = find_program(&config.command, base);
        let mut command = CommandWrap::with_new(&program, |command| {
            command
                .args(&config.args)
                .current_dir(base)
                .env_clear()
                .envs(environment.names().filter_map(|name| Some((name, environment.get(name)?))))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
        });
        command.wrap(KillOnDrop).wrap(ProcessGroup::leader());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => failed(format!(
                "there is no such program beside gaia or on PATH\nhint: build it, or correct `model.server.command` ({error})"
            )),
            _ => failed(error.to_string()),
        })?;
        let stdin = child.stdin().take();
        let tail = Tail::default();
        let stderr = child.stderr().take().map(|stderr| tokio::spawn(keep_tail(stderr, tail.clone())));
        let Some(stdout) = child.stdout().take() else {
            return Err(failed("its stdout could not be read".to_owned()));
        };
        let mut lines = BufReader::new(stdout).lines();
        let first = timeout(config.ready_timeout_sec, lines.next_line()).await;
        let reason = match first {
            Ok(Ok(Some(line))) => match serde_json::from_str::<Ready>(&line) {
                Ok(ready) => {
                    // What comes later must be read, or the server would block on a full pipe.
                    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                    return Ok(Self { base_url: ready.base_url, child, stdin });
                }
                Err(error) => {
                    format!("its first line on stdout is not {{\"base_url\": …}}: {error}: `{line}`")
                }
            },
            Ok(Ok(None)) => "it ended before it was ready".to_owned(),
            Ok(Err(error)) => format!("its stdout could not be read: {error}"),
            Err(_) => format!("it was not ready after {} s", config.ready_timeout_sec.as_secs_f64()),
        };
        let server = Self { base_url: String::new(), child, stdin };
        let status = server.close().await;
        if let Some(stderr) = stderr {
            // The group is gone, so its stderr has ended, unless someone left the group with it.
            timeout(CLOSE_TIMEOUT, stderr).await.ok();
        }
        Err(failed(with_stderr(reason, status, &tail)))
    }

    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Ends the server: first by the end of its stdin, then by force, with everything it started.
    pub async fn close(mut self) -> Option<std::process::ExitStatus> {
        drop(self.stdin.take());
        let orderly = timeout(CLOSE_TIMEOUT, self.child.wait()).await;
        if let Ok(Ok(status)) = orderly {
            return Some(status);
        }
        if let Err(error) = self.child.start_kill() {
            tracing::warn!("failed to kill the model server: {error}");
        }
        self.child.wait().await.ok()
    }
}

/// Beside the running program, then on PATH; a name with a slash is a path from the config's folder.
fn find_program(command: &str, base: &Path) -> PathBuf {
    if command.contains('/') {
        return base.join(command);
    }
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(command)));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(command))
}

async fn keep_tail(stderr: impl AsyncRead + Unpin, tail: Tail) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::debug!(target: "gaia::model_server", "{line}");
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == SHOWN_STDERR_LINES {
            tail.pop_front();
        }
        tail.push_back(line);
    }
}

fn with_stderr(reason: String, status: Option<std::process::ExitStatus>, tail: &Tail) -> String {
    let mut text = reason;
    if let Some(status) = status {
        text.push_str(&format!(" ({status})"));
    }
    let tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
    if !tail.is_empty() {
        text.push_str("; its last lines on stderr:");
        for line in tail.iter() {
            text.push_str("\n  ");
            text.push_str(line);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> ModelServerConfig {
        ModelServerConfig {
            command: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            ready_timeout_sec: Duration::from_secs(20),
        }
    }

    async fn start(config: &ModelServerConfig) -> Result<ModelServer, String> {
        let path = ("PATH".to_owned(), "/usr/bin:/bin".to_owned());
        let environment = Environment::from_iter([path]);
        ModelServer::start(config, Path::new("/"), &environment).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn is_ready_when_it_says_where_it_is_and_ends_with_its_stdin() {
        let server =
            start(&shell(r#"echo '{"base_url": "http://127.0.0.1:1/v1"}'; cat >/dev/null"#)).await.unwrap();
        assert_eq!(server.base_url(), "http://127.0.0.1:1/v1");
        assert!(server.close().await.unwrap().success());
    }

    #[tokio::test]
    async fn a_stubborn_server_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        // Server and child hold the lock through the same descriptor: it is free once both are gone.
        let script = format!(
            r#"exec 9>{}; flock 9; sleep 600 & echo '{{"base_url": "x"}}'; trap '' TERM; wait; sleep 600"#,
            path.display()
        );
        let server = start(&shell(&script)).await.unwrap();
        let lock = fs_err::File::open(&path).unwrap().into_parts().0;
        assert!(lock.try_lock().is_err());
        assert!(!server.close().await.unwrap().success());
        let locked = tokio::task::spawn_blocking(move || lock.lock());
        timeout(Duration::from_secs(20), locked).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_server_that_dies_is_shown_with_its_stderr() {
        let error = start(&shell("echo no script >&2; exit 3")).await.unwrap_err();
        assert!(error.contains("ended before it was ready (exit status: 3)"), "{error}");
        assert!(error.ends_with("\n  no script"), "{error}");
    }

    #[tokio::test]
    async fn a_silent_or_babbling_server_is_refused() {
        let mut config = shell("cat >/dev/null");
        config.ready_timeout_sec = Duration::from_millis(50);
        assert!(start(&config).await.unwrap_err().contains("not ready after 0.05 s"));
        let error = start(&shell("echo hello; cat >/dev/null")).await.unwrap_err();
        assert!(error.contains("`hello`"), "{error}");
    }

    #[tokio::test]
    async fn an_absent_program_is_named() {
        let mut config = shell("");
        config.command = "gaia-no-such-program".to_owned();
        let error = start(&config).await.unwrap_err();
        assert!(error.contains("`gaia-no-such-program`") && error.contains("hint:"), "{error}");
    }
}
