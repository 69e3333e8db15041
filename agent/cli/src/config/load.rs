use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::document::Document;
use super::effective::effective;
use super::expand::Variables;
use super::import::{Wanted, import};
use super::layers::{KeyPath, Layers};
use super::problem::{Problem, did_you_mean, nearest};
use super::resolve::Resolver;
use super::schema::KnownKeys;
use super::settings::Config;
use super::source::{SourceKind, SourceText};
use super::{ConfigError, Loaded, Purpose, RoleModel, RoleName, Sources, check, dialect, dotenv};
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
    let config_dir = base.to_string_lossy();
    let variables = Variables { environment: &environment, config_dir: &config_dir };
    let (mut layers, mut problems) = layers(sources, file.as_deref(), &variables, &keys)?;
    let translated = dialect::translate(&mut layers, &environment);
    problems.extend(translated.problems);
    let mut warnings = mistyped_variables(&environment);
    let mut config = parse(&layers, &keys, &mut problems, &mut warnings)?;
    resolve_paths(&mut config, &layers, sources.working_dir, &variables);
    problems.extend(check::check(&config, sources.purpose, &layers));
    let mut secrets = super::Secrets::default();
    for variable in &translated.secret_variables {
        secrets.insert(environment.get(variable).unwrap_or_default());
    }
    let role = match config.strategy.model_of_role(&config.model) {
        Ok(role) => role.zip(config.strategy.name.role()),
        Err(reason) => {
            let name = config.strategy.name.role().map_or("", RoleName::as_str);
            let place = layers.key_place(&check::path(&["strategy", name]));
            problems.push(Problem::new(place, format!("`strategy.{name}`: {reason}")));
            None
        }
    };
    let effective = effective(&config, &mut secrets).map_err(|error| {
        ConfigError::Invalid(vec![Problem::new(None, format!("cannot be stored: {error}"))])
    })?;

    let mut resolver = Resolver {
        variables: Variables { environment: &environment, config_dir: &config_dir },
        layers: &layers,
        secrets,
        problems: Vec::new(),
    };
    let servers = resolver.servers(&config);
    let for_a_model = sources.purpose == Purpose::Run && !config.external.is_wanted();
    let api_key = match for_a_model {
        true => resolver.model(&["model"], &mut config.model),
        false => None,
    };
    let role = role.filter(|_| for_a_model).map(|(mut config, name)| {
        let api_key = resolver.model(&["strategy", name.as_str()], &mut config);
        RoleModel { name, config, api_key }
    });
    let secrets = resolver.secrets;
    for server in &servers {
        // Also what reaches it in its arguments, or another server that talks.
        secrets.iter().for_each(|secret| server.redactor.add("secret", secret));
    }
    problems.extend(resolver.problems);
    if !problems.is_empty() {
        return Err(ConfigError::Invalid(problems));
    }
    Ok(Loaded { config, servers, effective, file, base, environment, api_key, role, secrets, warnings })
}

/// The `.env` beside the config first, then that of the working folder; neither overrides what is set.
fn with_dotenv(sources: &Sources<'_>, base: &Path) -> Result<Environment, ConfigError> {
    let mut environment = sources.environment.clone();
    let mut folders = vec![base];
    if base != sources.working_dir {
        folders.push(sources.working_dir);
    }
    for path in folders.into_iter().map(|folder| folder.join(".env")).filter(|path| path.is_file()) {
        let source = read(&path, sources.working_dir, SourceKind::Variables)?;
        let variables = dotenv::parse(&source).map_err(|problem| ConfigError::Invalid(vec![problem]))?;
        for (name, value) in variables {
            environment.fill(name, value);
        }
    }
    Ok(environment)
}

/// All layers, and what is wrong with the files of other hosts that they name.
fn layers(
    sources: &Sources<'_>,
    file: Option<&Path>,
    variables: &Variables<'_>,
    keys: &KnownKeys,
) -> Result<(Layers, Vec<Problem>), ConfigError> {
    let itself_foreign = file.filter(|file| file.extension().is_some_and(|extension| extension == "json"));
    let own = match file {
        // Server entries of another host are enough for the commands that need nothing else.
        Some(file) if itself_foreign.is_some() => {
            fs_err::metadata(file).map_err(|error| ConfigError::Unreadable {
                hint: preset_hint(file, sources.working_dir),
                error,
            })?;
            None
        }
        Some(file) => {
            let source = read(file, sources.working_dir, SourceKind::Config)?;
            Some(Document::toml(&source).map_err(ConfigError::Invalid)?)
        }
        None => None,
    };
    let stacked = |mut layers: Layers| {
        if let Some(own) = &own {
            layers.add_document(own);
        }
        layers.add_environment(variables.environment, keys);
        let problems: Vec<Problem> =
            sources.overrides.iter().filter_map(|entry| layers.add_override(entry, keys).err()).collect();
        if problems.is_empty() { Ok(layers) } else { Err(ConfigError::Invalid(problems)) }
    };
    let layers = stacked(Layers::default())?;
    let itself = itself_foreign.map(|file| Wanted {
        text: file.to_string_lossy().into_owned(),
        place: None,
        folder: sources.working_dir.to_owned(),
    });
    let wanted: Vec<Wanted> = itself.into_iter().chain(wanted_files(&layers, sources.working_dir)).collect();
    if wanted.is_empty() {
        return Ok((layers, Vec::new()));
    }
    // Below the config file, which may add settings to their servers.
    let mut foreign = Layers::default();
    let problems = import(&wanted, own.as_ref(), variables, sources.working_dir, &mut foreign);
    Ok((stacked(foreign)?, problems))
}

