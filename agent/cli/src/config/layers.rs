//! Layers of TOML on top of each other, and for each value where it was written.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::Override;
use super::problem::{Place, Problem, SourceText};
use super::schema::{KnownKeys, Reading};
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
    pub(super) fn add_file(&mut self, source: &Arc<SourceText>) -> Result<(), Vec<Problem>> {
        let text = &source.text;
        let (spanned, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            return Err(errors
                .iter()
                .map(|error| {
                    let place = Place::File { source: source.clone(), span: error.span().unwrap_or(0..0) };
                    Problem::new(Some(place), format!("not valid TOML: {}", error.message()))
                })
                .collect());
        }
        let table: Table = toml::from_str(text).map_err(|error| {
            let place = Place::File { source: source.clone(), span: error.span().unwrap_or(0..0) };
            vec![Problem::new(Some(place), format!("not valid TOML: {}", error.message()))]
        })?;
        self.merge(table);
        self.note_table(&mut Vec::new(), spanned.get_ref(), source);
        Ok(())
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

    /// Whether the value itself was written in a file, so that paths in it are relative to that file.
    pub(super) fn is_from_file(&self, path: &[String]) -> bool {
        matches!(self.origins.get(path), Some(Origin::File { .. }))
    }

    /// The origin, and whether it is that of the path itself.
    fn origin(&self, path: &[String]) -> Option<(&Origin, bool)> {
        (1..=path.len())
            .rev()
            .find_map(|length| Some((self.origins.get(&path[..length])?, length == path.len())))
    }

    fn set(&mut self, path: KeyPath, value: Value, origin: Origin) {
        let nested = path
            .iter()
            .rev()
            .fold(value, |inner, key| Value::Table(Table::from_iter([(key.clone(), inner)])));
        if let Value::Table(table) = nested {
            self.merge(table);
        }
        self.note(path, origin);
    }

    fn note(&mut self, path: KeyPath, origin: Origin) {
        self.origins.retain(|known, _| !known.starts_with(&path));
        self.origins.insert(path, origin);
    }

    fn merge(&mut self, table: Table) {
        merge_tables(&mut self.merged, table);
    }

    fn note_table(&mut self, path: &mut KeyPath, table: &DeTable<'_>, source: &Arc<SourceText>) {
        for (key, value) in table.iter() {
            path.push(key.get_ref().to_string());
            let origin = Origin::File { source: source.clone(), key: key.span(), value: value.span() };
            self.note(path.clone(), origin);
            self.note_inside(path, value.get_ref(), source);
            path.pop();
        }
    }

    fn note_inside(&mut self, path: &mut KeyPath, value: &DeValue<'_>, source: &Arc<SourceText>) {
        match value {
            DeValue::Table(table) => self.note_table(path, table, source),
            DeValue::Array(array) => {
                for (index, element) in array.iter().enumerate() {
                    path.push(index.to_string());
                    let span = element.span();
                    let origin = Origin::File { source: source.clone(), key: span.clone(), value: span };
                    self.note(path.clone(), origin);
                    self.note_inside(path, element.get_ref(), source);
                    path.pop();
                }
            }
            _ => {}
        }
    }
}

impl Origin {
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
