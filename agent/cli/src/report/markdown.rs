use std::io::{self, Write};

use gaia_agent::Status;

use super::figures::is_withheld;
use super::sections::{write_contamination, write_failures, write_groups, write_levels, write_tools};
use super::table::{HEADER, lost_text, not_run_text, rows, shown_model};
use super::{Figures, REHEARSAL_NOTE};
use crate::store::{Method, RunDirectory, RunRecord, SampleEntry, StoreError};

/// Characters of an answer or an error in the table of samples.
const CELL_CHARACTERS: usize = 50;

/// Writes `report.md`. It holds no truth, so that it can be shown: GAIA's answers must not be published.
pub fn write_markdown(
    out: &mut dyn Write,
    run: &RunDirectory,
    record: &RunRecord,
    figures: &Figures,
) -> Result<(), StoreError> {
    write_head(out, record, figures)?;
    write_levels(out, figures)?;
    write_groups(out, figures)?;
    write_failures(out, &figures.failures)?;
    write_tools(out, &figures.tools)?;
    writeln!(out, "\n## Samples\n")?;
    writeln!(
        out,
        "| Task | Epoch | Level | Status | Answer | Correct | Kind | Steps | Tokens | Seconds | Error |\n\
         |---|---:|---:|---|---|---|---|---:|---:|---:|---|"
    )?;
    let withheld = record.withheld();
    for entry in run.entries(record) {
        let entry = entry?;
        if !is_withheld(&entry, &withheld) {
            write_sample(out, &entry)?;
        }
    }
    write_contamination(out, &figures.contaminated)?;
    Ok(())
}

fn write_head(out: &mut dyn Write, record: &RunRecord, figures: &Figures) -> io::Result<()> {
    let title = if figures.rehearsal { "GAIA rehearsal" } else { "GAIA run" };
    writeln!(out, "# {title} `{}`\n", figures.run)?;
    if figures.rehearsal {
        writeln!(out, "> **{REHEARSAL_NOTE}**\n")?;
    }
    let totals = &figures.totals;
    let who = if record.strategy == Method::Agent { "Agent" } else { "Model" };
    writeln!(out, "- {who}: {}", cell(&shown_model(figures), usize::MAX))?;
    writeln!(out, "- Answers: {}", figures.answers)?;
    writeln!(
        out,
        "- Dataset: {}, {} split, {} samples, {} epoch{}, fingerprint `{}`",
        cell(&figures.dataset, usize::MAX),
        figures.split,
        record.dataset.samples.len(),
        figures.epochs,
        if figures.epochs == 1 { "" } else { "s" },
        record.dataset.fingerprint
    )?;
    writeln!(
        out,
        "- Tools: {}",
        record.tools.iter().map(|tool| format!("`{tool}`")).collect::<Vec<_>>().join(", ")
    )?;
    writeln!(out, "- Started: {}", time_text(Some(record.started)))?;
    writeln!(out, "- Ended: {}", time_text(record.ended))?;
    writeln!(
        out,
        "- Outcomes: {} answered, {} no answer, {} errors, {} missing, of {} asked for",
        totals.answered, totals.no_answer, totals.error, totals.missing, totals.requested
    )?;
    writeln!(
        out,
        "- Tokens: {} in ({} cached), {} out ({} reasoning)",
        totals.usage.input_tokens,
        totals.usage.cached_tokens,
        totals.usage.output_tokens,
        totals.usage.reasoning_tokens
    )?;
    if let Some(cost) = totals.cost_usd {
        writeln!(out, "- Cost: {cost:.4} US dollars")?;
    }
    if let Some(lost) = lost_text(figures) {
        writeln!(out, "- Lost of these: {lost}")?;
    }
    if let Some(each) = figures.per_correct {
        let cost = each.cost_usd.map(|cost| format!("{cost:.4} US dollars, ")).unwrap_or_default();
        writeln!(
            out,
            "- For each correct answer: {cost}{:.0} tokens, {:.1} seconds (wrong and lost ones included)",
            each.tokens, each.seconds
        )?;
    }
    if let Some(steps) = figures.mean_steps_correct {
        writeln!(out, "- Steps of correct samples, mean: {steps:.1}")?;
    }
    writeln!(
        out,
        "- Program: gaia {} on {} {}",
        record.program_version, record.host.os, record.host.architecture
    )?;
    for stage in record.staged.iter().flat_map(|staged| &staged.stages) {
        writeln!(out, "- Stage {}", stage.label())?;
    }
    if let Some(not_run) = not_run_text(figures) {
        writeln!(out, "- **Not run:** {not_run}")?;
    }
    writeln!(out, "\n## Results\n")?;
    writeln!(out, "| {} |\n|---|---|---:|---:|---:|---:|---:|", HEADER.join(" | "))?;
    for row in rows(figures) {
        writeln!(out, "| {} |", row.map(|text| cell(&text, usize::MAX)).join(" | "))?;
    }
    writeln!(
        out,
        "\nNum is every sample that was asked for; one without an answer counts as wrong. Score is that of the leaderboard's \
         scorer, with Wilson's interval. Quasi-exact and partial are HelloAgents' two looser rules, for comparison only: an \
         exact match is a partial one too."
    )?;
    if figures.epochs > 1 {
        writeln!(
            out,
            "\npass@{0} counts a task when one of its {0} epochs is right, pass^{0} when all are, and the vote when the \
             most frequent answer is, the earliest on a tie. None of them is comparable with the score of single answers, \
             which is the mean; `submission.jsonl` holds the single answers of the first epoch.",
            figures.epochs
        )?;
    }
    Ok(())
}

