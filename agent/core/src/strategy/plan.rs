use async_trait::async_trait;

use super::{Role, Strategy, Work, never_began};
use crate::agent::{Planning, Run, Setup};
use crate::duty::Duty;
use crate::outcome::Outcome;

/// A plan with a table of facts before the first turn, brought up to date every few turns.
pub struct Plan {
    pub planner: Role,
    /// Turns of the worker between two plans; at least 1.
    pub every_turns: u32,
}

#[async_trait]
impl Strategy for Plan {
    async fn work(&self, work: Work<'_>) -> Outcome {
        let tools = match work.open(None).await {
            Ok(tools) => tools,
            Err(failure) => return never_began(work.task.attempt, work.sink, failure),
        };
        let planning = Planning {
            model: self.planner.model.as_ref(),
            price: self.planner.settings.budget.price,
            every_turns: self.every_turns.max(1),
            turns_since: None,
        };
        let setup = Setup {
            model: work.worker.model.as_ref(),
            tools: &tools,
            settings: &work.worker.settings,
            sink: work.sink,
            cancel: work.cancel,
            duty: Duty::Alone,
            planning: Some(planning),
            addition: None,
        };
        let outcome = Run::start(work.task, setup).await.finish().await;
        work.tools.close(tools).await;
        outcome
    }
}
