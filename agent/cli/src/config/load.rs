use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::effective::effective;
use super::expand::Variables;
use super::layers::{KeyPath, Layers};
use super::problem::{Problem, SourceText, did_you_mean, nearest};
use super::resolve::Resolver;
use super::schema::KnownKeys;
use super::settings::Config;
use super::{ConfigError, Loaded, Purpose, Sources, check, dotenv};
use crate::environment::{self, CONFIG_VARIABLES, Environment};

/// Taken from the working folder when no file is named.
const DEFAULT_FILE: &str = "gaia.toml";

/// Merges the layers, checks them and expands variables. Starts nothing and writes nothing.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, ConfigError> {
    let file = match sources.file {
        Some(file) => Some(sources.working_dir.join(file)),
        None => Some(sources.working_dir.join(DEFAULT_FILE)).filter(|path| path.is_file()),
    };
    let base = match file.as_deref().and_then(Path::parent) {
        Some(folder) => folder.to_owned(),
        None => sources.working_dir.to_owned(),
    };
    let environment = with_dotenv(sources, &base)?;
    let keys = KnownKeys::new();
    let layers = layers(sources, file.as_deref(), &environment, &keys)?;
    let mut config = parse(&layers, &keys)?;
    resolve_paths(&mut config, &layers, sources.working_dir, &base, &environment);
    let mut problems = check::check(&config, sources.purpose, &layers);
    let mut secrets = super::Secrets::default();
    let effective = effective(&config, &mut secrets).map_err(|error| {
        ConfigError::Invalid(vec![Problem::new(None, format!("cannot be stored: {error}"))])
    })?;

    let config_dir = base.to_string_lossy();
    let mut resolver = Resolver {
        variables: Variables { environment: &environment, config_dir: &config_dir },
        layers: &layers,
        secrets,
        problems: Vec::new(),
    };
    let servers = resolver.servers(&config);
    let api_key = match sources.purpose {
        Purpose::Run => resolver.model(&mut config.model),
        Purpose::Tools => None,
    };
    let secrets = resolver.secrets;
    for server in &servers {
        // Also what reaches it in its arguments, or another server that talks.
        secrets.iter().for_each(|secret| server.redactor.add("secret", secret));
    }
    problems.extend(resolver.problems);
    if !problems.is_empty() {
        return Err(ConfigError::Invalid(problems));
    }
    let warnings = mistyped_variables(&environment);
    Ok(Loaded { config, servers, effective, file, base, environment, api_key, secrets, warnings })
}

/// The `.env` beside the config first, then that of the working folder; neither overrides what is set.
fn with_dotenv(sources: &Sources<'_>, base: &Path) -> Result<Environment, ConfigError> {
    let mut environment = sources.environment.clone();
    let mut folders = vec![base];
    if base != sources.working_dir {
        folders.push(sources.working_dir);
    }
    for path in folders.into_iter().map(|folder| folder.join(".env")).filter(|path| path.is_file()) {
        let source = read(&path, sources.working_dir)?;
        let variables = dotenv::parse(&source).map_err(|problem| ConfigError::Invalid(vec![problem]))?;
        for (name, value) in variables {
            environment.fill(name, value);
        }
    }
    Ok(environment)
}

fn layers(
    sources: &Sources<'_>,
    file: Option<&Path>,
    environment: &Environment,
    keys: &KnownKeys,
) -> Result<Layers, ConfigError> {
    let mut layers = Layers::default();
    if let Some(file) = file {
        layers.add_file(&read(file, sources.working_dir)?).map_err(ConfigError::Invalid)?;
    }
    layers.add_environment(environment, keys);
    let problems: Vec<Problem> =
        sources.overrides.iter().filter_map(|entry| layers.add_override(entry, keys).err()).collect();
    if problems.is_empty() { Ok(layers) } else { Err(ConfigError::Invalid(problems)) }
}

fn read(path: &Path, working_dir: &Path) -> Result<Arc<SourceText>, ConfigError> {
    let bytes = fs_err::read(path)
        .map_err(|error| ConfigError::Unreadable { hint: preset_hint(path, working_dir), error })?;
    // As the user would write it.
    let shown = path.strip_prefix(working_dir).unwrap_or(path).to_owned();
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Arc::new(SourceText { path: shown, text })),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
            let place = super::problem::Place::File {
                source: Arc::new(SourceText { path: shown, text }),
                span: valid..valid,
            };
            Err(ConfigError::Invalid(vec![Problem::new(Some(place), "not UTF-8 from here on")]))
        }
    }
}

/// `gaia run rehearsal` is close to what was meant.
fn preset_hint(path: &Path, working_dir: &Path) -> String {
    let preset = path.file_stem().map(|stem| working_dir.join("configs").join(stem).with_extension("toml"));
    match preset {
        Some(preset) if preset.is_file() => {
            format!("\nhint: there is `{}`", preset.strip_prefix(working_dir).unwrap_or(&preset).display())
        }
        _ => String::new(),
    }
}

