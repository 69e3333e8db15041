use maud::{Markup, html};

use super::anchor;
use crate::page::{count, duration, money, shown};
use crate::report::Figures;
use crate::report::rows::{End, SampleRow};

/// Characters of an answer or an error in a cell.
const CELL_CHARACTERS: usize = 160;

/// Every sample; a script of the page makes the filters and the headings work.
pub(super) fn samples(figures: &Figures) -> Markup {
    let rows = &figures.samples;
    let has_epochs = figures.epochs > 1;
    let has_costs = rows.iter().any(|row| row.spent_usd().is_some());
    html! {
        section #samples {
            h2 { "Samples" }
            @if rows.is_empty() {
                p.note { "No sample was asked for." }
            } @else {
                (filters(figures))
                div.scroll {
                    table #sample-table {
                        thead { tr {
                            (heading("Task", "text"))
                            @if has_epochs { (heading("Epoch", "number")) }
                            (heading("Level", "number"))
                            (heading("Outcome", "text"))
                            (heading("Official", "text"))
                            th title="Quasi-exact and partial, by HelloAgents' rules" { "Quasi, partial" }
                            (heading("Answer, or what went wrong", "text"))
                            (heading("Why not right", "text"))
                            (heading("Steps", "number"))
                            (heading("Tokens", "number"))
                            @if has_costs { (heading("Cost", "number")) }
                            (heading("Time", "number"))
                        } }
                        tbody {
                            @for (index, row) in rows.iter().enumerate() { (line(index, row, has_epochs, has_costs)) }
                        }
                    }
                }
            }
        }
    }
}

fn filters(figures: &Figures) -> Markup {
    html! {
        div.filters #filters hidden {
            input #filter-text type="search" placeholder="Task, answer, error" aria-label="Search in the samples";
            select #filter-level aria-label="Level" {
                option value="" { "all levels" }
                @for level in &figures.levels { option value=(level.level) { "level " (level.level) } }
            }
            select #filter-right aria-label="Verdict" {
                option value="" { "right or not" }
                option value="yes" { "right" }
                option value="no" { "not right" }
            }
            select #filter-why aria-label="Why a sample is not right" {
                option value="" { "whatever the reason" }
                @for class in &figures.failures.classes { option value=(class.name) { (shown_option(&class.name)) } }
            }
            button #filter-clear type="button" { "Clear" }
            span #filter-count.note {}
        }
    }
}

/// An option holds text only.
fn shown_option(text: &str) -> String {
    crate::page::clean(text, 80, crate::page::Breaks::Signs).text
}

fn heading(name: &str, kind: &str) -> Markup {
    html! { th.number[kind == "number"] scope="col" data-sort=(kind) { (name) } }
}

fn line(index: usize, row: &SampleRow, has_epochs: bool, has_costs: bool) -> Markup {
    let (tokens, cost_usd) = (row.spent_tokens(), row.spent_usd());
    let right = row.verdict.map(|verdict| if verdict.official { "yes" } else { "no" });
    html! {
        tr #(anchor(index)) data-level=(row.level) data-right=(right.unwrap_or_default()) data-why=(row.failure.as_deref().unwrap_or_default()) {
            td.id { (shown(&row.task_id, CELL_CHARACTERS)) }
            @if has_epochs { td.number { (row.epoch) } }
            td.number { (row.level) }
            td { (outcome(row.end)) }
            td { @match right {
                Some("yes") => span.badge.good { "right" },
                Some(_) => span.badge.bad { "wrong" },
                None => "–",
            } }
            td { @match row.verdict {
                Some(verdict) => { (tick(verdict.quasi)) ", " (tick(verdict.partial)) }
                None => "–",
            } }
            td.wide {
                @if let Some(answer) = &row.answer { (shown(answer, CELL_CHARACTERS)) }
                @if let Some(error) = &row.error { span.bad { (shown(error, CELL_CHARACTERS)) } }
            }
            td { @if let Some(failure) = &row.failure { (shown(failure, CELL_CHARACTERS)) } }
            td.number data-value=(row.steps) { (row.steps) }
            td.number data-value=(tokens) { (count(tokens)) }
            @if has_costs { td.number data-value=(cost_usd.unwrap_or_default()) { (cost_usd.map_or_else(|| "–".to_owned(), money)) } }
            td.number data-value=(row.timing.wall) { (duration(row.timing.wall)) }
        }
    }
}

fn tick(is_met: bool) -> &'static str {
    if is_met { "yes" } else { "no" }
}

fn outcome(end: End) -> Markup {
    let label = end.label();
    match end {
        End::Answered => html! { span.badge { (label) } },
        End::AnsweredAtLimit | End::Admitted | End::NoAnswer => html! { span.badge.warn { (label) } },
        End::Error | End::Missing => html! { span.badge.bad { (label) } },
    }
}
