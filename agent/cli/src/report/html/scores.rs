use gaia_scorer::statistics::Interval;
use maud::{Markup, html};

use crate::page::{
    Dot, Mark, count, duration, interval_bar, money, percent, percent_range, points, probability, scatter,
    short_count,
};
use crate::report::groups::Group;
use crate::report::published::{HUMAN, PUBLISHED, Published, Questions};
use crate::report::ratings::rating;
use crate::report::{Figures, Subset};

/// Accuracy by level with its intervals, beside what others published.
pub(super) fn accuracy(figures: &Figures) -> Markup {
    let Some(official) =
        figures.metrics.first().filter(|metric| metric.subsets.iter().any(|subset| subset.score.is_some()))
    else {
        return html! {};
    };
    html! {
        section #accuracy {
            h2 { "Accuracy" }
            div.panel {
                h3 { "By level, official score (" (official.of) ")" }
                div.chart { @for subset in &official.subsets { (score_bar(subset)) } }
                p.note {
                    "The line over each bar is its 95 % interval (Wilson), the dashed one what people reach: " (percent(HUMAN.score))
                    " (" (HUMAN.of.label()) ", " (HUMAN.source) ", " (HUMAN.date) ")."
                }
            }
            div.panel {
                h3 { "Every metric beside the others" }
                (metrics(figures))
                p.note {
                    "Official is the leaderboard's scorer and the only score. Quasi-exact and partial are HelloAgents' two looser rules, for
                    comparison: an exact match is a partial one too."
                    @if figures.epochs > 1 {
                        " pass@" (figures.epochs) " counts a task when one of its epochs is right, pass^" (figures.epochs) " when all are, and
                        the vote when the most frequent answer is; none of them is comparable with the score of single answers."
                    }
                }
            }
            div.columns {
                div.panel { h3 { "From level to level" } (progression(figures)) }
                div.panel { h3 { "Beside published figures" } (published(figures, official.subsets.last())) }
            }
        }
    }
}

fn score_bar(subset: &Subset) -> Markup {
    let score = subset.score.unwrap_or_default();
    html! {
        div.chart-row {
            span.label { (subset.name) }
            (interval_bar(score, subset.interval, &[Mark { share: HUMAN.score }]))
            span.value {
                b { (percent(score)) } " (" (subset.correct.unwrap_or_default()) "/" (subset.num) ")"
                @if let Some(interval) = subset.interval { " " span.muted { (percent_range(interval)) } }
            }
        }
    }
}

/// One line for each way to count and subset, one column for each metric.
fn metrics(figures: &Figures) -> Markup {
    let names = figures.metrics.iter().fold(Vec::new(), |mut names: Vec<&str>, metric| {
        if !names.contains(&metric.name.as_str()) {
            names.push(&metric.name);
        }
        names
    });
    let first = names.first().copied().unwrap_or_default();
    html! {
        div.scroll { table {
            thead { tr {
                th { "Counted" } th { "Samples" } th.number { "Num" }
                @for name in &names { th.number { (name) } }
                th.number { "95 % of official" }
            } }
            tbody {
                @for metric in figures.metrics.iter().filter(|metric| metric.name == first) {
                    @for (index, subset) in metric.subsets.iter().enumerate() {
                        tr.total[index + 1 == metric.subsets.len()] {
                            td { (metric.of) } td { (subset.name) } td.number { (subset.num) }
                            @for name in &names {
                                td.number { (figures.metrics.iter()
                                    .find(|other| other.name == *name && other.of == metric.of)
                                    .and_then(|other| other.subsets[index].score)
                                    .map_or_else(|| "–".to_owned(), percent)) }
                            }
                            td.number { (subset.interval.map_or_else(|| "–".to_owned(), percent_range)) }
                        }
                    }
                }
            }
        } }
    }
}

fn progression(figures: &Figures) -> Markup {
    html! {
        ul {
            @for drop in &figures.drops {
                li {
                    "Level " (drop.from) " to " (drop.to) ": "
                    @match drop.chance {
                        Some(chance) => {
                            b { (points(-drop.rate.absolute)) " points, which is unusual" }
                            ". Were both equally hard, so much or more would be seen with a probability of " (probability(chance))
                            @if chance > 0.05 { ": it may well be chance." } @else { "." }
                        }
                        None => {
                            (points(-drop.rate.absolute)) " points"
                            @if let Some(relative) = drop.rate.relative { " (a drop of " (percent(relative)) ")" }
                        }
                    }
                }
            }
            @for level in &figures.levels {
                @if let Some(rating) = level.group.score.and_then(|score| rating(level.level, score)) {
                    li {
                        "Level " (level.level) " is " b { (rating.name) } " by the thresholds of HelloAgents ("
                        (percent(rating.excellent)) ", " (percent(rating.good)) ")"
                        @if !rating.advice.is_empty() { ". Its advice: " (rating.advice) }
                    }
                }
            }
        }
    }
}

/// Whose questions were others, for what is published and for this run.
fn published(figures: &Figures, overall: Option<&Subset>) -> Markup {
    let own = overall.and_then(|subset| Some((subset.score?, subset)));
    let own_place = own.map(|(score, _)| PUBLISHED.iter().filter(|figure| figure.score > score).count());
    html! {
        div.scroll { table {
            thead { tr { th { "Who" } th.number { "Score" } th { "Questions" } th { "Source" } } }
            tbody {
                @for place in 0..=PUBLISHED.len() {
                    @if own_place == Some(place) && let Some((score, subset)) = own {
                        tr.total { td { "this run" } td.number { (percent(score)) } td { (subset.num) " of " (figures.split) } td { "" } }
                    }
                    @if let Some(Published { who, score, of, source, date, .. }) = PUBLISHED.get(place) {
                        tr { td { (who) } td.number { (percent(*score)) } td { (of.label()) } td.note { (source) ", " (date) } }
                    }
                }
            }
        } }
        p.note { "Each is its publisher's own claim; only figures of the same questions, with one answer each, can be compared." }
    }
}

