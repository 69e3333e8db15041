//! The links of a page.

use regex::Regex;
use rmcp::model::CallToolResult;
use serde_json::json;

use super::html::Link;
use super::load::Content;
use crate::arguments::{ArgumentError, Arguments};
use crate::toolset::success;

const DEFAULT_LINKS: u64 = 100;
const MAX_LINKS: u64 = 1_000;

pub(super) struct Request {
    filter: Vec<String>,
    max_links: usize,
}

impl Request {
    pub(super) fn new(arguments: &Arguments) -> Result<Self, ArgumentError> {
        let filter = arguments.text("filter")?.unwrap_or_default();
        let max_links = arguments.integer("max_links", 1..=MAX_LINKS)?.unwrap_or(DEFAULT_LINKS);
        Ok(Self {
            filter: filter.to_lowercase().split_whitespace().map(ToOwned::to_owned).collect(),
            max_links: max_links as usize,
        })
    }

    pub(super) fn run(&self, content: &Content) -> CallToolResult {
        let written = if content.links.is_empty() { written_out(&content.text) } else { Vec::new() };
        let mut fitting: Vec<&Link> = Vec::new();
        for link in content.links.iter().chain(&written) {
            let is_new = !fitting.iter().any(|known| known.url == link.url && known.text == link.text);
            if self.fits(link) && (fitting.len() >= self.max_links || is_new) {
                fitting.push(link);
            }
        }
        let total = fitting.len();
        let lines: Vec<String> =
            fitting
                .iter()
                .take(self.max_links)
                .map(|link| {
                    if link.text.is_empty() {
                        link.url.clone()
                    } else {
                        format!("{}: {}", link.text, link.url)
                    }
                })
                .collect();
        let url = &content.url;
        let mut text = match (total, lines.len()) {
            (0, _) if content.links.is_empty() => format!("{url} has no links"),
            (0, _) => format!("none of the {} links of {url} fits; try without filter", content.links.len()),
            (total, shown) if shown < total => format!("{total} links of {url}, the first {shown}:\n"),
            (total, _) => format!("{total} links of {url}:\n"),
        };
        for line in &lines {
            text.push_str("\n- ");
            text.push_str(line);
        }
        success(text, json!({ "url": url.as_str(), "total": total, "links": lines }))
    }

    fn fits(&self, link: &Link) -> bool {
        let hay = format!("{} {}", link.text, link.url).to_lowercase();
        self.filter.iter().all(|word| hay.contains(word))
    }
}

/// Addresses that stand in a document as text.
fn written_out(text: &str) -> Vec<Link> {
    let Ok(pattern) = Regex::new(r#"https?://[^\s<>"'|\])}]+"#) else { return Vec::new() };
    pattern
        .find_iter(text)
        .map(|hit| Link {
            text: String::new(),
            url: hit.as_str().trim_end_matches(['.', ',', ';', ':']).to_owned(),
        })
        .collect()
}
