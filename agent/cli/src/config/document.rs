//! A file of TOML or of JSON with comments: its values, and for each where it stands.

use std::ops::Range;
use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::layers::KeyPath;
use super::problem::{Place, Problem};
use super::source::SourceText;

#[derive(Debug)]
pub(super) struct Document {
    pub(super) source: Arc<SourceText>,
    /// A table, or the list that a JSON file may be.
    pub(super) root: Value,
    /// Of every key and every element of a list, what holds others first.
    pub(super) spots: Vec<Spot>,
}

/// Where a key and its value stand; for an element of a list they are the same.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub(super) path: KeyPath,
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

impl Document {
    pub(super) fn toml(source: &Arc<SourceText>) -> Result<Self, Vec<Problem>> {
        let text = &source.text;
        let problem = |error: &toml::de::Error| {
            let place = Place::File { source: source.clone(), span: error.span().unwrap_or(0..0) };
            Problem::new(Some(place), format!("not valid TOML: {}", error.message()))
        };
        let (spanned, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            return Err(errors.iter().map(problem).collect());
        }
        let table: Table = toml::from_str(text).map_err(|error| vec![problem(&error)])?;
        let mut spots = Vec::new();
        note_table(spanned.get_ref(), &mut Vec::new(), &mut spots);
        Ok(Self { source: source.clone(), root: Value::Table(table), spots })
    }

    /// Comments and commas after the last element are taken, as editors take them. TOML has no null: a key that is
    /// null is one that is not there.
    pub(super) fn json(source: &Arc<SourceText>) -> Result<Self, Vec<Problem>> {
        let place = |range: Range<usize>| Some(Place::File { source: source.clone(), span: range });
        let options = ParseOptions {
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            ..ParseOptions::default()
        };
        let parsed = parse_to_ast(&source.text, &CollectOptions::default(), &options).map_err(|error| {
            let range = error.range();
            vec![Problem::new(place(range.start..range.end), format!("not valid JSON: {}", error.kind()))]
        })?;
        let mut reader = JsonReader { source, spots: Vec::new(), problems: Vec::new() };
        let root = parsed.value.as_ref().and_then(|value| reader.value(value, &mut Vec::new()));
        if !reader.problems.is_empty() {
            return Err(reader.problems);
        }
        match root {
            Some(root @ (Value::Table(_) | Value::Array(_))) => {
                Ok(Self { source: source.clone(), root, spots: reader.spots })
            }
            _ => Err(vec![Problem::new(place(0..0), "not a JSON object")]),
        }
    }

    pub(super) fn place(&self, path: &[String]) -> Option<Place> {
        let spot = self.spots.iter().find(|spot| spot.path == path)?;
        Some(Place::File { source: self.source.clone(), span: spot.key.clone() })
    }
}

fn note_table(table: &DeTable<'_>, path: &mut KeyPath, spots: &mut Vec<Spot>) {
    for (key, value) in table.iter() {
        path.push(key.get_ref().to_string());
        spots.push(Spot { path: path.clone(), key: key.span(), value: value.span() });
        note_inside(value.get_ref(), path, spots);
        path.pop();
    }
}

fn note_inside(value: &DeValue<'_>, path: &mut KeyPath, spots: &mut Vec<Spot>) {
    match value {
        DeValue::Table(table) => note_table(table, path, spots),
        DeValue::Array(array) => {
            for (index, element) in array.iter().enumerate() {
                path.push(index.to_string());
                spots.push(Spot { path: path.clone(), key: element.span(), value: element.span() });
                note_inside(element.get_ref(), path, spots);
                path.pop();
            }
        }
        _ => {}
    }
}

struct JsonReader<'a> {
    source: &'a Arc<SourceText>,
    spots: Vec<Spot>,
    problems: Vec<Problem>,
}

impl JsonReader<'_> {
    /// `None` for null.
    fn value(&mut self, value: &ast::Value<'_>, path: &mut KeyPath) -> Option<Value> {
        Some(match value {
            ast::Value::StringLit(text) => Value::String(text.value.to_string()),
            ast::Value::NumberLit(number) => match number.value.parse::<i64>() {
                Ok(whole) => Value::Integer(whole),
                Err(_) => Value::Float(number.value.parse().unwrap_or(f64::NAN)),
            },
            ast::Value::BooleanLit(boolean) => Value::Boolean(boolean.value),
            ast::Value::NullKeyword(_) => return None,
            ast::Value::Array(array) => {
                let mut values = Vec::new();
                for element in &array.elements {
                    path.push(values.len().to_string());
                    let range = element.range();
                    let span = range.start..range.end;
                    self.spots.push(Spot { path: path.clone(), key: span.clone(), value: span });
                    values.extend(self.value(element, path));
                    path.pop();
                }
                Value::Array(values)
            }
            ast::Value::Object(object) => {
                let mut table = Table::new();
                for property in &object.properties {
                    let name = property.name.as_str().to_owned();
                    let key = property.name.range();
                    let key = key.start..key.end;
                    if table.contains_key(&name) {
                        let place = Place::File { source: self.source.clone(), span: key };
                        self.problems.push(Problem::new(Some(place), format!("duplicate key `{name}`")));
                        continue;
                    }
                    path.push(name.clone());
                    let range = property.value.range();
                    self.spots.push(Spot { path: path.clone(), key, value: range.start..range.end });
                    if let Some(value) = self.value(&property.value, path) {
                        table.insert(name, value);
                    }
                    path.pop();
                }
                Value::Table(table)
            }
        })
    }
}
