//! Search over trajectories: a fast look at the bytes of each log, and a slow one at those that may have it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use regex::{Regex, RegexBuilder};

use super::address::{Path, Query};
use super::arguments::SearchQuery;
use super::page::{Crumb, Liveness, Page, Search, home};
use super::text::{in_address, short_id};
use super::{Answer, View, read};
use crate::page::{count, shown};
use crate::store::{RunDirectory, SampleDirectory, SampleKey, run_ids};
use crate::trajectory::{Entry, Noted, Trajectory, question_of};

/// Hits on one page, and of one sample.
const PAGE_HITS: usize = 100;
const SAMPLE_HITS: usize = 5;
/// After it the page shows what there is and offers to go on.
const PATIENCE: Duration = Duration::from_secs(3);
/// Characters shown on each side of a hit.
const AROUND: usize = 90;

/// The trajectories of one run.
pub(super) async fn show(
    State(view): State<Arc<View>>,
    Path(run): Path<String>,
    Query(query): Query<SearchQuery>,
) -> Response {
    read(view, move |view| answer(view, std::slice::from_ref(&run), Some(&run), &query)).await
}

/// The trajectories of all runs, newest first.
pub(super) async fn show_all(State(view): State<Arc<View>>, Query(query): Query<SearchQuery>) -> Response {
    read(view, move |view| {
        let mut ids = run_ids(&view.runs)?;
        ids.reverse();
        answer(view, &ids, None, &query)
    })
    .await
}

struct Hit {
    run: String,
    key: SampleKey,
    /// The turn, or the question and the like.
    turn: Option<u32>,
    place: &'static str,
    before: String,
    found: String,
    after: String,
}

#[derive(Default)]
struct Found {
    hits: Vec<Hit>,
    /// Samples that were looked at, those of earlier pages included.
    searched: usize,
    is_all: bool,
}

fn answer(view: &View, ids: &[String], run: Option<&str>, query: &SearchQuery) -> Answer {
    if run.is_some() {
        // One that is not there is an error, and not an empty answer.
        view.run(&ids[0])?;
    }
    let found = match needle(&query.q) {
        Some(needle) => search(view, ids, &needle, query.from),
        None => Found { is_all: true, ..Found::default() },
    };
    let mut crumbs = vec![home()];
    let mut action = "/search".to_owned();
    if let Some(run) = run {
        let href = format!("/run/{}", in_address(run));
        action = format!("{href}/search");
        crumbs.push(Crumb { href, label: run.to_owned() });
    }
    let next = format!("{action}?q={}&from={}", in_address(&query.q), found.searched);
    let body = html! {
        h1 { "Search" }
        @if query.q.trim().is_empty() {
            p.muted { "Questions, thoughts, replies, arguments and results of the last attempt of each sample are searched, without regard to case." }
        } @else {
            p.muted { (found.hits.len()) " hits in " (count(found.searched as u64)) " samples for " strong { (shown(&query.q, 200)) } }
        }
        @if found.hits.is_empty() && found.is_all && !query.q.trim().is_empty() { p.alert.info { "Nothing was found." } }
        ol.hits { @for (index, hit) in found.hits.iter().enumerate() { (show_hit(hit, index, run.is_none())) } }
        @if !found.is_all { p { a rel="next" href=(next) { "Go on from here" } } }
    };
    let search = Search { action, hint: "search", text: query.q.clone() };
    Ok(Page { title: "gaia: search", crumbs, search: Some(search), liveness: Liveness::Still, body }
        .into_response())
}

fn show_hit(hit: &Hit, index: usize, names_run: bool) -> Markup {
    let sample = format!("/run/{}/{}/{}", in_address(&hit.run), in_address(&hit.key.task_id), hit.key.epoch);
    let href = hit.turn.map_or_else(|| sample.clone(), |turn| format!("{sample}?turn={turn}#turn-{turn}"));
    html! {
        li id=(format!("hit-{index}")) data-item {
            a href=(href) data-open {
                @if names_run { span.mono { (hit.run) } " · " }
                span.mono { (short_id(&hit.key.task_id)) }
                @if hit.key.epoch > 1 { " epoch " (hit.key.epoch) }
                " · " @if let Some(turn) = hit.turn { "turn " (turn) ", " } (hit.place)
            }
            p { (shown(&hit.before, AROUND * 2)) mark { (shown(&hit.found, 200)) } (shown(&hit.after, AROUND * 2)) }
        }
    }
}

fn needle(text: &str) -> Option<Regex> {
    let text = text.trim();
    // The escaped text of a search box is a small pattern.
    (!text.is_empty())
        .then(|| RegexBuilder::new(&regex::escape(text)).case_insensitive(true).build().ok())
        .flatten()
}