/// The files that `mcp_config` names; what is no list of texts is found wrong later.
fn wanted_files(layers: &Layers, working_dir: &Path) -> Vec<Wanted> {
    let listed = layers.merged.get("mcp_config").and_then(toml::Value::as_array);
    let texts = listed.into_iter().flatten().enumerate();
    texts
        .filter_map(|(index, text)| {
            let path = check::path(&["mcp_config", &index.to_string()]);
            let text = text.as_str()?.to_owned();
            let folder = layers.folder(&path).unwrap_or(working_dir).to_owned();
            Some(Wanted { text, place: layers.value_place(&path), folder })
        })
        .collect()
}

fn read(path: &Path, working_dir: &Path, kind: SourceKind) -> Result<Arc<SourceText>, ConfigError> {
    let bytes = fs_err::read(path)
        .map_err(|error| ConfigError::Unreadable { hint: preset_hint(path, working_dir), error })?;
    SourceText::decode(path, working_dir, bytes, kind).map_err(|problem| ConfigError::Invalid(vec![problem]))
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

/// All unknown keys, and the first value of a wrong type. An unknown key in a file of another host that is not close to
/// a known one is that host's business, and a warning.
fn parse(
    layers: &Layers,
    keys: &KnownKeys,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<String>,
) -> Result<Config, ConfigError> {
    let mut unknown = Vec::new();
    note_unknown(&layers.merged, &mut Vec::new(), keys, &mut unknown);
    let before = problems.len();
    for path in &unknown {
        let (problem, near) = unknown_key(path, layers, keys);
        let foreign = layers.source(path).is_some_and(|source| source.is_foreign());
        match (foreign, near) {
            (true, Near::Nothing) => warnings.push(format!("{problem}; it is ignored")),
            (false, Near::Nothing) => problems.push(problem.hint(known(path, keys))),
            _ => problems.push(problem),
        }
    }
    let mut track = serde_path_to_error::Track::new();
    let deserializer = toml::Value::Table(layers.merged.clone());
    let parsed = Config::deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track));
    match parsed {
        Ok(config) if problems.len() == before => return Ok(config),
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
    Err(ConfigError::Invalid(std::mem::take(problems)))
}

/// Whether a known key may have been meant.
enum Near {
    Something,
    Nothing,
}

fn unknown_key(path: &[String], layers: &Layers, keys: &KnownKeys) -> (Problem, Near) {
    let (key, parents) = match path.split_last() {
        Some((key, parents)) => (key.as_str(), parents),
        None => ("", path),
    };
    let names = keys.names_in(parents);
    let inside = match (layers.source(path), parents) {
        (_, []) => String::new(),
        (Some(source), [_, server]) if source.is_foreign() => format!(" of MCP server `{server}`"),
        _ => format!(" in `[{}]`", parents.join(".")),
    };
    let problem = Problem::new(
        layers.key_place(path),
        format!("unknown key `{key}`{inside}{}", did_you_mean(key, names.iter().copied())),
    );
    let near = match nearest(key, names.iter().copied()) {
        Some(_) => Near::Something,
        None => Near::Nothing,
    };
    (problem, near)
}

fn known(path: &[String], keys: &KnownKeys) -> String {
    let parents = path.split_last().map_or(path, |(_, parents)| parents);
    format!("known keys: {}", keys.names_in(parents).join(", "))
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

/// Paths in a file are relative to the file, others to the working folder. `~/` is the home folder. A program that is
/// named without a folder is looked up.
fn resolve_paths(config: &mut Config, layers: &Layers, working_dir: &Path, variables: &Variables<'_>) {
    let resolve = |keys: &[&str], value: &mut PathBuf| {
        let folder = layers.folder(&check::path(keys)).unwrap_or(working_dir);
        // A variable that is expanded later holds the start of the path.
        if !value.to_string_lossy().starts_with("${") {
            *value = variables.path(folder, value);
        }
    };
    if let Some(path) = &mut config.dataset.path {
        resolve(&["dataset", "path"], path);
    }
    if let Some(file) = &mut config.dataset.corrections {
        resolve(&["dataset", "corrections"], file);
    }
    resolve(&["run", "out"], &mut config.run.out);
    for (name, server) in &mut config.mcp_servers {
        if let Some(cwd) = &mut server.cwd {
            resolve(&["mcp_servers", name, "cwd"], cwd);
        }
        if let Some(file) = &mut server.env_file {
            resolve(&["mcp_servers", name, "env_file"], file);
        }
        if let Some(command) = &mut server.command
            && (command.starts_with("./") || command.starts_with("../") || command.starts_with("~/"))
        {
            let mut path = PathBuf::from(&*command);
            resolve(&["mcp_servers", name, "command"], &mut path);
            *command = path.to_string_lossy().into_owned();
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
            environment::QUESTION,
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
