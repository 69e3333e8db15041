use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use gaia_agent::Status;
use maud::{Markup, html};

use super::address::Query;
use super::arguments::ListQuery;
use super::index::SampleRow;
use super::page::{Liveness, Page, Search};
use super::text::{between, date_and_time, in_address, or_dash};
use super::{View, read};
use crate::page::{count, duration, money, percent, shown};
use crate::store::{Expense, RunDirectory, RunRecord, RunTotals, run_ids};

/// Runs on one page.
const PAGE_RUNS: usize = 100;

/// All runs of the folder, newest first.
pub(super) async fn show(State(view): State<Arc<View>>, Query(query): Query<ListQuery>) -> Response {
    read(view, move |view| {
        let mut ids = run_ids(&view.runs)?;
        ids.reverse();
        let first = query.page.saturating_mul(PAGE_RUNS);
        let runs: Vec<Listed> =
            ids.iter().skip(first).take(PAGE_RUNS).map(|id| Listed::read(view, id)).collect();
        let is_live = runs.iter().any(|run| matches!(&run.found, Ok((_, RunState::Live, _))));
        let body = html! {
            section data-key="head" {
                h1 { "Runs" }
                p.muted { (count(ids.len() as u64)) " in " code { (view.runs.display().to_string()) } }
            }
            @if ids.is_empty() {
                p.alert.info { "There is no run here yet. " code { "gaia run" } " makes one." }
            } @else {
                div.scroll { (table(&runs)) }
            }
            (pager(query.page, ids.len()))
        };
        let search =
            Search { action: "/search".to_owned(), hint: "search all trajectories", text: String::new() };
        let liveness = if is_live { Liveness::Live } else { Liveness::Still };
        let page = Page { title: "gaia: runs", crumbs: Vec::new(), search: Some(search), liveness, body };
        Ok(page.into_response())
    })
    .await
}

/// What is known of a run at a glance.
struct Listed {
    id: String,
    found: Result<(RunRecord, RunState, RunTotals), String>,
}

/// What becomes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunState {
    /// A process works on it.
    Live,
    Ended,
    /// Nobody works on it, and samples are missing.
    Unfinished,
}

impl Listed {
    fn read(view: &View, id: &str) -> Self {
        let found = view.run(id).map(|(run, record)| {
            let is_live = run.is_worked_on();
            let totals = match &record.totals {
                Some(totals) if !is_live => totals.clone(),
                _ => totals_of(&record, &view.index.rows(&run, &record)),
            };
            let state = RunState::of(&run, &record, &totals);
            (record, state, totals)
        });
        Self { id: id.to_owned(), found: found.map_err(|fault| fault.to_string()) }
    }
}

impl RunState {
    pub(super) fn of(run: &RunDirectory, record: &RunRecord, totals: &RunTotals) -> Self {
        match (run.is_worked_on(), record.ended) {
            (true, _) => Self::Live,
            (false, Some(_)) if totals.missing == 0 => Self::Ended,
            _ => Self::Unfinished,
        }
    }

    pub(super) fn badge(self) -> Markup {
        match self {
            Self::Live => html! { span.badge.good { "live" } },
            Self::Ended => html! { span.badge { "ended" } },
            Self::Unfinished => html! { span.badge.warn { "unfinished" } },
        }
    }
}

/// What the attempts without an outcome cost stands in the record since the last session ended: it is in logs, which are long.
pub(super) fn totals_of(record: &RunRecord, rows: &[SampleRow]) -> RunTotals {
    let lost = record.totals.as_ref().map(|totals| totals.lost).unwrap_or_default();
    let mut totals = RunTotals { requested: rows.len() as u64, ..RunTotals::default() };
    totals.lose(lost);
    for row in rows {
        let Some(result) = &row.facts.result else {
            totals.missing += 1;
            continue;
        };
        match result.status {
            Status::Answered => totals.answered += 1,
            Status::NoAnswer => totals.no_answer += 1,
            Status::Error => totals.error += 1,
        }
        totals.correct += u64::from(row.correct() == Some(true));
        totals.spend(Expense::of_result(result));
        totals.sample_seconds += result.timing.wall;
    }
    totals
}

/// Right ones among all that were asked for.
pub(super) fn score(record: &RunRecord, totals: &RunTotals) -> Option<f64> {
    (record.dataset.has_truth && totals.requested > 0)
        .then(|| totals.correct as f64 / totals.requested as f64)
}

fn table(runs: &[Listed]) -> Markup {
    html! {
        table {
            thead { tr {
                th { "Run" } th { "State" } th { "Model" } th { "Dataset" }
                th.number { "Correct" } th.number { "Score" } th.number { "Done" } th.number { "Errors" }
                th.number { "Tokens" } th.number { "Cost" } th.number { "Time" }
            } }
            tbody data-list="runs" { @for run in runs { (row(run)) } }
        }
    }
}

fn row(run: &Listed) -> Markup {
    let href = format!("/run/{}", in_address(&run.id));
    html! {
        tr id=(format!("run-{}", run.id)) data-item data-key=(run.id) {
            td.id { a href=(href) data-open { (run.id) } }
            @match &run.found {
                Err(reason) => td.bad colspan="10" { (shown(reason, 300)) },
                Ok((record, state, totals)) => {
                    td { (state.badge()) }
                    td.wide {
                        (shown(&record.model, 60))
                        @if record.rehearsal { " " span.badge.warn { "rehearsal" } }
                        div.note { (record.strategy.label()) }
                    }
                    td { (shown(&record.dataset.name, 40)) div.note { (record.dataset.split) } }
                    td.number { (totals.correct) " / " (totals.requested) }
                    td.number { (or_dash(score(record, totals).map(percent))) }
                    td.number { (totals.requested - totals.missing) }
                    td.number.bad[totals.error > 0] { (totals.error) }
                    td.number { (count(totals.usage.total())) }
                    td.number { (or_dash(totals.cost_usd.map(money))) }
                    td.number title=(date_and_time(record.started)) {
                        (or_dash(record.ended.map(|ended| duration(between(record.started, ended)))))
                    }
                }
            }
        }
    }
}

fn pager(page: usize, runs: usize) -> Markup {
    html! {
        @if runs > PAGE_RUNS {
            nav.pager aria-label="pages" {
                @if page > 0 { a href=(format!("/?page={}", page - 1)) { "newer" } }
                @if (page + 1).saturating_mul(PAGE_RUNS) < runs { a href=(format!("/?page={}", page + 1)) { "older" } }
            }
        }
    }
}
