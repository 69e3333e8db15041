//! `report.html`: one file that needs nothing else, to be looked at, printed and handed on. It holds no truth and no
//! question, as `report.md` does not.

mod effort;
mod failures;
mod overview;
mod samples;
mod scores;

use std::io::{self, Write};

use maud::{Markup, html};

use super::figures::ContaminatedPage;
use super::{Figures, REHEARSAL_NOTE};
use crate::page::{Reach, Shell, document, shown};
use crate::store::RunRecord;

/// Filters and headings of the table of samples.
const SCRIPT: &str = include_str!("html/report.js");

/// Characters of the address of a page.
const PAGE_CHARACTERS: usize = 160;

pub fn write_html(out: &mut dyn Write, record: &RunRecord, figures: &Figures) -> io::Result<()> {
    let title = if figures.rehearsal { "GAIA rehearsal" } else { "GAIA run" };
    let page = document(&Shell {
        title: &format!("{title} {}", figures.run),
        reach: Reach::Nothing,
        script: SCRIPT,
        bar: html! { b { (title) } span.muted { (shown(&figures.run, 80)) } },
        body: body(title, record, figures),
    });
    out.write_all(page.into_string().as_bytes())
}

fn body(title: &str, record: &RunRecord, figures: &Figures) -> Markup {
    html! {
        h1 { (title) " " (shown(&figures.run, 80)) }
        @if figures.rehearsal { div.alert.bad { b { (REHEARSAL_NOTE) } } }
        (overview::overview(record, figures))
        (scores::accuracy(figures))
        (failures::failures(figures))
        (scores::cost(figures))
        (effort::tools(figures))
        (effort::effort(figures))
        (failures::answering(figures))
        (scores::needs(figures))
        (contamination(&figures.contaminated))
        (samples::samples(figures))
        (overview::settings(record, figures))
    }
}

fn contamination(pages: &[ContaminatedPage]) -> Markup {
    html! {
        @if !pages.is_empty() {
            section #contaminated {
                h2 { "Contaminated" }
                p {
                    "These pages, which the agent was shown, hold a long verbatim part of the question, and so perhaps its answer. What they
                    led to says little about the agent."
                }
                div.panel { div.scroll { table {
                    thead { tr { th { "Task" } th.number { "Epoch" } th { "Page" } } }
                    tbody { @for page in pages { tr {
                        td.id { (shown(&page.task_id, 80)) }
                        td.number { (page.epoch) }
                        td { (shown(&page.url, PAGE_CHARACTERS)) }
                    } } }
                } } }
            }
        }
    }
}

/// Of a sample's line in the table. Ids of tasks are not used: nobody knows what is in them.
fn anchor(index: usize) -> String {
    format!("sample-{index}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::test_run::{Ending, stored_run};
    use crate::store::SampleKey;

    fn page(
        endings: &[(u8, Ending)],
        change: impl FnOnce(&mut RunRecord, &crate::store::RunDirectory),
    ) -> String {
        let runs = tempfile::tempdir().unwrap();
        let (run, mut record, _lock) = stored_run(runs.path(), endings);
        change(&mut record, &run);
        let figures = Figures::of_run(&run, &record).unwrap();
        let mut text = Vec::new();
        write_html(&mut text, &record, &figures).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_report_answers_what_people_ask_first() {
        let endings = [(1, Ending::Correct), (1, Ending::Wrong), (2, Ending::Error), (3, Ending::Missing)];
        let text = page(&endings, |_, _| ());
        for part in ["25.0%", "(1/4)", "4.6%–69.9%", "92.0%", "HelloAgents", "GAIA paper", "id=\"sample-3\""]
        {
            assert!(text.contains(part), "no {part} in {text}");
        }
        // No truth: `42` is the answer of the right sample only.
        assert_eq!(text.matches(">42<").count(), 1, "{text}");
        assert!(!text.contains("REHEARSAL") && !text.contains("NaN") && !text.contains("inf%"));
    }

    #[test]
    fn hostile_answers_and_names_stay_text() {
        let hostile = "</td><script>document.title='x'</script>\x1b[31m\u{202e}\0";
        let endings = [(1, Ending::Wrong), (2, Ending::Error)];
        let text = page(&endings, |record, run| {
            record.model = hostile.to_owned();
            record.config.insert(hostile.to_owned(), hostile.into());
            for task_id in ["task-0", "task-1"] {
                let sample = run.sample(&SampleKey { task_id: task_id.to_owned(), epoch: 1 });
                let mut result = sample.result().unwrap().unwrap();
                result.answer = result.answer.map(|_| hostile.repeat(40_000));
                result.error = result
                    .error
                    .map(|error| gaia_agent::Failure { message: hostile.repeat(40_000), ..error });
                sample.commit(&result).unwrap();
            }
        });
        assert_eq!(text.matches("<script>").count(), 2, "only ours");
        assert!(
            !text.contains("</td><script") && !text.contains('\u{202e}') && !text.contains(['\0', '\x1b'])
        );
        assert!(text.contains("␛[31m⟨U+202E⟩") && text.len() < 120_000, "{}", text.len());
    }

    #[test]
    fn a_run_of_nothing_and_one_without_truths_have_a_page() {
        let empty = page(&[], |_, _| ());
        assert!(empty.contains("No sample was asked for") && !empty.contains("NaN"), "{empty}");
        let hidden = page(&[(1, Ending::Unscored)], |record, _| record.dataset.has_truth = false);
        assert!(
            hidden.contains("hidden") && !hidden.contains("id=\"accuracy\"") && !hidden.contains("NaN"),
            "{hidden}"
        );
    }

    #[test]
    fn a_rehearsal_says_so_in_its_title_and_above_everything() {
        let text = page(&[(1, Ending::Correct)], |record, _| record.rehearsal = true);
        assert!(text.contains("<title>GAIA rehearsal") && text.contains(REHEARSAL_NOTE), "{text}");
    }
}
