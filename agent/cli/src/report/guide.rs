use std::io::{self, Write};

use super::submission::Traces;
use super::{Figures, Submission};
use crate::store::{Method, RunRecord};

/// Writes `SUBMISSION_GUIDE.md`: how this run gets to the leaderboard, with its own facts. It holds no question, no
/// answer and no truth.
pub fn write_guide(
    out: &mut dyn Write,
    record: &RunRecord,
    figures: &Figures,
    submission: &Submission,
    shortcomings: &[String],
) -> io::Result<()> {
    let dataset = &record.dataset;
    writeln!(out, "# Handing in run `{}`\n", record.id)?;
    if !shortcomings.is_empty() {
        writeln!(out, "> **Not ready to be handed in:**\n>")?;
        for shortcoming in shortcomings {
            writeln!(out, "> - {shortcoming}")?;
        }
        writeln!(
            out,
            ">\n> What has no answer counts as wrong there. `gaia export {} --format submission --partial` writes the file \
             all the same.\n",
            record.id
        )?;
    }
    writeln!(out, "## The file\n")?;
    writeln!(
        out,
        "- `submission.jsonl` in this folder; the same by `gaia export {} --format submission`",
        record.id
    )?;
    writeln!(
        out,
        "- {} lines, one for every row of the {} split; {} of them with the empty answer",
        submission.lines, dataset.split, submission.empty
    )?;
    writeln!(out, "- {} bytes, SHA-256 `{}`", submission.text.len(), submission.sha256())?;
    match submission.traces {
        Traces::Kept => {
            writeln!(
                out,
                "- `reasoning_trace` holds what the model thought and called, cut to some pages; the leaderboard does not need it"
            )?;
        }
        Traces::TooLong { bytes } => {
            writeln!(out, "- without `reasoning_trace`: with it the file would have had {bytes} bytes")?;
        }
    }
    if record.epochs > 1 {
        writeln!(
            out,
            "- of {} epochs the first one: the leaderboard takes one answer a task, and to choose among epochs by their \
             truth would not be a score",
            record.epochs
        )?;
    }
    writeln!(out, "\n## The run\n")?;
    let who = if record.strategy == Method::Agent { "Agent" } else { "Model" };
    writeln!(out, "- {who}: {}", figures.model)?;
    write_what_is_scored(out, record, figures)?;
    writeln!(out, "- Tools: {}", record.tools.join(", "))?;
    let totals = &figures.totals;
    writeln!(
        out,
        "- Outcomes: {} answered, {} no answer, {} errors, {} missing, of {} asked for",
        totals.answered, totals.no_answer, totals.error, totals.missing, totals.requested
    )?;
    match figures.metrics.first().and_then(|metric| metric.subsets.last()) {
        Some(overall) if overall.score.is_some() => writeln!(
            out,
            "- Official score here: {:.2} % ({} of {}), {}",
            100.0 * overall.score.unwrap_or_default(),
            overall.correct.unwrap_or_default(),
            overall.num,
            figures.metrics.first().map_or("", |metric| metric.of.as_str())
        )?,
        _ => writeln!(out, "- The truths of this split are hidden: only the leaderboard knows the score")?,
    }
    writeln!(out, "- gaia {}, dataset fingerprint `{}`", record.program_version, dataset.fingerprint)?;
    writeln!(out, "{STEPS}")?;
    if dataset.split == "validation" {
        writeln!(out, "{VALIDATION_NOTE}")?;
    }
    Ok(())
}

/// Whether the answers are those of single runs, which is what others hand in, or of something else.
fn write_what_is_scored(out: &mut dyn Write, record: &RunRecord, figures: &Figures) -> io::Result<()> {
    writeln!(out, "- Each answer is that of a **{}**", figures.answers)?;
    match record.strategy {
        Method::Vote { runs } => writeln!(
            out,
            "- It is the most frequent of up to {runs} runs of the same task. Say so: it is not comparable with single runs \
             (pass@1), which cost a fraction of it"
        )?,
        Method::React | Method::Plan | Method::Verify | Method::Delegate | Method::Agent => {
            writeln!(out, "- As a score it is pass@1: one answer a task, chosen without the truth")?;
        }
    }
    if record.epochs > 1 {
        writeln!(
            out,
            "- pass@{0}, pass^{0} and the majority vote of the {0} epochs, which the report tells too, are scores of several \
             answers and not of this file",
            record.epochs
        )?;
    }
    Ok(())
}

