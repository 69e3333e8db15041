//! The files of other hosts that `mcp_config` names: where their servers stand, and under which name they count.

use std::path::{Path, PathBuf};

use toml::Value;

use super::document::Document;
use super::expand::Variables;
use super::layers::{KeyPath, Layers};
use super::problem::{Place, Problem, did_you_mean};
use super::source::{SourceKind, SourceText, with_inputs};

/// Where servers stand in the files of other hosts: Claude Desktop, Claude Code, Cursor, Windsurf, Gemini CLI and
/// Inspector; VS Code, alone and inside its settings; Codex and this program; EvalScope.
const ROOTS: [&[&str]; 7] = [
    &["mcpServers"],
    &["servers"],
    &["mcp", "servers"],
    &["mcp.servers"],
    &["mcp_servers"],
    &["agent_config", "mcp_servers"],
    // EvalScope's list by itself.
    &[],
];

/// A server entry in a file of another host.
struct Entry {
    name: String,
    /// Inside the document.
    path: KeyPath,
    value: Value,
}

/// A file to read: the text in `mcp_config` and its place.
pub(super) struct Wanted {
    pub(super) text: String,
    pub(super) place: Option<Place>,
    /// What a relative path is relative to.
    pub(super) folder: PathBuf,
}

/// Adds the servers of all files. A name that is there twice is an error that names both places, unless the entry of
/// `own` (the config file) only adds settings to what another file starts.
pub(super) fn import(
    wanted: &[Wanted],
    own: Option<&Document>,
    variables: &Variables<'_>,
    working_dir: &Path,
    layers: &mut Layers,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for wanted in wanted {
        match read(wanted, variables, working_dir) {
            Ok(document) => problems.extend(add(&document, own, layers)),
            Err(found) => problems.extend(found),
        }
    }
    problems
}

fn read(wanted: &Wanted, variables: &Variables<'_>, working_dir: &Path) -> Result<Document, Vec<Problem>> {
    let problem =
        |message: String| vec![Problem::new(wanted.place.clone(), format!("`mcp_config`: {message}"))];
    let path = variables.expand(&wanted.text).map_err(|error| problem(error.to_string()))?.text;
    let path = variables.path(&wanted.folder, Path::new(&path));
    let bytes = fs_err::read(&path).map_err(|error| problem(error.to_string()))?;
    let source = SourceText::decode(&path, working_dir, bytes, SourceKind::Foreign)
        .map_err(|problem| vec![problem])?;
    match path.extension().is_some_and(|extension| extension == "toml") {
        true => Document::toml(&source),
        false => Document::json(&source).map(with_inputs),
    }
}

fn add(document: &Document, own: Option<&Document>, layers: &mut Layers) -> Vec<Problem> {
    let found = match entries(document) {
        Ok(found) => found,
        Err(problem) => return vec![problem],
    };
    let mut problems = Vec::new();
    for entry in found {
        let to = ["mcp_servers".to_owned(), server_name(&entry.name)];
        let place = document.place(&entry.path);
        if !entry.value.is_table() {
            let message = format!("MCP server `{}` must be an object", entry.name);
            problems.push(Problem::new(place, message));
            continue;
        }
        let own_value = own.and_then(|own| own.root.get("mcp_servers")?.get(&to[1]));
        let other = match own_value {
            Some(value) if starts_something(value) => own.and_then(|own| own.place(&to)),
            _ => layers.table(&to).is_some().then(|| layers.key_place(&to)).flatten(),
        };
        if let Some(other) = other {
            let message =
                format!("MCP server `{}` is defined twice: here and in {}", to[1], other.position());
            problems.push(Problem::new(place, message).hint("rename or remove one of them"));
            continue;
        }
        layers.add_part(document, &entry.path, &to, entry.value);
    }
    problems
}

/// Whether an entry says by itself what to start or reach.
fn starts_something(value: &Value) -> bool {
    ["command", "cmd", "url", "uri", "httpUrl", "serverUrl"].iter().any(|key| value.get(key).is_some())
}

fn entries(document: &Document) -> Result<Vec<Entry>, Problem> {
    let mut entries = Vec::new();
    let mut any = false;
    for root in ROOTS {
        let Some(value) = root.iter().try_fold(&document.root, |value, key| value.get(key)) else { continue };
        let path: KeyPath = root.iter().map(|key| (*key).to_owned()).collect();
        let below = |key: &str| path.iter().cloned().chain([key.to_owned()]).collect::<KeyPath>();
        match value {
            Value::Table(_) if root.is_empty() => {}
            Value::Table(table) => {
                any = true;
                entries.extend(table.iter().map(|(name, value)| Entry {
                    name: name.clone(),
                    path: below(name),
                    value: value.clone(),
                }));
            }
            Value::Array(list) => {
                any = true;
                for (index, value) in list.iter().enumerate() {
                    let name = name_in_list(value, &entries);
                    entries.push(Entry { name, path: below(&index.to_string()), value: value.clone() });
                }
            }
            _ => {
                let message = format!("`{}` must hold MCP servers", root.join("."));
                return Err(Problem::new(document.place(&path), message));
            }
        }
    }
    if any {
        return Ok(entries);
    }
    let keys = document.root.as_table().into_iter().flat_map(toml::Table::keys);
    let near = keys
        .map(|key| (key, did_you_mean(key, ["mcpServers", "servers", "mcp_servers"])))
        .find(|(_, near)| !near.is_empty());
    let (place, near) = match near {
        Some((key, near)) => {
            (document.place(std::slice::from_ref(key)), format!("unknown key `{key}`{near}"))
        }
        None => (None, "it has none of the keys `mcpServers`, `servers` and `mcp_servers`".to_owned()),
    };
    let place = place.or_else(|| Some(Place::File { source: document.source.clone(), span: 0..0 }));
    Err(Problem::new(place, format!("no MCP servers in this file: {near}")))
}

/// EvalScope names servers for its log only, by `name` or by what they start.
fn name_in_list(value: &Value, before: &[Entry]) -> String {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let base = text("name").map(str::to_owned).unwrap_or_else(|| {
        let start = text("command").or_else(|| text("url")).unwrap_or("server");
        let start = start
            .split_once("://")
            .map_or(start, |(_, rest)| rest.split(['/', ':', '?']).next().unwrap_or(rest));
        start.rsplit('/').next().unwrap_or(start).to_owned()
    });
    let taken = |name: &str| before.iter().any(|entry| entry.name == name);
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(base)
}

/// Others take any text as a name; here it becomes part of names that the model uses.
fn server_name(name: &str) -> String {
    let allowed = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    name.chars().map(|character| if allowed(character) { character } else { '_' }).collect()
}
