use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use gaia_agent::Status;
use gaia_agent::tools::{Server, ServerSpec, ToolHost};
use serde::Serialize;

use super::resume::load_stored;
use super::score::parse_split;
use super::{Surroundings, open_run, set_overrides};
use crate::args::{ReplayArguments, Side};
use crate::comparable::request_differences;
use crate::config::{Loaded, Purpose, StrategyName};
use crate::console::Console;
use crate::dataset::{self, Sample};
use crate::environment::{FILES_DIR, QUESTION, RUN_ID, SAMPLE_ID};
use crate::exit_code::{self, CommandError, CommandResult};
use crate::preflight::{
    agent_settings, endpoint_of, known_model, log_notices, model_at, start_error, try_servers,
};
use crate::recording::Recording;
use crate::replay::{Difference, Players, RecordedModel, recorded_host, replay, task_of};
use crate::sample::Staged;
use crate::scoring::score_answer;
use crate::store::{RunDirectory, RunRecord, SampleEntry, SampleKey, SampleResult};

pub(super) async fn replay_run(arguments: ReplayArguments, surroundings: &Surroundings) -> CommandResult {
    let console = &surroundings.console;
    let (run, record) = open_run(&arguments.stored.run, &arguments.stored.out)?;
    if arguments.tools == Side::Recorded
        && let Some((key, _)) = arguments.set.iter().find(|(key, _)| key.starts_with("mcp_"))
    {
        let error = anyhow::anyhow!("`{key}` is nothing to a replay whose tools are those of the recording");
        return Err(CommandError::usage(error).with_hint("start the servers: `--tools live`"));
    }
    let loaded = load(&record, &arguments, surroundings)?;
    console.hide(&loaded.secrets);
    if loaded.config.strategy.name != StrategyName::React || loaded.config.external.is_wanted() {
        return Err(CommandError::usage(anyhow::anyhow!(
            "run `{}` was worked on by a strategy of several roles or by an agent of others, which cannot be replayed yet",
            record.id
        ))
        .with_hint("`events.jsonl` of each sample holds all that was said"));
    }
    let planned = &record.dataset.samples;
    if let Some(unknown) =
        arguments.tasks.iter().find(|task| !planned.iter().any(|planned| planned.task_id == **task))
    {
        return Err(CommandError::usage(anyhow::anyhow!("run `{}` has no task `{unknown}`", record.id))
            .with_hint("`--task` takes whole ids, as `gaia export --format csv` lists them"));
    }
    // With recorded replies nobody asks, and a request that would be another one shows nowhere else.
    let request = match arguments.model {
        Side::Recorded => {
            let model = loaded.config.model.name.as_deref().unwrap_or_default();
            request_differences(&record, model, &loaded.effective).into_iter().next()
        }
        Side::Live => None,
    };
    let samples = questions(&record, surroundings);
    let live = match arguments.tools {
        Side::Recorded => None,
        Side::Live => Some(try_servers(&loaded, &record.id, &loaded.servers, &[], console).await?),
    };
    let stage = Stage {
        run: &run,
        record: &record,
        loaded: &loaded,
        samples: &samples,
        request: request.map(|found| Difference {
            step: Some(1),
            what: format!("request body, {}", found.what),
            recorded: found.before,
            now: found.now,
        }),
        arguments: &arguments,
        of_many: live.as_ref().map_or(&[], |offer| offer.of_many.as_slice()),
    };
    let played = play_all(&stage, console).await;
    if let Some(live) = &live {
        join_all(live.of_many.iter().map(|server| server.close())).await;
    }
    played
}

