//! Who works on the samples: the loop with a strategy, a program, or a person.

use std::path::Path;
use std::sync::Arc;

use gaia_agent::desk::Desk;
use gaia_agent::model::ChatModel;
use gaia_agent::strategy::{
    Delegate, Plan, React, Role, Strategy, ToolSource, Verify, Vote, Work, never_began,
};
use gaia_agent::{AgentSettings, EventSink, Failure, FailureKind, Outcome, SharedBudget, Task};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, CommandAgent, Human, Lines, Room};
use crate::config::{Loaded, StrategyConfig, StrategyName};
use crate::console::Console;
use crate::preflight::Ready;
use crate::scoring::equality;

/// The same for all samples of a run.
pub enum Performer {
    Loop {
        strategy: Arc<dyn Strategy>,
        /// With the limits of a sample.
        worker: Role,
    },
    Program {
        agent: CommandAgent,
        settings: AgentSettings,
    },
    Human {
        human: Human,
        settings: AgentSettings,
    },
}

/// One sample as it is worked on.
pub struct Part<'a> {
    pub task: &'a Task,
    /// A folder that holds the sample's own attachment and nothing else.
    pub files: &'a Path,
    pub tools: &'a dyn ToolSource,
    pub sink: Arc<dyn EventSink>,
    pub cancel: &'a CancellationToken,
    /// In the place of the worker's own.
    pub model: Option<Arc<dyn ChatModel>>,
}

/// Media that a desk passes on as they are: what an agent's own model takes is not known.
const DESK_MEDIA: [&str; 2] = ["image/", "audio/"];

impl Performer {
    pub fn new(
        loaded: &Loaded,
        ready: &Ready,
        run_id: &str,
        run_budget: &Arc<SharedBudget>,
        console: &Console,
    ) -> Self {
        let shared = |settings: &AgentSettings| AgentSettings {
            run_budget: Some(run_budget.clone()),
            ..settings.clone()
        };
        let settings = shared(&ready.settings);
        let at_a_desk =
            AgentSettings { accepted_media: DESK_MEDIA.map(str::to_owned).to_vec(), ..settings.clone() };
        let timeout = settings.sample_timeout;
        match &ready.agent {
            Some(Agent::Command(words)) => Self::Program {
                agent: CommandAgent {
                    words: words.clone(),
                    env_vars: loaded.config.external.env_vars.clone(),
                    environment: loaded.environment.clone(),
                    run_id: run_id.to_owned(),
                    timeout,
                    secrets: Arc::new(loaded.secrets.clone()),
                },
                settings: at_a_desk,
            },
            Some(Agent::Human) => Self::Human {
                human: Human { console: console.clone(), timeout, lines: Mutex::new(Lines::of_stdin()) },
                settings: at_a_desk,
            },
            None => {
                let worker = Role { model: ready.model.clone(), settings };
                let other = ready
                    .role
                    .as_ref()
                    .map(|role| Role { model: role.model.clone(), settings: shared(&role.settings) });
                let strategy = strategy(&loaded.config.strategy, other.unwrap_or_else(|| worker.clone()));
                Self::Loop { strategy, worker }
            }
        }
    }

    /// Who replies, where that alone decides what comes next: for one run of the loop without other roles.
    pub fn lone_model(&self) -> Option<&Arc<dyn ChatModel>> {
        match self {
            Self::Loop { strategy, worker } if strategy.is_one_run() => Some(&worker.model),
            _ => None,
        }
    }

    pub fn settings(&self) -> &AgentSettings {
        match self {
            Self::Loop { worker, .. } => &worker.settings,
            Self::Program { settings, .. } | Self::Human { settings, .. } => settings,
        }
    }

    /// Always has an outcome.
    pub async fn work(&self, part: Part<'_>) -> Outcome {
        let Part { task, files, tools, sink, cancel, model } = part;
        if let Self::Loop { strategy, worker } = self {
            let led = model.map(|model| Role { model, settings: worker.settings.clone() });
            let worker = led.as_ref().unwrap_or(worker);
            return strategy.work(Work { task, worker, tools, sink: sink.as_ref(), cancel }).await;
        }
        // Before the tools are opened: a person answers one question at a time, and time runs from then on.
        let mut turn = match self {
            Self::Human { human, .. } => Some(tokio::select! {
                lines = human.lines.lock() => lines,
                () = cancel.cancelled() => return never_began(task.attempt, sink.as_ref(), cancelled()),
            }),
            _ => None,
        };
        let opened = tokio::select! {
            opened = tools.open(None) => opened,
            () = cancel.cancelled() => return never_began(task.attempt, sink.as_ref(), cancelled()),
        };
        let host = match opened {
            Ok(host) => host,
            Err(error) => {
                let failure = Failure { kind: FailureKind::Server, message: error.to_string() };
                return never_began(task.attempt, sink.as_ref(), failure);
            }
        };
        let desk = Arc::new(Desk::open(task, host.clone(), self.settings().clone(), sink.clone()).await);
        let room = Room { task, files };
        let outcome = match (self, &mut turn) {
            (Self::Human { human, .. }, Some(lines)) => human.work(room, desk, lines, cancel).await,
            (Self::Program { agent, .. }, _) => agent.work(room, desk, sink.as_ref(), cancel).await,
            _ => never_began(task.attempt, sink.as_ref(), cancelled()),
        };
        tools.close(host).await;
        outcome
    }
}

fn cancelled() -> Failure {
    Failure { kind: FailureKind::Cancelled, message: "cancelled".to_owned() }
}

fn strategy(config: &StrategyConfig, other: Role) -> Arc<dyn Strategy> {
    match config.name {
        StrategyName::React => Arc::new(React),
        StrategyName::Plan => Arc::new(Plan { planner: other, every_turns: config.replan_every }),
        StrategyName::Vote => Arc::new(Vote { runs: config.runs, judge: other, same: equality() }),
        StrategyName::Verify => Arc::new(Verify { verifier: other, same: equality() }),
        StrategyName::Delegate => Arc::new(Delegate { helper: other, helper_steps: config.helper_steps }),
    }
}