fn write_sample(out: &mut dyn Write, entry: &SampleEntry) -> io::Result<()> {
    let task_id = cell(&entry.planned.task_id, usize::MAX);
    let (epoch, level) = (entry.epoch, entry.planned.level);
    let Some(result) = &entry.result else {
        return writeln!(out, "| {task_id} | {epoch} | {level} | missing |  |  |  |  |  |  |  |");
    };
    let status = match result.status {
        Status::Answered => "answered",
        Status::NoAnswer => "no answer",
        Status::Error => "error",
    };
    let score = result.score.as_ref();
    writeln!(
        out,
        "| {task_id} | {epoch} | {level} | {status} | {} | {} | {} | {} | {} | {:.1} | {} |",
        cell(result.answer.as_deref().unwrap_or_default(), CELL_CHARACTERS),
        score.map_or("", |score| if score.correct { "yes" } else { "no" }),
        score.map_or("", |score| score.kind.as_str()),
        result.steps,
        result.usage.total(),
        result.timing.wall,
        cell(result.error.as_ref().map_or("", |error| error.message.as_str()), CELL_CHARACTERS),
    )
}

fn time_text(time: Option<time::OffsetDateTime>) -> String {
    time.and_then(|time| time.format(&time::format_description::well_known::Rfc3339).ok())
        .unwrap_or_else(|| "not yet".to_owned())
}

/// Text of a model or a user inside one cell: one line, nothing that Markdown or HTML would take for its own.
pub(crate) fn cell(text: &str, limit: usize) -> String {
    let mut cell = String::new();
    for (position, character) in text.chars().enumerate() {
        if position == limit {
            cell.push('…');
            break;
        }
        match character {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' => {
                cell.push('\\');
                cell.push(character);
            }
            '<' => cell.push_str("&lt;"),
            '&' => cell.push_str("&amp;"),
            character if character.is_control() => cell.push(' '),
            character => cell.push(character),
        }
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::test_run::{Ending, stored_run};

    #[test]
    fn report_lists_every_sample_and_no_truth() {
        let runs = tempfile::tempdir().unwrap();
        let endings = [
            (1, Ending::Correct),
            (2, Ending::Wrong),
            (2, Ending::NoAnswer),
            (3, Ending::Error),
            (3, Ending::Missing),
        ];
        let (run, mut record, _lock) = stored_run(runs.path(), &endings);
        record.rehearsal = true;
        let figures = Figures::of_run(&run, &record).unwrap();
        let mut text = Vec::new();
        write_markdown(&mut text, &run, &record, &figures).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap());
    }

    #[test]
    fn a_hostile_answer_stays_in_its_cell() {
        assert_eq!(cell("a|b\n<script>&`x`", 99), "a\\|b &lt;script>&amp;\\`x\\`");
        assert_eq!(cell("äöü", 2), "äö…");
        assert_eq!(cell("äö", 2), "äö");
    }
}