/// As the leaderboard's own program has them in 2026, and the threads of its users.
const STEPS: &str = "
## Steps

1. Log in at https://huggingface.co with the account that is to hand in. The leaderboard keeps a list of accounts that may (\"This account is not authorized to submit on GAIA\"): ask in the discussions of the space if yours is not on it.
2. Open https://huggingface.co/spaces/gaia-benchmark/leaderboard and its form for submissions.
3. Choose the split of this run, and fill in: name of the agent or model (not one that is there already: duplicates are refused), model family, an example of the system prompt, an address with a description, organisation, and an e-mail address.
4. Upload `submission.jsonl` and submit. Scoring takes some minutes; the public table shows the score for each level.

## What the leaderboard does with it

- Each line is `{\"task_id\": …, \"model_answer\": …}`, and `reasoning_trace` if you like. Nothing is extracted there: `model_answer` is the bare answer, without `FINAL ANSWER:`.
- Every row of the split must be there exactly once, of all levels, the placeholder `0-0-0-0-0` of the test split too. This file holds them.
- Numbers are compared as numbers after `$`, `%` and `,` are gone; texts without case, blanks and punctuation; lists element by element and IN ORDER, cut at `,` and `;`. Units, articles, accents and another order count as wrong. (Guides that ask for alphabetical lists are mistaken.)
- The file and its scores are kept there in a private dataset.

## Before you publish

GAIA's terms forbid to publish its questions and answers in a form that can be crawled. Reports of gaia hold no truth; trajectories hold questions: do not publish the folder of a run.";

const VALIDATION_NOTE: &str = "
Answers of the validation split are public, and many systems have met them: since 2025 the leaderboard shows the test split only. Report a validation score as such.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::shortcomings;
    use crate::report::test_run::{Ending, stored_run};

    fn guide(endings: &[(u8, Ending)]) -> String {
        changed_guide(endings, |_| ())
    }

    fn changed_guide(endings: &[(u8, Ending)], change: impl FnOnce(&mut RunRecord)) -> String {
        let runs = tempfile::tempdir().unwrap();
        let (run, mut record, _lock) = stored_run(runs.path(), endings);
        change(&mut record);
        let figures = Figures::of_run(&run, &record).unwrap();
        let submission = Submission::of_run(&run, &record).unwrap();
        let mut text = Vec::new();
        write_guide(&mut text, &record, &figures, &submission, &shortcomings(&run, &record).unwrap())
            .unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_whole_run_is_ready_and_its_facts_are_there() {
        let text = guide(&[(1, Ending::Correct), (2, Ending::Wrong)]);
        assert!(!text.contains("Not ready"), "{text}");
        for part in ["2 lines", "Official score here: 50.00 % (1 of 2)", "## Steps", "0-0-0-0-0", "SHA-256"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn single_answers_votes_and_epochs_are_told_apart() {
        let endings = [(1, Ending::Correct), (1, Ending::Error)];
        let single = guide(&endings);
        assert!(single.contains("**single run**") && single.contains("pass@1"), "{single}");
        let vote = changed_guide(&endings, |record| record.strategy = Method::Vote { runs: 5 });
        assert!(vote.contains("**vote of 5 runs**") && vote.contains("not comparable with single"), "{vote}");
        assert!(vote.contains("% (1 of 2), vote of 5 runs"), "{vote}");
        let epochs = changed_guide(&endings, |record| record.epochs = 3);
        assert!(
            epochs.contains("of 3 epochs the first one") && epochs.contains("- pass@3, pass^3"),
            "{epochs}"
        );
    }

    #[test]
    fn a_partial_run_says_first_what_it_lacks() {
        let text = guide(&[(1, Ending::Missing), (2, Ending::Wrong)]);
        assert!(
            text.find("1 samples have no outcome").unwrap() < text.find("## The file").unwrap(),
            "{text}"
        );
    }
}
