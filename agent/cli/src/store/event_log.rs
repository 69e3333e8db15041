use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fs_err::{File, OpenOptions};
use gaia_agent::tools::SpilledFile;
use gaia_agent::{AgentEvent, EventSink, Message, Part};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::artefact::{extension_of, store_artefact, store_artefact_from};
use crate::config::Secrets;

/// Appends the events of one sample to `events.jsonl`, each with its time. Pictures go to the sample's
/// artefacts; in the line their data reads `file:<name>`.
pub struct EventLog {
    tap: Option<LineTap>,
    attempt: u32,
    artefacts: PathBuf,
    /// Of the run: what its samples have in common.
    common: PathBuf,
    secrets: Arc<Secrets>,
    state: Mutex<State>,
}

/// Hears of each line once it is written.
pub type LineTap = Box<dyn Fn(&str) + Send + Sync>;

struct State {
    /// Absent once the log is closed: a server's last words may come later and have no place then.
    file: Option<File>,
    /// The first failed write: later events are dropped, since a log with a hole explains nothing.
    failure: Option<io::Error>,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(with = "time::serde::rfc3339")]
    time: OffsetDateTime,
    /// The role of a strategy that the event belongs to; absent for the task as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<&'a str>,
    #[serde(flatten)]
    event: &'a AgentEvent,
}