/// All unknown keys, and the first value of a wrong type.
fn parse(layers: &Layers, keys: &KnownKeys) -> Result<Config, ConfigError> {
    let mut unknown = Vec::new();
    note_unknown(&layers.merged, &mut Vec::new(), keys, &mut unknown);
    let mut problems: Vec<Problem> = unknown.iter().map(|path| unknown_key(path, layers, keys)).collect();
    let mut track = serde_path_to_error::Track::new();
    let deserializer = toml::Value::Table(layers.merged.clone());
    let parsed = Config::deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track));
    match parsed {
        Ok(config) if problems.is_empty() => return Ok(config),
        Ok(_) => {}
        Err(error) => {
            let path: KeyPath = track
                .path()
                .iter()
                .filter_map(|segment| match segment {
                    serde_path_to_error::Segment::Map { key } => Some(key.clone()),
                    serde_path_to_error::Segment::Seq { index } => Some(index.to_string()),
                    _ => None,
                })
                .collect();
            let message = plain(error.message(), &path);
            problems
                .push(Problem::new(layers.value_place(&path), format!("`{}`: {message}", path.join("."))));
        }
    }
    Err(ConfigError::Invalid(problems))
}

fn unknown_key(path: &[String], layers: &Layers, keys: &KnownKeys) -> Problem {
    let (key, parents) = match path.split_last() {
        Some((key, parents)) => (key.as_str(), parents),
        None => ("", path),
    };
    let names = keys.names_in(parents);
    let inside = if parents.is_empty() { String::new() } else { format!(" in `[{}]`", parents.join(".")) };
    let problem = Problem::new(
        layers.key_place(path),
        format!("unknown key `{key}`{inside}{}", did_you_mean(key, names.iter().copied())),
    );
    match nearest(key, names.iter().copied()) {
        Some(_) => problem,
        None => problem.hint(format!("known keys: {}", names.join(", "))),
    }
}

/// Tables whose keys are free (`env`, `params`) have no known names.
fn note_unknown(table: &toml::Table, path: &mut KeyPath, keys: &KnownKeys, unknown: &mut Vec<KeyPath>) {
    let names = keys.names_in(path);
    for (key, value) in table {
        path.push(key.clone());
        if !names.is_empty() && !names.contains(&key.as_str()) {
            unknown.push(path.clone());
        } else if let toml::Value::Table(inner) = value {
            note_unknown(inner, path, keys, unknown);
        }
        path.pop();
    }
}

/// serde speaks of Rust's types; people write TOML.
fn plain(message: &str, path: &[String]) -> String {
    const TYPES: &[(&str, &str)] = &[
        ("expected usize", "expected a whole number from 0"),
        ("expected u64", "expected a whole number from 0"),
        ("expected u32", "expected a whole number from 0"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list"),
        ("expected a map", "expected a table"),
        ("expected a boolean", "expected true or false"),
        ("expected a string", "expected text"),
        ("expected path string", "expected text"),
        ("expected struct ", "expected a table of "),
        ("missing field", "missing key"),
        ("unknown variant", "unknown value"),
        ("invalid type: string ", "wrong type: text "),
        ("invalid type: map", "wrong type: a table"),
        ("invalid type: sequence", "wrong type: a list"),
        ("invalid type: ", "wrong type: "),
        ("invalid value: string ", "bad value: "),
        ("invalid value: ", "bad value: "),
    ];
    // A value in a place for secrets is not repeated.
    if path.iter().any(|key| key == "env" || key == "headers" || super::secret::looks_secret(key)) {
        return message.split_once("expected ").map_or("wrong type".to_owned(), |(_, rest)| {
            plain(&format!("wrong type: expected {rest}"), &[])
        });
    }
    TYPES.iter().fold(message.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Paths in a file are relative to the file, others to the working folder. `~/` is the home folder.
fn resolve_paths(
    config: &mut Config,
    layers: &Layers,
    working_dir: &Path,
    base: &Path,
    environment: &Environment,
) {
    let resolve = |keys: &[&str], value: &mut PathBuf| {
        let folder = if layers.is_from_file(&check::path(keys)) { base } else { working_dir };
        let home = environment.get_filled("HOME").filter(|_| value.starts_with("~"));
        *value = match (home, value.strip_prefix("~")) {
            (Some(home), Ok(rest)) => Path::new(home).join(rest),
            _ => folder.join(&*value),
        };
    };
    if let Some(path) = &mut config.dataset.path {
        resolve(&["dataset", "path"], path);
    }
    resolve(&["run", "out"], &mut config.run.out);
    for (name, server) in &mut config.mcp_servers {
        if let Some(cwd) = &mut server.cwd {
            resolve(&["mcp_servers", name, "cwd"], cwd);
        }
    }
}

/// Nothing says that a `GAIA_…` variable is meant for us, so a likely typing error is only a warning.
fn mistyped_variables(environment: &Environment) -> Vec<String> {
    let known: Vec<&str> = CONFIG_VARIABLES
        .iter()
        .map(|variable| variable.name)
        .chain([
            environment::SANDBOX_IMAGE,
            environment::LOG,
            environment::RUN_ID,
            environment::SAMPLE_ID,
            environment::FILES_DIR,
        ])
        .collect();
    environment
        .names()
        .filter(|name| name.starts_with("GAIA_") && !known.contains(name))
        .filter_map(|name| {
            let similar = known.iter().find(|other| strsim::damerau_levenshtein(name, other) <= 2)?;
            Some(format!("environment variable `{name}` means nothing here, did you mean `{similar}`?"))
        })
        .collect()
}
