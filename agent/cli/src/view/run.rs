use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::address::{Path, Query};
use super::arguments::RunQuery;
use super::filter::{STATUSES, chosen, class_group, status};
use super::index::{Class, SampleRow};
use super::page::{Liveness, Page, Search, home};
use super::runs::{RunState, score, totals_of};
use super::text::{between, date_and_time, in_address, or_dash, short_id};
use super::{View, read};
use crate::page::{count, duration, interval_bar, money, percent, percent_range, shown};
use crate::store::{RunRecord, RunTotals};
use gaia_scorer::statistics::Proportion;

/// How long the page of a run waits for classes, which need the trajectories of wrong samples: it opens in a second.
const CLASS_PATIENCE: Duration = Duration::from_millis(250);

/// Characters of a question or an answer in the list.
const CELL_CHARACTERS: usize = 120;

/// One run: figures and its samples.
pub(super) async fn show(
    State(view): State<Arc<View>>,
    Path(id): Path<String>,
    Query(query): Query<RunQuery>,
) -> Response {
    read(view, move |view| {
        let (run, record) = view.run(&id)?;
        let mut rows = view.index.rows(&run, &record);
        view.index.add_classes(&run, &mut rows, CLASS_PATIENCE);
        let totals = totals_of(&record, &rows);
        let state = RunState::of(&run, &record, &totals);
        let chosen = chosen(&rows, &query);
        let unread = rows.iter().filter(|row| row.class == Class::Unread).count();
        let address = format!("/run/{}", in_address(&id));
        let body = html! {
            (head(&record, &totals, state, &rows))
            (filters(&rows, &query, chosen.len()))
            p.note data-key="unread" { @if unread > 0 { "The trajectories of " (unread) " samples are being read for their class." } }
            @if chosen.is_empty() {
                p.alert.info data-key="none" { "No sample is like that. " a href=(address) { "Show all" } }
            } @else {
                div.scroll { (table(&address, &chosen, &query, &record)) }
            }
        };
        let search = Search {
            action: format!("{address}/search"),
            hint: "search the trajectories of this run",
            text: String::new(),
        };
        let liveness = match (state, unread) {
            (RunState::Live, _) => Liveness::Live,
            (_, 1..) => Liveness::Reading,
            _ => Liveness::Still,
        };
        let title = format!("{id}: {}", record.model);
        Ok(Page { title: &title, crumbs: vec![home()], search: Some(search), liveness, body }.into_response())
    })
    .await
}

fn head(record: &RunRecord, totals: &RunTotals, state: RunState, rows: &[SampleRow]) -> Markup {
    let tile = |value: String, name: Markup| html! { div.tile { div.value { (value) } div.name { (name) } } };
    let done = totals.requested - totals.missing;
    html! {
        section data-key="head" {
            h1 { "Run " (record.id) " " (state.badge()) @if record.rehearsal { " " span.badge.warn { "rehearsal" } } }
            p.muted {
                (shown(&record.model, 80)) " · " (record.strategy.label()) " · " (shown(&record.dataset.name, 60)) " ("
                (record.dataset.split) ") · begun " (date_and_time(record.started)) " UTC"
                @if let Some(ended) = record.ended { " · took " (duration(between(record.started, ended))) }
            }
            div.tiles {
                (tile(or_dash(score(record, totals).map(percent)), html! { (totals.correct) " correct of " (totals.requested) " asked" }))
                (tile(format!("{done} / {}", totals.requested), html! {
                    (totals.answered) " answered, " (totals.no_answer) " no answer, " (totals.error) " errors, " (totals.missing) " missing"
                }))
                (tile(count(totals.usage.total()), html! { "tokens" @if totals.lost.usage.total() > 0 { ", " (count(totals.lost.usage.total())) " of them in attempts that were cancelled, cut off or done again" } }))
                (tile(or_dash(totals.cost_usd.map(money)), html! { "US dollars" }))
                (tile(duration(totals.sample_seconds), html! { "of samples, one after the other" }))
            }
            @if record.dataset.has_truth { (levels(rows, record.epochs)) }
        }
    }
}

fn levels(rows: &[SampleRow], epochs: u32) -> Markup {
    let mut levels: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
    for row in rows {
        let (asked, correct) = levels.entry(row.planned.level).or_default();
        *asked += 1;
        *correct += u64::from(row.correct() == Some(true));
    }
    html! {
        div.panel { div.chart {
            @for (level, (asked, correct)) in levels {
                @let proportion = Proportion { successes: correct, failures: asked - correct };
                @let share = correct as f64 / asked as f64;
                @let interval = proportion.clustered_wilson_interval(epochs);
                div.chart-row {
                    span.label { "Level " (level) }
                    (interval_bar(share, interval, &[]))
                    span.value title=(or_dash(interval.map(percent_range))) { (percent(share)) " · " (correct) " / " (asked) }
                }
            }
        } }
    }
}