/// What right answers cost, beside what others paid.
pub(super) fn cost(figures: &Figures) -> Markup {
    let groups: Vec<Group> = figures.levels.iter().map(|level| level.group.clone()).collect();
    if groups.is_empty() {
        return html! {};
    }
    let has_costs = figures.totals.cost_usd.is_some();
    html! {
        section #cost {
            h2 { "Cost against accuracy" }
            div.panel { h3 { "What each level took" } (group_table("Level", &groups)) }
            @if groups.iter().any(|group| group.score.is_some()) {
                div.panel {
                    @if has_costs {
                        h3 { "Cost of a sample against accuracy" }
                        (scatter(&cost_dots(figures), "US dollars a sample", money))
                        p.note {
                            "Levels and the whole of this run, with their intervals. " span.warn { "Orange" }
                            " is what others published of the validation split: " (others()) "."
                        }
                    } @else {
                        h3 { "Tokens of a sample against accuracy" }
                        (scatter(&token_dots(figures), "tokens a sample", short_count))
                        p.note { "No price is known: " code { "model.price" } " in the config sets one." }
                    }
                }
            }
        }
    }
}

fn others() -> String {
    let priced = PUBLISHED.iter().filter_map(|figure| Some((figure, figure.cost_usd?)));
    let texts: Vec<String> = priced
        .map(|(figure, cost)| {
            format!("{} ({} in all, {}, {})", figure.who, money(cost), figure.source, figure.date)
        })
        .collect();
    texts.join("; ")
}

fn cost_dots(figures: &Figures) -> Vec<Dot> {
    let mut dots = dots(figures, |group| group.cost_usd);
    let priced = PUBLISHED.iter().filter(|figure| figure.of == Questions::Validation);
    dots.extend(priced.filter_map(|figure| {
        Some(Dot {
            x: figure.cost_usd? / figure.of.samples(),
            y: figure.score,
            interval: None,
            label: figure.who.rsplit(", ").next().unwrap_or_default().to_owned(),
            class: "fill-two",
        })
    }));
    dots
}

fn token_dots(figures: &Figures) -> Vec<Dot> {
    dots(figures, |group| Some(group.tokens as f64))
}

/// A point for each level and one for all.
fn dots(figures: &Figures, spent: impl Fn(&Group) -> Option<f64>) -> Vec<Dot> {
    let dot = |label: &str, spent: f64, num: u64, score: f64, interval: Option<Interval>, class| Dot {
        x: spent / num.max(1) as f64,
        y: score,
        interval,
        label: label.to_owned(),
        class,
    };
    let mut dots: Vec<Dot> = figures
        .levels
        .iter()
        .filter_map(|level| {
            let group = &level.group;
            Some(dot(&group.name, spent(group)?, group.num, group.score?, group.interval, "fill-one"))
        })
        .collect();
    let all: f64 = figures.levels.iter().filter_map(|level| spent(&level.group)).sum();
    let overall = figures.metrics.first().and_then(|metric| metric.subsets.last());
    if let Some(overall) = overall
        && let Some(score) = overall.score
    {
        dots.push(dot("this run", all, overall.num, score, overall.interval, "fill-accent"));
    }
    dots
}

/// By what people needed for the questions.
pub(super) fn needs(figures: &Figures) -> Markup {
    html! {
        @if !figures.needs.is_empty() {
            section #needs {
                h2 { "By capability" }
                p.note {
                    "What the people who made the questions noted of tools and steps, sorted into the classes of the GAIA paper by words. A
                    sample may be in several."
                }
                @for division in &figures.needs {
                    div.panel { h3 { "By " (division.name) } (group_table("Group", &division.groups)) }
                }
            }
        }
    }
}

pub(super) fn group_table(heading: &str, groups: &[Group]) -> Markup {
    let dash = || "–".to_owned();
    let has_costs = groups.iter().any(|group| group.cost_usd.is_some());
    html! {
        div.scroll { table {
            thead { tr {
                th { (heading) } th.number { "Right" } th.number { "Score" } th.number { "95 %" } th.number { "Steps" }
                th.number { "Tokens" } th.number { "Time" }
                @if has_costs { th.number { "Cost" } th.number title="All that was spent, divided by the right answers" { "per right" } }
            } }
            tbody { @for group in groups {
                tr {
                    td.name { (group.name) }
                    td.number { (group.correct.map_or_else(dash, |correct| correct.to_string())) "/" (group.num) }
                    td.number { (group.score.map_or_else(dash, percent)) }
                    td.number { (group.interval.map_or_else(dash, percent_range)) }
                    td.number { (format!("{:.1}", group.mean_steps)) }
                    td.number title=(count(group.tokens)) { (short_count(group.tokens as f64)) }
                    td.number { (duration(group.seconds)) }
                    @if has_costs {
                        td.number { (group.cost_usd.map_or_else(dash, money)) }
                        td.number { (group.cost_per_correct().map_or_else(dash, money)) }
                    }
                }
            } }
        } }
    }
}
