use comfy_table::{CellAlignment, Table, presets};

use super::Figures;

/// Said wherever the figures of a rehearsal are shown.
pub const REHEARSAL_NOTE: &str = "This is a rehearsal: the replies are scripted, so the score says nothing about any \
model.";

/// The results for people: one row a level and overall, for each metric.
pub fn results_table(figures: &Figures) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["Model", "Dataset", "Metric", "Subset", "Num", "Score", "95% CI"]);
    for row in rows(figures) {
        table.add_row(row);
    }
    for column in [4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    match figures.rehearsal {
        true => format!("{REHEARSAL_NOTE}\n{table}\n{REHEARSAL_NOTE}"),
        false => table.to_string(),
    }
}

/// The cells of the table, shared with the report.
pub(super) fn rows(figures: &Figures) -> Vec<[String; 7]> {
    let dash = || "–".to_owned();
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    let rows =
        figures.metrics.iter().flat_map(|metric| metric.subsets.iter().map(move |subset| (metric, subset)));
    rows.map(|(metric, subset)| {
        [
            shown_model(figures),
            format!("{} ({})", figures.dataset, figures.split),
            format!("{}, {}", metric.name, metric.of),
            subset.name.clone(),
            subset.num.to_string(),
            subset.score.map_or_else(dash, percent),
            subset.interval.map_or_else(dash, |interval| {
                format!("{}–{}", percent(interval.low), percent(interval.high))
            }),
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

    fn figures(rehearsal: bool) -> Figures {
        let runs = tempfile::tempdir().unwrap();
        let endings = [(1, Ending::Correct), (1, Ending::Wrong), (2, Ending::Error), (3, Ending::Missing)];
        let (run, mut record, _lock) = stored_run(runs.path(), &endings);
        record.rehearsal = rehearsal;
        Figures::of_run(&run, &record).unwrap()
    }

    #[test]
    fn every_level_and_overall_have_a_row_with_the_interval() {
        insta::assert_snapshot!(results_table(&figures(false)));
    }

    #[test]
    fn a_rehearsal_says_so_above_below_and_in_every_row() {
        let table = results_table(&figures(true));
        assert!(table.starts_with(REHEARSAL_NOTE) && table.ends_with(REHEARSAL_NOTE));
        assert_eq!(table.matches("rehearsal (scripted)").count(), 8);
        assert!(!table.contains("some-model"));
    }
}
