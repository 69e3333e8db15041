mod servers;

use std::path::{Path, PathBuf};

use gaia_sandbox::{Engine, EngineError};
use serde::Serialize;
use servers::{ServerReport, check_servers};

use super::Surroundings;
use super::run::dataset_folder;
use crate::args::DoctorArguments;
use crate::config::{Loaded, Purpose};
use crate::dataset;
use crate::environment::SANDBOX_IMAGE;
use crate::exit_code::{self, CommandResult};
use crate::sandbox_image::{DEFAULT_IMAGE, bash_arguments, named_image};

/// One thing that a run needs.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    /// What was found; for a failure with the way out.
    detail: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    server: Option<ServerReport>,
}

impl Check {
    fn new(name: &'static str, state: State, detail: String) -> Self {
        Self { name, state, detail, server: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// A run will not start.
    Fail,
    /// Not needed by this config, or not to be found out.
    Skipped,
}

pub(super) async fn doctor(arguments: DoctorArguments, surroundings: &Surroundings) -> CommandResult {
    let mut checks = Vec::new();
    let loaded = match surroundings.load(&arguments.config, Vec::new(), Purpose::Tools) {
        Ok(loaded) => {
            let detail = loaded.file.as_ref().map_or_else(
                || "built-in defaults; name a config file to check more".to_owned(),
                |file| file.display().to_string(),
            );
            checks.push(Check::new("config", State::Ok, detail));
            Some(loaded)
        }
        Err(error) => {
            checks.push(Check::new("config", State::Fail, error.to_string()));
            None
        }
    };
    check_docker(&mut checks, loaded.as_ref(), surroundings).await;
    if let Some(loaded) = &loaded {
        checks.extend(check_servers(loaded).await?);
    }
    checks.push(check_key(loaded.as_ref()));
    checks.push(check_dataset(loaded.as_ref()));
    checks.push(check_runs_folder(loaded.as_ref(), surroundings));

    let text = if arguments.json { serde_json::to_string_pretty(&checks)? } else { listing(&checks) };
    surroundings.console.print(&text)?;
    let failed = checks.iter().any(|check| check.state == State::Fail);
    Ok(if failed { exit_code::ENVIRONMENT } else { exit_code::SUCCESS })
}

async fn check_docker(checks: &mut Vec<Check>, loaded: Option<&Loaded>, surroundings: &Surroundings) {
    let servers = loaded.map_or(&[][..], |loaded| &loaded.servers);
    let bash = servers.iter().find_map(bash_arguments);
    if bash.is_none() && !servers.is_empty() {
        let detail = "no server of this config uses containers".to_owned();
        checks.push(Check::new("docker", State::Skipped, detail));
        return;
    }
    // The loaded one has the variables of `.env` too.
    let environment = loaded.map_or(&surroundings.environment, |loaded| &loaded.environment);
    let image = bash
        .and_then(named_image)
        .or_else(|| environment.get_filled(SANDBOX_IMAGE).map(str::to_owned))
        .unwrap_or_else(|| DEFAULT_IMAGE.to_owned());
    match Engine::connect().await {
        Ok(engine) => {
            let detail = format!("the engine at `{}` answers", engine.address());
            checks.push(Check::new("docker", State::Ok, detail));
            checks.push(check_image(&image, engine.image(&image).await));
        }
        Err(error) => {
            checks.push(Check::new("docker", State::Fail, error.to_string()));
            let detail = format!("`{image}`: not known without Docker");
            checks.push(Check::new("image", State::Skipped, detail));
        }
    }
}

fn check_image(name: &str, image: Result<gaia_sandbox::ImageInfo, EngineError>) -> Check {
    match image {
        Ok(image) => {
            let detail = format!("`{name}`, {} MB", image.size_bytes / 1_000_000);
            Check::new("image", State::Ok, detail)
        }
        Err(error) => Check::new("image", State::Fail, error.to_string()),
    }
}

fn check_key(loaded: Option<&Loaded>) -> Check {
    let model = loaded.map(|loaded| &loaded.config.model);
    let (state, detail) = match (loaded, model.and_then(|model| model.api_key_env.as_ref())) {
        (None, _) => (State::Skipped, "not known without a config".to_owned()),
        (Some(_), None) => (State::Skipped, "the config names no key variable; none is sent".to_owned()),
        (Some(loaded), Some(name)) if loaded.environment.get_filled(name).is_some() => {
            (State::Ok, format!("`{name}` is set"))
        }
        (Some(_), Some(name)) => (
            State::Fail,
            format!("`{name}` is not set\nhint: export it, or put it into `.env` beside the config"),
        ),
    };
    Check::new("key", state, detail)
}

fn check_dataset(loaded: Option<&Loaded>) -> Check {
    let named = loaded
        .filter(|loaded| loaded.config.dataset.path.is_some() || loaded.config.dataset.hub.is_some())
        .map(|loaded| (dataset_folder(loaded), loaded.config.dataset.split));
    let (state, detail) = match named {
        None => (State::Skipped, "the config names no dataset".to_owned()),
        Some((Err(error), _)) => {
            let hint = error.hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            (State::Fail, format!("{}{hint}", error.error))
        }
        Some((Ok(path), split)) => match dataset::load(&path, split) {
            Ok(dataset) => (
                State::Ok,
                format!("{} samples in the {split} split of `{}`", dataset.samples.len(), path.display()),
            ),
            Err(error) => (State::Fail, error.to_string()),
        },
    };
    Check::new("dataset", state, detail)
}

fn check_runs_folder(loaded: Option<&Loaded>, surroundings: &Surroundings) -> Check {
    let folder = loaded.map_or_else(
        || PathBuf::from(crate::store::DEFAULT_RUNS_FOLDER),
        |loaded| loaded.config.run.out.clone(),
    );
    let folder = surroundings.working_dir.join(folder);
    // The folder itself is made by the first run: until then its nearest parent must take it.
    let existing = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    let (state, detail) = match tempfile::tempfile_in(existing) {
        Ok(_) => (State::Ok, format!("`{}` can be written", folder.display())),
        Err(error) => (
            State::Fail,
            format!(
                "`{}` cannot be written: {error}\nhint: name another folder with --out or `run.out`",
                folder.display()
            ),
        ),
    };
    Check::new("runs", state, detail)
}

fn listing(checks: &[Check]) -> String {
    let lines = checks.iter().map(|check| {
        let state = match check.state {
            State::Ok => "ok",
            State::Fail => "FAIL",
            State::Skipped => "-",
        };
        format!("{state:<4}  {:<8} {}", check.name, check.detail.replace('\n', "\n               "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_its_way_out_under_it() {
        let detail = "no engine\nhint: start it".to_owned();
        let text = listing(&[Check::new("docker", State::Fail, detail)]);
        assert_eq!(text, "FAIL  docker   no engine\n               hint: start it");
    }
}
