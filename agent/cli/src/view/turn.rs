//! A turn and what happens beside it.

use std::collections::HashMap;

use gaia_agent::{AgentEvent, Message, Part};
use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

use super::arguments::SampleQuery;
use super::text::{between, block, bytes, first_line, in_address, time_of_day};
use crate::page::{count, duration, money, shown, shown_lines};
use crate::trajectory::{Call, CallResult, Note, Noted, Reply, Trajectory, Turn};

/// Characters of what happens beside turns.
const NOTE_CHARACTERS: usize = 4_000;

/// Where the sample stands, and how it is looked at.
pub(super) struct Place<'a> {
    pub(super) address: String,
    pub(super) query: &'a SampleQuery,
}

impl Place<'_> {
    /// The address of a turn.
    pub(super) fn turn(&self, number: u32) -> String {
        let query = self.query.with(&[("turn", Some(number.to_string()))]);
        format!("{}{query}#turn-{number}", self.address)
    }

    fn text(&self, turn: u32, part: &str) -> String {
        let query = SampleQuery { attempt: self.query.attempt, ..SampleQuery::default() }.with(&[]);
        format!("{}/text/{turn}/{part}{query}", self.address)
    }

    fn file(&self, name: &str) -> String {
        format!("{}/file/{}", self.address, in_address(name))
    }
}

pub(super) fn show_turn(turn: &Turn, trajectory: &Trajectory, place: &Place<'_>) -> Markup {
    let number = turn.number;
    let key = format!("turn-{number}");
    html! {
        article.turn.panel id=(key) data-key=(key) data-item {
            header {
                a.number href=(place.turn(number)) data-open { "Turn " (number) }
                @if let Some(branch) = &turn.branch { span.badge { (shown(branch, 60)) } }
                @if turn.branch.is_some() || turn.step != number { span.muted { "step " (turn.step) } }
                @if let Some(begun) = turn.begun() {
                    span.muted {
                        (time_of_day(begun))
                        @if let Some(started) = trajectory.started { " · +" (duration(between(started, begun))) }
                    }
                }
                @if let Some(reply) = &turn.reply { (cost(reply)) }
            }
            @for notice in &turn.notices { p.note { (shown(notice, NOTE_CHARACTERS)) } }
            @if let Some(failure) = &turn.failure { p.alert.bad { (shown(failure, NOTE_CHARACTERS)) } }
            @match &turn.reply {
                Some(reply) => {
                    @if let Some(thoughts) = reply.reasoning.as_ref().filter(|text| !text.trim().is_empty()) {
                        details.thoughts { summary { "Thoughts " span.muted { (bytes(thoughts.len())) ": " (first_line(thoughts, 90)) } } (block(thoughts, &place.text(number, "thoughts"))) }
                    }
                    @if let Some(content) = reply.content.as_ref().filter(|text| !text.trim().is_empty()) {
                        div.said { (block(content, &place.text(number, "content"))) }
                    }
                }
                None if turn.asked.is_some() && turn.failure.is_none() => p.note { "No reply yet." },
                None => {}
            }
            @for (index, call) in turn.calls.iter().enumerate() { (show_call(call, number, index, place)) }
        }
    }
}

fn cost(reply: &Reply) -> Markup {
    html! {
        span.muted {
            (duration(reply.duration_ms as f64 / 1e3))
            @if reply.queued_ms > 0 { " (" (duration(reply.queued_ms as f64 / 1e3)) " waiting)" }
            " · " (count(reply.usage.input_tokens)) " in"
            @if reply.usage.cached_tokens > 0 { " (" (count(reply.usage.cached_tokens)) " cached)" }
            ", " (count(reply.usage.output_tokens)) " out"
            @if let Some(cost) = reply.cost_usd { " · " (money(cost)) }
            " · " (shown(&reply.finish_reason, 40))
        }
    }
}

fn show_call(call: &Call, turn: u32, index: usize, place: &Place<'_>) -> Markup {
    let tool = if call.tool.is_empty() { "(no name)" } else { &call.tool };
    html! {
        section.call.failed[call.is_error()] {
            header {
                strong.mono { (shown(tool, 120)) }
                @if call.is_error() { span.badge.bad { "error" } }
                @match &call.result {
                    Some(result) => span.muted { (duration(result.duration_ms as f64 / 1e3)) },
                    None => span.badge.warn { "no result" },
                }
            }
            (arguments(&call.arguments, &place.text(turn, &format!("arguments-{index}"))))
            @if let Some(result) = &call.result { (show_result(result, turn, index, place)) }
        }
    }
}

/// One line for each argument, whose text keeps its line breaks: that is how a command is read.
fn arguments(text: &str, whole: &str) -> Markup {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(text) else { return block(text, whole) };
    html! {
        dl.arguments {
            @for (name, value) in &fields {
                dt.mono { (shown(name, 60)) }
                dd { @match value { Value::String(text) => (block(text, whole)), other => (block(&other.to_string(), whole)) } }
            }
        }
    }
}

fn show_result(result: &CallResult, turn: u32, index: usize, place: &Place<'_>) -> Markup {
    let text = result.text();
    html! {
        div.result {
            @if !text.is_empty() { (block(&text, &place.text(turn, &format!("result-{index}")))) }
            @for part in result.content.iter().filter(|part| part.media().is_some()) { (media(part, place)) }
            @if text.is_empty() && result.content.iter().all(|part| part.media().is_none()) { p.note { "(empty)" } }
            @if let Some(whole) = &result.whole {
                p.cut { "The model was shown a part. " a href=(place.file(whole)) { "Read the whole output" } }
            }
        }
    }
}