impl EventLog {
    /// Opens the log for a new attempt. A line that a crash tore is cut off.
    pub(super) fn open(
        path: &Path,
        artefacts: PathBuf,
        common: PathBuf,
        secrets: Arc<Secrets>,
    ) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        cut_torn_lines(&mut file)?;
        file.rewind()?;
        let attempt = 1 + count_attempts(&mut file)?;
        file.seek(SeekFrom::End(0))?;
        let state = Mutex::new(State { file: Some(file), failure: None });
        Ok(Self { tap: None, attempt, artefacts, common, secrets, state })
    }

    #[must_use]
    pub fn with_tap(mut self, tap: Option<LineTap>) -> Self {
        self.tap = tap;
        self
    }

    pub(super) fn attempts_in(path: &Path) -> io::Result<u32> {
        match File::open(path) {
            Ok(mut file) => count_attempts(&mut file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Attempts count from 1 over all sessions of the run.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Puts the log on the disk. Fails if any event could not be written.
    pub fn close(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (state.failure.take(), state.file.take()) {
            (Some(error), _) => Err(error),
            (None, Some(file)) => file.sync_all(),
            (None, None) => Ok(()),
        }
    }

    fn append(&self, file: &mut File, branch: Option<&str>, mut event: AgentEvent) -> io::Result<()> {
        match &mut event {
            AgentEvent::Started { messages, .. } | AgentEvent::BranchStarted { messages, .. } => {
                for message in messages {
                    if let Message::User { content } | Message::Tool { content, .. } = message {
                        self.move_media(content)?;
                    }
                }
            }
            AgentEvent::ToolResult { content, .. } => self.move_media(content)?,
            _ => {}
        }
        let line = serde_json::to_string(&Line { time: OffsetDateTime::now_utc(), branch, event: &event })?;
        let mut line = self.secrets.redact(&line).into_owned();
        line.push('\n');
        // One write a line: a crash tears at most this one.
        file.write_all(line.as_bytes())?;
        if let Some(tap) = &self.tap {
            tap(&line);
        }
        Ok(())
    }

    fn move_media(&self, content: &mut [Part]) -> io::Result<()> {
        for part in content {
            if let Some((media_type, data)) = part.media()
                && let Ok(bytes) = STANDARD.decode(data)
            {
                let name = store_artefact(&self.artefacts, extension_of(media_type), &bytes)?;
                if let Some(data) = part.media_data_mut() {
                    *data = format!("file:{name}");
                }
            }
        }
        Ok(())
    }
}

impl EventSink for EventLog {
    fn emit(&self, event: AgentEvent) {
        self.write(None, event);
    }

    fn emit_from(&self, branch: &str, event: AgentEvent) {
        self.write(Some(branch), event);
    }

    fn keep(&self, text: &str) -> Option<String> {
        self.kept(store_artefact(&self.artefacts, "txt", self.secrets.redact(text).as_bytes()))
    }

    fn keep_offer(&self, offer: &str) -> Option<String> {
        self.kept(store_artefact(&self.common, "json", self.secrets.redact(offer).as_bytes()))
    }

    fn keep_file(&self, file: &SpilledFile) -> Option<String> {
        // The answer as it came, which is JSON; the host has taken the secrets out.
        self.kept(store_artefact_from(&self.artefacts, "json", |sink| file.copy_to(sink)))
    }
}

impl EventLog {
    fn write(&self, branch: Option<&str>, event: AgentEvent) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failure.is_none()
            && let Some(file) = &mut state.file
            && let Err(error) = self.append(file, branch, event)
        {
            tracing::error!("{error}");
            state.failure = Some(error);
        }
    }

    fn kept(&self, stored: io::Result<String>) -> Option<String> {
        match stored {
            Ok(name) => Some(name),
            Err(error) => {
                tracing::error!("{error}");
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                state.failure.get_or_insert(error);
                None
            }
        }
    }
}

/// Cuts everything after the last line that is whole and JSON.
fn cut_torn_lines(file: &mut File) -> io::Result<()> {
    /// A power cut can leave a few unwritten blocks behind the last line that reached the disk.
    const BLOCK_BYTES: u64 = 64 * 1024;

    let length = file.seek(SeekFrom::End(0))?;
    // `tail` holds the bytes from `start` to `kept`.
    let (mut start, mut kept) = (length, length);
    let mut tail: Vec<u8> = Vec::new();
    loop {
        let body = tail.strip_suffix(b"\n").unwrap_or(&tail);
        let line_start = match body.iter().rposition(|byte| *byte == b'\n') {
            Some(line_break) => line_break + 1,
            None if start == 0 => 0,
            None => {
                let block = start.min(BLOCK_BYTES);
                start -= block;
                file.seek(SeekFrom::Start(start))?;
                let mut bytes = vec![0; block as usize];
                file.read_exact(&mut bytes)?;
                bytes.append(&mut tail);
                tail = bytes;
                continue;
            }
        };
        let is_whole = tail.ends_with(b"\n")
            && serde_json::from_slice::<serde::de::IgnoredAny>(&body[line_start..]).is_ok();
        if is_whole || tail.is_empty() {
            break;
        }
        kept = start + line_start as u64;
        tail.truncate(line_start);
    }
    if kept < length {
        tracing::warn!("cut {} bytes of a torn line off `{}`", length - kept, file.path().display());
        file.set_len(kept)?;
    }
    Ok(())
}

fn count_attempts(file: &mut File) -> io::Result<u32> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type", borrow)]
        kind: std::borrow::Cow<'a, str>,
    }
    let mut attempts = 0;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let kind = serde_json::from_slice::<Kind<'_>>(&line);
        if kind.is_ok_and(|line| matches!(line.kind.as_ref(), "started" | "continued")) {
            attempts += 1;
        }
        line.clear();
    }
    Ok(attempts)
}

#[cfg(test)]
mod tests {
    use fs_err as fs;
    use gaia_agent::Image;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn started(attempt: u32) -> AgentEvent {
        AgentEvent::Started { attempt, tools: vec![], messages: vec![], offer: None }
    }

    fn open(path: &Path) -> EventLog {
        let folder = path.with_file_name("files");
        EventLog::open(path, folder.clone(), folder, Arc::default()).unwrap()
    }

