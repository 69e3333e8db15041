use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::{Comparison, Pair, RunFigures};
use crate::page::{Breaks, clean, duration, money, percent, percent_range, points, short_count};
use crate::report::TABLE_WIDTH;

/// Tasks of a list that are named; `--json` has all.
const NAMED_TASKS: usize = 8;

/// Characters of a value that was changed.
const VALUE_CHARACTERS: usize = 60;

pub(super) const RUN_HEADER: [&str; 8] = ["", "Run", "Model", "Right", "Score", "95% CI", "Cost", "Time"];

/// The comparison for people.
pub fn comparison_table(comparison: &Comparison) -> String {
    let mut text = table(&RUN_HEADER, 3, comparison.runs.iter().map(run_row));
    for pair in &comparison.pairs {
        text.push_str(&format!("\n\n{}\n", title(pair)));
        text.push_str(&table(&level_header(pair), 1, level_rows(pair)));
        text.push_str(&format!("\n{}\n{}: p = {:.4}", pair.conclusion, pair.test, pair.p_value));
        if comparison.pairs.len() > 1 {
            text.push_str(&format!(
                ", for {} comparisons {:.4} (Holm)",
                comparison.pairs.len(),
                pair.corrected_p_value
            ));
        }
        text.push('\n');
        for caveat in &pair.caveats {
            text.push_str(&format!("! {caveat}\n"));
        }
        for (winner, tasks) in winners(pair) {
            if !tasks.is_empty() {
                text.push_str(&format!("Only {winner} right: {}\n", named(tasks)));
            }
        }
        text.push_str("Changed:");
        match pair.changes.is_empty() {
            true => text.push_str(" nothing that is recorded"),
            false => {
                pair.changes.iter().for_each(|change| text.push_str(&format!("\n  {}", change_line(change))))
            }
        }
    }
    text
}

pub(super) fn run_row(run: &RunFigures) -> [String; 8] {
    let dash = || "–".to_owned();
    [
        run.letter.clone(),
        run.run.clone(),
        format!("{}, {}", clean(&run.model, VALUE_CHARACTERS, Breaks::Signs).text, run.answers),
        format!("{}/{}", run.correct, run.num),
        run.score.map_or_else(dash, percent),
        run.interval.map_or_else(dash, percent_range),
        run.cost_usd.map_or_else(|| format!("{} tokens", short_count(run.tokens as f64)), money),
        duration(run.seconds),
    ]
}

pub(super) fn title(pair: &Pair) -> String {
    format!("{} beside {}, on the {} tasks that both were asked", pair.second, pair.first, pair.common)
}

pub(super) fn level_header(pair: &Pair) -> [String; 7] {
    let (first, second) = (&pair.first, &pair.second);
    [
        "Subset".to_owned(),
        "Num".to_owned(),
        first.clone(),
        second.clone(),
        "Difference".to_owned(),
        format!("only {first} right"),
        format!("only {second} right"),
    ]
}

/// One row a level, and one for all with the interval of the difference.
pub(super) fn level_rows(pair: &Pair) -> Vec<[String; 7]> {
    let row = |name: String, num: u64, first: f64, second: f64, difference: String, won: [u64; 2]| {
        [
            name,
            num.to_string(),
            percent(first),
            percent(second),
            difference,
            won[0].to_string(),
            won[1].to_string(),
        ]
    };
    let levels = pair.levels.iter().map(|level| {
        let difference = points(level.second_score - level.first_score);
        let won = [level.won_by_first, level.won_by_second];
        row(
            format!("level {}", level.level),
            level.num,
            level.first_score,
            level.second_score,
            difference,
            won,
        )
    });
    let difference = pair.difference.map_or_else(
        || "–".to_owned(),
        |difference| {
            let mean = points(difference.mean);
            match difference.interval {
                Some(interval) => format!("{mean} ({} to {})", points(interval.low), points(interval.high)),
                None => mean,
            }
        },
    );
    let won = [pair.won_by_first.len() as u64, pair.won_by_second.len() as u64];
    let all = row("overall".to_owned(), pair.common, pair.first_score, pair.second_score, difference, won);
    levels.chain([all]).collect()
}

pub(super) fn winners(pair: &Pair) -> [(&str, &[String]); 2] {
    [(&pair.first, &pair.won_by_first), (&pair.second, &pair.won_by_second)]
}

pub(super) fn change_line(change: &crate::comparable::Difference) -> String {
    let value = |text: &str| {
        let value = clean(text, VALUE_CHARACTERS, Breaks::Signs);
        if value.left_out > 0 { format!("{}…", value.text) } else { value.text }
    };
    format!("{}: {} → {}", value(&change.what), value(&change.before), value(&change.now))
}

fn named(tasks: &[String]) -> String {
    let more = tasks.len().saturating_sub(NAMED_TASKS);
    let named = tasks.iter().take(NAMED_TASKS).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

fn table<const N: usize>(
    header: &[impl ToString; N],
    first_number: usize,
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(TABLE_WIDTH);
    table.set_header(header.iter().map(ToString::to_string));
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    for column in first_number..N {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}
