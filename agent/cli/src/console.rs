//! Where output goes: data to stdout, everything for people to stderr, around the progress bars; and no secret to either.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, PoisonError, RwLock};

use indicatif::{MultiProgress, ProgressDrawTarget};
use tracing_subscriber::fmt::MakeWriter;

use crate::config::Secrets;

/// How much is said on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chatter {
    /// Warnings and errors only.
    Quiet,
    Normal,
}

/// The two output streams. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Console {
    bars: MultiProgress,
    display: Display,
    /// Shared by all clones: known only once a config is loaded, after the log has started.
    hidden: Arc<RwLock<Secrets>>,
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    /// Bars that redraw themselves.
    Live,
    /// One line for each sample that ends.
    Lines,
    Silent,
}

impl Console {
    pub fn new(chatter: Chatter) -> Self {
        let display = match chatter {
            Chatter::Quiet => Display::Silent,
            Chatter::Normal if io::stderr().is_terminal() => Display::Live,
            Chatter::Normal => Display::Lines,
        };
        let target = match display {
            Display::Live => ProgressDrawTarget::stderr(),
            Display::Lines | Display::Silent => ProgressDrawTarget::hidden(),
        };
        Self { bars: MultiProgress::with_draw_target(target), display, hidden: Arc::default() }
    }

    /// The same without anything that redraws itself, for a terminal that somebody types into.
    pub fn without_bars(&self) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
        let display = match self.display {
            Display::Live => Display::Lines,
            display => display,
        };
        Self { bars, display, hidden: self.hidden.clone() }
    }

    /// From now on these are in nothing that is written.
    pub fn hide(&self, secrets: &Secrets) {
        self.hidden.write().unwrap_or_else(PoisonError::into_inner).extend(secrets);
    }

    pub fn display(&self) -> Display {
        self.display
    }

    pub fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// Data: one text, ended by a line break.
    pub fn print(&self, text: &str) -> io::Result<()> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = redacted(&self.hidden, text);
        self.bars.suspend(|| {
            let mut stdout = io::stdout().lock();
            writeln!(stdout, "{text}")?;
            stdout.flush()
        })
    }

    /// A line for people, unless they asked for quiet.
    pub fn say(&self, text: &str) {
        if self.display != Display::Silent {
            self.warn(text);
        }
    }

    /// A line for people that they should not miss.
    pub fn warn(&self, text: &str) {
        let text = redacted(&self.hidden, text);
        self.bars.suspend(|| {
            // Nobody is left to be told when stderr is gone.
            writeln!(io::stderr(), "{text}").ok();
        });
    }
}

/// For tracing: one write a record.
impl MakeWriter<'_> for Console {
    type Writer = Record;

    fn make_writer(&self) -> Record {
        Record { bars: self.bars.clone(), text: Vec::new(), hidden: self.hidden.clone() }
    }
}

fn redacted<'a>(hidden: &RwLock<Secrets>, text: &'a str) -> Cow<'a, str> {
    hidden.read().unwrap_or_else(PoisonError::into_inner).redact(text)
}

/// Collects one record and writes it between two redraws of the bars.
#[derive(Debug)]
pub struct Record {
    bars: MultiProgress,
    text: Vec<u8>,
    hidden: Arc<RwLock<Secrets>>,
}

impl Write for Record {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.text);
        let text = String::from_utf8_lossy(&text);
        let text = redacted(&self.hidden, &text);
        self.bars.suspend(|| io::stderr().write_all(text.as_bytes()))
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // As above: a log line that cannot be written has no other place to go.
        self.flush().ok();
    }
}
