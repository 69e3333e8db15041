//! A manager who hands parts of the work to helpers.

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::role::to_end;
use super::{Role, Strategy, Work, never_began};
use crate::agent::{Run, Setup};
use crate::branch::BranchSink;
use crate::duty::{Asked, Duty, Helpers};
use crate::limits::{Left, Spent};
use crate::outcome::{Outcome, Status};
use crate::settings::AgentSettings;
use crate::task::Task;
use crate::tools::ToolHost;

/// The worker is the manager: it has all tools, and one more that asks a helper. A helper has a conversation of its own,
/// the manager's tools and files but for the answer tool, and at most half of what the manager has left.
pub struct Delegate {
    pub helper: Role,
    /// Turns of one helper.
    pub helper_steps: u32,
}

/// What is said to a manager after the system prompt.
const MANAGER_PROMPT: &str = "\n\nYou lead helpers. Break the task into parts that can be done without knowing the \
whole, hand them on one by one with the tool that asks a helper, check what comes back against what you know, and put \
the answer together yourself. What takes one or two calls you do yourself.";

const HELPER_PROMPT: &str = "You do one part of a larger task for somebody who sees nothing of your work but your \
report. You have tools. Look things up and compute rather than guess. When you are done, call the tool that reports: \
say what you found, how sure you are and where it comes from, in a few sentences. If you cannot find it, report what \
you tried.";

/// Of what the manager has left, for one helper.
const HELPER_SHARE: f64 = 0.5;

#[async_trait]
impl Strategy for Delegate {
    async fn work(&self, work: Work<'_>) -> Outcome {
        let tools = match work.open(None).await {
            Ok(tools) => tools,
            Err(failure) => return never_began(work.task.attempt, work.sink, failure),
        };
        let worker = work.worker;
        let system_prompt = format!("{}{MANAGER_PROMPT}", worker.settings.system_prompt);
        let settings = AgentSettings { system_prompt, ..worker.settings.clone() };
        let team = Team { delegate: self, work: &work, tools: &tools, asked: AtomicU32::new(0) };
        let setup = Setup {
            model: worker.model.as_ref(),
            tools: &tools,
            settings: &settings,
            sink: work.sink,
            cancel: work.cancel,
            duty: Duty::Manager(&team),
            planning: None,
            addition: None,
        };
        let outcome = Run::start(work.task, setup).await.finish().await;
        work.tools.close(tools).await;
        outcome
    }
}

struct Team<'a> {
    delegate: &'a Delegate,
    work: &'a Work<'a>,
    tools: &'a ToolHost,
    /// Questions so far.
    asked: AtomicU32,
}

#[async_trait]
impl Helpers for Team<'_> {
    async fn ask(&self, question: &str, left: Left, cancel: &CancellationToken) -> Asked {
        let share = left.share(HELPER_SHARE);
        let steps = share.steps.min(self.delegate.helper_steps);
        let share = Left { steps, ..share };
        if share.is_too_little() {
            let text =
                "error: too little is left of the limits to hand on a question; go on by yourself".to_owned();
            return Asked { text, failed: true, spent: Spent::default() };
        }
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let branch = format!("helper {number}");
        let sink = BranchSink::new(self.work.sink, &branch);
        let helper = &self.delegate.helper;
        let own = AgentSettings { system_prompt: HELPER_PROMPT.to_owned(), ..helper.settings.clone() };
        let settings = share.limit(&own);
        let task = Task { question: question.to_owned(), ..self.work.task.clone() };
        let setup = Setup {
            model: helper.model.as_ref(),
            tools: self.tools,
            settings: &settings,
            sink: &sink,
            cancel,
            duty: Duty::Helper,
            planning: None,
            addition: None,
        };
        let ended = to_end(&task, setup, &sink).await;
        let outcome = ended.outcome;
        let report = outcome.raw_answer.or(outcome.answer).filter(|_| outcome.status == Status::Answered);
        let reason = || match outcome.error {
            Some(failure) => format!("error: the helper failed: {}", failure.message),
            None => "error: the helper came to no result within its share of the limits".to_owned(),
        };
        let failed = report.is_none();
        Asked { text: report.unwrap_or_else(reason), failed, spent: ended.spent }
    }
}
