use std::io::{self, Write};

use maud::{Markup, html};

use super::table::{RUN_HEADER, change_line, level_header, level_rows, run_row, title, winners};
use super::{Comparison, Pair, Verdict};
use crate::page::{
    Mark, Part, Reach, Shell, document, interval_bar, percent, percent_range, shown, stacked_bar,
};

/// Writes the comparison as one page that needs nothing else. It holds no answer, no question and no truth.
pub fn write_html(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    let name = format!("Comparison of {} GAIA runs", comparison.runs.len());
    let page = document(&Shell {
        title: &name,
        reach: Reach::Nothing,
        script: "",
        bar: html! { b { (name) } },
        body: html! {
            h1 { (name) }
            @for pair in &comparison.pairs { div.alert.(tone(pair.verdict)) { (pair.conclusion) } }
            (runs(comparison))
            @for pair in &comparison.pairs { (section(pair, comparison.pairs.len())) }
        },
    });
    out.write_all(page.into_string().as_bytes())
}

fn tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::FirstIsBetter | Verdict::SecondIsBetter => "good",
        Verdict::AboutEqual => "info",
        Verdict::NotClear | Verdict::NothingInCommon => "warn",
    }
}

fn runs(comparison: &Comparison) -> Markup {
    html! {
        section {
            h2 { "The runs" }
            div.panel {
                div.chart { @for run in &comparison.runs {
                    div.chart-row {
                        span.label { b { (run.letter) } " " (shown(&run.model, 60)) }
                        (interval_bar(run.score.unwrap_or_default(), run.interval, &[] as &[Mark]))
                        span.value {
                            b { (run.score.map_or_else(|| "–".to_owned(), percent)) }
                            @if let Some(interval) = run.interval { " " span.muted { (percent_range(interval)) } }
                        }
                    }
                } }
                p.note { "Each run on all that it was asked, with its own 95 % interval. Whether two differ is told below, task by task: intervals that overlap do not mean that they do not." }
                (table(&RUN_HEADER.map(str::to_owned), 3, comparison.runs.iter().map(run_row)))
            }
        }
    }
}

fn section(pair: &Pair, comparisons: usize) -> Markup {
    let parts = [
        ("both right", "fill-good", pair.both_right),
        ("first", "fill-one", pair.won_by_first.len() as u64),
        ("second", "fill-two", pair.won_by_second.len() as u64),
        ("neither right", "fill-idle", pair.neither_right),
    ];
    let name = |name: &str| match name {
        "first" => format!("only {} right", pair.first),
        "second" => format!("only {} right", pair.second),
        other => other.to_owned(),
    };
    html! {
        section {
            h2 { (title(pair)) }
            div.panel {
                p { b { (pair.conclusion) } }
                (table(&level_header(pair), 1, level_rows(pair)))
                p.note {
                    "Differences are in percentage points; the interval is a bootstrap over tasks, 95 %. " (pair.test) ": p = "
                    (format!("{:.4}", pair.p_value))
                    @if comparisons > 1 { ", and " (format!("{:.4}", pair.corrected_p_value)) " for " (comparisons) " comparisons (Holm)" } "."
                }
                @if !pair.caveats.is_empty() {
                    h3 { "To be borne in mind" }
                    ul { @for caveat in &pair.caveats { li.warn { (caveat) } } }
                }
            }
            div.panel {
                h3 { "Who won which task" }
                (stacked_bar(&parts.map(|(_, class, value)| Part { class, value: value as f64 })))
                div.legend {
                    @for (part, class, value) in parts {
                        span { svg viewBox="0 0 10 10" aria-hidden="true" { rect.(class) width="10" height="10" rx="2" {} } (name(part)) ": " (value) }
                    }
                }
                @for (winner, tasks) in winners(pair) {
                    @if !tasks.is_empty() {
                        p { "Only " b { (winner) } " right: " @for (index, task) in tasks.iter().enumerate() { @if index > 0 { ", " } code { (shown(task, 80)) } } }
                    }
                }
            }
            div.panel {
                h3 { "What changed" }
                @if pair.changes.is_empty() { p { "Nothing that is recorded." } }
                ul { @for change in &pair.changes { li { (shown(&change_line(change), 300)) } } }
            }
        }
    }
}

fn table<const N: usize>(
    header: &[String; N],
    first_number: usize,
    rows: impl IntoIterator<Item = [String; N]>,
) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { @for (column, name) in header.iter().enumerate() { th.number[column >= first_number] { (name) } } } }
            tbody { @for row in rows { tr.total[row[0] == "overall"] {
                @for (column, text) in row.iter().enumerate() { td.number[column >= first_number] { (shown(text, 200)) } }
            } } }
        } }
    }
}
