use std::io::{self, Write};

use super::table::{RUN_HEADER, change_line, level_header, level_rows, run_row, title, winners};
use super::{Comparison, Pair};
use crate::report::cell;

/// Writes the comparison as Markdown. It holds no answer, no question and no truth.
pub fn write_markdown(out: &mut dyn Write, comparison: &Comparison) -> io::Result<()> {
    writeln!(out, "# Comparison of {} GAIA runs\n", comparison.runs.len())?;
    write_table(out, &RUN_HEADER.map(str::to_owned), 3, comparison.runs.iter().map(run_row))?;
    for pair in &comparison.pairs {
        write_pair(out, pair, comparison.pairs.len())?;
    }
    Ok(())
}

fn write_pair(out: &mut dyn Write, pair: &Pair, comparisons: usize) -> io::Result<()> {
    writeln!(out, "\n## {}\n\n**{}**\n", title(pair), pair.conclusion)?;
    write_table(out, &level_header(pair), 1, level_rows(pair))?;
    write!(
        out,
        "\nDifferences are in percentage points; the interval is a bootstrap over tasks, 95 %. {}: p = {:.4}",
        pair.test, pair.p_value
    )?;
    match comparisons {
        1 => writeln!(out, ".")?,
        many => writeln!(out, ", and {:.4} for {many} comparisons (Holm).", pair.corrected_p_value)?,
    }
    if !pair.caveats.is_empty() {
        writeln!(out, "\nTo be borne in mind:\n")?;
        for caveat in &pair.caveats {
            writeln!(out, "- {caveat}")?;
        }
    }
    writeln!(
        out,
        "\n### Who won which task\n\nBoth right: {}; neither: {}.\n",
        pair.both_right, pair.neither_right
    )?;
    for (winner, tasks) in winners(pair) {
        let tasks: Vec<String> = tasks.iter().map(|task| cell(task, usize::MAX)).collect();
        let list = if tasks.is_empty() { "none".to_owned() } else { tasks.join(", ") };
        writeln!(out, "- Only {winner} right ({}): {list}", tasks.len())?;
    }
    writeln!(out, "\n### What changed\n")?;
    if pair.changes.is_empty() {
        writeln!(out, "Nothing that is recorded.")?;
    }
    for change in &pair.changes {
        writeln!(out, "- {}", cell(&change_line(change), usize::MAX))?;
    }
    Ok(())
}

fn write_table<const N: usize>(
    out: &mut dyn Write,
    header: &[String; N],
    first_number: usize,
    rows: impl IntoIterator<Item = [String; N]>,
) -> io::Result<()> {
    let rule: Vec<&str> = (0..N).map(|column| if column < first_number { "---" } else { "---:" }).collect();
    writeln!(out, "| {} |\n|{}|", header.join(" | "), rule.join("|"))?;
    for row in rows {
        writeln!(out, "| {} |", row.map(|text| cell(&text, usize::MAX)).join(" | "))?;
    }
    Ok(())
}
