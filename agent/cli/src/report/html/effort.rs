use maud::{Markup, html};

use crate::page::{Bin, Part, bar, count, duration, histogram, percent, short_count, shown, stacked_bar};
use crate::report::rows::End;
use crate::report::{Figures, SampleRow};

/// Bins of a histogram.
const BINS: usize = 20;

/// Characters of the name of a tool: models make up names.
const NAME_CHARACTERS: usize = 60;

/// Tools that are charted, those that took most time.
const CHARTED_TOOLS: usize = 15;

/// Steps, tokens and time of the samples, and where the time went.
pub(super) fn effort(figures: &Figures) -> Markup {
    let rows: Vec<&SampleRow> = figures.samples.iter().filter(|row| row.end != End::Missing).collect();
    if rows.is_empty() {
        return html! {};
    }
    html! {
        section #effort {
            h2 { "Steps, tokens and time" }
            div.columns {
                (distribution("Steps of a sample", &rows, |row| f64::from(row.steps), |value| format!("{value:.0}")))
                (distribution("Tokens of a sample", &rows, |row| row.tokens as f64, short_count))
                (distribution("Time of a sample", &rows, |row| row.timing.wall, duration))
            }
            div.panel { h3 { "Where the time went" } (time(&rows)) }
        }
    }
}

fn distribution(
    title: &str,
    rows: &[&SampleRow],
    value: impl Fn(&SampleRow) -> f64,
    text: impl Fn(f64) -> String,
) -> Markup {
    let mut values: Vec<f64> = rows.iter().map(|row| value(row)).collect();
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (values.first().copied(), values.last().copied()) else {
        return html! {};
    };
    let measured: Vec<(f64, bool)> = rows.iter().map(|row| (value(row), row.is_right())).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    html! {
        div.panel {
            h3 { (title) }
            (histogram(&bins(&measured, least, most)))
            div.ends { span { (text(least)) } span { (text(most)) } }
            div.legend {
                span { (swatch("fill-good")) "right" }
                span { (swatch("fill-idle")) "not right" }
                span { "median " (text(values[values.len() / 2])) }
                span { "mean " (text(mean)) }
            }
        }
    }
}

fn bins(measured: &[(f64, bool)], least: f64, most: f64) -> Vec<Bin> {
    let mut bins = vec![Bin::default(); BINS];
    let width = (most - least) / BINS as f64;
    for (value, is_right) in measured {
        let index = if width > 0.0 { ((value - least) / width) as usize } else { 0 };
        let bin = &mut bins[index.min(BINS - 1)];
        bin.all += 1;
        bin.right += u64::from(*is_right);
    }
    bins
}

fn swatch(class: &str) -> Markup {
    html! { svg viewBox="0 0 10 10" aria-hidden="true" { rect.(class) width="10" height="10" rx="2" {} } }
}

fn time(rows: &[&SampleRow]) -> Markup {
    let sum = |part: fn(&SampleRow) -> f64| rows.iter().map(|row| part(row)).sum::<f64>();
    let parts = [
        ("waiting for the model", "fill-one", sum(|row| row.timing.model)),
        ("waiting for tools", "fill-two", sum(|row| row.timing.tool)),
        ("starting and ending servers", "fill-three", sum(|row| row.timing.sandbox)),
        ("gaia itself", "fill-four", sum(|row| row.timing.overhead)),
    ];
    let whole: f64 = parts.iter().map(|(_, _, seconds)| seconds).sum();
    html! {
        (stacked_bar(&parts.map(|(_, class, value)| Part { class, value })))
        div.legend {
            @for (name, class, seconds) in parts {
                span { (swatch(class)) (name) ": " (duration(seconds)) @if whole > 0.0 { " (" (percent(seconds / whole)) ")" } }
            }
        }
        p.note { "Of all samples, one after the other; calls that ran side by side count once each." }
    }
}

/// What each tool took, and how often it failed.
pub(super) fn tools(figures: &Figures) -> Markup {
    if figures.tools.is_empty() {
        return html! {};
    }
    let whole: f64 = figures.tools.iter().map(|tool| tool.seconds).sum();
    let most = figures.tools.iter().map(|tool| tool.seconds).fold(f64::MIN_POSITIVE, f64::max);
    html! {
        section #tools {
            h2 { "Tools" }
            div.columns {
                div.panel {
                    h3 { "Time" }
                    div.chart { @for tool in figures.tools.iter().take(CHARTED_TOOLS) {
                        div.chart-row {
                            span.label { (shown(&tool.tool, NAME_CHARACTERS)) }
                            (bar(tool.seconds / most, "fill-two"))
                            span.value { (duration(tool.seconds)) @if whole > 0.0 { " (" (percent(tool.seconds / whole)) ")" } }
                        }
                    } }
                }
                div.panel {
                    h3 { "Share of calls that ended in an error" }
                    div.chart { @for tool in figures.tools.iter().take(CHARTED_TOOLS) {
                        @let rate = tool.errors as f64 / tool.calls.max(1) as f64;
                        div.chart-row {
                            span.label { (shown(&tool.tool, NAME_CHARACTERS)) }
                            (bar(rate, "fill-bad"))
                            span.value { (percent(rate)) " (" (count(tool.errors)) "/" (count(tool.calls)) ")" }
                        }
                    } }
                }
            }
            div.panel { div.scroll { table {
                thead { tr { th { "Tool" } th.number { "Calls" } th.number { "Errors" } th.number { "Time" } th.number { "a call" } } }
                tbody { @for tool in &figures.tools { tr {
                    td { (shown(&tool.tool, NAME_CHARACTERS)) }
                    td.number { (count(tool.calls)) }
                    td.number { (count(tool.errors)) }
                    td.number { (duration(tool.seconds)) }
                    td.number { (duration(tool.seconds / tool.calls.max(1) as f64)) }
                } } }
            } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_one_bin_the_greatest_in_the_last() {
        let bins = bins(&[(0.0, true), (5.0, false), (100.0, true), (99.9, false)], 0.0, 100.0);
        assert_eq!((bins[0], bins[1]), (Bin { all: 1, right: 1 }, Bin { all: 1, right: 0 }));
        assert_eq!(bins[BINS - 1], Bin { all: 2, right: 1 });
        let same = super::bins(&[(3.0, true), (3.0, false)], 3.0, 3.0);
        assert_eq!(same[0], Bin { all: 2, right: 1 });
    }
}
