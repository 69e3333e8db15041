use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use gaia_agent::{Message, Part};
use maud::{Markup, html};

use super::address::{Path, Query};
use super::arguments::SampleQuery;
use super::page::{Crumb, Liveness, Page, Search, home};
use super::text::{in_address, or_dash};
use super::turn::{Place, media, show_note, show_turn};
use super::waterfall::waterfall;
use super::{Fault, Found, View, read};
use crate::page::{count, duration, money, shown, shown_lines};
use crate::store::{SampleResult, SampleScore};
use crate::trajectory::{Entry, Trajectory, question_of};

/// Turns on one page. Each shows some kilobytes at most, so a page is a megabyte or two at its worst.
const PAGE_TURNS: usize = 50;

/// Characters of a question or a prompt; no question of GAIA comes near it.
const TEXT_CHARACTERS: usize = 20_000;

/// What one sample did.
pub(super) async fn show(
    State(view): State<Arc<View>>,
    Path((run, task_id, epoch)): Path<(String, String, u32)>,
    Query(query): Query<SampleQuery>,
) -> Response {
    read(view, move |view| {
        let found = view.sample(&run, &task_id, epoch)?;
        let result = found.directory.result();
        let trajectory = Trajectory::read(&found.directory, query.attempt)?;
        if let (Some(attempt), Some(trajectory)) = (query.attempt, &trajectory)
            && !trajectory.attempts.contains(&attempt)
        {
            return Err(Fault::NotFound(format!("sample `{task_id}` has no attempt {attempt}")));
        }
        let (result, damage) = match result {
            Ok(result) => (result, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let run_address = format!("/run/{}", in_address(&found.record.id));
        let place = Place { address: address(&found, found.place, epoch), query: &query };
        let body = html! {
            (head(&found, result.as_ref(), damage.as_deref(), trajectory.as_ref(), &place))
            @match &trajectory {
                Some(trajectory) => (steps(trajectory, &place)),
                None => p.alert.info data-key="none" { "This sample has not been begun." },
            }
        };
        let is_live = result.is_none() && found.run.is_worked_on();
        let search = Search {
            action: format!("{run_address}/search"),
            hint: "search the trajectories of this run",
            text: String::new(),
        };
        let title = format!("{task_id}: {}", found.record.id);
        let run_crumb = Crumb { href: run_address, label: found.record.id };
        let page = Page {
            title: &title,
            crumbs: vec![home(), run_crumb],
            search: Some(search),
            liveness: if is_live { Liveness::Live } else { Liveness::Still },
            body,
        };
        Ok(page.into_response())
    })
    .await
}

fn address(found: &Found, place: usize, epoch: u32) -> String {
    let task_id = found.record.dataset.samples.get(place).map_or("", |planned| &planned.task_id);
    format!("/run/{}/{}/{epoch}", in_address(&found.record.id), in_address(task_id))
}

fn head(
    found: &Found,
    result: Option<&SampleResult>,
    damage: Option<&str>,
    trajectory: Option<&Trajectory>,
    place: &Place<'_>,
) -> Markup {
    let epoch = found.key.epoch;
    let level = found.record.dataset.samples.get(found.place).map_or(0, |planned| planned.level);
    let question = trajectory.and_then(|trajectory| question_of(&trajectory.messages));
    let status = result.and_then(|result| serde_json::to_value(result.status).ok());
    let status =
        status.as_ref().and_then(|status| status.as_str()).unwrap_or("no outcome yet").replace('_', " ");
    html! {
        section data-key="head" {
            nav.pager aria-label="samples" {
                @if found.place > 0 { a rel="prev" href=(address(found, found.place - 1, epoch)) { "← previous" } }
                @if found.place + 1 < found.record.dataset.samples.len() { a rel="next" href=(address(found, found.place + 1, epoch)) { "next →" } }
                @if found.record.epochs > 1 {
                    span { "epoch "
                        @for other in 1..=found.record.epochs {
                            @if other == epoch { strong { (other) } } @else { a href=(address(found, found.place, other)) { (other) } }
                            " "
                        }
                    }
                }
            }
            h1.mono { (shown(&found.key.task_id, 200)) }
            p { span.badge { "level " (level) } " " span.badge { (status) } }
            @if let Some(damage) = damage { p.alert.bad { (shown(damage, TEXT_CHARACTERS)) } }
            @if let Some(question) = &question {
                div.panel.said { h3 { "Question" } (shown_lines(question, TEXT_CHARACTERS)) (pictures(trajectory, place)) }
            }
            @if let Some(result) = result { (verdict(result, place)) (figures(result)) }
        }
    }
}

/// Pictures and the like that came with the question.
fn pictures(trajectory: Option<&Trajectory>, place: &Place<'_>) -> Markup {
    let messages = trajectory.map(|trajectory| trajectory.messages.as_slice()).unwrap_or_default();
    let parts = messages.iter().filter_map(|message| match message {
        Message::User { content } => Some(content.iter().filter(|part: &&Part| part.media().is_some())),
        _ => None,
    });
    html! { @for part in parts.flatten() { (media(part, place)) } }
}

fn verdict(result: &SampleResult, place: &Place<'_>) -> Markup {
    let raw = result.raw_answer.as_ref().filter(|raw| result.answer.as_ref() != Some(raw));
    let (class, word) = match result.score.as_ref().map(|score| score.correct) {
        Some(true) => ("good", "right"),
        Some(false) => ("bad", "wrong"),
        None => ("", "not scored"),
    };
    html! {
        div.alert.(class) id="verdict" {
            dl.facts {
                dt { "Answer" }
                dd { @match &result.answer { Some(answer) => (shown(answer, TEXT_CHARACTERS)), None => span.muted { "none" } } " " span.badge.(class) { (word) } }
                @if let Some(raw) = raw { dt { "Taken from" } dd { (shown_lines(raw, TEXT_CHARACTERS)) } }
                @if let Some(score) = &result.score { (truth(score, place)) }
                @if let Some(error) = &result.error { dt { "Error" } dd { (shown_lines(&error.message, TEXT_CHARACTERS)) } }
            }
        }
    }
}

/// Hidden until it is asked for, and then asked for with a request of its own: it is nowhere in the page before.
fn truth(score: &SampleScore, place: &Place<'_>) -> Markup {
    html! {
        dt { "Truth" }
        @if place.query.truth == "shown" {
            dd { (shown(&score.truth, TEXT_CHARACTERS)) " " span.badge { (score.kind) } " "
                a href=(format!("{}{}#verdict", place.address, place.query.with(&[("truth", None)]))) { "hide" } }
            dt { "Scorer" } dd { (shown(&score.reason, TEXT_CHARACTERS)) }
        } @else {
            dd { a #truth href=(format!("{}{}#verdict", place.address, place.query.with(&[("truth", Some("shown".to_owned()))]))) { "show the truth and the scorer's reason" } }
        }
    }
}

fn figures(result: &SampleResult) -> Markup {
    let (usage, timing) = (result.usage, result.timing);
    let tile = |value: String, name: String| html! { div.tile { div.value { (value) } div.name { (name) } } };
    html! {
        div.tiles {
            (tile(result.steps.to_string(), format!("turns, {} tool calls", result.tool_calls)))
            (tile(count(usage.total()), format!("tokens: {} in ({} cached), {} out ({} reasoning)", count(usage.input_tokens), count(usage.cached_tokens), count(usage.output_tokens), count(usage.reasoning_tokens))))
            (tile(or_dash(result.cost_usd.map(money)), "US dollars".to_owned()))
            (tile(duration(timing.wall), format!("model {}, tools {}, sandbox {}, gaia {}", duration(timing.model), duration(timing.tool), duration(timing.sandbox), duration(timing.overhead))))
        }
    }
}

fn steps(trajectory: &Trajectory, place: &Place<'_>) -> Markup {
    let branch = place.query.branch.as_deref();
    let is_shown = |entry: &&Entry| {
        let of = match entry {
            Entry::Turn(turn) => turn.branch.as_deref(),
            Entry::Note(note) => note.branch.as_deref(),
        };
        branch.is_none_or(|branch| of == Some(branch))
    };
    let entries: Vec<&Entry> = trajectory.entries.iter().filter(is_shown).collect();
    let numbers: Vec<u32> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Turn(turn) => Some(turn.number),
            Entry::Note(_) => None,
        })
        .collect();
    let wanted = place.query.turn.and_then(|turn| numbers.iter().position(|number| *number >= turn));
    let page = wanted.unwrap_or(0) / PAGE_TURNS;
    // Turns that went before an entry; what happened beside a turn is on its page.
    let mut turns = 0;
    let mut on_page = Vec::new();
    for entry in &entries {
        turns += usize::from(matches!(entry, Entry::Turn(_)));
        if turns.saturating_sub(1) / PAGE_TURNS == page {
            on_page.push(*entry);
        }
    }
    let calls: HashMap<&str, u32> = trajectory
        .turns()
        .flat_map(|turn| turn.calls.iter().map(move |call| (call.id.as_str(), turn.number)))
        .collect();
    html! {
        section data-key="overview" {
            (switches(trajectory, place))
            (told(trajectory))
            @if !numbers.is_empty() {
                details.panel open { summary { "Where the time went" } (waterfall(trajectory, &entries, place)) }
            }
            @if trajectory.unreadable > 0 {
                p.alert.bad { "Lines of the log that could not be read, and are not shown: " (trajectory.unreadable) }
            }
            (pager(&numbers, page, place))
        }
        div data-list="steps" {
            @for (index, entry) in on_page.iter().enumerate() {
                @match entry {
                    Entry::Turn(turn) => (show_turn(turn, trajectory, place)),
                    Entry::Note(note) => (show_note(note, &format!("note-{page}-{index}"), &calls, place)),
                }
            }
        }
        section data-key="end" { (pager(&numbers, page, place)) }
    }
}

/// Between attempts and between the roles of a strategy.
fn switches(trajectory: &Trajectory, place: &Place<'_>) -> Markup {
    let mut branches: Vec<&str> = trajectory.turns().filter_map(|turn| turn.branch.as_deref()).collect();
    // In the order in which they come.
    let mut seen = Vec::new();
    branches.retain(|branch| {
        !seen.contains(branch) && {
            seen.push(*branch);
            true
        }
    });
    let link = |text: &str, is_current: bool, change: (&str, Option<String>)| {
        let href = format!("{}{}", place.address, place.query.with(&[change]));
        html! { @if is_current { strong { (shown(text, 60)) } } @else { a href=(href) { (shown(text, 60)) } } " " }
    };
    html! {
        @if trajectory.attempts.len() > 1 {
            p { span.muted { "Attempts: " }
                @for attempt in &trajectory.attempts {
                    (link(&attempt.to_string(), *attempt == trajectory.attempt, ("attempt", Some(attempt.to_string()))))
                }
                @if trajectory.attempts.last() != Some(&trajectory.attempt) { span.badge.warn { "not the last: it was lost or done again" } }
            }
        }
        @if !branches.is_empty() {
            p { span.muted { "Roles: " }
                (link("all", place.query.branch.is_none(), ("branch", None)))
                @for branch in branches {
                    (link(branch, place.query.branch.as_deref() == Some(branch), ("branch", Some(branch.to_owned()))))
                }
            }
        }
    }
}

/// What the model was told and offered before its first turn.
fn told(trajectory: &Trajectory) -> Markup {
    let system = trajectory.messages.iter().find_map(|message| match message {
        Message::System { content } => Some(content),
        _ => None,
    });
    html! {
        @if let Some(system) = system {
            details.panel { summary { "System prompt" } (shown_lines(system, TEXT_CHARACTERS)) }
        }
        @if !trajectory.tools.is_empty() {
            details.panel { summary { (trajectory.tools.len()) " tools" } ul { @for tool in &trajectory.tools { li.mono { (shown(tool, 200)) } } } }
        }
    }
}

fn pager(numbers: &[u32], page: usize, place: &Place<'_>) -> Markup {
    let pages = numbers.len().div_ceil(PAGE_TURNS);
    html! {
        @if pages > 1 {
            nav.pager aria-label="pages of turns" {
                span.muted { "Turns" }
                @for other in 0..pages {
                    @let first = numbers.get(other * PAGE_TURNS).copied().unwrap_or_default();
                    @let last = numbers.get(((other + 1) * PAGE_TURNS).min(numbers.len()) - 1).copied().unwrap_or_default();
                    @if other == page { strong { (first) "–" (last) } }
                    @else { a href=(place.turn(first)) { (first) "–" (last) } }
                }
            }
        }
    }
}
