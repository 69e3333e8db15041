//! Text that grows word by word: single spaces, blank lines between blocks, prefixes of quotes and list items.

/// How line breaks are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    Many,
    /// In a cell of a table or in a heading, all stands on one line.
    One,
}

/// One stretch of Markdown.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) text: String,
    lines: Lines,
    /// Space was seen and nothing after it yet.
    space: bool,
    /// Line breaks that come before the next text.
    breaks: u8,
    /// What stands before each line: of quotes and list items.
    prefixes: Vec<&'static str>,
    /// Right after a list marker, where a paragraph needs no break.
    is_fresh: bool,
}

impl Buffer {
    pub(super) fn new(lines: Lines) -> Self {
        Self { text: String::new(), lines, space: false, breaks: 0, prefixes: Vec::new(), is_fresh: true }
    }

    /// Text as it stands in HTML: any run of space is one space.
    pub(super) fn words(&mut self, text: &str) {
        let mut rest = text;
        loop {
            let trimmed = rest.trim_start_matches(is_space);
            self.space |= trimmed.len() < rest.len();
            if trimmed.is_empty() {
                return;
            }
            let end = trimmed.find(is_space).unwrap_or(trimmed.len());
            self.open();
            self.push_word(&trimmed[..end]);
            rest = &trimmed[end..];
        }
    }

    fn push_word(&mut self, word: &str) {
        if self.lines == Lines::One && word.contains('|') {
            self.text.push_str(&word.replace('|', "\\|"));
        } else {
            self.text.push_str(word);
        }
    }

    /// A mark that belongs to the text after it.
    pub(super) fn opening(&mut self, mark: &str) {
        self.open();
        self.text.push_str(mark);
    }

    /// A mark that belongs to the text before it; space in between moves behind it.
    pub(super) fn closing(&mut self, mark: &str) {
        self.text.push_str(mark);
    }

    /// Takes back a mark that nothing came after.
    pub(super) fn take_back(&mut self, before: usize) {
        self.text.truncate(before);
        // Only a stretch without any text is still at its beginning.
        self.is_fresh = self.text.is_empty();
    }

    /// Text that keeps its spaces and lines.
    pub(super) fn verbatim(&mut self, text: &str) {
        if self.lines == Lines::One {
            return self.words(text);
        }
        for (index, line) in text.split('\n').enumerate() {
            if index > 0 {
                self.text.push('\n');
                self.push_prefixes();
            }
            self.text.push_str(line.trim_end_matches('\r'));
        }
    }

    /// Puts the next text on a new line, with `count - 1` empty lines before it.
    pub(super) fn break_lines(&mut self, count: u8) {
        if !self.is_fresh {
            self.breaks = self.breaks.max(count);
        }
        self.space = false;
    }

    pub(super) fn push_prefix(&mut self, prefix: &'static str) {
        self.prefixes.push(prefix);
    }

    pub(super) fn pop_prefix(&mut self) {
        self.prefixes.pop();
    }

    /// The next block begins here, as after a list marker.
    pub(super) fn begin_block(&mut self) {
        self.is_fresh = true;
        self.space = false;
    }

    /// Where text that comes now will start.
    pub(super) fn open(&mut self) {
        if self.breaks > 0 {
            if self.lines == Lines::One {
                let has_text = !self.text.is_empty() && !self.text.ends_with("<br>");
                self.text.push_str(if has_text { "<br>" } else { "" });
            } else {
                for _ in 0..self.breaks {
                    while self.text.ends_with(' ') {
                        self.text.pop();
                    }
                    self.text.push('\n');
                    self.push_prefixes();
                }
            }
        } else if self.space && !self.is_fresh && !self.text.ends_with(' ') {
            self.text.push(' ');
        }
        self.breaks = 0;
        self.space = false;
        self.is_fresh = false;
    }

    fn push_prefixes(&mut self) {
        for prefix in &self.prefixes {
            self.text.push_str(prefix);
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.text.truncate(self.text.trim_end().len());
        self.text
    }
}

/// No-break spaces glue numbers to units, and mean nothing to a reader of text.
fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{200b}' | '\u{feff}')
}
