use maud::{Markup, html};

use super::anchor;
use super::scores::group_table;
use crate::page::{Breaks, Clean, bar, clean, percent, points, shown};
use crate::report::groups::Group;
use crate::report::rows::End;
use crate::report::{Figures, SampleRow};

/// Samples of a class that are linked to; the table shows all.
const LINKED_SAMPLES: usize = 12;

/// Characters of the id of a linked sample.
const ID_CHARACTERS: usize = 13;

/// Why samples are not right: classes with their counts and samples.
pub(super) fn failures(figures: &Figures) -> Markup {
    let classes = &figures.failures.classes;
    if classes.is_empty() {
        return html! {};
    }
    let most = classes.iter().map(|class| class.samples).max().unwrap_or(1) as f64;
    html! {
        section #failures {
            h2 { "Why samples are not right" }
            p.note {
                "Found by rules and without a model: hints where to look. What failed by " em { "format" }
                " would be right under a more lenient reading; the official score forgives none of it."
            }
            div.panel { div.chart {
                @for class in classes {
                    div.chart-row {
                        span.label { a href="#samples" data-show-why=(class.name) { (shown(&class.name, 120)) } }
                        (bar(class.samples as f64 / most, colour(&class.name)))
                        span.value { (class.samples) " (" (percent(class.samples as f64 / figures.samples.len().max(1) as f64)) ")" }
                    }
                    p.note { (links(&figures.samples, &class.name, LINKED_SAMPLES)) }
                }
            } }
        }
    }
}

fn colour(class: &str) -> &'static str {
    match class.split(':').next() {
        Some("format" | "near miss") => "fill-two",
        Some("capability") => "fill-three",
        Some("error" | "tool trouble") => "fill-bad",
        _ => "fill-idle",
    }
}

/// The samples of a class, each linked to its line in the table.
pub(super) fn links(rows: &[SampleRow], class: &str, most: usize) -> Markup {
    let members: Vec<(usize, &SampleRow)> =
        rows.iter().enumerate().filter(|(_, row)| row.failure.as_deref() == Some(class)).collect();
    html! {
        @for (position, (index, row)) in members.iter().take(most).enumerate() {
            @if position > 0 { ", " }
            a.mono href=(format!("#{}", anchor(*index))) { (short_id(&row.task_id)) }
            @if row.epoch > 1 { " (epoch " (row.epoch) ")" }
        }
        @if members.len() > most { " and " (members.len() - most) " more" }
    }
}

/// Enough of an id to know it again.
fn short_id(task_id: &str) -> Markup {
    let Clean { text, left_out } = clean(task_id, ID_CHARACTERS, Breaks::Signs);
    html! { bdi.text { (text) @if left_out > 0 { "…" } } }
}

/// Whether it pays to answer, and what the missing answers may have cost.
pub(super) fn answering(figures: &Figures) -> Markup {
    let groups = &figures.answering;
    if groups.iter().all(|group| group.score.is_none()) {
        return html! {};
    }
    html! {
        section #answering {
            h2 { "What answers are worth by how they came" }
            div.panel {
                (group_table("How it ended", groups))
                @for sentence in conclusions(groups) { p { (sentence) } }
            }
        }
    }
}

/// What follows from the table, in sentences. GAIA takes nothing off for a wrong answer.
fn conclusions(groups: &[Group]) -> Vec<String> {
    let of = |end: End| groups.iter().find(|group| group.name == end.label());
    let num = |end| of(end).map_or(0, |group| group.num);
    let mut sentences = Vec::new();
    let asked: u64 = groups.iter().map(|group| group.num).sum();
    let answered = num(End::Answered) + num(End::AnsweredAtLimit);
    let right: u64 = groups.iter().filter_map(|group| group.correct).sum();
    if answered > 0 {
        sentences.push(format!(
            "Answers stand for {} of {asked} samples, and of these answers {} are right.",
            percent(answered as f64 / asked as f64),
            percent(right as f64 / answered as f64)
        ));
    }
    let unanswered = num(End::NoAnswer) + num(End::Admitted);
    if let Some(forced) = of(End::AnsweredAtLimit)
        && let Some(score) = forced.score
        && unanswered > 0
    {
        sentences.push(format!(
            "GAIA takes nothing off for a wrong answer: had the {unanswered} samples without one been guessed as well as those \
             at a limit ({}), about {:.1} more would be right ({} points).",
            percent(score),
            score * unanswered as f64,
            points(score * unanswered as f64 / asked as f64)
        ));
    } else if unanswered > 0 {
        sentences.push(format!(
            "GAIA takes nothing off for a wrong answer, so the {unanswered} samples without one are points given away."
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(end: End, num: u64, correct: u64) -> Group {
        Group {
            name: end.label().to_owned(),
            num,
            correct: Some(correct),
            score: Some(correct as f64 / num as f64),
            interval: None,
            mean_steps: 1.0,
            tokens: 1,
            cost_usd: None,
            seconds: 1.0,
        }
    }

    #[test]
    fn what_missing_answers_may_have_cost_is_told_by_those_at_a_limit() {
        let groups =
            [group(End::Answered, 6, 4), group(End::AnsweredAtLimit, 2, 1), group(End::NoAnswer, 2, 0)];
        let sentences = conclusions(&groups);
        assert!(sentences[0].contains("80.0% of 10") && sentences[0].contains("62.5%"), "{sentences:?}");
        assert!(
            sentences[1].contains("about 1.0 more") && sentences[1].contains("+10.0 points"),
            "{sentences:?}"
        );
        assert!(conclusions(&[group(End::NoAnswer, 2, 0)])[0].contains("given away"));
        assert_eq!(conclusions(&[group(End::Error, 2, 0)]), Vec::<String>::new());
    }
}