    fn lines(path: &Path) -> Vec<Value> {
        fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_line_has_a_time_and_the_attempt_counts_over_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        for attempt in 1..=3 {
            let log = open(&path);
            assert_eq!(log.attempt(), attempt);
            log.emit(started(attempt));
            log.emit(AgentEvent::ModelCall { step: 1, request: None });
            log.close().unwrap();
        }
        let lines = lines(&path);
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[4]["attempt"], 3);
        assert_eq!(lines[5]["type"], "model_call");
        assert_eq!(lines[5]["step"], 1);
        for line in lines {
            OffsetDateTime::parse(
                line["time"].as_str().unwrap(),
                &time::format_description::well_known::Rfc3339,
            )
            .unwrap();
        }
    }

    #[test]
    fn the_role_of_an_event_stands_beside_it_and_is_no_attempt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let log = open(&path);
        log.emit(started(1));
        log.emit_from("run 2", AgentEvent::BranchStarted { tools: vec![], messages: vec![] });
        log.close().unwrap();
        let lines = lines(&path);
        assert_eq!((lines[0].get("branch"), &lines[1]["branch"]), (None, &Value::from("run 2")));
        assert!(serde_json::from_value::<AgentEvent>(lines[1].clone()).is_ok());
        assert_eq!(open(&path).attempt(), 2);
    }

    #[test]
    fn pictures_are_stored_once_outside_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let log = open(&path);
        let image = Part::Image(Image { media_type: "image/png".into(), data: STANDARD.encode(b"picture") });
        for step in 1..=2 {
            log.emit(AgentEvent::ToolResult {
                step,
                call_id: "1".into(),
                tool: "a/b".into(),
                content: vec![image.clone()],
                is_error: false,
                structured: None,
                whole: None,
                duration_ms: 1,
            });
        }
        log.close().unwrap();
        let lines = lines(&path);
        let name = lines[0]["content"][0]["data"].as_str().unwrap().strip_prefix("file:").unwrap();
        assert_eq!(fs::read(folder.path().join("files").join(name)).unwrap(), b"picture");
        assert_eq!(lines[0]["content"], lines[1]["content"]);
        assert_eq!(fs::read_dir(folder.path().join("files")).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_is_reported_at_the_end() {
        let log = EventLog {
            tap: None,
            attempt: 1,
            artefacts: PathBuf::new(),
            common: PathBuf::new(),
            secrets: Arc::default(),
            state: Mutex::new(State {
                file: Some(OpenOptions::new().write(true).open("/dev/full").unwrap()),
                failure: None,
            }),
        };
        log.emit(started(1));
        assert_eq!(log.close().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn no_secret_reaches_the_log_or_a_kept_output() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut secrets = Secrets::default();
        secrets.insert("s3cret-key");
        let files = folder.path().join("files");
        let log = EventLog::open(&path, files.clone(), files.clone(), Arc::new(secrets)).unwrap();
        log.emit(AgentEvent::Prompted { step: 1, text: "key s3cret-key".into() });
        let kept = log.keep("key s3cret-key").unwrap();
        log.close().unwrap();
        assert!(!fs::read_to_string(&path).unwrap().contains("s3cret"));
        let kept = super::super::artefact::read_artefact(&files, &kept).unwrap();
        assert!(!String::from_utf8(kept).unwrap().contains("s3cret"));
    }

    #[test]
    fn zeros_after_a_power_cut_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        fs::write(&path, [b"{\"type\":\"started\"}\n".as_slice(), &[0; 4096], b"\n"].concat()).unwrap();
        open(&path);
        assert_eq!(fs::read(&path).unwrap(), b"{\"type\":\"started\"}\n");
    }

    proptest! {
        /// Whatever instant the process dies at: the whole lines stay, the torn one goes.
        #[test]
        fn a_log_cut_anywhere_keeps_its_whole_lines(
            texts in prop::collection::vec(".{0,200}", 0..6),
            cut in any::<prop::sample::Index>(),
            huge in any::<bool>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("events.jsonl");
            let log = open(&path);
            for text in &texts {
                log.emit(AgentEvent::Prompted { step: 1, text: text.clone() });
            }
            if huge {
                log.emit(AgentEvent::Prompted { step: 2, text: "x".repeat(200_000) });
            }
            log.close().unwrap();
            let whole = fs::read(&path).unwrap();
            let at = cut.index(whole.len() + 1);
            fs::write(&path, &whole[..at]).unwrap();
            open(&path).close().unwrap();
            let expected = whole[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |position| position + 1);
            prop_assert_eq!(fs::read(&path).unwrap(), &whole[..expected]);
        }
    }
}
