//! Reads a document in a child process of this very program, whose memory, time and files are bounded by the kernel: a
//! bomb or a crash costs that child and nothing else.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;

use super::documents::{self, Document, Wanted};
use super::kind::DocumentKind;

/// First argument of the child. Nobody types it.
const CHILD_FLAG: &str = "--read-document-from-stdin";
/// Address space of a child: a workbook of 50 MB takes a third of it.
const MAX_MEMORY_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Processor time of a child; a thousand pages take a few seconds.
const MAX_CPU_SEC: u64 = 20;
/// A child that does not even compute is stuck.
const MAX_TIME: Duration = Duration::from_secs(45);
/// Parsers of trees go deep in deep documents.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// What a child may say: the longest text, and its pictures.
const MAX_REPLY_BYTES: u64 = 64 * 1024 * 1024;
/// Of a panic's message.
const MAX_ERROR_BYTES: u64 = 4 * 1024;
/// Children at the same time; each may take much memory.
const MAX_CHILDREN: usize = 4;

/// Starts children.
#[derive(Debug)]
pub struct Worker {
    program: PathBuf,
    places: Semaphore,
}

#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    Read(Document),
    Failed(String),
}

impl Worker {
    /// Over this very program, which must begin its `main` with [`run_if_asked`].
    pub fn of_this_program() -> std::io::Result<Self> {
        Ok(Self { program: std::env::current_exe()?, places: Semaphore::new(MAX_CHILDREN) })
    }

    /// An error is a text for the model.
    pub async fn read(&self, kind: DocumentKind, body: Bytes, wanted: Wanted) -> Result<Document, String> {
        // Nobody closes it.
        let _place = self.places.acquire().await.map_err(|error| error.to_string())?;
        let what = kind.name();
        match tokio::time::timeout(MAX_TIME, self.ask(kind, body, wanted)).await {
            Ok(result) => result,
            Err(_) => Err(format!(
                "the {what} took more than {} s to read, and was given up; it may be damaged on purpose",
                MAX_TIME.as_secs()
            )),
        }
    }

    async fn ask(&self, kind: DocumentKind, body: Bytes, wanted: Wanted) -> Result<Document, String> {
        let what = kind.name();
        let broken =
            |error: std::io::Error| format!("failed to start the reader of {what} documents: {error}");
        let wanted = serde_json::to_string(&wanted).map_err(|error| error.to_string())?;
        let mut child = Command::new(&self.program)
            .args([CHILD_FLAG, what, &wanted])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(broken)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err("failed to reach the reader of documents".to_owned());
        };
        let writing = async move {
            // A child that died early says why by its end.
            let _ = stdin.write_all(&body).await;
            drop(stdin);
        };
        let (mut reply, mut complaint) = (Vec::new(), Vec::new());
        let mut bounded = stdout.take(MAX_REPLY_BYTES);
        let mut first_words = stderr.take(MAX_ERROR_BYTES);
        let reading = bounded.read_to_end(&mut reply);
        let listening = first_words.read_to_end(&mut complaint);
        let ((), read, _) = tokio::join!(writing, reading, listening);
        read.map_err(broken)?;
        let status = child.wait().await.map_err(broken)?;
        if let Ok(reply) = serde_json::from_slice::<Reply>(&reply) {
            return match reply {
                Reply::Read(document) => Ok(document),
                Reply::Failed(error) => Err(error),
            };
        }
        let complaint = String::from_utf8_lossy(&complaint);
        tracing::debug!(%status, %complaint, "the reader of a document ended without a reply");
        Err(format!("the {what} could not be read: {}", why(&complaint, status.code().is_none())))
    }
}

/// What became of a child that gave no reply.
fn why(complaint: &str, was_killed: bool) -> String {
    if complaint.contains("memory allocation") {
        return format!(
            "it takes more than {} MB of memory; it may be damaged on purpose",
            MAX_MEMORY_BYTES / 1024 / 1024
        );
    }
    if complaint.contains("panicked") || complaint.contains("stack overflow") {
        return "its parser crashed on it; it is damaged, or of an unusual form".to_owned();
    }
    if was_killed {
        return format!("it takes more than {MAX_CPU_SEC} s to read; it may be damaged on purpose");
    }
    "its reader ended without a word".to_owned()
}

/// What `main` must begin with: when the program was started as a reader, it reads and ends with this code.
pub fn run_if_asked(arguments: impl IntoIterator<Item = String>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next().as_deref() != Some(CHILD_FLAG) {
        return None;
    }
    let (kind, wanted) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let kind = DocumentKind::ALL.into_iter().find(|known| known.name() == kind);
    let wanted = serde_json::from_str(&wanted).ok();
    let (Some(kind), Some(wanted)) = (kind, wanted) else { return Some(ExitCode::from(2)) };
    Some(match read_stdin(kind, wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::debug!(%error, "the reply was not sent");
            ExitCode::FAILURE
        }
    })
}

fn read_stdin(kind: DocumentKind, wanted: Wanted) -> std::io::Result<()> {
    confine()?;
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body)?;
    let reading = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || documents::read(kind, body, wanted))?;
    let reply = match reading.join() {
        Ok(Ok(document)) => Reply::Read(document),
        Ok(Err(error)) => Reply::Failed(error),
        Err(_panic) => Reply::Failed(format!(
            "the {} could not be read: its parser crashed on it; it is damaged, or of an unusual form",
            kind.name()
        )),
    };
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer(&mut stdout, &reply)?;
    stdout.flush()
}

/// No more memory or time than a document is worth, and no file is written.
fn confine() -> std::io::Result<()> {
    for (resource, limit) in [
        (Resource::As, MAX_MEMORY_BYTES),
        (Resource::Cpu, MAX_CPU_SEC),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nofile, 16),
    ] {
        setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    }
    Ok(())
}