async fn play_all(stage: &Stage<'_>, console: &Console) -> CommandResult {
    let arguments = stage.arguments;
    let mut report = Report::default();
    for entry in stage.run.entries(stage.record) {
        let entry = entry?;
        let wanted = arguments.tasks.is_empty() || arguments.tasks.contains(&entry.planned.task_id);
        let Some(result) = entry.result.as_ref().filter(|_| wanted) else { continue };
        let task = entry.planned.task_id.clone();
        let ending = stage.play(&entry, result).await?;
        match &ending {
            Ending::Same => report.same += 1,
            Ending::NotRecorded => report.not_recorded.push(task.clone()),
            Ending::Differs(difference) => {
                if !arguments.json {
                    console.print(&format!("{task}: {difference}"))?;
                }
                report.different.push(Different {
                    task_id: task,
                    epoch: entry.epoch,
                    difference: difference.clone(),
                });
            }
        }
    }
    if arguments.json {
        console.print(&serde_json::to_string_pretty(&report)?)?;
    } else {
        console.print(&report.summary())?;
    }
    for task in &report.not_recorded {
        console.warn(&format!(
            "warning: `{task}` cannot be replayed: it ended before it began, or by a gaia that kept no list of tools"
        ));
    }
    let all_same = report.different.is_empty() && report.not_recorded.is_empty();
    Ok(if all_same { exit_code::SUCCESS } else { exit_code::DIFFERS })
}

#[derive(Debug, Default, Serialize)]
struct Report {
    same: usize,
    different: Vec<Different>,
    not_recorded: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Different {
    task_id: String,
    epoch: u32,
    #[serde(flatten)]
    difference: Difference,
}

impl Report {
    fn summary(&self) -> String {
        let total = self.same + self.different.len();
        match self.different.len() {
            0 => format!("replayed {total} samples: every trajectory and every verdict is the same"),
            different => {
                format!("replayed {total} samples: {different} go another way, {} are the same", self.same)
            }
        }
    }
}

enum Ending {
    Same,
    Differs(Difference),
    NotRecorded,
}

/// What all samples of a replay share.
struct Stage<'a> {
    run: &'a RunDirectory,
    record: &'a RunRecord,
    loaded: &'a Loaded,
    /// Where the dataset is at hand and unchanged.
    samples: &'a HashMap<String, Sample>,
    /// What the first request of each sample would hold in another way.
    request: Option<Difference>,
    arguments: &'a ReplayArguments,
    /// Live servers that serve all samples.
    of_many: &'a [Arc<Server>],
}

