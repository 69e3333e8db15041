use std::path::{Path, PathBuf};

use time::OffsetDateTime;

use super::Surroundings;
use crate::args::{ResumeArguments, RunArguments, StoredRunArguments};
use crate::config::{Loaded, Override, Purpose, StagedConfig, StrategyName};
use crate::continuing::Begin;
use crate::dataset::{self, Corrections, Dataset, Needs, Sample, Selection, pull};
use crate::exit_code::{self, CommandError, CommandResult};
#[cfg(feature = "nats")]
use crate::fleet::{Earlier, check_fits, coordinate};
use crate::preflight::Ready;
use crate::prompt::fingerprint;
use crate::session::{Output, Work, conclude, work_on_run};
use crate::shard::Shard;
use crate::signals::Interrupt;
use crate::staged::plan;
use crate::store::{
    DatasetRecord, HostFacts, Method, PlannedSample, RUN_FILE, RUN_FORMAT_VERSION, RunDirectory, RunRecord,
    ShardRecord, new_run_id,
};

pub(super) async fn run(arguments: RunArguments, surroundings: &Surroundings) -> CommandResult {
    if let Some(run) = arguments.config.config.clone().filter(|path| path.join(RUN_FILE).is_file()) {
        return super::resume::resume(on_run(arguments, &run)?, surroundings).await;
    }
    let console = &surroundings.console;
    let loaded = surroundings.load(&arguments.config, overrides(&arguments), Purpose::Run)?;
    #[cfg(feature = "nats")]
    if arguments.fleet.nats.is_some() {
        check_fits(&loaded)?;
    }
    let mut dataset = load_dataset(&loaded)?;
    let shard = arguments.shard.map(|shard| shard.resolve(&surroundings.environment)).transpose();
    let shard = shard.map_err(|reason| CommandError::usage(anyhow::anyhow!("--shard: {reason}")))?;
    if shard.is_some() && loaded.config.run.staged.enabled {
        return Err(CommandError::usage(anyhow::anyhow!(
            "--shard does not go with --staged: each part would decide by its own samples whether the next level is worth it"
        )));
    }
    let shard = shard.map(|Shard { index, count }| {
        let of = dataset.samples.iter().map(planned).collect();
        ShardRecord { index, count, of }
    });
    if let Some(ShardRecord { index, count, .. }) = shard {
        dataset = Shard { index, count }.of(dataset);
    }
    let started = OffsetDateTime::now_utc();
    let id = new_run_id(started);
    let interrupt = Interrupt::listen(console.clone())?;

    if loaded.config.model.rehearsal && !loaded.config.external.is_wanted() {
        console.say(crate::report::REHEARSAL_NOTE);
    }
    console.say(checking(&loaded));
    let ready = tokio::select! {
        ready = Ready::prepare(&loaded, &id, console) => ready?,
        () = interrupt.drain.cancelled() => return Ok(exit_code::INCOMPLETE),
    };
    let mut record = record(&loaded, &dataset, &ready, id, started);
    record.shard = shard;
    if arguments.dry_run {
        let staged = loaded.config.run.staged;
        let shown = dry_run(&record, &ready, staged, &Output::from_flag(arguments.output.json));
        ready.close().await;
        console.print(&shown?)?;
        return Ok(exit_code::SUCCESS);
    }

    let (run, _lock) = match RunDirectory::create(&loaded.config.run.out, &record) {
        Ok(created) => created,
        Err(error) => {
            ready.close().await;
            return Err(CommandError::environment(error)
                .with_hint("name a folder that can be written with --out (or `run.out`)"));
        }
    };
    console.say(&format!(
        "run {}: {} samples, {} at a time, {}",
        record.id,
        record.dataset.samples.len() * record.epochs as usize,
        loaded.config.run.concurrency,
        worked_on_by(&record)
    ));
    let output = Output::of_session(&arguments.output, &loaded.secrets)?;
    let work = async {
        #[cfg(feature = "nats")]
        let coordination = arguments.fleet.coordination(Earlier::TakeUp, &surroundings.environment);
        #[cfg(feature = "nats")]
        if let Some(coordination) = coordination {
            let with = (dataset, ready);
            let stopped =
                coordinate(&run, &mut record, with, &loaded, &coordination, &interrupt, console).await?;
            return conclude(&run, &mut record, &stopped, &loaded.secrets, &output, console);
        }
        let work = Work { dataset, ready, begin: Begin::Anew, output: output.clone() };
        let stopped = work_on_run(&run, &mut record, work, &loaded, &interrupt, console).await?;
        let code = conclude(&run, &mut record, &stopped, &loaded.secrets, &output, console);
        output.close().await;
        code
    };
    tokio::select! {
        code = work => code,
        () = interrupt.abandon.cancelled() => Ok(exit_code::INCOMPLETE),
    }
}

