//! Tool output that the model sees no longer, or never saw whole: kept outside of memory, read back by `recall`.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use regex::{Regex, RegexBuilder};

/// An append-only file without a name, which ends with the task. A long task drops tens of megabytes, and many tasks
/// run at the same time: only the list of entries is in memory.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    file: Option<File>,
    entries: Vec<Entry>,
    end: u64,
}

#[derive(Debug)]
struct Entry {
    /// Numbers are those of the calls; a summary that replaced whole turns keeps them under the next free one.
    number: u32,
    label: String,
    start: u64,
    bytes: usize,
}

/// Bytes of one answer of `recall`: half of what any other tool may say, as it is asked again for more.
const PAGE_BYTES: usize = 8 * 1024;

/// Characters of a line around a match; a file may be one line.
const LINE_CHARACTERS: usize = 300;

/// Characters of what a call was, in lists.
const LABEL_CHARACTERS: usize = 120;

/// A pattern is the model's: a table larger than this is a mistake.
const PATTERN_TABLE_BYTES: usize = 1 << 20;

impl Archive {
    /// Keeps a text. On failure it is not there, and the caller says so to the model.
    pub(crate) fn keep(&mut self, number: u32, label: &str, text: &str) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile()?);
        }
        if let Some(file) = &mut self.file {
            file.write_all_at(text.as_bytes(), self.end)?;
            file.flush()?;
        }
        let label = label.chars().take(LABEL_CHARACTERS).collect();
        self.entries.push(Entry { number, label, start: self.end, bytes: text.len() });
        self.end += text.len() as u64;
        Ok(())
    }

    /// One page of an entry from a byte on; the last line says how to go on.
    pub(crate) fn page(&self, number: u32, offset: usize) -> Result<String, String> {
        let entry = self.find(number)?;
        let text = self.read(entry)?;
        let start = text.ceil_char_boundary(offset.min(text.len()));
        let end = text.floor_char_boundary((start + PAGE_BYTES).min(text.len()));
        let rest = match end == text.len() {
            true => "the end".to_owned(),
            false => format!("go on with offset {end}"),
        };
        Ok(format!(
            "{}\n[bytes {start} to {end} of {} of call {number}, {}; {rest}]",
            &text[start..end],
            text.len(),
            entry.label
        ))
    }

    /// The lines that a pattern matches, each with its place.
    pub(crate) fn search(&self, pattern: &str, number: Option<u32>) -> Result<String, String> {
        let pattern = compile(pattern)?;
        let one = number.map(|number| self.find(number)).transpose()?;
        let mut found = String::new();
        for entry in self.entries.iter().filter(|entry| one.is_none_or(|one| one.number == entry.number)) {
            let text = self.read(entry)?;
            let mut offset = 0;
            for line in text.split_inclusive('\n') {
                if let Some(hit) = pattern.find(line) {
                    // A match deep in a long line is what is wanted, not the start of the line.
                    let from = line.floor_char_boundary(hit.start().saturating_sub(LINE_CHARACTERS / 2));
                    let shown: String = line[from..].trim_end().chars().take(LINE_CHARACTERS).collect();
                    found.push_str(&format!("call {}, offset {}: {shown}\n", entry.number, offset + from));
                    if found.len() > PAGE_BYTES {
                        found.push_str("[there are more matches; use a narrower pattern, or name a call]");
                        return Ok(found);
                    }
                }
                offset += line.len();
            }
        }
        match found.is_empty() {
            true => Err(format!("nothing that was kept matches `{pattern}`")),
            false => Ok(found),
        }
    }

    /// What there is, latest first when it is too much for one page.
    pub(crate) fn list(&self) -> Result<String, String> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        for entry in self.entries.iter().rev() {
            let line = format!("call {}: {}, {} bytes", entry.number, entry.label, entry.bytes);
            bytes += line.len();
            if bytes > PAGE_BYTES {
                lines.push(format!("[and {} earlier ones]", self.entries.len() - lines.len()));
                break;
            }
            lines.push(line);
        }
        match lines.is_empty() {
            true => Err("nothing was cut or dropped so far: all output is in the conversation".to_owned()),
            false => Ok(lines.join("\n")),
        }
    }

    fn find(&self, number: u32) -> Result<&Entry, String> {
        self.entries.iter().find(|entry| entry.number == number).ok_or_else(|| {
            format!("nothing was kept of call {number}: its output is whole in the conversation, or there was no such call")
        })
    }

    fn read(&self, entry: &Entry) -> Result<String, String> {
        let mut bytes = vec![0; entry.bytes];
        let read = match &self.file {
            Some(file) => file.read_exact_at(&mut bytes, entry.start),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        read.map_err(|error| format!("the output of call {} cannot be read back: {error}", entry.number))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// What is no regular expression is meant as it stands.
fn compile(pattern: &str) -> Result<Regex, String> {
    let build =
        |text: &str| RegexBuilder::new(text).case_insensitive(true).size_limit(PATTERN_TABLE_BYTES).build();
    build(pattern)
        .or_else(|_| build(&regex::escape(pattern)))
        .map_err(|error| format!("a bad pattern: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Archive {
        let mut archive = Archive::default();
        archive
            .keep(2, "bash seq", &(0..5_000).map(|n| format!("line {n} é\n")).collect::<String>())
            .unwrap();
        archive
            .keep(
                7,
                "fetch page",
                &format!("{}the code word is Heron{}", "x".repeat(20_000), "y".repeat(9_000)),
            )
            .unwrap();
        archive
    }

    #[test]
    fn pages_join_to_the_whole_text() {
        let archive = archive();
        let (mut offset, mut text) = (0, String::new());
        loop {
            let page = archive.page(2, offset).unwrap();
            let (body, note) = page.rsplit_once("\n[").unwrap();
            text.push_str(body);
            match note.split_once("offset ") {
                Some((_, next)) => offset = next.trim_end_matches(']').parse().unwrap(),
                None => break,
            }
        }
        assert_eq!(text, (0..5_000).map(|n| format!("line {n} é\n")).collect::<String>());
    }

    #[test]
    fn a_match_is_shown_with_its_place_and_found_there() {
        let archive = archive();
        let found = archive.search("code word is \\w+", None).unwrap();
        let (place, line) = found.split_once(": ").unwrap();
        assert!(line.contains("is Heron"), "{found}");
        let offset = place.strip_prefix("call 7, offset ").unwrap().parse().unwrap();
        assert!(archive.page(7, offset).unwrap().contains("is Heron"));
        assert!(archive.search("heron", Some(2)).unwrap_err().contains("matches `heron`"));
        let many = archive.search("LINE", None).unwrap();
        assert!(many.len() < PAGE_BYTES + 500 && many.contains("more matches"), "{}", many.len());
    }

    #[test]
    fn what_is_no_expression_and_what_is_not_there_are_told() {
        let archive = archive();
        assert!(archive.search("line 7 (", None).unwrap_err().contains("nothing"));
        assert!(archive.search("(((((.{1000}){1000}){1000}", None).is_err());
        assert!(archive.page(3, 0).unwrap_err().contains("call 3"));
        assert!(archive.page(7, 1 << 40).unwrap().contains("the end"));
        assert!(archive.list().unwrap().contains("call 7: fetch page, 29022 bytes"), "{:?}", archive.list());
        assert!(Archive::default().list().is_err());
    }
}
