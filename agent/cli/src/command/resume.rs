use std::path::Path;

use gaia_agent::Status;
use time::OffsetDateTime;

use super::score::parse_split;
use super::{Surroundings, open_run, set_overrides};
use crate::agent::Agent;
use crate::args::{Rerun, ResumeArguments};
use crate::comparable::{Difference, Today, differences};
use crate::config::{self, Loaded, Override, Purpose, REDACTED, Sources};
use crate::console::Console;
use crate::continuing::Begin;
use crate::dataset::{self, Dataset};
use crate::environment::{CONFIG_VARIABLES, Environment};
use crate::exit_code::{self, CommandError, CommandResult};
#[cfg(feature = "nats")]
use crate::fleet::{Earlier, check_fits, coordinate};
use crate::preflight::{Ready, chosen_agent};
use crate::prompt::fingerprint;
use crate::sample::remove_staged_leftovers;
use crate::sandbox_image::sandbox_images;
use crate::session::{Output, Work, conclude, work_on_run};
use crate::signals::Interrupt;
use crate::store::{RunDirectory, RunLock, RunRecord, SampleKey, new_run_id};

pub(super) async fn resume(arguments: ResumeArguments, surroundings: &Surroundings) -> CommandResult {
    let console = &surroundings.console;
    let (run, record) = open_run(&arguments.stored.run, &arguments.stored.out)?;
    let lock = run.lock().map_err(CommandError::usage)?;
    check_tasks(&record, &arguments.rerun)?;
    let mut flags = overrides(&arguments);
    flags.extend(set_overrides(&arguments.set));
    let loaded = load_stored(&record, record.config.clone(), flags, Purpose::Run, surroundings)?;
    console.hide(&loaded.secrets);
    #[cfg(feature = "nats")]
    if arguments.fleet.nats.is_some() {
        check_fits(&loaded)?;
    }
    let split = parse_split(&record.dataset.split)?;
    let dataset = dataset::load(&record.dataset.path, split).map_err(CommandError::usage)?;
    check_same_samples(&record, &dataset)?;
    super::run::check_corrections(&loaded, &dataset)?;
    if !arguments.as_new {
        // Before an image is pulled or a server started for what is refused anyway.
        let agent = chosen_agent(&loaded)?;
        refuse(&record, &compare_before(&record, &loaded, agent.as_ref(), None))?;
    }
    // A crash of the last session is the only thing that leaves any.
    if let Err(error) = remove_staged_leftovers(&record.id) {
        tracing::warn!("failed to remove staged files of an earlier session: {error}");
    }
    let interrupt = Interrupt::listen(console.clone())?;
    console.say(super::run::checking(&loaded));
    let ready = tokio::select! {
        ready = Ready::prepare(&loaded, &record.id, console) => ready?,
        () = interrupt.drain.cancelled() => return Ok(exit_code::INCOMPLETE),
    };
    let differences = compare(&record, &loaded, &ready);
    if !arguments.as_new
        && let Err(refused) = refuse(&record, &differences)
    {
        ready.close().await;
        return Err(refused);
    }
    // Held as long as this works, also on another run.
    let _lock = lock;
    let (run, mut record, _new_lock) = if arguments.as_new {
        match begin_anew(&record, &loaded, &dataset, &ready, console) {
            Ok((run, record, lock)) => (run, record, Some(lock)),
            Err(error) => {
                ready.close().await;
                return Err(error);
            }
        }
    } else {
        // Only now: a resume that cannot start takes nothing away.
        withdraw(&run, &record, &arguments.rerun)?;
        let mut record = record;
        record.dataset.corrections.clone_from(&loaded.config.dataset.corrections);
        (run, record, None)
    };
    let begin = if arguments.continue_samples { Begin::WhereItStopped } else { Begin::Anew };
    let output = Output::of_session(&arguments.output, &loaded.secrets)?;
    let work = async {
        #[cfg(feature = "nats")]
        let earlier = if arguments.rerun.is_empty() { Earlier::TakeUp } else { Earlier::Discard };
        #[cfg(feature = "nats")]
        if let Some(coordination) = arguments.fleet.coordination(earlier, &surroundings.environment) {
            let with = (dataset, ready);
            let stopped =
                coordinate(&run, &mut record, with, &loaded, &coordination, &interrupt, console).await?;
            return conclude(&run, &mut record, &stopped, &loaded.secrets, &output, console);
        }
        let work = Work { dataset, ready, begin, output: output.clone() };
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

/// The flags as the config keys that they set.
fn overrides(arguments: &ResumeArguments) -> Vec<Override> {
    let text = |value: &String| toml::Value::from(value.as_str()).to_string();
    let flags = [
        ("--concurrency", "run.concurrency", arguments.concurrency.map(|count| count.to_string())),
        ("--base-url", "model.base_url", arguments.base_url.as_ref().map(text)),
        ("--model", "model.name", arguments.model.as_ref().map(text)),
    ];
    let set = |(flag, key, value): (&str, &str, Option<String>)| {
        Some(Override { flag: flag.to_owned(), key: key.to_owned(), value: value? })
    };
    flags.into_iter().filter_map(set).collect()
}

/// The config of the run as it was stored, with today's environment for the keys and the flags on top.
pub(crate) fn load_stored(
    record: &RunRecord,
    config: toml::Table,
    flags: Vec<Override>,
    purpose: Purpose,
    surroundings: &Surroundings,
) -> CommandResult<Loaded> {
    let mut overrides = stored_overrides(record);
    overrides.extend(flags);
    let mut config = toml::Value::Table(config);
    pin_config_folder(&mut config, &record.config_base);
    check_secrets(&config, "", &overrides)?;

    let folder = tempfile::tempdir()?;
    let load = |text: &str,
                overrides: &[Override],
                environment: &Environment,
                working_dir: &Path,
                purpose: Purpose| {
        let file = folder.path().join("config.toml");
        fs_err::write(&file, text)?;
        let sources = Sources { file: Some(&file), overrides, environment, working_dir, purpose };
        config::load(&sources).map_err(CommandError::usage)
    };
    // Only for the `.env` beside the config as it was written, which comes before that of the working folder.
    let environment =
        load("", &[], &surroundings.environment, &record.config_base, Purpose::Tools)?.environment;
    let mut loaded =
        load(&toml::to_string(&config)?, &overrides, &environment, &surroundings.working_dir, purpose)?;
    loaded.base.clone_from(&record.config_base);
    Ok(loaded)
}

/// What the run was begun with, above today's `GAIA_*` variables.
fn stored_overrides(record: &RunRecord) -> Vec<Override> {
    let stored = |key: &str| {
        let (table, key) = key.split_once('.')?;
        record.config.get(table)?.get(key).map(toml::Value::to_string)
    };
    let keys = CONFIG_VARIABLES.iter().map(|variable| variable.key).filter(|key| *key != "model.name");
    let model = ("model.name", toml::Value::from(record.model.as_str()).to_string());
    keys.filter_map(|key| Some((key, stored(key)?)))
        .chain([model])
        .map(|(key, value)| Override { flag: "run.json".to_owned(), key: key.to_owned(), value })
        .collect()
}

/// The config is read from elsewhere now.
fn pin_config_folder(value: &mut toml::Value, folder: &Path) {
    match value {
        toml::Value::String(text) => *text = text.replace("${GAIA_CONFIG_DIR}", &folder.to_string_lossy()),
        toml::Value::Array(values) => {
            values.iter_mut().for_each(|value| pin_config_folder(value, folder));
        }
        toml::Value::Table(table) => {
            table.iter_mut().for_each(|(_, value)| pin_config_folder(value, folder));
        }
        _ => {}
    }
}

/// A secret that stood in the config itself was not stored.
fn check_secrets(value: &toml::Value, key: &str, overrides: &[Override]) -> CommandResult<()> {
    match value {
        toml::Value::String(text)
            if text.contains(REDACTED) && !overrides.iter().any(|set| set.key == key) =>
        {
            Err(CommandError::usage(anyhow::anyhow!(
                "`{key}` held a secret, which is not stored with the run"
            ))
            .with_hint(format!("give it again with `--set {key}=…`, and use a variable in the next run")))
        }
        toml::Value::Array(values) => {
            values.iter().try_for_each(|value| check_secrets(value, key, overrides))
        }
        toml::Value::Table(table) => table.iter().try_for_each(|(name, value)| {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            check_secrets(value, &key, overrides)
        }),
        _ => Ok(()),
    }
}

/// A run goes on with the same questions or not at all.
fn check_same_samples(record: &RunRecord, dataset: &Dataset) -> CommandResult<()> {
    if dataset.fingerprint == record.dataset.fingerprint {
        return Ok(());
    }
    Err(CommandError::usage(anyhow::anyhow!(
        "the dataset `{}` has changed since the run began: its fingerprint is {}, the run has {}",
        dataset.root.display(),
        dataset.fingerprint,
        record.dataset.fingerprint
    ))
    .with_hint("put the old content back, or start a new run"))
}

/// What of today is not as the run has it.
pub(crate) fn compare(record: &RunRecord, loaded: &Loaded, ready: &Ready) -> Vec<Difference> {
    compare_before(record, loaded, ready.agent.as_ref(), Some(ready))
}

/// The same before anything is started, without what only then is known.
fn compare_before(
    record: &RunRecord,
    loaded: &Loaded,
    agent: Option<&Agent>,
    ready: Option<&Ready>,
) -> Vec<Difference> {
    differences(
        record,
        &Today {
            config: &loaded.effective,
            model: &match agent {
                Some(agent) => agent.label(),
                None => loaded.config.model.name.clone().unwrap_or_default(),
            },
            prompt: ready.map(|ready| fingerprint(&ready.settings.system_prompt)).as_deref(),
            tools: ready.map(|ready| ready.tools.as_slice()),
            images: &sandbox_images(loaded),
        },
    )
}

fn refuse(record: &RunRecord, differences: &[Difference]) -> CommandResult<()> {
    if differences.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = differences.iter().map(|difference| format!("\n  {difference}")).collect();
    let error = anyhow::anyhow!(
        "answers from now on could not be compared with those that run `{}` has:{}",
        record.id,
        list.concat()
    );
    Err(CommandError::usage(error).with_hint(
        "put the old settings back, or begin a new run with the same questions and these: `--as-new`",
    ))
}

/// A run of its own with the questions of another and the settings of today.
fn begin_anew(
    record: &RunRecord,
    loaded: &Loaded,
    dataset: &Dataset,
    ready: &Ready,
    console: &Console,
) -> CommandResult<(RunDirectory, RunRecord, RunLock)> {
    let started = OffsetDateTime::now_utc();
    let mut new = super::run::record(loaded, dataset, ready, new_run_id(started), started);
    new.dataset.clone_from(&record.dataset);
    new.dataset.corrections.clone_from(&loaded.config.dataset.corrections);
    new.epochs = record.epochs;
    new.shard.clone_from(&record.shard);
    let (run, lock) =
        RunDirectory::create(&loaded.config.run.out, &new).map_err(CommandError::environment)?;
    console.say(&format!("run {}: the questions of run {} with today's settings", new.id, record.id));
    Ok((run, new, lock))
}

/// A task that is named must be one of the run's.
fn check_tasks(record: &RunRecord, rerun: &[Rerun]) -> CommandResult<()> {
    for rerun in rerun {
        if let Rerun::Task(task) = rerun
            && !record.dataset.samples.iter().any(|sample| sample.task_id == *task)
        {
            return Err(CommandError::usage(anyhow::anyhow!("the run has no task `{task}`"))
                .with_hint("--rerun takes `errors`, `no-answer` or the id of a task"));
        }
    }
    Ok(())
}

/// Takes away the results that are to be had again. The truth is not looked at.
fn withdraw(run: &RunDirectory, record: &RunRecord, rerun: &[Rerun]) -> CommandResult<()> {
    for entry in run.entries(record) {
        let entry = entry?;
        let Some(result) = entry.result else { continue };
        let is_wanted = rerun.iter().any(|rerun| match rerun {
            Rerun::Errors => result.status == Status::Error,
            Rerun::NoAnswer => result.status == Status::NoAnswer,
            Rerun::Task(task) => entry.planned.task_id == *task,
        });
        if is_wanted {
            run.sample(&SampleKey { task_id: entry.planned.task_id, epoch: entry.epoch }).withdraw()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_record;

    #[test]
    fn the_stored_config_counts_over_variables_of_today() {
        let mut record = test_record(&[]);
        record.config = toml::toml! {
            [agent]
            max_steps = 7
            [model]
            name = "${GAIA_MODEL:-other}"
        };
        let overrides: Vec<_> =
            stored_overrides(&record).into_iter().map(|set| format!("{}={}", set.key, set.value)).collect();
        assert_eq!(overrides, ["agent.max_steps=7", "model.name=\"some-model\""]);
    }

    #[test]
    fn the_folder_of_the_config_stays_what_it_was() {
        let mut value = toml::Value::from(vec!["--script", "${GAIA_CONFIG_DIR}/a"]);
        pin_config_folder(&mut value, Path::new("/x"));
        assert_eq!(value, toml::Value::from(vec!["--script", "/x/a"]));
    }

    #[test]
    fn a_secret_that_was_not_stored_must_be_given_again() {
        let config = toml::Value::Table(toml::toml! {
            [mcp_servers.a]
            env = { KEY = "[redacted]" }
        });
        let error = check_secrets(&config, "", &[]).unwrap_err();
        assert!(error.to_string().contains("`mcp_servers.a.env.KEY`"), "{error}");
        let given = Override { flag: "--set".into(), key: "mcp_servers.a.env.KEY".into(), value: "x".into() };
        check_secrets(&config, "", &[given]).unwrap();
    }
}
