use async_trait::async_trait;

use super::{Strategy, Work, never_began};
use crate::agent::run_task;
use crate::outcome::Outcome;

/// One run of the loop, and nothing else.
#[derive(Debug, Clone, Copy)]
pub struct React;

#[async_trait]
impl Strategy for React {
    async fn work(&self, work: Work<'_>) -> Outcome {
        let tools = match work.open(None).await {
            Ok(tools) => tools,
            Err(failure) => return never_began(work.task.attempt, work.sink, failure),
        };
        let worker = work.worker;
        let outcome =
            run_task(work.task, worker.model.as_ref(), &tools, &worker.settings, work.sink, work.cancel)
                .await;
        work.tools.close(tools).await;
        outcome
    }

    fn is_one_run(&self) -> bool {
        true
    }
}
