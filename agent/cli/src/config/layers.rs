//! Layers of TOML on top of each other, and for each value where it was written.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::{Table, Value};

use super::Override;
use super::document::{Document, Spot};
use super::problem::{Place, Problem};
use super::schema::{KnownKeys, Reading};
use super::source::SourceText;
use crate::environment::{CONFIG_VARIABLES, Environment};

pub(super) type KeyPath = Vec<String>;

/// What all layers say together.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub(super) merged: Table,
    origins: BTreeMap<KeyPath, Origin>,
}

/// Where a key and its value stand.
#[derive(Debug, Clone)]
enum Origin {
    File { source: Arc<SourceText>, key: Range<usize>, value: Range<usize> },
    Variable(&'static str),
    Flag(String),
}

impl Layers {
    pub(super) fn add_document(&mut self, document: &Document) {
        if let Value::Table(table) = &document.root {
            self.merge(table.clone());
        }
        for spot in &document.spots {
            self.note(spot.path.clone(), Origin::of(spot, &document.source));
        }
    }

    /// The value at `from` in the document as if it stood at `to`.
    pub(super) fn add_part(&mut self, document: &Document, from: &[String], to: &[String], value: Value) {
        for spot in &document.spots {
            if let Some(rest) = spot.path.strip_prefix(from) {
                let path: KeyPath = to.iter().chain(rest).cloned().collect();
                self.note(path, Origin::of(spot, &document.source));
            }
        }
        self.merge_at(to, value);
    }

    pub(super) fn add_environment(&mut self, environment: &Environment, keys: &KnownKeys) {
        for variable in CONFIG_VARIABLES {
            if let Some(text) = environment.get_filled(variable.name) {
                let path = split_key(variable.key);
                let value = read_text(text, keys.reading(&path));
                self.set(path, value, Origin::Variable(variable.name));
            }
        }
    }

    pub(super) fn add_override(&mut self, entry: &Override, keys: &KnownKeys) -> Result<(), Problem> {
        let typed = match entry.flag.as_str() {
            "--set" => format!("--set {}={}", entry.key, entry.value),
            flag => format!("{flag} {}", entry.value),
        };
        let path = split_key(&entry.key);
        if path.iter().any(String::is_empty) {
            return Err(Problem::new(Some(Place::Flag(typed)), "the key is not of the form `section.key`"));
        }
        let value = read_text(&entry.value, keys.reading(&path));
        self.set(path, value, Origin::Flag(typed));
        Ok(())
    }

    /// Of the value at `path`, or of the nearest table around it.
    pub(super) fn value_place(&self, path: &[String]) -> Option<Place> {
        Some(match self.origin(path)? {
            (Origin::File { source, value, .. }, true) => {
                Place::File { source: source.clone(), span: value.clone() }
            }
            (origin, _) => origin.key_place(),
        })
    }

    /// Of the key at `path`, or of the nearest table around it.
    pub(super) fn key_place(&self, path: &[String]) -> Option<Place> {
        self.origin(path).map(|(origin, _)| origin.key_place())
    }

    /// The folder that paths in the value at `path` are relative to; `None` when it was not written in a file.
    pub(super) fn folder(&self, path: &[String]) -> Option<&Path> {
        match self.origins.get(path)? {
            Origin::File { source, .. } => Some(&source.folder),
            _ => None,
        }
    }

    /// The origin, and whether it is that of the path itself.
    fn origin(&self, path: &[String]) -> Option<(&Origin, bool)> {
        (1..=path.len())
            .rev()
            .find_map(|length| Some((self.origins.get(&path[..length])?, length == path.len())))
    }

