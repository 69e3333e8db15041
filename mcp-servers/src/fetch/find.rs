//! All places of a text that hold a pattern.

use regex::{Regex, RegexBuilder};
use rmcp::model::CallToolResult;
use serde_json::json;

use super::load::Content;
use crate::arguments::{ArgumentError, Arguments};
use crate::toolset::success;

const DEFAULT_CONTEXT_CHARS: u64 = 200;
const MAX_CONTEXT_CHARS: u64 = 2_000;
const DEFAULT_HITS: u64 = 20;
const MAX_HITS: u64 = 200;
/// What a pattern may take once compiled: patterns come from a model, and some grow without end.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

pub(super) struct Request {
    pattern: Regex,
    shown_pattern: String,
    context: usize,
    max_hits: usize,
}

impl Request {
    pub(super) fn new(arguments: &Arguments) -> Result<Self, ArgumentError> {
        let written = arguments.required_text("pattern")?;
        let context = arguments.integer("context", 0..=MAX_CONTEXT_CHARS)?.unwrap_or(DEFAULT_CONTEXT_CHARS);
        let max_hits = arguments.integer("max_hits", 1..=MAX_HITS)?.unwrap_or(DEFAULT_HITS);
        Ok(Self {
            pattern: pattern(&written)?,
            shown_pattern: written,
            context: context as usize,
            max_hits: max_hits as usize,
        })
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.pattern.is_match(text)
    }

    pub(super) fn run(&self, content: &Content) -> CallToolResult {
        let Found { total, shown, hits } = self.hits(&content.text);
        let Self { shown_pattern, .. } = self;
        let url = &content.url;
        let mut text = match (total, shown) {
            (0, _) => format!(
                "`{shown_pattern}` is not in {url} ({} characters); try fewer or other words",
                content.text.chars().count()
            ),
            (total, shown) if shown < total => {
                format!("{total} hits for `{shown_pattern}` in {url}, the first {shown}:")
            }
            (total, _) => format!("{total} hits for `{shown_pattern}` in {url}:"),
        };
        for hit in &hits {
            text.push_str("\n\n");
            text.push_str(hit);
        }
        let facts = json!({
            "url": url.as_str(),
            "total": total,
            "hits": hits,
            "contaminated": content.contamination.is_some(),
        });
        success(text, facts)
    }

    /// A hit within the surroundings of the one before is shown with it.
    fn hits(&self, text: &str) -> Found {
        let mut hits = Vec::new();
        let (mut total, mut shown) = (0, 0);
        let mut shown_to = 0;
        let (mut chars, mut counted_to) = (0, 0);
        for hit in self.pattern.find_iter(text) {
            if hit.is_empty() {
                continue;
            }
            total += 1;
            if hit.end() <= shown_to {
                shown += 1;
                continue;
            }
            if hits.len() >= self.max_hits {
                continue;
            }
            shown += 1;
            let from = back(text, hit.start(), self.context);
            let to = forth(text, hit.end(), self.context);
            chars += text[counted_to..hit.start()].chars().count();
            counted_to = hit.start();
            let dots = |is_cut: bool| if is_cut { "…" } else { "" };
            hits.push(format!(
                "[at {chars}] {}{}{}",
                dots(from > 0),
                text[from..to].trim(),
                dots(to < text.len())
            ));
            shown_to = to;
        }
        Found { total, shown, hits }
    }
}

struct Found {
    total: usize,
    /// So many of them stand in what is shown.
    shown: usize,
    /// With their surroundings.
    hits: Vec<String>,
}

/// Words as they are, with any space between them; a regular expression when it stands between slashes.
fn pattern(written: &str) -> Result<Regex, ArgumentError> {
    let trimmed = written.trim();
    let expression = match trimmed.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
        Some(expression) if !expression.is_empty() => expression.to_owned(),
        _ => trimmed.split_whitespace().map(regex::escape).collect::<Vec<_>>().join(r"\s+"),
    };
    if expression.is_empty() {
        return Err(ArgumentError::new("`pattern` is empty; give the words to look for"));
    }
    RegexBuilder::new(&expression)
        .case_insensitive(true)
        .multi_line(true)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| ArgumentError::new(format!("`pattern` is no regular expression: {error}")))
}

fn back(text: &str, from: usize, chars: usize) -> usize {
    text[..from].char_indices().rev().take(chars).last().map_or(from, |(at, _)| at)
}

fn forth(text: &str, from: usize, chars: usize) -> usize {
    text[from..].char_indices().nth(chars).map_or(text.len(), |(at, _)| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, written: &str, context: usize, max_hits: usize) -> Found {
        let pattern = pattern(written).unwrap();
        Request { pattern, shown_pattern: written.to_owned(), context, max_hits }.hits(text)
    }

    fn hits(text: &str, written: &str, context: usize, max_hits: usize) -> (usize, Vec<String>) {
        let found = found(text, written, context, max_hits);
        (found.total, found.hits)
    }

    #[test]
    fn hits_have_their_index_and_their_surroundings() {
        let text = "é The Lamp of Varn.\nAnother lamp  of varn stood here.";
        assert_eq!(
            hits(text, "lamp of varn", 4, 9),
            (
                2,
                vec![
                    "[at 6] …The Lamp of Varn.\nAn…".to_owned(),
                    "[at 28] …her lamp  of varn sto…".to_owned()
                ]
            )
        );
        assert_eq!(hits(text, "/l.mp/", 0, 1), (2, vec!["[at 6] …Lamp…".to_owned()]));
        assert_eq!(hits(text, "x.*", 4, 9), (0, vec![]));
        assert_eq!(hits("aaaa", "a", 10, 9), (4, vec!["[at 0] aaaa".to_owned()]));
        assert_eq!(hits("ab", "/x*/", 1, 9).0, 0);
        // Two stand in the first excerpt, the third is far away.
        let far = format!("lamp lamp {} lamp", "-".repeat(50));
        assert_eq!(found(&far, "lamp", 9, 1).shown, 2);
        assert_eq!(found(&far, "lamp", 9, 2).shown, 3);
    }

    #[test]
    fn a_bad_pattern_is_said() {
        assert!(pattern("/(/").unwrap_err().to_string().contains("no regular expression"));
        assert!(pattern("  ").unwrap_err().to_string().contains("is empty"));
        assert!(pattern("/(a{1000}){1000}/").unwrap_err().to_string().contains("no regular expression"));
        assert!(pattern("(").is_ok());
    }
}
