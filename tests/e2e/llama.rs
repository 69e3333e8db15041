//! SmolLM2-135M behind llama.cpp's own server, as `.ci/model` installed it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use gaia_tests::installed;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, Command};

/// Half of what the model was trained with: the server divides its context among two slots.
pub(crate) const CONTEXT_TOKENS: u32 = 4096;

/// Loading takes a second on an idle machine.
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// A running server; it dies with the test.
pub(crate) struct Llama {
    pub(crate) base_url: String,
    child: Child,
}

impl Llama {
    pub(crate) async fn start() -> Self {
        let folder = installed::model();
        let weights = folder.join("weights.gguf");
        let template = sources().join("tools.jinja");
        let context = (2 * CONTEXT_TOKENS).to_string();
        let fast = folder.join("llama-server");
        let mut command = if fast.exists() {
            let mut command = Command::new(fast);
            // Two slots: the last call without tools does not push the common prefix of the others out.
            let options = "--host 127.0.0.1 --port 0 -t 2 -np 2 --device none --jinja --alias smol";
            command.args(options.split(' ')).args(["-c", &context]);
            command.arg("-m").arg(weights).arg("--chat-template-file").arg(template);
            command
        } else {
            let mut command = Command::new(folder.join("python/bin/python"));
            command.arg(sources().join("serve.py")).arg(weights).arg(template).arg(context);
            command
        };
        // With two threads on busy processors a spinning wait takes most of the time.
        command.env("OMP_WAIT_POLICY", "PASSIVE").env("GOMP_SPINCOUNT", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready = tokio::time::timeout(READY_TIMEOUT, async {
            tokio::select! {
                Some(url) = address(&mut stdout) => url,
                Some(url) = address(&mut stderr) => url,
                else => panic!("llama.cpp's server ended before it listened"),
            }
        });
        let url = ready.await.expect("llama.cpp's server was not ready in time");
        // Read on, or the server would stand still with its pipes full.
        tokio::spawn(async move { while let Ok(Some(_)) = stdout.next_line().await {} });
        tokio::spawn(async move { while let Ok(Some(_)) = stderr.next_line().await {} });
        Self { base_url: format!("{url}/v1"), child }
    }

    pub(crate) async fn close(mut self) {
        self.child.kill().await.unwrap();
    }
}

async fn address(lines: &mut Lines<BufReader<impl AsyncRead + Unpin>>) -> Option<String> {
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some((_, url)) = line.split_once("listening on ") {
            return Some(url.trim().to_owned());
        }
    }
    None
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("model")
}