/// A run in the place of a config: what is missing of it is finished, with these settings.
fn on_run(arguments: RunArguments, run: &Path) -> CommandResult<ResumeArguments> {
    let overrides = overrides(&arguments);
    let is_settled = |set: &&Override| {
        set.key.starts_with("dataset.") || ["run.epochs", "run.out"].contains(&set.key.as_str())
    };
    let settled = overrides.iter().find(is_settled).map(|set| set.flag.as_str());
    let shard = arguments.shard.is_some().then_some("--shard");
    if let Some(flag) = settled.or(shard).or(arguments.dry_run.then_some("--dry-run")) {
        let error = anyhow::anyhow!(
            "`{}` is a run, which has its questions: `{flag}` is for a new one",
            run.display()
        );
        return Err(CommandError::usage(error).with_hint("leave the flag out, or name a config"));
    }
    if arguments.staged {
        check_stages(run)?;
    }
    let flags = overrides.into_iter().map(|set| (set.key, set.value));
    Ok(ResumeArguments {
        stored: StoredRunArguments { run: run.to_string_lossy().into_owned(), out: PathBuf::new() },
        rerun: Vec::new(),
        as_new: false,
        continue_samples: false,
        concurrency: None,
        model: None,
        base_url: None,
        #[cfg(feature = "nats")]
        fleet: arguments.fleet,
        set: flags.chain(arguments.config.set).collect(),
        output: arguments.output,
    })
}

/// Stages decide what is begun, which of a run that was begun without them is decided.
fn check_stages(run: &Path) -> CommandResult<()> {
    let record = RunDirectory::open(run).record()?;
    let is_staged = record.config.get("run").and_then(|table| table.get("staged")?.get("enabled")?.as_bool());
    match is_staged {
        Some(true) => Ok(()),
        _ => Err(CommandError::usage(anyhow::anyhow!(
            "`{}` was not begun in stages, and what it has run already is not of one stage after the other",
            run.display()
        ))
        .with_hint("leave --staged out to finish it, or name a config for a new run")),
    }
}

/// What is about to take its time.
pub(super) fn checking(loaded: &Loaded) -> &'static str {
    match loaded.config.external.is_wanted() {
        true => "starting every MCP server once",
        false => "checking the model endpoint and starting every MCP server once",
    }
}

/// The flags as the config keys that they set.
fn overrides(arguments: &RunArguments) -> Vec<Override> {
    fn text(value: &str) -> String {
        toml::Value::from(value).to_string()
    }
    let list = |values: Vec<toml::Value>| toml::Value::Array(values).to_string();
    let mut overrides = Vec::new();
    let mut set = |flag: &str, key: &str, value: Option<String>| {
        if let Some(value) = value {
            overrides.push(Override { flag: flag.to_owned(), key: key.to_owned(), value });
        }
    };
    set("--dataset", "dataset.path", arguments.dataset.as_ref().map(|path| text(&path.to_string_lossy())));
    set("--split", "dataset.split", arguments.split.as_deref().map(text));
    let levels = arguments.levels.iter().map(|level| i64::from(*level).into()).collect::<Vec<_>>();
    set("--level", "dataset.levels", (!levels.is_empty()).then(|| list(levels)));
    set("--limit", "dataset.limit", arguments.limit.map(|limit| limit.to_string()));
    let tasks = arguments.tasks.iter().map(|task| task.as_str().into()).collect::<Vec<_>>();
    set("--task", "dataset.task_ids", (!tasks.is_empty()).then(|| list(tasks)));
    set("--epochs", "run.epochs", arguments.epochs.map(|epochs| epochs.to_string()));
    set("--concurrency", "run.concurrency", arguments.concurrency.map(|count| count.to_string()));
    set("--model", "model.name", arguments.model.as_deref().map(text));
    set("--base-url", "model.base_url", arguments.base_url.as_deref().map(text));
    set("--strategy", "strategy.name", arguments.strategy.as_deref().map(text));
    set("--agent", "external.agent", arguments.agent.as_deref().map(text));
    set("--staged", "run.staged.enabled", arguments.staged.then(|| "true".to_owned()));
    set("--out", "run.out", arguments.out.as_ref().map(|path| text(&path.to_string_lossy())));
    overrides
}