/// The longest part of the needle that stands in a log as it is, unescaped.
fn plain_part(text: &str) -> &str {
    let parts = text.split(|character: char| {
        matches!(character, '"' | '\\' | '/') || character.is_control() || !character.is_ascii()
    });
    parts.max_by_key(|part| part.len()).unwrap_or_default()
}

fn search(view: &View, ids: &[String], needle: &Regex, from: usize) -> Found {
    let until = Instant::now() + PATIENCE;
    let mut found = Found { searched: from, ..Found::default() };
    // Samples that an earlier page has searched.
    let mut skipped = from;
    let mut ids: VecDeque<&String> = ids.iter().collect();
    while let Some(id) = ids.pop_front() {
        let Ok((run, record)) = view.run(id) else { continue };
        let keys = (1..=record.epochs).flat_map(|epoch| {
            let samples = record.dataset.samples.iter();
            samples.map(move |planned| SampleKey { task_id: planned.task_id.clone(), epoch })
        });
        for key in keys {
            if skipped > 0 {
                skipped -= 1;
                continue;
            }
            if found.hits.len() >= PAGE_HITS || Instant::now() > until {
                return found;
            }
            found.searched += 1;
            found.hits.extend(of_sample(&run, id, &key, needle));
        }
    }
    found.is_all = true;
    found
}

fn of_sample(run: &RunDirectory, id: &str, key: &SampleKey, needle: &Regex) -> Vec<Hit> {
    let sample = run.sample(key);
    if !may_hold(&sample, needle) {
        return Vec::new();
    }
    let Ok(Some(trajectory)) = Trajectory::read(&sample, None) else { return Vec::new() };
    let mut hits = Vec::new();
    let mut look = |turn: Option<u32>, place: &'static str, text: &str| {
        if hits.len() < SAMPLE_HITS
            && let Some(found) = needle.find(text)
        {
            let start = text[..found.start()]
                .char_indices()
                .rev()
                .take(AROUND)
                .last()
                .map_or(found.start(), |(at, _)| at);
            let rest = &text[found.end()..];
            let end = rest.char_indices().nth(AROUND).map_or(rest.len(), |(at, _)| at);
            hits.push(Hit {
                run: id.to_owned(),
                key: key.clone(),
                turn,
                place,
                before: one_line(&text[start..found.start()]),
                found: found.as_str().to_owned(),
                after: one_line(&rest[..end]),
            });
        }
    };
    look(None, "question", &question_of(&trajectory.messages).unwrap_or_default());
    for entry in &trajectory.entries {
        match entry {
            Entry::Turn(turn) => {
                let number = Some(turn.number);
                if let Some(reply) = &turn.reply {
                    look(number, "thoughts", reply.reasoning.as_deref().unwrap_or_default());
                    look(number, "reply", reply.content.as_deref().unwrap_or_default());
                }
                for call in &turn.calls {
                    look(number, "tool", &call.tool);
                    look(number, "arguments", &unescaped(&call.arguments));
                    look(
                        number,
                        "result",
                        &call.result.as_ref().map(|result| result.text()).unwrap_or_default(),
                    );
                }
            }
            Entry::Note(note) => match &note.what {
                Noted::Event(event) => {
                    look(None, "beside the turns", &serde_json::to_string(event).unwrap_or_default())
                }
                Noted::Unknown(text) => look(None, "beside the turns", text),
            },
        }
    }
    hits
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\t', '\r'], " ")
}

/// The strings of a JSON object as they are read.
fn unescaped(arguments: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(arguments) {
        Ok(serde_json::Value::Object(fields)) => {
            let values = fields.values().map(|value| match value {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            values.collect::<Vec<_>>().join("\n")
        }
        _ => arguments.to_owned(),
    }
}

/// Whether the bytes of the log hold the part of the needle that is never escaped, so that it is worth parsing.
fn may_hold(sample: &SampleDirectory, needle: &Regex) -> bool {
    use std::io::{BufRead, BufReader};
    let pattern = needle.as_str();
    // The pattern is the escaped text; its plain part is found in what was typed, which `escape` put backslashes into.
    let plain = plain_part(pattern);
    let Ok(bytes) = regex::bytes::RegexBuilder::new(&regex::escape(plain)).case_insensitive(true).build()
    else {
        return true;
    };
    let Ok(file) = fs_err::File::open(sample.events_path()) else { return false };
    let mut reader = BufReader::with_capacity(256 * 1024, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return false,
            Ok(_) if bytes.is_match(&line) => return true,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_in_a_log_takes_no_part_in_the_fast_look() {
        assert_eq!(plain_part("say \"hello world\" now"), "hello world");
        assert_eq!(plain_part("größe 12"), "e 12");
        assert_eq!(plain_part("\"\""), "");
        assert!(needle("  ").is_none());
        let found = needle("a.b").unwrap();
        assert!(found.is_match("xA.By") && !found.is_match("acb"));
    }
}
