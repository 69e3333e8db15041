//! Independent runs, of whose answers the most frequent wins.

use async_trait::async_trait;

use super::role::{Ended, cancelled, say};
use super::{Role, SameAnswer, Strategy, Work, failed};
use crate::event::{AgentEvent, Candidate};
use crate::extract;
use crate::limits::Meter;
use crate::message::{Message, Part};
use crate::model::ModelError;
use crate::outcome::{Failure, FailureKind, Outcome, Status, StopReason};
use crate::question::first_messages;

/// Runs one after the other, each with fresh tools and an equal share of what is left of the limits. They stop when the
/// majority is certain; a tie is for the judge.
pub struct Vote {
    /// At least 1.
    pub runs: u32,
    pub judge: Role,
    pub same: SameAnswer,
}

const JUDGE: &str = "judge";

const JUDGE_SYSTEM: &str =
    "You judge between answers that others gave to a question, by the work that led to them.";

/// A run that has ended.
struct Ballot {
    branch: String,
    ended: Ended,
}

impl Ballot {
    fn answer(&self) -> Option<&str> {
        let outcome = &self.ended.outcome;
        outcome.answer.as_deref().filter(|_| outcome.status == Status::Answered)
    }
}

#[async_trait]
impl Strategy for Vote {
    async fn work(&self, work: Work<'_>) -> Outcome {
        work.begin().await;
        let mut meter = Meter::start(&work.worker.settings);
        let mut ballots: Vec<Ballot> = Vec::new();
        for number in 1..=self.runs {
            let share = meter.left().share(1.0 / f64::from(self.runs - number + 1));
            let nothing_left = meter.exhausted().is_some() || share.is_too_little();
            if !ballots.is_empty() && (nothing_left || self.is_decided(&ballots, self.runs - number + 1)) {
                break;
            }
            let branch = format!("run {number}");
            let ended = work.run(&branch, work.worker, None, share).await;
            meter.add(&ended.spent);
            let hopeless =
                ended.outcome.error.as_ref().is_some_and(|error| error.kind == FailureKind::ModelRefused);
            ballots.push(Ballot { branch, ended });
            if work.cancel.is_cancelled() || hopeless {
                break;
            }
        }
        let outcome = self.count(&work, ballots, &mut meter).await;
        work.conclude(outcome)
    }
}

impl Vote {
    /// The answers, each with those that voted for it, the earliest first.
    fn groups(&self, ballots: &[Ballot]) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (index, ballot) in ballots.iter().enumerate() {
            let Some(answer) = ballot.answer() else { continue };
            let same = |group: &&mut Vec<usize>| {
                ballots[group[0]].answer().is_some_and(|first| (self.same)(first, answer))
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.push(index),
                None => groups.push(vec![index]),
            }
        }
        groups
    }

    /// Whether no vote of those to come can change the outcome.
    fn is_decided(&self, ballots: &[Ballot], to_come: u32) -> bool {
        let mut votes: Vec<usize> = self.groups(ballots).iter().map(Vec::len).collect();
        votes.sort_unstable_by(|left, right| right.cmp(left));
        let second = votes.get(1).copied().unwrap_or_default();
        votes.first().is_some_and(|first| *first > second + to_come as usize)
    }

    async fn count(&self, work: &Work<'_>, ballots: Vec<Ballot>, meter: &mut Meter) -> Outcome {
        if work.cancel.is_cancelled() {
            return Outcome { stop: StopReason::Cancelled, ..totals(meter, failed(cancelled())) };
        }
        let groups = self.groups(&ballots);
        let most = groups.iter().map(Vec::len).max().unwrap_or_default();
        let tied: Vec<usize> =
            groups.iter().filter(|group| group.len() == most).map(|group| group[0]).collect();
        let (chosen, reason) = match tied.as_slice() {
            [] => (None, "no run has an answer".to_owned()),
            [only] => (Some(*only), format!("{most} of {} runs agree", ballots.len())),
            several => {
                let (chosen, reason) = self.judge(work, &ballots, several, meter).await;
                (
                    Some(chosen),
                    format!(
                        "{} answers have {most} of {} votes each; {reason}",
                        several.len(),
                        ballots.len()
                    ),
                )
            }
        };
        if work.cancel.is_cancelled() {
            return Outcome { stop: StopReason::Cancelled, ..totals(meter, failed(cancelled())) };
        }
        let candidates = ballots.iter().map(|ballot| Candidate {
            branch: ballot.branch.clone(),
            answer: ballot.answer().map(str::to_owned),
        });
        let answer = chosen.and_then(|index| ballots[index].answer()).map(str::to_owned);
        work.sink.emit(AgentEvent::Decided { reason, candidates: candidates.collect(), answer });
        // Without an answer: one that ran into a limit says more than one that failed.
        let without = || {
            let no_answer = |ballot: &Ballot| ballot.ended.outcome.status == Status::NoAnswer;
            ballots.iter().position(no_answer).or_else(|| (!ballots.is_empty()).then_some(0))
        };
        let outcome = match chosen.or_else(without).and_then(|index| ballots.into_iter().nth(index)) {
            Some(ballot) => ballot.ended.outcome,
            None => failed(Failure { kind: FailureKind::Internal, message: "no run was started".to_owned() }),
        };
        totals(meter, outcome)
    }

    /// Which of the tied answers the judge holds right, and in words how that came. Without a judgement, the earliest.
    async fn judge(
        &self,
        work: &Work<'_>,
        ballots: &[Ballot],
        tied: &[usize],
        meter: &mut Meter,
    ) -> (usize, String) {
        let mut text = String::from("The question:\n");
        for message in first_messages(work.task, &work.worker.settings).await {
            let Message::User { content } = message else { continue };
            for part in content {
                if let Part::Text { text: question } = part {
                    text.push_str(&question);
                }
            }
        }
        for index in tied {
            let ballot = &ballots[*index];
            let answer = ballot.answer().unwrap_or_default();
            text.push_str(&format!(
                "\n\nAn answer: {answer}\nThe work that led to it:\n{}",
                ballot.ended.transcript
            ));
        }
        text.push_str(
            "\n\nWhich of these answers is right? Weigh the evidence in the work, not how sure it sounds. End with this \
             line and nothing after it, the answer copied as it stands above:\nFINAL ANSWER: [ONE OF THE ANSWERS]",
        );
        let earliest = tied[0];
        match say(work, JUDGE, &self.judge, meter, JUDGE_SYSTEM, text).await {
            Ok(reply) => {
                let judged = extract::final_answer(&reply);
                let named = |index: &&usize| {
                    let answer = ballots[**index].answer();
                    answer.zip(judged.as_deref()).is_some_and(|(answer, judged)| (self.same)(answer, judged))
                };
                match tied.iter().find(named) {
                    Some(index) => (*index, "the judge chose".to_owned()),
                    None => (earliest, "the judge named none of them: the earliest counts".to_owned()),
                }
            }
            Err(ModelError::Cancelled) => {
                (earliest, "there is no judgement in time: the earliest counts".to_owned())
            }
            Err(error) => (earliest, format!("there is no judgement ({error}): the earliest counts")),
        }
    }
}

/// The ending of one run as that of the whole.
pub(super) fn totals(meter: &Meter, outcome: Outcome) -> Outcome {
    meter.outcome(outcome.status, outcome.stop, outcome.answer, outcome.raw_answer, outcome.error)
}