/// Where the dataset of the config is on this machine.
pub(super) fn dataset_folder(loaded: &Loaded) -> CommandResult<PathBuf> {
    let config = &loaded.config.dataset;
    match (&config.path, config.hub) {
        (Some(path), _) => Ok(path.clone()),
        (None, Some(hub)) => pull::pulled_folder(&loaded.environment, hub, config.split).ok_or_else(|| {
            CommandError::usage(anyhow::anyhow!(
                "the {} split of `{hub}` is not on this machine",
                config.split
            ))
            .with_hint(format!("run `gaia dataset pull --hub {hub}`"))
        }),
        (None, None) => Err(CommandError::usage(anyhow::anyhow!("no dataset is named"))
            .with_hint("set `dataset.path` in the config or give --dataset PATH")),
    }
}

/// The split of the config, and of it the selected samples.
pub(super) fn load_dataset(loaded: &Loaded) -> CommandResult<Dataset> {
    let config = &loaded.config.dataset;
    let path = dataset_folder(loaded)?;
    let dataset = dataset::load(&path, config.split).map_err(CommandError::usage)?;
    let selection = Selection {
        levels: config.levels.clone(),
        task_ids: config.task_ids.clone(),
        shuffle_seed: config.shuffle_seed,
        limit: config.limit,
    };
    check_corrections(loaded, &dataset)?;
    let selected = dataset.select(&selection).map_err(CommandError::usage)?;
    if loaded.config.run.staged.enabled && selected.samples.iter().any(|sample| sample.truth.is_none()) {
        return Err(CommandError::usage(anyhow::anyhow!(
            "the truths of the {} split are hidden, so nobody can tell whether a stage was good enough",
            config.split
        ))
        .with_hint("run it without stages, or another split"));
    }
    Ok(selected)
}

/// Before the run rather than after it.
pub(super) fn check_corrections(loaded: &Loaded, dataset: &Dataset) -> CommandResult<()> {
    let Some(path) = &loaded.config.dataset.corrections else { return Ok(()) };
    let tasks = dataset.samples.iter().map(|sample| sample.task_id.as_str()).collect();
    let read = Corrections::read(path).and_then(|corrections| corrections.check(path, &tasks));
    read.map_err(CommandError::usage)
}

pub(super) fn record(
    loaded: &Loaded,
    dataset: &Dataset,
    ready: &Ready,
    id: String,
    started: OffsetDateTime,
) -> RunRecord {
    let model = &loaded.config.model;
    RunRecord {
        format_version: RUN_FORMAT_VERSION,
        id,
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        rehearsal: model.rehearsal && ready.agent.is_none(),
        model: match &ready.agent {
            Some(agent) => agent.label(),
            None => model.name.clone().unwrap_or_default(),
        },
        strategy: method(loaded),
        started,
        ended: None,
        config: loaded.effective.clone(),
        config_path: loaded.file.clone(),
        config_base: loaded.base.clone(),
        dataset: DatasetRecord {
            name: dataset_name(&dataset.root),
            path: dataset.root.clone(),
            split: dataset.split.to_string(),
            fingerprint: dataset.fingerprint.clone(),
            has_truth: dataset.samples.iter().any(|sample| sample.truth.is_some()),
            samples: dataset.samples.iter().map(planned).collect(),
            unselected: Some(dataset.unselected.iter().map(planned).collect()),
            needs: Some(
                dataset.samples.iter().map(|sample| (sample.task_id.clone(), Needs::of(sample))).collect(),
            ),
            corrections: loaded.config.dataset.corrections.clone(),
        },
        epochs: loaded.config.run.epochs,
        shard: None,
        prompt: Some(fingerprint(&ready.settings.system_prompt)),
        tools: ready.tools.clone(),
        host: HostFacts {
            os: os_name(),
            architecture: std::env::consts::ARCH.to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
            docker_version: None,
        },
        sessions: Vec::new(),
        totals: None,
        staged: None,
    }
}

