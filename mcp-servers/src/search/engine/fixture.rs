//! A file instead of the web: for tests and rehearsals, and for a collection of one's own.

use std::path::Path;

use async_trait::async_trait;
use serde::Deserialize;

use super::super::api::ApiError;
use super::super::results::Hit;
use super::{Engine, WebQuery};
use crate::toolset::Log;

/// Words that say nothing about what is looked for.
const COMMON: [&str; 14] =
    ["the", "of", "a", "an", "in", "on", "and", "to", "for", "is", "was", "what", "by", "at"];

/// Pages of a file of JSON lines.
#[derive(Debug)]
pub(in crate::search) struct Fixture {
    pages: Vec<Page>,
}

#[derive(Debug, Deserialize)]
struct Page {
    url: String,
    title: String,
    description: String,
    #[serde(default)]
    date: Option<String>,
    /// Further words under which it is found.
    #[serde(default)]
    words: String,
}

impl Fixture {
    pub(in crate::search) fn load(file: &Path) -> Result<Self, String> {
        let text =
            fs_err::read_to_string(file).map_err(|error| format!("failed to read the index: {error}"))?;
        let read = |(index, line): (usize, &str)| {
            serde_json::from_str(line)
                .map_err(|error| format!("failed to read line {} of {}: {error}", index + 1, file.display()))
        };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        Ok(Self { pages: lines.map(read).collect::<Result<_, _>>()? })
    }
}

#[async_trait]
impl Engine for Fixture {
    fn name(&self) -> &'static str {
        "fixture"
    }

    /// Pages with most of the query's words first; in the order of the file where they are equal.
    async fn search(&self, query: &WebQuery, _log: &Log) -> Result<Vec<Hit>, ApiError> {
        let words = words(query.text());
        let mut found: Vec<(usize, &Page)> = self
            .pages
            .iter()
            .map(|page| {
                let title = self::words(&page.title);
                let rest = self::words(&format!("{} {} {}", page.description, page.words, page.url));
                let points =
                    |word: &String| 2 * usize::from(title.contains(word)) + usize::from(rest.contains(word));
                (words.iter().map(points).sum(), page)
            })
            .filter(|(points, _)| *points > 0)
            .collect();
        found.sort_by_key(|(points, _)| std::cmp::Reverse(*points));
        let count = query.count();
        let hits = found.into_iter().skip(query.offset() * count).take(count).map(|(_, page)| Hit {
            url: page.url.clone(),
            title: page.title.clone(),
            description: page.description.clone(),
            extra_snippets: Vec::new(),
            date: page.date.clone(),
        });
        Ok(hits.collect())
    }
}

fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.len() > 1 && !COMMON.contains(word))
        .map(ToOwned::to_owned)
        .collect()
}