fn filters(rows: &[SampleRow], query: &RunQuery, found: usize) -> Markup {
    let mut levels: Vec<u8> = rows.iter().map(|row| row.planned.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let mut classes: Vec<&str> = rows
        .iter()
        .filter_map(|row| match &row.class {
            Class::Known(class) => Some(class_group(class)),
            Class::None | Class::Unread => None,
        })
        .collect();
    classes.sort_unstable();
    classes.dedup();
    let choice = |name: &str, label: &str, chosen: &str, options: Vec<(String, String)>| {
        html! {
            select name=(name) aria-label=(label) {
                option value="" { (label) ": all" }
                @for (value, text) in options {
                    option value=(value) selected[value == chosen] { (text) }
                }
            }
        }
    };
    let pair = |value: &str, text: &str| (value.to_owned(), text.to_owned());
    html! {
        form.filters {
            (choice("level", "level", &query.level, levels.iter().map(|level| (level.to_string(), format!("level {level}"))).collect()))
            (choice("status", "status", &query.status, STATUSES.iter().map(|(value, text)| pair(value, text)).collect()))
            (choice("correct", "correct", &query.correct, vec![pair("yes", "right"), pair("no", "wrong"), pair("unknown", "unknown")]))
            (choice("class", "class", &query.class, classes.iter().map(|class| pair(class, class)).collect()))
            input type="search" name="find" value=(query.find) placeholder="question, answer or id" aria-label="question, answer or id";
            @if !query.sort.is_empty() {
                input type="hidden" name="sort" value=(query.sort);
                input type="hidden" name="order" value=(query.order);
            }
            button { "Filter" }
            span.muted { (found) " of " (rows.len()) }
        }
    }
}

/// Name in the address, name for people.
const COLUMNS: [(&str, &str); 11] = [
    ("task", "Sample"),
    ("level", "Level"),
    ("status", "Status"),
    ("correct", "Right"),
    ("answer", "Answer"),
    ("class", "Class"),
    ("steps", "Turns"),
    ("calls", "Calls"),
    ("tokens", "Tokens"),
    ("cost", "Cost"),
    ("time", "Time"),
];

fn table(address: &str, rows: &[(usize, &SampleRow)], query: &RunQuery, record: &RunRecord) -> Markup {
    html! {
        table.samples {
            thead { tr {
                th.number { a href=(query.with(&[("sort", ""), ("order", "")])) { "#" } }
                @for (index, (name, text)) in COLUMNS.iter().enumerate() {
                    @let is_sorted = query.sort == *name;
                    @let order = if is_sorted && query.order != "down" { "down" } else { "up" };
                    @let sorted = if query.order == "down" { "descending" } else { "ascending" };
                    th.number[index >= 6] aria-sort=[is_sorted.then_some(sorted)] {
                        a href=(query.with(&[("sort", name), ("order", order)])) { (text) @if is_sorted { (if query.order == "down" { " ▼" } else { " ▲" }) } }
                    }
                }
            } }
            tbody data-list="samples" { @for (place, sample) in rows { (row(address, *place, sample, record)) } }
        }
    }
}

fn row(address: &str, place: usize, row: &SampleRow, record: &RunRecord) -> Markup {
    let task_id = &row.planned.task_id;
    let href = format!("{address}/{}/{}", in_address(task_id), row.epoch);
    let result = row.facts.result.as_ref();
    html! {
        tr id=(format!("sample-{place}")) data-item data-key=(place) {
            td.number.muted { (place + 1) }
            td.wide {
                a.mono href=(href) data-open title=(task_id) { (short_id(task_id)) }
                @if record.epochs > 1 { " " span.badge { "epoch " (row.epoch) } }
                @if let Some(question) = &row.facts.question { div.note { (shown(question.trim(), CELL_CHARACTERS)) } }
            }
            td.number { (row.planned.level) }
            td { (status_badge(row)) }
            td { (right(row.correct())) }
            td.wide {
                @match (&row.facts.damage, result) {
                    (Some(damage), _) => span.bad { (shown(damage, CELL_CHARACTERS)) },
                    (None, Some(result)) => {
                        @if let Some(answer) = &result.answer { (shown(answer, CELL_CHARACTERS)) }
                        @if let Some(error) = &result.error { span.bad { (shown(&error.message, CELL_CHARACTERS)) } }
                    }
                    (None, None) => {}
                }
            }
            td { @match &row.class { Class::Known(class) => (shown(class, 60)), Class::Unread => span.muted { "…" }, Class::None => {} } }
            @if let Some(result) = result {
                td.number { (result.steps) }
                td.number { (result.tool_calls) }
                td.number { (count(result.usage.total())) }
                td.number { (or_dash(result.cost_usd.map(money))) }
                td.number { (duration(result.timing.wall)) }
            } @else { td {} td {} td {} td {} td {} }
        }
    }
}

pub(super) fn status_badge(row: &SampleRow) -> Markup {
    let (class, text) = match status(row) {
        "answered" => ("", "answered"),
        "no_answer" => ("warn", "no answer"),
        "error" => ("bad", "error"),
        "running" => ("good", "begun"),
        _ => ("", "waiting"),
    };
    html! { span.badge.(class) { (text) } }
}

pub(super) fn right(correct: Option<bool>) -> Markup {
    match correct {
        Some(true) => html! { span.good title="right" { "✓" } },
        Some(false) => html! { span.bad title="wrong" { "✗" } },
        None => html! { span.muted title="not known" { "–" } },
    }
}
