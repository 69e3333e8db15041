//! Results of any engine in one form, without duplicates and without blocked places.

use std::collections::HashSet;

use serde_json::{Value, json};
use url::Url;

use crate::toolset::{Log, LogLevel};
use crate::web::integrity::Integrity;
use crate::web::record::without_secrets;

/// One result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) url: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) extra_snippets: Vec<String>,
    pub(super) date: Option<String>,
}

/// Under which names an engine gives what a hit holds; the title is `title` for all of them.
pub(super) struct Names {
    pub(super) url: &'static str,
    pub(super) description: &'static str,
    pub(super) date: &'static str,
}

/// An engine's list of results as hits.
pub(super) fn hits(results: &Value, names: &Names) -> impl Iterator<Item = Hit> {
    results.as_array().into_iter().flatten().map(|result| {
        let text = |name: &str| result[name].as_str().map(ToOwned::to_owned);
        Hit {
            url: text(names.url).unwrap_or_default(),
            title: text("title").unwrap_or_default(),
            description: text(names.description).unwrap_or_default(),
            extra_snippets: Vec::new(),
            date: text(names.date),
        }
    })
}

impl Hit {
    /// The official server's object, and what is known beside it.
    pub(super) fn json(&self) -> Value {
        let mut object = json!({ "url": self.url, "title": self.title, "description": self.description });
        if !self.extra_snippets.is_empty() {
            object["extra_snippets"] = json!(self.extra_snippets);
        }
        add_facts(&mut object, &self.url, self.date.as_deref());
        object
    }
}

/// Date and site, where they are known.
pub(super) fn add_facts(object: &mut Value, url: &str, date: Option<&str>) {
    if let Some(date) = date {
        object["date"] = json!(date);
    }
    if let Some(site) = site(url) {
        object["site"] = json!(site);
    }
}

fn site(url: &str) -> Option<String> {
    let host = Url::parse(url).ok()?.host_str()?.to_owned();
    Some(host.strip_prefix("www.").map_or(host.clone(), ToOwned::to_owned))
}

/// What keeps results honest.
pub(super) struct Filter<'a> {
    pub(super) integrity: &'a Integrity,
    pub(super) log: &'a Log,
}

impl Filter<'_> {
    pub(super) fn apply(&self, hits: Vec<Hit>) -> Vec<Hit> {
        self.keep(
            hits,
            |hit| hit.url.clone(),
            |hit| format!("{} {} {}", hit.title, hit.description, hit.extra_snippets.join(" ")),
        )
    }

    /// The same for results as an engine wrote them.
    pub(super) fn apply_json(&self, results: &Value) -> Vec<Value> {
        let results = results.as_array().cloned().unwrap_or_default();
        self.keep(results, |result| result["url"].as_str().unwrap_or_default().to_owned(), Value::to_string)
    }

    fn keep<T>(&self, results: Vec<T>, url: impl Fn(&T) -> String, text: impl Fn(&T) -> String) -> Vec<T> {
        let mut seen = HashSet::new();
        let mut kept = Vec::with_capacity(results.len());
        for result in results {
            let address = url(&result);
            let parsed = Url::parse(&address).ok();
            if let Some(entry) = parsed.as_ref().and_then(|url| self.integrity.block_list.blocks(url)) {
                let shown = parsed.as_ref().map(without_secrets).unwrap_or_default();
                let line = json!({ "result_left_out": { "url": shown, "block_list_entry": entry } });
                self.log.write(LogLevel::Warning, line);
                continue;
            }
            if let Some(part) = self.integrity.contamination(&text(&result)) {
                let shown = parsed.as_ref().map(without_secrets).unwrap_or_default();
                let line = json!({ "contaminated": { "url": shown, "question_part": part } });
                self.log.write(LogLevel::Warning, line);
            }
            if parsed.as_ref().is_none_or(|url| seen.insert(plain(url))) {
                kept.push(result);
            }
        }
        kept
    }
}

/// Two addresses of one page: with and without `www.`, encryption, a slash at the end, a fragment, marks of campaigns.
fn plain(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let host = host.strip_prefix("www.").unwrap_or(host);
    let is_mark = |name: &str| name.starts_with("utm_") || matches!(name, "fbclid" | "gclid" | "ref_src");
    let query: Vec<&str> = url
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|part| !part.is_empty() && !is_mark(part.split('=').next().unwrap_or_default()))
        .collect();
    format!("{host}:{:?}{}?{}", url.port(), url.path().trim_end_matches('/'), query.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::block_list::{BlockList, BuiltIn};
    use crate::web::contamination::Detector;

    fn hit(url: &str) -> Hit {
        Hit { url: url.to_owned(), title: "t".to_owned(), ..Hit::default() }
    }

    #[test]
    fn one_page_is_one_result_and_blocked_ones_are_none() {
        let question =
            "which of the towers that the board of the harbour listed in its report was the tallest one";
        let integrity = Integrity {
            block_list: std::sync::Arc::new(BlockList::load(BuiltIn::On, &[]).unwrap()),
            detector: Detector::new(question).map(std::sync::Arc::new),
        };
        let (log, mut lines) = Log::channel();
        let filter = Filter { integrity: &integrity, log: &log };
        let mut copy = hit("https://b.example/forum");
        copy.description = format!("Somebody asked: {question}?");
        let hits = filter.apply(vec![
            hit("https://www.a.example/page/"),
            hit("http://a.example/page?utm_source=x#top"),
            hit("https://a.example/page?id=2"),
            hit("https://huggingface.co/datasets/x"),
            copy,
            hit("not an address"),
        ]);
        let urls: Vec<&str> = hits.iter().map(|hit| hit.url.as_str()).collect();
        assert_eq!(
            urls,
            [
                "https://www.a.example/page/",
                "https://a.example/page?id=2",
                "https://b.example/forum",
                "not an address"
            ]
        );
        let first = lines.try_recv().unwrap();
        assert_eq!(first.data["result_left_out"]["block_list_entry"], "huggingface.co");
        let second = lines.try_recv().unwrap();
        assert_eq!(
            (second.level, &second.data["contaminated"]["url"]),
            (LogLevel::Warning, &json!("https://b.example/forum"))
        );
        assert!(lines.try_recv().is_err());
    }

    #[test]
    fn date_and_site_stand_beside_the_engines_own_words() {
        let mut hit = hit("https://www.a.example/x");
        hit.date = Some("2024-01-02".to_owned());
        assert_eq!(
            hit.json().to_string(),
            r#"{"url":"https://www.a.example/x","title":"t","description":"","date":"2024-01-02","site":"a.example"}"#
        );
    }
}