impl Stage<'_> {
    async fn play(&self, entry: &SampleEntry, result: &SampleResult) -> CommandResult<Ending> {
        let key = SampleKey { task_id: entry.planned.task_id.clone(), epoch: entry.epoch };
        let Some(recording) = Recording::read(&self.run.sample(&key))? else {
            return Ok(Ending::NotRecorded);
        };
        let Some(offer) = recording.offer(self.run)? else { return Ok(Ending::NotRecorded) };
        let sample = self.samples.get(&key.task_id);
        let staged = sample.map(|sample| Staged::of(&self.record.id, sample)).transpose()?;
        let host = match self.arguments.tools {
            Side::Recorded => recorded_host(&recording, offer)?,
            Side::Live => self.live_host(&key, sample, staged.as_ref()).await?,
        };
        let base_url = self.base_url();
        let config = &self.loaded.config.model;
        let answer_tool = &self.loaded.config.agent.answer_tool;
        let answer_name = host.find(answer_tool).map_or(answer_tool.clone(), |tool| tool.model_name.clone());
        let known = known_model(self.loaded, config, &base_url)?;
        let settings = agent_settings(self.loaded, config, &base_url, known, &answer_name);
        let model = match self.arguments.model {
            Side::Recorded => Arc::new(RecordedModel::new(recording.replies())),
            Side::Live => model_at(config, self.loaded.api_key.as_ref(), &base_url, endpoint_of(config))?,
        };
        let task = task_of(&recording, sample, staged.as_ref());
        let played = replay(&recording, &task, &settings, Players { model, tools: &host }).await;
        host.close().await;
        if let Some(staged) = staged {
            staged.remove();
        }
        let played = played?;
        // The conversation stands in front of the first request.
        let is_before = |found: &Difference| found.step.is_none() && found.what.starts_with("started");
        let earlier = played.difference.as_ref().is_some_and(is_before);
        if let Some(difference) = self.request.clone().filter(|_| !earlier).or(played.difference) {
            return Ok(Ending::Differs(difference));
        }
        let answer = played.outcome.answer.filter(|_| played.outcome.status == Status::Answered);
        Ok(self.verdict(answer.as_deref(), sample, result).map_or(Ending::Same, Ending::Differs))
    }

    /// The same answer, scored today.
    fn verdict(
        &self,
        answer: Option<&str>,
        sample: Option<&Sample>,
        result: &SampleResult,
    ) -> Option<Difference> {
        let stored = result.score.as_ref()?;
        let truth = sample.and_then(|sample| sample.truth.as_deref()).unwrap_or(&stored.truth);
        let now = score_answer(answer, Some(truth))?;
        let shown = |correct: bool, reason: &str| {
            format!("{} ({reason})", if correct { "correct" } else { "incorrect" })
        };
        (now.correct != stored.correct || now.reason != stored.reason).then(|| Difference {
            step: None,
            what: "score".to_owned(),
            recorded: shown(stored.correct, &stored.reason),
            now: shown(now.correct, &now.reason),
        })
    }

    async fn live_host(
        &self,
        key: &SampleKey,
        sample: Option<&Sample>,
        staged: Option<&Staged>,
    ) -> CommandResult<ToolHost> {
        let files = staged.map(|staged| staged.files().to_string_lossy().into_owned());
        let environment = [
            (RUN_ID.to_owned(), self.record.id.clone()),
            (SAMPLE_ID.to_owned(), key.task_id.clone()),
            (FILES_DIR.to_owned(), files.unwrap_or_default()),
            (QUESTION.to_owned(), sample.map(|sample| sample.question.clone()).unwrap_or_default()),
        ];
        let mut servers: Vec<ServerSpec> = self.loaded.servers.clone();
        servers.retain(|spec| self.of_many.iter().all(|server| server.name() != spec.name));
        let answer_tool = Some(self.loaded.config.agent.answer_tool.as_str());
        ToolHost::start(&servers, self.of_many, &environment.into(), log_notices(), answer_tool)
            .await
            .map_err(start_error)
    }

    /// Where the last session reached the model, unless another place is named now.
    fn base_url(&self) -> String {
        let stored = self.record.sessions.last().map(|session| session.endpoint.clone());
        self.loaded
            .config
            .model
            .base_url
            .clone()
            .filter(|_| self.arguments.model == Side::Live)
            .or(stored)
            .unwrap_or_default()
    }
}

/// The settings of the run. What is played from the recording needs no server, no key and no variable of today.
fn load(
    record: &RunRecord,
    arguments: &ReplayArguments,
    surroundings: &Surroundings,
) -> CommandResult<Loaded> {
    let mut config = record.config.clone();
    let purpose = match arguments.model {
        Side::Recorded => Purpose::Tools,
        Side::Live => Purpose::Run,
    };
    if (arguments.model, arguments.tools) == (Side::Recorded, Side::Recorded) {
        config.remove("mcp_servers");
        config.remove("mcp_config");
    }
    load_stored(record, config, set_overrides(&arguments.set).collect(), purpose, surroundings)
}

/// The questions by task, where they are what they were; else the recording's own are asked.
fn questions(record: &RunRecord, surroundings: &Surroundings) -> HashMap<String, Sample> {
    let loaded = parse_split(&record.dataset.split)
        .and_then(|split| dataset::load(&record.dataset.path, split).map_err(CommandError::usage));
    match loaded {
        Ok(dataset) if dataset.fingerprint == record.dataset.fingerprint => {
            dataset.samples.into_iter().map(|sample| (sample.task_id.clone(), sample)).collect()
        }
        Ok(_) => {
            surroundings
                .console
                .warn("warning: the dataset is not what it was; the questions are those of the recording");
            HashMap::new()
        }
        Err(_) => {
            surroundings.console.say("the dataset is not at hand; the questions are those of the recording");
            HashMap::new()
        }
    }
}