/// What is not text, where the log names a file for it.
pub(super) fn media(part: &Part, place: &Place<'_>) -> Markup {
    let Some((media_type, data)) = part.media() else { return html! {} };
    let Some(name) = data.strip_prefix("file:") else {
        return html! { p.note { (shown(media_type, 60)) ", " (bytes(data.len())) " in the log" } };
    };
    let href = place.file(name);
    match part {
        Part::Image(_) => html! {
            a href=(href) { img src=(href) alt=(format!("picture, {media_type}")) loading="lazy"; }
        },
        Part::Sound(_) => html! { audio controls preload="none" src=(href) {} },
        Part::Document(_) | Part::Text { .. } => html! { p { a href=(href) { (shown(media_type, 60)) } } },
    }
}

pub(super) fn show_note(note: &Note, key: &str, calls: &HashMap<&str, u32>, place: &Place<'_>) -> Markup {
    html! {
        div.beside data-key=(key) {
            @if let Some(time) = note.time { span.muted.mono { (time_of_day(time)) } }
            @if let Some(branch) = &note.branch { span.badge { (shown(branch, 60)) } }
            @match &note.what {
                Noted::Event(event) => (said(event, calls, place)),
                Noted::Unknown(text) => { span { "An event that this gaia does not know" } (shown_lines(text, NOTE_CHARACTERS)) },
            }
        }
    }
}

fn said(event: &AgentEvent, calls: &HashMap<&str, u32>, place: &Place<'_>) -> Markup {
    match event {
        AgentEvent::Prompted { text, .. } => {
            html! { span { "gaia said to the model" } (shown_lines(text, NOTE_CHARACTERS)) }
        }
        AgentEvent::Compacted { shortened_results, dropped_bytes, call_ids, summary, .. } => html! {
            span { "To fit the window, " (shortened_results) " results were shortened: " (bytes(usize::try_from(*dropped_bytes).unwrap_or(usize::MAX))) " are gone from what the model sees, and whole here"
                @if !call_ids.is_empty() { ", in "
                    @for id in call_ids { @if let Some(turn) = calls.get(id.as_str()) { a href=(place.turn(*turn)) { "turn " (turn) } " " } }
                }
            }
            @if let Some(summary) = summary { details { summary { "What stands in the place of the turns that were left out" } (shown_lines(summary, NOTE_CHARACTERS)) } }
        },
        AgentEvent::LimitReached { reason, .. } => {
            html! { span.warn { (words(reason)) " reached: one last call without tools follows" } }
        }
        AgentEvent::Continued { attempt, after_step } => {
            html! { span { "Attempt " (attempt) " goes on after step " (after_step) } }
        }
        AgentEvent::BranchStarted { messages, .. } => html! {
            details { summary { "A role began" } @for message in messages { (show_message(message)) } }
        },
        AgentEvent::BranchEnded { outcome } => html! {
            span { "The role ended: " (words(&outcome.status)) ", " (words(&outcome.stop)) " after " (outcome.steps) " turns" }
            @if let Some(answer) = &outcome.answer { " · " (shown(answer, NOTE_CHARACTERS)) }
            @if let Some(error) = &outcome.error { " · " (shown(&error.message, NOTE_CHARACTERS)) }
        },
        AgentEvent::Decided { reason, candidates, answer } => html! {
            span { "Decided: " (shown(reason, NOTE_CHARACTERS)) }
            ul { @for candidate in candidates {
                li { (shown(&candidate.branch, 60)) ": " @match &candidate.answer {
                    Some(text) => { (shown(text, 400)) @if Some(text) == answer.as_ref() { " " span.badge.good { "taken" } } }
                    None => span.muted { "no answer" },
                } }
            } }
        },
        AgentEvent::ProgramEnded { exit, stdout_bytes, stderr_bytes, stdout, stderr } => html! {
            span { "The program " (shown(exit, 200)) "." }
            @for (name, size, file) in [("stdout", stdout_bytes, stdout), ("stderr", stderr_bytes, stderr)] {
                @if let Some(file) = file { " " a href=(place.file(file)) { (name) ", " (count(*size)) " bytes" } }
            }
        },
        AgentEvent::ServerNotice { server, level, text } => html! {
            span.badge.(if words(level) == "info" { "" } else { "warn" }) { (shown(server, 60)) " " (words(level)) }
            (shown_lines(text, NOTE_CHARACTERS))
        },
        AgentEvent::Failed { failure } => {
            html! { span.bad { (words(&failure.kind)) ": " (shown(&failure.message, NOTE_CHARACTERS)) } }
        }
        // These are parts of turns, or the beginning and the end.
        other => html! { (shown_lines(&format!("{other:?}"), NOTE_CHARACTERS)) },
    }
}

fn show_message(message: &Message) -> Markup {
    let (role, text) = match message {
        Message::System { content } => ("system", content.clone()),
        Message::User { content } | Message::Tool { content, .. } => {
            ("user", content.iter().filter_map(Part::text).collect::<Vec<_>>().join("\n"))
        }
        Message::Assistant { content, .. } => ("assistant", content.clone().unwrap_or_default()),
    };
    html! { h3 { (role) } (shown_lines(&text, NOTE_CHARACTERS)) }
}

/// The name that an enum without data has in JSON, as words.
fn words(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name.replace('_', " "),
        _ => String::new(),
    }
}
