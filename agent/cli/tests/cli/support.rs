use std::io::{Read, Write};
use std::net::TcpListener;
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

/// An endpoint that answers every request with 404, until the test process ends. Returns its base URL.
pub(crate) fn endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            // The request of a client comes in one piece; what it says does not matter.
            let _bytes = stream.read(&mut request).unwrap();
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok();
        }
    });
    format!("http://{address}/v1")
}

/// The config of a run whose parts are all there, except for what a test changes.
pub(crate) fn config(base_url: &str, servers: &str) -> String {
    format!(
        "[dataset]\npath = \"data\"\n\n[model]\nname = \"m\"\nbase_url = \"{base_url}\"\n\n{servers}\n"
    )
}

pub(crate) fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
