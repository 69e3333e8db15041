use maud::{Markup, html};
use time::OffsetDateTime;

use super::failures::links;
use crate::page::{count, duration, money, percent, percent_range, short_count, shown, shown_lines};
use crate::report::Figures;
use crate::report::table::{lost_text, not_run_text, shown_model};
use crate::store::{Method, RunRecord};

/// Samples of a class that are named at first.
const GLANCED_SAMPLES: usize = 4;

/// Characters of the config in the page.
const CONFIG_CHARACTERS: usize = 40_000;

/// What everybody wants to know first.
pub(super) fn overview(record: &RunRecord, figures: &Figures) -> Markup {
    let totals = &figures.totals;
    let overall = figures.metrics.first().and_then(|metric| metric.subsets.last());
    let who = if record.strategy == Method::Agent { "Agent" } else { "Model" };
    html! {
        p.muted {
            (who) " " b { (shown(&shown_model(figures), 120)) } ", " (figures.answers) ", "
            (shown(&figures.dataset, 80)) " (" (figures.split) ")"
            @if figures.epochs > 1 { ", " (figures.epochs) " epochs" }
        }
        div.tiles {
            div.tile {
                div.value { (overall.and_then(|subset| subset.score).map_or_else(|| "–".to_owned(), percent)) }
                div.name {
                    "official score"
                    @if let Some(interval) = overall.and_then(|subset| subset.interval) { ", 95 %: " (percent_range(interval)) }
                }
            }
            div.tile {
                div.value { (overall.and_then(|subset| subset.correct).map_or_else(|| "–".to_owned(), count)) " / " (count(totals.requested)) }
                div.name { "right, of all that was asked for" }
            }
            div.tile {
                div.value { (totals.cost_usd.map_or_else(|| "–".to_owned(), money)) }
                div.name { @match totals.cost_usd { Some(_) => "cost", None => "cost: no price is known" } }
            }
            div.tile { div.value { (short_count(totals.usage.total() as f64)) } div.name { "tokens" } }
            div.tile { div.value { (duration(totals.sample_seconds)) } div.name { "time of samples, one after the other" } }
        }
        (alerts(figures))
        (glance(figures))
    }
}

/// What keeps the score from being a whole one.
fn alerts(figures: &Figures) -> Markup {
    let totals = &figures.totals;
    html! {
        @if totals.requested > 0 && figures.metrics.iter().all(|metric| metric.subsets.iter().all(|subset| subset.score.is_none())) {
            div.alert.info { "The truths of this split are hidden: only the leaderboard knows the score." }
        }
        @if let Some(not_run) = not_run_text(figures) { div.alert { b { "Not all was run. " } (not_run) } }
        @if totals.missing > 0 {
            div.alert {
                b { (totals.missing) " of " (totals.requested) " samples have no outcome yet" }
                " and count as wrong until they have. " code { "gaia resume" } " finishes them."
            }
        }
        @if totals.error > 0 {
            div.alert {
                b { (totals.error) " of " (totals.requested) " samples ended in an error" } " and count as wrong. "
                code { "gaia resume --rerun errors" } " does them again."
            }
        }
        @if !figures.contaminated.is_empty() {
            div.alert {
                b { (figures.contaminated.len()) " pages" } " that the agent was shown hold a copy of its question: "
                a href="#contaminated" { "which" } "."
            }
        }
    }
}

