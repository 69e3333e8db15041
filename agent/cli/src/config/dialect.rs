//! Server entries in the words of other hosts, put into ours before anything else looks at them.

use schemars::Schema;
use serde_json::json;
use toml::Value;

use super::layers::{KeyPath, Layers};
use super::problem::Problem;
use crate::environment::{CONFIG_DIR, Environment};

/// Numbers up to this in `timeout` are seconds (Cline, goose, EvalScope), greater ones milliseconds (Claude Code,
/// Gemini CLI), which nobody sets below some seconds.
const MAX_TIMEOUT_SECONDS: f64 = 3600.0;

/// What a key of another host means here.
enum Means {
    /// The same as this key of ours.
    Key(&'static str),
    /// Something that has no counterpart in a run: approvals, names for people, the look of things.
    Nothing,
    /// Needs more than another name; see [`Translator::special`].
    Special(&'static str),
}

use Means::{Key, Nothing, Special};

const FOREIGN_KEYS: &[(&str, Means)] = &[
    ("transport", Key("type")),
    ("cmd", Key("command")),
    ("envs", Key("env")),
    ("environment", Key("env")),
    ("envFile", Key("env_file")),
    ("env_keys", Key("env_vars")),
    ("workingDirectory", Key("cwd")),
    ("uri", Key("url")),
    ("httpUrl", Key("url")),
    ("serverUrl", Key("url")),
    ("http_headers", Key("headers")),
    ("bearerTokenEnvVar", Key("bearer_token_env_var")),
    ("includeTools", Key("enabled_tools")),
    ("available_tools", Key("enabled_tools")),
    ("excludeTools", Key("disabled_tools")),
    ("disabledTools", Key("disabled_tools")),
    ("disabled", Special("The opposite of `enabled`.")),
    (
        "timeout",
        Special("As `tool_timeout_sec`: seconds up to 3600, milliseconds above, since hosts differ."),
    ),
    ("startup_timeout_ms", Special("As `startup_timeout_sec`, in milliseconds.")),
    ("tools", Special("As `enabled_tools`; `\"all\"` and `\"*\"` mean all. Codex's table is not used.")),
    ("bearer_token", Special("Refused: name the variable that holds it in `bearer_token_env_var`.")),
    ("protocolEra", Special("As `protocol`: `\"legacy\"`, `\"auto\"` or `\"modern\"`.")),
    ("alwaysAllow", Nothing),
    ("autoApprove", Nothing),
    ("autoAllow", Nothing),
    ("allowedTools", Nothing),
    ("approval", Nothing),
    ("bundled", Nothing),
    ("default_tools_approval_mode", Nothing),
    ("description", Nothing),
    ("dev", Nothing),
    ("display_name", Nothing),
    ("gallery", Nothing),
    ("icon", Nothing),
    ("id", Nothing),
    ("metadata", Nothing),
    ("name", Nothing),
    ("oauth", Nothing),
    ("oauth_resource", Nothing),
    ("roots", Nothing),
    ("sandbox", Nothing),
    ("sandboxEnabled", Nothing),
    ("scopes", Nothing),
    ("sse_read_timeout", Nothing),
    ("title", Nothing),
    ("trust", Nothing),
    ("version", Nothing),
];

/// Adds the keys of other hosts to the schema of a server, so that editors and suggestions know them.
pub(super) fn add_foreign_keys(schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) else {
        return;
    };
    for (name, means) in FOREIGN_KEYS {
        let text = match means {
            Key(key) => format!("Another host's name for `{key}`."),
            Special(text) => (*text).to_owned(),
            Nothing => "Taken from entries of other hosts; means nothing here.".to_owned(),
        };
        properties.insert((*name).to_owned(), json!({ "description": text }));
    }
}

/// What else a translation found.
#[derive(Debug, Default)]
pub(super) struct Translated {
    pub(super) problems: Vec<Problem>,
    /// Variables that stand for inputs which VS Code hides while they are typed.
    pub(super) secret_variables: Vec<String>,
}

/// Puts every server entry into our words.
pub(super) fn translate(layers: &mut Layers, environment: &Environment) -> Translated {
    let root = ["mcp_servers".to_owned()];
    let names: Vec<String> =
        layers.table(&root).map(|table| table.keys().cloned().collect()).unwrap_or_default();
    let mut translator = Translator { layers, environment, translated: Translated::default() };
    for name in names {
        let entry = [root[0].clone(), name];
        translator.keys(&entry);
        translator.folder(&entry);
        translator.values(&entry, &mut Vec::new());
    }
    translator.translated
}

struct Translator<'a> {
    layers: &'a mut Layers,
    environment: &'a Environment,
    translated: Translated,
}

