use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::mask::mask;
use super::secret::{is_ordinary_variable_name, looks_secret, names_a_variable};
use super::source::{SourceKind, SourceText};

/// Where a value of the config was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    File {
        source: Arc<SourceText>,
        /// In bytes.
        span: Range<usize>,
    },
    Variable(&'static str),
    /// Flag and its argument as the user typed them.
    Flag(String),
}

impl Place {
    /// Moves the caret from the whole value to the part of it that is meant.
    pub(crate) fn narrow(self, part: &str) -> Self {
        match self {
            Self::File { source, span } => {
                let found = source.text.get(span.clone()).and_then(|value| value.find(part));
                let span = found
                    .map_or(span.clone(), |offset| span.start + offset..span.start + offset + part.len());
                Self::File { source, span }
            }
            other => other,
        }
    }

    /// `file:line:column`, or what stands for it.
    pub(crate) fn position(&self) -> String {
        match self {
            Self::File { source, span } => {
                let Position { line, column, .. } = Position::of(&source.text, span);
                format!("{}:{line}:{column}", source.path.display())
            }
            Self::Variable(name) => format!("environment variable `{name}`"),
            Self::Flag(flag) => format!("`{}`", shown_flag(flag)),
        }
    }
}

/// A flag as an error may show it: `--set model.api_key_env=sk-…` is a mistake that ends up in logs.
fn shown_flag(flag: &str) -> String {
    let Some((key, value)) = flag.split_once('=') else { return flag.to_owned() };
    let name = key.rsplit(['.', ' ']).next().unwrap_or(key);
    let value = value.trim_matches(['"', '\'']);
    let is_wrong_name = names_a_variable(name) && !is_ordinary_variable_name(value);
    match looks_secret(name) || is_wrong_name {
        true => format!("{key}=****"),
        false => flag.to_owned(),
    }
}

/// One thing that is wrong with the config. Its text names the place, shows the line and says the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub(crate) place: Option<Place>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(place: Option<Place>, message: impl Into<String>) -> Self {
        Self { place, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place @ Place::File { source, span }) => {
                write!(formatter, "{}: {}", place.position(), self.message)?;
                // Every line of a `.env` may be a secret, and error texts end up in logs.
                if source.kind != SourceKind::Variables {
                    Position::of(&source.text, span).underline(formatter)?;
                }
            }
            Some(place) => write!(formatter, "{}: {}", place.position(), self.message)?,
            None => formatter.write_str(&self.message)?,
        }
        if let Some(hint) = &self.hint {
            write!(formatter, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

struct Position<'a> {
    /// From 1.
    line: usize,
    /// In characters, from 1.
    column: usize,
    text: &'a str,
    /// In characters, at least 1 and not beyond the line.
    width: usize,
}

impl<'a> Position<'a> {
    fn of(text: &'a str, span: &Range<usize>) -> Self {
        let start = floor_boundary(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let end = floor_boundary(text, span.end).clamp(start, line_end);
        Self {
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            text: text[line_start..line_end].trim_end_matches('\r'),
            width: text[start..end].trim_end().chars().count().max(1),
        }
    }

    fn underline(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // Tabs keep their width under the line when they are repeated.
        let indent: String = self
            .text
            .chars()
            .take(self.column - 1)
            .map(|character| if character == '\t' { '\t' } else { ' ' })
            .collect();
        let carets = "^".repeat(self.width);
        let text = mask(self.text, self.column - 1..self.column - 1 + self.width);
        write!(formatter, "\n{margin} |\n{number} | {text}\n{margin} | {indent}{carets}")
    }
}

fn floor_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// `, did you mean …?` when one of the candidates is close.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map(|near| format!(", did you mean `{near}`?")).unwrap_or_default()
}

/// The most similar candidate, if it may be a typing error.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// The similarity from which a typing error is likelier than another word.
    const MIN_SIMILARITY: f64 = 0.8;
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(similarity, candidate)| {
            // One wrong letter in a short word is a large share of it.
            let one_letter = word.len() >= 3 && strsim::damerau_levenshtein(word, candidate) <= 1;
            *similarity >= MIN_SIMILARITY || one_letter
        })
        .max_by(|(first, _), (second, _)| first.total_cmp(second))
        .map(|(_, candidate)| candidate)
}
