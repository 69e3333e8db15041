//! A second look at an answer, with a context and tools of its own.

use std::panic::AssertUnwindSafe;

use async_trait::async_trait;
use futures_util::FutureExt;

use super::role::{Ended, cancelled, crashed, shortened};
use super::vote::totals;
use super::{Role, SameAnswer, Strategy, Work, failed};
use crate::agent::{Run, Setup};
use crate::branch::BranchSink;
use crate::duty::Duty;
use crate::event::{AgentEvent, Candidate};
use crate::limits::Meter;
use crate::outcome::{Outcome, Status};
use crate::tools::ToolHost;

/// A worker answers; a verifier who sees the question, the answer and the work checks it with fresh tools. When it comes
/// to another answer, the worker hears why, once, and has the last word.
pub struct Verify {
    pub verifier: Role,
    pub same: SameAnswer,
}

const WORKER: &str = "worker";
const VERIFIER: &str = "verifier";

/// Of the limits, for the first answer. Half of what it leaves is for the check, the rest for a second answer.
const WORKER_SHARE: f64 = 0.6;
const VERIFIER_SHARE: f64 = 0.5;

#[async_trait]
impl Strategy for Verify {
    async fn work(&self, work: Work<'_>) -> Outcome {
        work.begin().await;
        let mut meter = Meter::start(&work.worker.settings);
        let outcome = match work.open(Some(WORKER)).await {
            Ok(tools) => {
                let outcome = self.answer(&work, &tools, &mut meter).await;
                work.tools.close(tools).await;
                outcome
            }
            Err(failure) => failed(failure),
        };
        let outcome = match work.cancel.is_cancelled() {
            true => totals(&meter, failed(cancelled())),
            false => totals(&meter, outcome),
        };
        work.conclude(outcome)
    }
}

impl Verify {
    async fn answer(&self, work: &Work<'_>, tools: &ToolHost, meter: &mut Meter) -> Outcome {
        let sink = BranchSink::new(work.sink, WORKER);
        let settings = meter.left().share(WORKER_SHARE).limit(&work.worker.settings);
        let setup = Setup {
            model: work.worker.model.as_ref(),
            tools,
            settings: &settings,
            sink: &sink,
            cancel: work.cancel,
            duty: Duty::Alone,
            planning: None,
            addition: None,
        };
        let first = AssertUnwindSafe(async {
            let mut run = Run::start(work.task, setup).await;
            let outcome = run.finish().await;
            (run, outcome)
        });
        let (mut run, first) = match first.catch_unwind().await {
            Ok(ended) => ended,
            Err(panic) => {
                let ended = crashed(&sink, panic.as_ref());
                meter.add(&ended.spent);
                return ended.outcome;
            }
        };
        let before = run.spent();
        meter.add(&before);
        let Some(answer) = first.answer.clone().filter(|_| first.status == Status::Answered) else {
            return first;
        };
        let decide = |reason: String, others: Vec<Candidate>, answer: &str| {
            let candidate = Candidate { branch: WORKER.to_owned(), answer: first.answer.clone() };
            let candidates = [candidate].into_iter().chain(others).collect();
            work.sink.emit(AgentEvent::Decided { reason, candidates, answer: Some(answer.to_owned()) });
        };
        let share = meter.left().share(VERIFIER_SHARE);
        if share.is_too_little() || meter.exhausted().is_some() || work.cancel.is_cancelled() {
            decide("nothing is left of the limits for a second look".to_owned(), Vec::new(), &answer);
            return first;
        }
        let review = review(&answer, &shortened(&run));
        let checked = work.run(VERIFIER, &self.verifier, Some(&review), share).await;
        meter.add(&checked.spent);
        let found = checked.outcome.answer.clone().filter(|_| checked.outcome.status == Status::Answered);
        let other = vec![Candidate { branch: VERIFIER.to_owned(), answer: found.clone() }];
        let Some(found) = found else {
            decide("the verifier has no answer of its own".to_owned(), other, &answer);
            return first;
        };
        if (self.same)(&answer, &found) {
            decide("the verifier agrees".to_owned(), other, &answer);
            return first;
        }
        let rest = meter.left();
        if rest.is_too_little() || meter.exhausted().is_some() || work.cancel.is_cancelled() {
            let reason = "the verifier disagrees, and nothing is left of the limits for a second answer";
            decide(reason.to_owned(), other, &answer);
            return first;
        }
        // The last call of the second answer is one of the steps.
        let rest = crate::limits::Left { steps: rest.steps - 1, ..rest };
        let again =
            AssertUnwindSafe(run.go_on(objection(&answer, &found, &checked), rest)).catch_unwind().await;
        let mut spent = run.spent();
        spent.take(&before);
        meter.add(&spent);
        let second = again.ok().filter(|outcome| outcome.status == Status::Answered);
        match second {
            Some(second) => {
                let answer = second.answer.clone().unwrap_or_default();
                decide("the verifier disagreed, and the worker looked again".to_owned(), other, &answer);
                second
            }
            None => {
                let reason =
                    "the verifier disagreed, and the worker came to no second answer: the first counts";
                decide(reason.to_owned(), other, &answer);
                first
            }
        }
    }
}

/// What there is to check, after the question.
fn review(answer: &str, transcript: &str) -> String {
    format!(
        "Somebody has answered this question with: {answer}\nWhat they did, as far as it fits here:\n{transcript}\n\n\
         Check it. Do not take over what they say: look for the place where it may be wrong, compute or look up again \
         what the answer rests on, and read the question word for word, down to the form that the answer must have. Say \
         in a sentence what you found before you hand in the answer that you hold right: theirs, as it stands, if it is.",
    )
}

fn objection(answer: &str, found: &str, checked: &Ended) -> String {
    format!(
        "Your answer `{answer}` was checked by somebody who started afresh and came to `{found}`. What they did:\n{}\n\n\
         Find out who is right. Then hand in your final answer: yours again, theirs, or another.",
        checked.transcript
    )
}