    /// Renames a key inside the table at `table`; what stands under the new name already must not.
    pub(super) fn rename(&mut self, table: &[String], from: &str, to: &str) {
        let Some(value) = self.take(table, from) else { return };
        let old: KeyPath = table.iter().cloned().chain([from.to_owned()]).collect();
        let new: KeyPath = table.iter().cloned().chain([to.to_owned()]).collect();
        let moved: Vec<(KeyPath, Origin)> = self
            .origins
            .iter()
            .filter_map(|(path, origin)| {
                let rest = path.strip_prefix(old.as_slice())?;
                Some((new.iter().chain(rest).cloned().collect(), origin.clone()))
            })
            .collect();
        self.origins.retain(|path, _| !path.starts_with(&old));
        self.merge_at(&new, value);
        // Of two tables that become one, each entry keeps its own place.
        for (path, origin) in moved {
            self.origins.entry(path).or_insert(origin);
        }
    }

    /// Takes a value out of the table at `table`; its place stays known.
    pub(super) fn take(&mut self, table: &[String], key: &str) -> Option<Value> {
        self.table_mut(table)?.remove(key)
    }

    /// Puts a value in place of what is at `path`, as if it had been written where `like` is.
    pub(super) fn put(&mut self, path: &[String], value: Value, like: &[String]) {
        let origin = self.origin(like).map(|(origin, _)| origin.clone());
        let Some((key, table)) = path.split_last() else { return };
        if let Some(table) = self.table_mut(table) {
            table.insert(key.clone(), value);
        }
        if let Some(origin) = origin {
            self.origins.entry(path.to_vec()).or_insert(origin);
        }
    }

    pub(super) fn table(&self, path: &[String]) -> Option<&Table> {
        path.iter().try_fold(&self.merged, |table, key| table.get(key)?.as_table())
    }

    fn table_mut(&mut self, path: &[String]) -> Option<&mut Table> {
        path.iter().try_fold(&mut self.merged, |table, key| table.get_mut(key)?.as_table_mut())
    }

    /// The file that the value at `path` (or the nearest table around it) was written in.
    pub(super) fn source(&self, path: &[String]) -> Option<&Arc<SourceText>> {
        match self.origin(path)?.0 {
            Origin::File { source, .. } => Some(source),
            _ => None,
        }
    }

    fn set(&mut self, path: KeyPath, value: Value, origin: Origin) {
        self.merge_at(&path, value);
        self.note(path, origin);
    }

    fn merge_at(&mut self, path: &[String], value: Value) {
        let nested = path
            .iter()
            .rev()
            .fold(value, |inner, key| Value::Table(Table::from_iter([(key.clone(), inner)])));
        if let Value::Table(table) = nested {
            self.merge(table);
        }
    }

    fn note(&mut self, path: KeyPath, origin: Origin) {
        self.origins.retain(|known, _| !known.starts_with(&path));
        self.origins.insert(path, origin);
    }

    fn merge(&mut self, table: Table) {
        merge_tables(&mut self.merged, table);
    }
}

impl Origin {
    fn of(spot: &Spot, source: &Arc<SourceText>) -> Self {
        Self::File { source: source.clone(), key: spot.key.clone(), value: spot.value.clone() }
    }

    fn key_place(&self) -> Place {
        match self {
            Origin::File { source, key, .. } => Place::File { source: source.clone(), span: key.clone() },
            Origin::Variable(name) => Place::Variable(name),
            Origin::Flag(typed) => Place::Flag(typed.clone()),
        }
    }
}

/// Tables are merged key by key; every other value replaces the one below.
fn merge_tables(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge_tables(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

fn split_key(key: &str) -> KeyPath {
    key.split('.').map(|part| part.trim().to_owned()).collect()
}

/// What belongs to a key that takes text is text (a quoted TOML string loses its quotes); the rest is TOML
/// where it is that, and text where it is not. Lists may be written with commas alone.
fn read_text(text: &str, reading: Reading) -> Value {
    let parsed = text.parse::<Value>().ok();
    match (reading, parsed) {
        (Reading::Text, Some(Value::String(unquoted))) => Value::String(unquoted),
        (Reading::Text, _) => Value::String(text.to_owned()),
        (Reading::List, Some(Value::Array(list))) => Value::Array(list),
        (Reading::List, _) => {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            Value::Array(words.map(Value::from).collect())
        }
        (Reading::Other, Some(value)) => value,
        (Reading::Other, None) => Value::String(text.to_owned()),
    }
}
