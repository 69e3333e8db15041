//! Parameters of the tools: read from what a model wrote, completed with defaults, and written into a request.

use http::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::JsonObject;
use serde_json::Value;

use super::offer::{Offer, Parameter, ParameterKind};
use crate::arguments::{ArgumentError, Arguments};

/// The engine's own bounds of a query.
const MAX_QUERY_CHARS: usize = 400;
const MAX_QUERY_WORDS: usize = 50;

/// The parameters of one call, in the order of the offer.
#[derive(Debug, Clone, Default)]
pub(super) struct Given {
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: HeaderMap,
}

impl Given {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn set(&mut self, name: &str, value: String) {
        match self.query.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.query.push((name.to_owned(), value)),
        }
    }
}

pub(super) fn read(offer: &Offer, arguments: JsonObject) -> Result<Given, ArgumentError> {
    let names: Vec<&str> = offer.parameters.iter().map(|parameter| parameter.name).collect();
    let lists = arguments.clone();
    let arguments = Arguments::new(arguments, &names)?;
    let mut given = Given::default();
    for parameter in offer.parameters {
        let value = value(parameter, &arguments, &lists)?;
        let values = match value {
            Some(values) => values,
            None => match parameter.default {
                Some(default) => vec![default.to_owned()],
                None if parameter.is_required => {
                    return Err(ArgumentError::new(format!(
                        "`{}` is missing; it is a string",
                        parameter.name
                    )));
                }
                None => continue,
            },
        };
        write(parameter, values, &mut given)?;
    }
    // The summary comes only when results are not filtered (a defect of the engine's interface).
    if given.get("summary") == Some("true") {
        given.query.retain(|(name, _)| name != "result_filter");
    }
    Ok(given)
}

fn write(parameter: &Parameter, values: Vec<String>, given: &mut Given) -> Result<(), ArgumentError> {
    match parameter.kind {
        ParameterKind::Header | ParameterKind::NumberHeader(..) => {
            let bad = || ArgumentError::new(format!("`{}` cannot be sent as a header", parameter.name));
            let name: HeaderName = parameter.name.parse().map_err(|_| bad())?;
            let value: HeaderValue = values.concat().parse().map_err(|_| bad())?;
            given.headers.insert(name, value);
        }
        ParameterKind::Goggles => {
            let usable = values.into_iter().filter_map(|goggle| usable_goggle(&goggle));
            given.query.extend(usable.map(|goggle| (parameter.name.to_owned(), goggle)));
        }
        ParameterKind::Choices(_) => given.query.push((parameter.name.to_owned(), values.join(","))),
        ParameterKind::Query => given.query.push(("q".to_owned(), values.concat())),
        _ => given.query.push((parameter.name.to_owned(), values.concat())),
    }
    Ok(())
}

/// Rules inline, or an address of rules, which must be https.
fn usable_goggle(goggle: &str) -> Option<String> {
    let goggle = goggle.trim();
    let is_address = goggle.to_ascii_lowercase().starts_with("http");
    let is_bad = goggle.is_empty() || (is_address && !goggle.to_ascii_lowercase().starts_with("https://"));
    (!is_bad).then(|| goggle.to_owned())
}

fn value(
    parameter: &Parameter,
    arguments: &Arguments,
    lists: &JsonObject,
) -> Result<Option<Vec<String>>, ArgumentError> {
    let name = parameter.name;
    let one = |value: Option<String>| value.map(|value| vec![value]);
    Ok(match parameter.kind {
        ParameterKind::Query => match arguments.text(name)? {
            Some(query) => {
                Some(vec![checked_query(&query, parameter.is_required)?]).filter(|query| !query[0].is_empty())
            }
            None => None,
        },
        ParameterKind::Text | ParameterKind::Header => one(arguments.text(name)?),
        ParameterKind::Integer(least, most) => {
            one(arguments.integer(name, least..=most)?.map(|number| number.to_string()))
        }
        ParameterKind::Number(least, most) => {
            one(arguments.number(name, least..=most)?.map(|number| number.to_string()))
        }
        ParameterKind::NumberHeader(least, most) => {
            one(arguments.number(name, least..=most)?.map(|number| number.to_string()))
        }
        ParameterKind::Flag => one(arguments.flag(name)?.map(|flag| flag.to_string())),
        ParameterKind::Choice(choices) => one(arguments.choice(name, choices)?),
        ParameterKind::Freshness => match arguments.text(name)? {
            Some(freshness) if !is_freshness(&freshness) => {
                return Err(ArgumentError::new(format!(
                    "`{name}` must be pd, pw, pm, py or a range such as 2022-04-01to2022-07-30, not `{freshness}`"
                )));
            }
            freshness => one(freshness),
        },
        ParameterKind::Choices(choices) => list(name, lists, Some(choices))?,
        ParameterKind::Goggles => list(name, lists, None)?,
    })
}

fn checked_query(query: &str, is_required: bool) -> Result<String, ArgumentError> {
    let query = query.trim();
    if query.is_empty() && is_required {
        return Err(ArgumentError::new("`query` is empty; say what to search for"));
    }
    let (chars, words) = (query.chars().count(), query.split_whitespace().count());
    if chars > MAX_QUERY_CHARS || words > MAX_QUERY_WORDS {
        return Err(ArgumentError::new(format!(
            "`query` has {chars} characters and {words} words; at most {MAX_QUERY_CHARS} and {MAX_QUERY_WORDS} are \
             searched for: use fewer words"
        )));
    }
    Ok(query.to_owned())
}

fn is_freshness(text: &str) -> bool {
    let is_day = |day: &str| {
        day.len() == 10
            && day.char_indices().all(|(at, character)| match at {
                4 | 7 => character == '-',
                _ => character.is_ascii_digit(),
            })
    };
    matches!(text, "pd" | "pw" | "pm" | "py")
        || text.split_once("to").is_some_and(|(from, to)| is_day(from) && is_day(to))
}

/// A list of strings; one string alone is a list of one.
fn list(
    name: &str,
    lists: &JsonObject,
    choices: Option<&[&str]>,
) -> Result<Option<Vec<String>>, ArgumentError> {
    let items: Vec<String> = match lists.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(item)) => vec![item.clone()],
        Some(Value::Array(items)) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(|item| item.as_str().map(ToOwned::to_owned)).collect()
        }
        Some(other) => {
            return Err(ArgumentError::new(format!("`{name}` must be a list of strings, not {other}")));
        }
    };
    if let Some(choices) = choices
        && let Some(unknown) = items.iter().find(|item| !choices.contains(&item.as_str()))
    {
        return Err(ArgumentError::new(format!(
            "`{name}` holds `{unknown}`; it may hold {}",
            choices.join(", ")
        )));
    }
    Ok(Some(items).filter(|items| !items.is_empty()))
}
