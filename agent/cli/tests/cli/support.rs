use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What a finished program left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// For commands that must fail: nothing but text for people, and that on stderr.
    pub(crate) fn fails_with(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert_eq!(self.stdout, "", "{self:#?}");
        for text in texts {
            assert!(self.stderr.contains(text), "no `{text}` in {self:#?}");
        }
    }
}

/// A folder for one test, in which `gaia` runs with nothing of ours in its environment.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    /// A dataset of three questions, one of each level.
    pub(crate) fn write_dataset(&self) {
        let rows: String = (1..=3)
            .map(|level| {
                format!(
                    "{{\"task_id\": \"task-{level}\", \"Question\": \"What is {level}?\", \"Level\": {level}, \
                     \"Final answer\": \"{level}\", \"file_name\": \"\"}}\n"
                )
            })
            .collect();
        self.write("data/2023/validation/metadata.jsonl", &rows);
    }

    pub(crate) fn gaia(&self, arguments: &[&str]) -> Ended {
        self.gaia_with(arguments, "")
    }

    pub(crate) fn gaia_with(&self, arguments: &[&str], stdin: &str) -> Ended {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gaia"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let stdin = stdin.to_owned();
        // The program may end before it has read everything.
        let writer = std::thread::spawn(move || pipe.write_all(stdin.as_bytes()).ok());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A model that answers every question with `FINAL ANSWER: 1`, until the test process ends. Returns its base URL.
pub(crate) fn endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || answer(stream));
        }
    });
    format!("http://{address}/v1")
}

fn answer(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let reply = serde_json::json!({
        "id": "1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{
            "index": 0, "finish_reason": "stop",
            "message": { "role": "assistant", "content": "FINAL ANSWER: 1" }
        }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 }
    })
    .to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{reply}",
        reply.len()
    )
    .unwrap();
}

/// A server in a few lines of shell: `submit` takes an answer, `fail` always reports an error.
pub(crate) const SHELL_SERVER: &str = r#"[mcp_servers.submit]
command = "/bin/sh"
args = ["-c", '''
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
schema='{"type":"object","properties":{"answer":{"type":"string"}}}'
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*)
      reply '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*)
      reply '{"tools":[{"name":"submit","inputSchema":'"$schema"'},{"name":"fail","inputSchema":'"$schema"'},{"name":"secret","inputSchema":'"$schema"'}]}' ;;
    *'"tools/call"'*'"fail"'*) reply '{"content":[{"type":"text","text":"it broke"}],"isError":true}' ;;
    *'"tools/call"'*) reply '{"content":[{"type":"text","text":"taken"}]}' ;;
  esac
done
''']
disabled_tools = ["secret"]
"#;

/// The config of a run whose parts are all there, except for what a test changes.
pub(crate) fn config(base_url: &str, servers: &str) -> String {
    format!(
        "[dataset]\npath = \"data\"\n\n[model]\nname = \"m\"\nbase_url = \"{base_url}\"\nstream = false\n\n{servers}\n"
    )
}

pub(crate) fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