/// Answers to the questions that are asked of every run.
fn glance(figures: &Figures) -> Markup {
    if figures.samples.is_empty() {
        return html! {};
    }
    let format: Vec<_> =
        figures.failures.classes.iter().filter(|class| class.name.starts_with("format")).collect();
    let by_format: u64 = format.iter().map(|class| class.samples).sum();
    let tool = figures.tools.first().filter(|tool| tool.seconds > 0.0);
    let tool_seconds: f64 = figures.tools.iter().map(|tool| tool.seconds).sum();
    html! {
        div.panel {
            h3 { "At a glance" }
            ul {
                li {
                    "Failed by format alone: "
                    @if by_format == 0 { "no sample." } @else {
                        b { (by_format) } @if by_format == 1 { " sample" } @else { " samples" } " whose answer a more lenient reading would take. "
                        @for class in &format { (shown(&class.name, 120)) ": " (links(&figures.samples, &class.name, GLANCED_SAMPLES)) ". " }
                    }
                }
                li {
                    "The tool that took most time: "
                    @match tool {
                        Some(tool) => { b { (shown(&tool.tool, 60)) } ", " (duration(tool.seconds)) " of " (duration(tool_seconds)) ", in " (count(tool.calls)) " calls." }
                        None => "none was called.",
                    }
                }
                li {
                    "One more correct answer costs: "
                    @match figures.per_correct {
                        Some(each) => {
                            @if let Some(cost) = each.cost_usd { b { (money(cost)) } ", " }
                            (short_count(each.tokens)) " tokens and " (duration(each.seconds))
                            ", as those of this run did, wrong and lost ones included"
                            @if let Some(text) = dearest(figures) { " (" (text) ")" }
                            "."
                        }
                        None => "nobody knows, for there is none yet.",
                    }
                }
                li { "Whether it is better than another run: " code { "gaia compare OTHER " (figures.run) } " tells, with how sure that is." }
            }
        }
    }
}

/// What a right answer cost at each level.
fn dearest(figures: &Figures) -> Option<String> {
    let texts: Vec<String> = figures
        .levels
        .iter()
        .filter_map(|level| {
            Some(format!("level {}: {}", level.level, money(level.group.cost_per_correct()?)))
        })
        .collect();
    (texts.len() > 1).then(|| texts.join(", "))
}

/// With what the run was done, to do it again.
pub(super) fn settings(record: &RunRecord, figures: &Figures) -> Markup {
    let totals = &figures.totals;
    html! {
        section #settings {
            h2 { "The run" }
            div.panel {
                dl.facts {
                    dt { "Outcomes" }
                    dd {
                        (totals.answered) " answered, " (totals.no_answer) " no answer, " (totals.error) " errors, " (totals.missing)
                        " missing, of " (totals.requested) " asked for"
                    }
                    dt { "Tokens" }
                    dd {
                        (count(totals.usage.input_tokens)) " in (" (count(totals.usage.cached_tokens)) " cached), "
                        (count(totals.usage.output_tokens)) " out (" (count(totals.usage.reasoning_tokens)) " reasoning)"
                    }
                    @if let Some(lost) = lost_text(figures) { dt { "Lost of these" } dd { (lost) } }
                    @if let Some(steps) = figures.mean_steps_correct { dt { "Steps of right samples" } dd { (format!("{steps:.1}")) " on average" } }
                    dt { "Dataset" }
                    dd { (shown(&figures.dataset, 80)) ", " (figures.split) " split, fingerprint " code { (record.dataset.fingerprint) } }
                    dt { "Tools" }
                    dd { @for (index, tool) in record.tools.iter().enumerate() { @if index > 0 { ", " } code { (shown(tool, 80)) } } }
                    @if let Some(staged) = &record.staged {
                        dt { "Stages" }
                        dd { @for stage in &staged.stages { div { (stage.label()) } } }
                    }
                    dt { "Started" }
                    dd { (time_text(Some(record.started))) }
                    dt { "Ended" }
                    dd { (time_text(record.ended)) }
                    dt { "Sessions" }
                    dd { (record.sessions.len()) @for session in &record.sessions { @if !session.endpoint.is_empty() { ", " (shown(&session.endpoint, 120)) } } }
                    dt { "Program" }
                    dd { "gaia " (record.program_version) " on " (shown(&record.host.os, 80)) " " (record.host.architecture) }
                }
                details {
                    summary { "Config, without secrets" }
                    (shown_lines(&toml::to_string(&record.config).unwrap_or_default(), CONFIG_CHARACTERS))
                }
            }
        }
    }
}

fn time_text(time: Option<OffsetDateTime>) -> String {
    time.and_then(|time| time.format(&time::format_description::well_known::Rfc3339).ok())
        .unwrap_or_else(|| "not yet".to_owned())
}
