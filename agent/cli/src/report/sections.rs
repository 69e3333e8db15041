//! The parts of `report.md` between the results and the samples. None holds a truth.

use std::io::{self, Write};

use super::failures::Failures;
use super::figures::{ContaminatedPage, Figures, ToolFigures};
use super::groups::{Group, LevelGroup};
use super::markdown::cell;
use super::ratings::{Rating, rating};
use crate::page::{money, percent, percent_range};

/// Characters of the address of a page.
const PAGE_CHARACTERS: usize = 120;

/// From level to level, and what HelloAgents would say of each.
pub(super) fn write_levels(out: &mut dyn Write, figures: &Figures) -> io::Result<()> {
    if figures.levels.iter().all(|level| level.group.score.is_none()) {
        return Ok(());
    }
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
    for LevelGroup { level, group } in &figures.levels {
        if let Some(Rating { name, advice, excellent, good }) =
            group.score.and_then(|score| rating(*level, score))
        {
            let advice = if advice.is_empty() { String::new() } else { format!(": {advice}") };
            writeln!(
                out,
                "- By HelloAgents' thresholds ({excellent} and {good}) level {level} is {name}{advice}"
            )?;
        }
    }
    Ok(())
}

/// What groups of samples took, and how many of them are right: levels, how answers came, what people needed.
pub(super) fn write_groups(out: &mut dyn Write, figures: &Figures) -> io::Result<()> {
    let levels: Vec<Group> = figures.levels.iter().map(|level| level.group.clone()).collect();
    write_division(out, "What each level took", "Level", &levels)?;
    write_division(out, "What answers are worth by how they came", "How", &figures.answering)?;
    for division in &figures.needs {
        write_division(out, &format!("By {}", division.name), "Group", &division.groups)?;
    }
    Ok(())
}

fn write_division(out: &mut dyn Write, title: &str, column: &str, groups: &[Group]) -> io::Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n## {title}\n\n| {column} | Num | Correct | Score | 95% CI | Mean steps | Tokens | Seconds | Cost | Cost of a \
         correct one |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )?;
    for group in groups {
        let dash = || "–".to_owned();
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {:.1} | {} | {:.1} | {} | {} |",
            cell(&group.name, usize::MAX),
            group.num,
            group.correct.map_or_else(dash, |correct| correct.to_string()),
            group.score.map_or_else(dash, percent),
            group.interval.map_or_else(dash, percent_range),
            group.mean_steps,
            group.tokens,
            group.seconds,
            group.cost_usd.map_or_else(dash, money),
            group.cost_per_correct().map_or_else(dash, money),
        )?;
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