impl Translator<'_> {
    fn problem(&mut self, path: &[String], message: String, hint: &str) {
        let problem = Problem::new(self.layers.key_place(path), message);
        self.translated.problems.push(if hint.is_empty() { problem } else { problem.hint(hint) });
    }

    fn keys(&mut self, entry: &[String]) {
        for (foreign, means) in FOREIGN_KEYS {
            let Some(value) = self.layers.table(entry).and_then(|table| table.get(*foreign)) else {
                continue;
            };
            let value = value.clone();
            match means {
                Key(ours) => self.rename(entry, foreign, ours, &value),
                Nothing => drop(self.layers.take(entry, foreign)),
                Special(_) => self.special(entry, foreign, &value),
            }
        }
        let transport = match self.layers.table(entry).and_then(|table| table.get("type")?.as_str()) {
            Some("streamable-http" | "streamableHttp" | "streamable_http" | "remote") => Some("http"),
            Some("local") => Some("stdio"),
            _ => None,
        };
        if let Some(transport) = transport {
            set_at(self.layers, &below(entry, "type"), Value::from(transport));
        }
        // OpenCode writes program and arguments as one list.
        if let Some(Value::Array(words)) = self.layers.table(entry).and_then(|table| table.get("command"))
            && let Some((program, arguments)) = words.clone().split_first()
        {
            let (command, args) = (below(entry, "command"), below(entry, "args"));
            self.layers.put(&command, program.clone(), &command);
            if !arguments.is_empty() {
                self.layers.put(&args, Value::Array(arguments.to_vec()), &command);
            }
        }
    }

    fn rename(&mut self, entry: &[String], foreign: &str, ours: &str, value: &Value) {
        let there = self.layers.table(entry).and_then(|table| table.get(ours));
        let both_tables = value.is_table() && there.is_some_and(Value::is_table);
        if there.is_some_and(|there| there != value) && !both_tables {
            let message = format!("`{foreign}` and `{ours}` of server `{}` mean the same", entry[1]);
            self.problem(&below(entry, foreign), message, "keep the one that is meant");
        }
        self.layers.rename(entry, foreign, ours);
    }

    fn special(&mut self, entry: &[String], foreign: &str, value: &Value) {
        let place = below(entry, foreign);
        let wrong = |expected: &str| format!("`{foreign}` of server `{}`: expected {expected}", entry[1]);
        let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
        let ours = match (foreign, value) {
            ("disabled", Value::Boolean(disabled)) => Ok(Some(("enabled", Value::Boolean(!disabled)))),
            ("disabled", _) => Err(wrong("true or false")),
            ("timeout", _) => match number {
                Some(number) if number > MAX_TIMEOUT_SECONDS => {
                    Ok(Some(("tool_timeout_sec", Value::Float(number / 1000.0))))
                }
                Some(_) => Ok(Some(("tool_timeout_sec", value.clone()))),
                None => Err(wrong("a number")),
            },
            ("startup_timeout_ms", _) => match number {
                Some(number) => Ok(Some(("startup_timeout_sec", Value::Float(number / 1000.0)))),
                None => Err(wrong("a number")),
            },
            ("tools", Value::String(all)) if all == "all" || all == "*" => Ok(None),
            ("tools", Value::Array(list)) if list.as_slice() == [Value::from("*")] => Ok(None),
            ("tools", Value::Array(_)) => Ok(Some(("enabled_tools", value.clone()))),
            ("tools", Value::Table(_)) => Ok(None),
            ("tools", _) => Err(wrong("\"all\" or a list of names")),
            ("protocolEra", Value::String(era)) => match era.as_str() {
                "legacy" => Ok(Some(("protocol", Value::from("2025")))),
                "modern" => Ok(Some(("protocol", Value::from("2026")))),
                "auto" => Ok(Some(("protocol", Value::from("auto")))),
                _ => Err(wrong("\"legacy\", \"auto\" or \"modern\"")),
            },
            ("bearer_token", _) => {
                let message = format!("`bearer_token` of server `{}` holds a secret in the open", entry[1]);
                let hint = "put it into a variable and name that in `bearer_token_env_var`";
                self.problem(&place, message, hint);
                Ok(None)
            }
            _ => Err(wrong("something else")),
        };
        match ours {
            Ok(Some((key, value))) => {
                if !self.layers.table(entry).is_some_and(|table| table.contains_key(key)) {
                    self.layers.put(&below(entry, key), value, &place);
                }
            }
            Ok(None) => {}
            Err(message) => self.problem(&place, message, ""),
        }
        self.layers.take(entry, foreign);
    }

    /// Other hosts start servers in the folder of the project that the file belongs to.
    fn folder(&mut self, entry: &[String]) {
        let cwd = below(entry, "cwd");
        let Some(table) = self.layers.table(entry) else { return };
        if !table.contains_key("command") || table.contains_key("cwd") {
            return;
        }
        let source = self.layers.source(&below(entry, "command"));
        if let Some(folder) = source.filter(|source| source.is_foreign()).map(|source| source.workspace()) {
            let folder = Value::String(folder.to_string_lossy().into_owned());
            self.layers.put(&cwd, folder, &below(entry, "command"));
        }
    }

    /// Variables of other hosts inside texts; numbers and switches where a text is wanted, as YAML users write them.
    fn values(&mut self, entry: &[String], path: &mut KeyPath) {
        let at: KeyPath = entry.iter().chain(path.iter()).cloned().collect();
        let Some(value) = value_at(self.layers, &at) else { return };
        match value {
            Value::Table(table) => {
                for key in table.keys() {
                    path.push(key.clone());
                    self.values(entry, path);
                    path.pop();
                }
            }
            Value::Array(list) => {
                for index in 0..list.len() {
                    path.push(index.to_string());
                    self.values(entry, path);
                    path.pop();
                }
            }
            Value::String(text) => {
                if let Some(text) = self.text(&at, &text) {
                    set_at(self.layers, &at, Value::String(text));
                }
            }
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_)
                if path.len() > 1 && ["env", "headers", "args"].contains(&path[0].as_str()) =>
            {
                set_at(self.layers, &at, Value::String(value.to_string()));
            }
            _ => {}
        }
    }

    /// `None` when there is nothing to translate.
    fn text(&mut self, path: &[String], text: &str) -> Option<String> {
        if !text.contains("${") {
            return None;
        }
        let source = self.layers.source(path).cloned();
        let mut translated = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, from) = rest.split_at(start);
            translated.push_str(before);
            let end = from.find('}').filter(|_| !before.ends_with('$'));
            let Some(end) = end else {
                translated.push_str("${");
                rest = &from[2..];
                continue;
            };
            let name = &from[2..end];
            let folder =
                source.as_ref().filter(|source| source.is_foreign()).map(|source| source.workspace());
            let folder = folder.map(|folder| folder.to_string_lossy().into_owned());
            let replacement = match name {
                "workspaceFolder" | "workspaceRoot" => {
                    Some(folder.unwrap_or_else(|| format!("${{{CONFIG_DIR}}}")))
                }
                CONFIG_DIR => source
                    .as_ref()
                    .filter(|source| source.is_foreign())
                    .map(|source| source.folder.to_string_lossy().into_owned()),
                "workspaceFolderBasename" => {
                    folder.and_then(|folder| folder.rsplit('/').next().map(str::to_owned))
                }
                "userHome" => Some("${HOME}".to_owned()),
                "pathSeparator" | "/" => Some("/".to_owned()),
                _ => name.strip_prefix("input:").map(|input| self.input(path, input)),
            };
            match replacement {
                Some(replacement) => {
                    translated.push_str(&replacement);
                    rest = &from[end + 1..];
                }
                None => {
                    translated.push_str("${");
                    rest = &from[2..];
                }
            }
        }
        translated.push_str(rest);
        Some(translated)
    }

    /// VS Code asks a person for an input; here a variable holds it.
    fn input(&mut self, path: &[String], id: &str) -> String {
        let variable: String = id
            .chars()
            .map(
                |character| {
                    if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' }
                },
            )
            .collect();
        let variable = match variable.starts_with(|first: char| first.is_ascii_digit()) {
            true => format!("_{variable}"),
            false => variable,
        };
        let input = self.layers.source(path).and_then(|source| source.input(id)).cloned();
        if input.as_ref().is_some_and(|input| input.hidden) {
            self.translated.secret_variables.push(variable.clone());
        }
        if self.environment.get(&variable).is_none() {
            if let Some(default) = input.as_ref().and_then(|input| input.default.clone()) {
                return default.replace("${", "$${");
            }
            let about = input.and_then(|input| input.description).map(|text| format!(" ({text})"));
            let message = format!(
                "`${{input:{id}}}`{}: there is nobody to ask; its value comes from environment variable `{variable}`, \
                 which is not set",
                about.unwrap_or_default()
            );
            let hint = format!("set it, or put `{variable}=…` into a `.env` beside the config");
            let place = self.layers.value_place(path).map(|place| place.narrow(&format!("${{input:{id}}}")));
            self.translated.problems.push(Problem::new(place, message).hint(hint));
            return String::new();
        }
        format!("${{{variable}}}")
    }
}

fn below(entry: &[String], key: &str) -> KeyPath {
    entry.iter().cloned().chain([key.to_owned()]).collect()
}

fn value_at(layers: &Layers, path: &[String]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    let value = rest.iter().try_fold(layers.table(&[])?.get(first)?, |value, key| step(value, key))?;
    Some(value.clone())
}

fn step<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Table(table) => table.get(key),
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        _ => None,
    }
}

fn set_at(layers: &mut Layers, path: &[String], new: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    let mut value = layers.merged.get_mut(first);
    for key in rest {
        value = match value {
            Some(Value::Table(table)) => table.get_mut(key),
            Some(Value::Array(list)) => key.parse::<usize>().ok().and_then(|index| list.get_mut(index)),
            _ => None,
        };
    }
    if let Some(value) = value {
        *value = new;
    }
}
