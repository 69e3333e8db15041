use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::corrected::CORRECTED;
use super::{Figures, Metric};
use crate::page::{count, money, percent, percent_range};

/// Said wherever the figures of a rehearsal are shown.
pub const REHEARSAL_NOTE: &str = "This is a rehearsal: the replies are scripted, so the score says nothing about any \
model.";

/// Said wherever the score by corrected truths is shown.
pub(super) const CORRECTED_NOTE: &str = "`corrected` takes the truths of `dataset.corrections`; the leaderboard scores as \
`official` does.";

/// Columns of a terminal that a table may take.
pub(crate) const TABLE_WIDTH: u16 = 96;

/// The columns of the table of results. The score is the official one.
pub(super) const HEADER: [&str; 7] = ["Metric", "Subset", "Num", "Score", "95% CI", "Quasi-exact", "Partial"];

/// The results for people: one row a level and overall, for each way in which answers are counted, with all metrics side
/// by side.
pub fn results_table(figures: &Figures) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(TABLE_WIDTH);
    table.set_header(HEADER);
    for row in rows(figures) {
        table.add_row(row);
    }
    for column in 2..HEADER.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = format!(
        "Model:   {}\nDataset: {} ({})\n{table}\nQuasi-exact and partial are HelloAgents' rules, for comparison only.",
        shown_model(figures),
        figures.dataset,
        figures.split
    );
    let text = match figures.metrics.iter().any(|metric| metric.name == CORRECTED) {
        true => format!("{text}\n{CORRECTED_NOTE}"),
        false => text,
    };
    let text = match figures.totals.missing {
        0 => text,
        missing => format!(
            "{text}\n{missing} of {} samples have no outcome (yet) and count as wrong here.",
            figures.totals.requested
        ),
    };
    let text = match lost_text(figures) {
        Some(lost) => {
            format!("{text}\nLost: of the {} tokens spent, {lost}.", count(figures.totals.usage.total()))
        }
        None => text,
    };
    let text = match not_run_text(figures) {
        Some(not_run) => format!("{text}\nNot run: {not_run}"),
        None => text,
    };
    match figures.rehearsal {
        true => format!("{REHEARSAL_NOTE}\n{text}\n{REHEARSAL_NOTE}"),
        false => text,
    }
}

/// What was spent and led to no outcome; `None` when nothing was.
pub(super) fn lost_text(figures: &Figures) -> Option<String> {
    let lost = &figures.totals.lost;
    let cost = lost.cost_usd.map(|cost| format!(" ({})", money(cost))).unwrap_or_default();
    (lost.usage.total() > 0).then(|| {
        format!(
            "{} tokens{cost} in attempts that were cancelled, cut off or done again",
            count(lost.usage.total())
        )
    })
}

/// What a run in stages left out, and what the score would be with it.
pub(super) fn not_run_text(figures: &Figures) -> Option<String> {
    let not_run = figures.not_run.as_ref()?;
    let levels: Vec<String> =
        not_run.levels.iter().map(|(level, count)| format!("{count} of level {level}")).collect();
    let all = figures.totals.requested + figures.totals.withheld;
    let score = not_run.score_of_all.map_or_else(String::new, |score| {
        format!("; of all {all} that were selected {} are right ({})", figures.totals.correct, percent(score))
    });
    let what = if levels.is_empty() { "nothing more".to_owned() } else { levels.join(", ") };
    Some(format!(
        "{what}; {}. The score is of the {} that were asked{score}.",
        not_run.reason, figures.totals.requested
    ))
}

/// The cells of the table, shared with the report.
pub(super) fn rows(figures: &Figures) -> Vec<[String; 7]> {
    let dash = || "–".to_owned();
    let is_shown =
        |metric: &&Metric| [figures.metrics[0].name.as_str(), CORRECTED].contains(&metric.name.as_str());
    let rows = figures.metrics.iter().filter(is_shown);
    let rows = rows.flat_map(|metric| metric.subsets.iter().enumerate().map(move |subset| (metric, subset)));
    rows.map(|(metric, (index, subset))| {
        // What the other metrics make of the same answers, counted in the same way.
        let mut others = figures
            .metrics
            .iter()
            .filter(|other| other.of == metric.of && other.name != metric.name)
            .filter(|other| other.name != CORRECTED && metric.name != CORRECTED)
            .map(|other| other.subsets[index].score.map_or_else(dash, percent));
        [
            match metric.name == CORRECTED && figures.epochs == 1 {
                // As long as the columns are wide; the rows above say of what.
                true => metric.name.clone(),
                false => format!("{}, {}", metric.name, metric.of),
            },
            subset.name.clone(),
            subset.num.to_string(),
            subset.score.map_or_else(dash, percent),
            subset.interval.map_or_else(dash, percent_range),
            others.next().unwrap_or_else(dash),
            others.next().unwrap_or_else(dash),
        ]
    })
    .collect()
}

pub(super) fn shown_model(figures: &Figures) -> String {
    match figures.rehearsal {
        true => "rehearsal (scripted)".to_owned(),
        false => figures.model.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::test_run::{Ending, stored_run};
    use crate::store::Method;

    fn figures(change: impl FnOnce(&mut crate::store::RunRecord)) -> Figures {
        let runs = tempfile::tempdir().unwrap();
        let endings = [(1, Ending::Correct), (1, Ending::Wrong), (2, Ending::Error), (3, Ending::Missing)];
        let (run, mut record, _lock) = stored_run(runs.path(), &endings);
        change(&mut record);
        Figures::of_run(&run, &record).unwrap()
    }

    #[test]
    fn every_level_and_overall_have_a_row_with_the_interval_and_every_metric() {
        insta::assert_snapshot!(results_table(&figures(|_| ())));
    }

    #[test]
    fn no_line_is_wider_than_a_terminal_whatever_is_counted() {
        let table = results_table(&figures(|record| {
            record.epochs = 12;
            record.strategy = Method::Vote { runs: 15 };
        }));
        assert!(table.contains("majority vote") && table.contains("pass@12"), "{table}");
        for line in table.lines() {
            assert!(line.chars().count() <= usize::from(TABLE_WIDTH), "{line}");
        }
    }

    #[test]
    fn a_rehearsal_says_so_above_below_and_where_the_model_stands() {
        let table = results_table(&figures(|record| record.rehearsal = true));
        assert!(table.starts_with(REHEARSAL_NOTE) && table.ends_with(REHEARSAL_NOTE));
        assert!(table.contains("Model:   rehearsal (scripted)") && !table.contains("some-model"), "{table}");
    }
}
