//! Plans: a table of facts and a list of steps, made before the first turn and again every few turns.

use tokio_util::sync::CancellationToken;

use super::Run;
use super::exchange::{CallIds, Exchange};
use crate::branch::BranchSink;
use crate::event::{AgentEvent, EventSink, NoticeLevel};
use crate::message::{Message, Part};
use crate::model::{ChatModel, ModelError};
use crate::settings::Price;
use crate::tools::bound;

/// Who plans, and how often.
#[derive(Clone, Copy)]
pub(crate) struct Planning<'a> {
    pub(crate) model: &'a dyn ChatModel,
    pub(crate) price: Option<Price>,
    /// Turns between two plans.
    pub(crate) every_turns: u32,
    /// Turns since the last plan; `None` before the first.
    pub(crate) turns_since: Option<u32>,
}

/// The name of the planner in events.
const BRANCH: &str = "planner";

/// Bytes of the work so far that the planner is shown: about 8,000 tokens. Every plan is paid for.
const TRANSCRIPT_BYTES: usize = 32 * 1024;

/// Bytes of a plan: what is longer is no plan, and stays in the conversation for good.
const PLAN_BYTES: usize = 6 * 1024;

impl Run<'_> {
    /// Puts a plan before the worker when one is due. Work goes on without one that cannot be had: the planner may be
    /// another model, and its faults are no reason to lose the answer. Cancelled is cancelled.
    pub(super) async fn plan(&mut self, cancel: &CancellationToken) -> Result<(), ModelError> {
        let Some(planning) = &mut self.planning else { return Ok(()) };
        let first = planning.turns_since.is_none();
        let turns = planning.turns_since.map_or(planning.every_turns, |turns| turns + 1);
        if turns < planning.every_turns {
            planning.turns_since = Some(turns);
            return Ok(());
        }
        planning.turns_since = Some(0);
        // A plan must leave a turn to begin with it.
        if self.meter.left().steps < 2 {
            return Ok(());
        }
        let planning = *planning;
        let step = self.meter.steps + 1;
        let request = self.plan_request(first);
        let sink = BranchSink::new(self.sink, BRANCH);
        sink.emit(AgentEvent::Prompted { step, text: instruction(first).to_owned() });
        let exchange = Exchange {
            model: planning.model,
            price: planning.price,
            sink: &sink,
            step,
            messages: &request,
            tools: &[],
        };
        let plan = match exchange.run(&mut self.meter, &mut CallIds::default(), cancel).await {
            Ok(reply) => {
                self.meter.steps += 1;
                reply.content.filter(|text| !text.trim().is_empty())
            }
            // The same would happen to every task: nobody wants a run without plans by mistake.
            Err(error @ ModelError::Refused(_)) if first => return Err(error),
            // The turn that follows sees that the time is over.
            Err(ModelError::Cancelled) => None,
            Err(error) => {
                sink.emit(AgentEvent::ServerNotice {
                    server: BRANCH.to_owned(),
                    level: NoticeLevel::Warning,
                    text: format!("no plan was made: {error}"),
                });
                None
            }
        };
        if let Some(plan) = plan {
            let plan = bound(plan.trim(), PLAN_BYTES, None).text;
            let what =
                if first { "Facts and plan to begin with" } else { "Facts and plan, brought up to date" };
            self.prompt(
                self.meter.steps + 1,
                format!("{what}:\n\n{plan}\n\nGo on with the next step of it."),
            );
        }
        Ok(())
    }

    /// A conversation of its own, with the work so far as text: nothing in it has to match the protocol of tool calls.
    fn plan_request(&self, first: bool) -> Vec<Message> {
        let question = self.conversation.messages().iter().find_map(|message| match message {
            Message::User { content } => content.first(),
            _ => None,
        });
        let mut text = String::from("The task:\n");
        if let Some(Part::Text { text: question }) = question {
            text.push_str(question);
        }
        text.push_str("\n\nThe tools there are to do it with:\n");
        for tool in &self.definitions {
            let line = tool.description.lines().next().unwrap_or_default();
            text.push_str(&format!("- {}: {line}\n", tool.name));
        }
        if !first {
            text.push_str("\nThe work so far:\n");
            text.push_str(&bound(&self.transcript(), TRANSCRIPT_BYTES, None).text);
            text.push_str(&format!("\n{} turns are left.\n", self.meter.left().steps));
        }
        text.push('\n');
        text.push_str(instruction(first));
        let system = "You plan the work of somebody else, who follows your plan. You do none of it yourself.";
        vec![
            Message::System { content: system.to_owned() },
            Message::User { content: vec![Part::Text { text }] },
        ]
    }
}

fn instruction(first: bool) -> &'static str {
    if first {
        "Write two short lists. Facts: what the task gives, what has to be looked up and where, what has to be \
         computed. Plan: the steps in order, each for one turn with a tool, the last one to hand in the answer. \
         Reply with the two lists and nothing else."
    } else {
        "Write two short lists. Facts: what the task gives, what has been found out with its source, what turned out \
         to be wrong, what is still to be found. Plan: the steps that are left, in order; leave a way that failed \
         twice. Reply with the two lists and nothing else."
    }
}
