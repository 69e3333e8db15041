//! The parts of `report.md` between the results and the samples. None holds a truth.

use std::io::{self, Write};

use super::failures::Failures;
use super::figures::{ContaminatedPage, Figures, Subset, ToolFigures};
use super::markdown::cell;

/// Characters of the address of a page.
const PAGE_CHARACTERS: usize = 120;

/// HelloAgents' thresholds of the exact rate by level, for `excellent` and `good`, and its advice below them.
const RATINGS: [(u8, f64, f64, &str); 3] = [
    (
        1,
        0.6,
        0.4,
        "check the system prompt, the extraction of answers and whether the model is strong enough",
    ),
    (2, 0.4, 0.2, "look at reasoning over several steps and at the use of tools"),
    (3, 0.2, 0.1, "look at long contexts, complex reasoning and at tools used together"),
];

/// From level to level, and what HelloAgents would say of each.
pub(super) fn write_levels(out: &mut dyn Write, figures: &Figures) -> io::Result<()> {
    let levels: &[Subset] = match figures.metrics.first().and_then(|metric| metric.subsets.split_last()) {
        Some((overall, levels)) if overall.score.is_some() => levels,
        _ => return Ok(()),
    };
    writeln!(out, "\n## From level to level\n")?;
    for drop in &figures.drops {
        let relative =
            drop.rate.relative.map(|share| format!(", {:.1} % of it", 100.0 * share)).unwrap_or_default();
        write!(out, "- Level {} to {}: ", drop.from, drop.to)?;
        match drop.chance {
            Some(chance) => writeln!(
                out,
                "{:.1} points MORE, which is unusual. Were both equally hard, so much or more would be seen with a \
                 probability of {:.0} %{}",
                -100.0 * drop.rate.absolute,
                100.0 * chance,
                if chance > 0.05 { ": it may well be chance" } else { "" }
            )?,
            None => writeln!(out, "{:.1} points less{relative}", 100.0 * drop.rate.absolute)?,
        }
    }
    for (level, excellent, good, advice) in RATINGS {
        let Some(score) = levels
            .iter()
            .find(|subset| subset.name == format!("level {level}"))
            .and_then(|subset| subset.score)
        else {
            continue;
        };
        let rating = match score {
            score if score >= excellent => "excellent".to_owned(),
            score if score >= good => "good".to_owned(),
            _ => format!("to be improved: {advice}"),
        };
        writeln!(out, "- By HelloAgents' thresholds ({excellent} and {good}) level {level} is {rating}")?;
    }
    Ok(())
}

pub(super) fn write_failures(out: &mut dyn Write, failures: &Failures) -> io::Result<()> {
    if failures.classes.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n## Why samples are not right\n\nFound by rules and without a model: hints where to look. `format` would be right \
         under a more lenient reading; the official score forgives none of it.\n\n| Why | Samples | Such as |\n|---|---:|---|"
    )?;
    for class in &failures.classes {
        let examples =
            class.examples.iter().map(|example| cell(example, usize::MAX)).collect::<Vec<_>>().join(", ");
        writeln!(out, "| {} | {} | {examples} |", cell(&class.name, usize::MAX), class.samples)?;
    }
    Ok(())
}

pub(super) fn write_tools(out: &mut dyn Write, tools: &[ToolFigures]) -> io::Result<()> {
    if tools.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n## Tools\n\n| Tool | Calls | Errors | Seconds | Seconds a call |\n|---|---:|---:|---:|---:|"
    )?;
    for tool in tools {
        writeln!(
            out,
            "| {} | {} | {} ({:.1} %) | {:.1} | {:.2} |",
            cell(&tool.tool, usize::MAX),
            tool.calls,
            tool.errors,
            100.0 * tool.errors as f64 / tool.calls.max(1) as f64,
            tool.seconds,
            tool.seconds / tool.calls.max(1) as f64
        )?;
    }
    Ok(())
}

pub(super) fn write_contamination(out: &mut dyn Write, pages: &[ContaminatedPage]) -> io::Result<()> {
    if pages.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n## Contaminated\n\nThese pages, which the agent was shown, hold a long verbatim part of the question, and so \
         perhaps its answer. What they led to says little about the agent.\n\n| Task | Epoch | Page |\n|---|---:|---|"
    )?;
    for page in pages {
        writeln!(
            out,
            "| {} | {} | {} |",
            cell(&page.task_id, usize::MAX),
            page.epoch,
            cell(&page.url, PAGE_CHARACTERS)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::failures::Class;

    #[test]
    fn tools_and_classes_are_tables_whatever_their_names() {
        let mut text = Vec::new();
        let class =
            Class { name: "tool trouble: `a|b`".to_owned(), samples: 2, examples: vec!["x|y".to_owned()] };
        write_failures(&mut text, &Failures { classes: vec![class] }).unwrap();
        let tool = ToolFigures { tool: "bash/bash".to_owned(), calls: 4, errors: 1, seconds: 6.0 };
        write_tools(&mut text, &[tool]).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("| bash/bash | 4 | 1 (25.0 %) | 6.0 | 1.50 |"), "{text}");
        assert!(text.contains("a\\|b") && text.contains("x\\|y"), "{text}");
    }
}
