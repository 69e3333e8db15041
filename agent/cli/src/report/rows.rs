use gaia_agent::Status;
use gaia_scorer::quasi;

use super::observed::Observed;
use crate::store::{Expense, SampleEntry, SampleTiming};

/// One sample and epoch as a line of a table: what charts and tables are made of. It holds no truth.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRow {
    pub task_id: String,
    pub epoch: u32,
    pub level: u8,
    pub end: End,
    /// Cut, for an answer may be as long as a book.
    pub answer: Option<String>,
    pub error: Option<String>,
    /// `None` where the truth is hidden. A sample without an answer is wrong.
    pub verdict: Option<Verdict>,
    /// What the truth was taken for.
    pub kind: Option<String>,
    /// Class of the failure; `None` of a right one, and where nobody can know.
    pub failure: Option<String>,
    pub steps: u32,
    pub tool_calls: u32,
    pub tokens: u64,
    pub cost_usd: Option<f64>,
    /// What its attempts without an outcome used beside that.
    pub lost: Expense,
    pub timing: SampleTiming,
}

/// How a sample ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Answered,
    /// Answered when a limit was reached and the model was asked for an answer for the last time.
    AnsweredAtLimit,
    /// Answered with words that say that the answer is not known.
    Admitted,
    NoAnswer,
    Error,
    /// It was asked for and has no outcome yet.
    Missing,
}

/// Of the official scorer, and by the two rules of HelloAgents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    pub official: bool,
    pub quasi: bool,
    pub partial: bool,
}

/// Characters of an answer or an error that are kept.
const MAX_CHARACTERS: usize = 300;

/// An answer that is nothing but one of these, or begins with one of the longer ones, admits that there is none.
const ADMISSIONS: [&str; 12] = [
    "unknown",
    "n/a",
    "none found",
    "not found",
    "no answer",
    "i don't know",
    "i do not know",
    "unable to determine",
    "cannot be determined",
    "could not be determined",
    "cannot determine",
    "insufficient information",
];

/// Below this many bytes an admission must be the whole answer: `unknown soldier` is one.
const MIN_ADMISSION_START: usize = 10;

impl End {
    pub fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::AnsweredAtLimit => "answered at a limit",
            Self::Admitted => "said it is not known",
            Self::NoAnswer => "no answer",
            Self::Error => "error",
            Self::Missing => "missing",
        }
    }
}

impl Verdict {
    /// Of an answer; without one nothing is right.
    pub fn of(answer: Option<&str>, is_correct: bool, truth: &str) -> Self {
        let quasi = quasi::score(answer, truth);
        Self { official: is_correct, quasi: quasi.exact, partial: quasi.partial }
    }
}

impl SampleRow {
    pub(crate) fn new(entry: &SampleEntry, observed: &Observed, failure: Option<String>) -> Self {
        let row = Self {
            task_id: entry.planned.task_id.clone(),
            epoch: entry.epoch,
            level: entry.planned.level,
            end: End::Missing,
            answer: None,
            error: None,
            verdict: None,
            kind: None,
            failure,
            steps: 0,
            tool_calls: 0,
            tokens: 0,
            cost_usd: None,
            lost: lost(entry, observed),
            timing: SampleTiming::default(),
        };
        let Some(result) = &entry.result else { return row };
        let answer = result.answer.as_deref();
        let cut = |text: &str| text.chars().take(MAX_CHARACTERS).collect::<String>();
        let end = match result.status {
            Status::Error => End::Error,
            Status::NoAnswer => End::NoAnswer,
            Status::Answered if answer.is_some_and(admits) => End::Admitted,
            Status::Answered if observed.limit.is_some() => End::AnsweredAtLimit,
            Status::Answered => End::Answered,
        };
        let score = result.score.as_ref();
        Self {
            end,
            answer: answer.map(cut),
            error: result.error.as_ref().map(|error| cut(&error.message)),
            verdict: score.map(|score| Verdict::of(answer, score.correct, &score.truth)),
            kind: score.map(|score| score.kind.clone()),
            steps: result.steps,
            tool_calls: result.tool_calls,
            tokens: result.usage.total(),
            cost_usd: result.cost_usd,
            timing: result.timing,
            ..row
        }
    }

    /// Tokens of all attempts.
    pub fn spent_tokens(&self) -> u64 {
        self.tokens + self.lost.usage.total()
    }

    /// What all attempts cost.
    pub fn spent_usd(&self) -> Option<f64> {
        let costs = [self.cost_usd, self.lost.cost_usd].into_iter().flatten();
        costs.reduce(|first, second| first + second)
    }

    /// By the official scorer; what has no outcome is not right.
    pub fn is_right(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.official)
    }
}

/// What the log of a sample holds beyond its outcome.
pub(crate) fn lost(entry: &SampleEntry, observed: &Observed) -> Expense {
    observed.spent.beyond(entry.result.as_ref().map(Expense::of_result).unwrap_or_default())
}

fn admits(answer: &str) -> bool {
    let answer = answer.trim().trim_end_matches('.').to_lowercase();
    ADMISSIONS.iter().any(|admission| {
        answer == *admission || (admission.len() >= MIN_ADMISSION_START && answer.starts_with(admission))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::test_run::{Ending, entry};

    #[test]
    fn an_admission_is_a_whole_answer_or_the_beginning_of_a_long_one() {
        for admission in ["Unknown.", "N/A", "unable to determine from the page", " I don't know"] {
            assert!(admits(admission), "{admission}");
        }
        for answer in ["unknown soldier", "not found on the map", "Lima", "", "none"] {
            assert!(!admits(answer), "{answer}");
        }
    }

    #[test]
    fn how_an_answer_came_is_told() {
        let end = |ending, limit: Option<&str>| {
            let observed = Observed { limit: limit.map(str::to_owned), ..Observed::default() };
            SampleRow::new(&entry("t", 1, ending), &observed, None).end
        };
        assert_eq!(end(Ending::Correct, None), End::Answered);
        assert_eq!(end(Ending::Correct, Some("step_limit")), End::AnsweredAtLimit);
        assert_eq!(end(Ending::NoAnswer, Some("step_limit")), End::NoAnswer);
        assert_eq!(end(Ending::Error, None), End::Error);
        assert_eq!(end(Ending::Missing, None), End::Missing);
    }

    #[test]
    fn a_row_holds_the_three_verdicts_and_a_bounded_answer() {
        let mut long = entry("t", 2, Ending::Correct);
        let result = long.result.as_mut().unwrap();
        result.answer = Some("x".repeat(1 << 20));
        result.score.as_mut().unwrap().correct = false;
        let row = SampleRow::new(&long, &Observed::default(), None);
        assert_eq!(row.answer.unwrap().len(), MAX_CHARACTERS);
        assert_eq!(row.verdict, Some(Verdict::default()));
        let row = SampleRow::new(&entry("t", 2, Ending::Correct), &Observed::default(), None);
        assert_eq!(row.verdict, Some(Verdict { official: true, quasi: true, partial: true }));
        assert!(row.is_right() && row.tokens == 1100);
    }
}