fn planned(sample: &Sample) -> PlannedSample {
    PlannedSample { task_id: sample.task_id.clone(), level: sample.level }
}

/// How a single answer comes about, for labels.
fn method(loaded: &Loaded) -> Method {
    if loaded.config.external.is_wanted() {
        return Method::Agent;
    }
    let strategy = &loaded.config.strategy;
    match strategy.name {
        StrategyName::React => Method::React,
        StrategyName::Plan => Method::Plan,
        StrategyName::Vote => Method::Vote { runs: strategy.runs },
        StrategyName::Verify => Method::Verify,
        StrategyName::Delegate => Method::Delegate,
    }
}

/// For the line before the first sample.
fn worked_on_by(record: &RunRecord) -> String {
    match record.strategy {
        Method::Agent => format!("agent: {}", record.model),
        Method::React => format!("model {}", record.model),
        method => format!("model {}, {}", record.model, method.label()),
    }
}

/// The folder's name; for a folder such as `.` the name it has in full.
fn dataset_name(root: &std::path::Path) -> String {
    let full = fs_err::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    full.file_name().map_or_else(|| full.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// As the system calls itself, such as `Debian GNU/Linux 12 (bookworm)`.
fn os_name() -> String {
    let release = fs_err::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| std::env::consts::OS.to_owned(), |name| name.trim_matches('"').to_owned())
}

/// What would run, for `--dry-run`.
fn dry_run(
    record: &RunRecord,
    ready: &Ready,
    staged: StagedConfig,
    output: &Output,
) -> CommandResult<String> {
    let samples = &record.dataset.samples;
    let stages = match staged.enabled {
        true => plan(samples, record.epochs, staged),
        false => Vec::new(),
    };
    if matches!(output, Output::Json) {
        let mut shown = serde_json::to_value(record)?;
        if staged.enabled {
            shown["stages"] = serde_json::json!(stages);
        }
        return Ok(serde_json::to_string_pretty(&shown)?);
    }
    let stages: String = stages.iter().map(|stage| format!("Stage:    {stage}\n")).collect();
    let mut levels: Vec<u8> = samples.iter().map(|sample| sample.level).collect();
    levels.sort_unstable();
    levels.dedup();
    let levels: Vec<_> = levels
        .into_iter()
        .map(|level| {
            format!("{} of level {level}", samples.iter().filter(|sample| sample.level == level).count())
        })
        .collect();
    let model = if record.rehearsal { "rehearsal (scripted)" } else { &record.model };
    let who = match record.strategy {
        Method::Agent => format!("Agent:    {model}"),
        _ => format!("Model:    {model} at {}", ready.base_url),
    };
    Ok(format!(
        "Everything a run needs is there. It would do this:\n\
         Dataset:  {} ({}), {} samples: {}\n\
         Epochs:   {}\n\
         {stages}{}\n\
         Answers:  {}\n\
         Tools:    {}",
        record.dataset.path.display(),
        record.dataset.split,
        samples.len(),
        levels.join(", "),
        record.epochs,
        who,
        record.strategy.label(),
        ready.tools.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command};

    #[test]
    fn every_flag_sets_its_key() {
        let line = "gaia run --dataset d --split test --level 1,3 --limit 5 --task a --task b --epochs 2 \
                    --concurrency 7 --model m --base-url http://x/v1 --strategy vote --staged --out o";
        let Command::Run(arguments) = Arguments::parse_from(line.split_whitespace()).command else {
            panic!("not a run")
        };
        let set: Vec<_> = overrides(&arguments)
            .into_iter()
            .map(|set| format!("{} {}={}", set.flag, set.key, set.value))
            .collect();
        assert_eq!(
            set,
            [
                "--dataset dataset.path=\"d\"",
                "--split dataset.split=\"test\"",
                "--level dataset.levels=[1, 3]",
                "--limit dataset.limit=5",
                "--task dataset.task_ids=[\"a\", \"b\"]",
                "--epochs run.epochs=2",
                "--concurrency run.concurrency=7",
                "--model model.name=\"m\"",
                "--base-url model.base_url=\"http://x/v1\"",
                "--strategy strategy.name=\"vote\"",
                "--staged run.staged.enabled=true",
                "--out run.out=\"o\"",
            ]
        );
    }
}
