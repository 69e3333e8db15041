//! Tool arguments as a model writes them, read strictly: a wrong value is answered with what would be right.

use std::ops::RangeInclusive;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::Value;

/// Taken by every tool and ignored: several agents put a line of explanation beside the real arguments.
const IGNORED: &str = "description";

/// The arguments of one call.
#[derive(Debug)]
pub struct Arguments(JsonObject);

/// What to tell the model: the text of an `isError` result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentError(String);

impl ArgumentError {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl Arguments {
    /// Refuses names that are not in `known`: a misspelt option must not be dropped in silence.
    pub fn new(arguments: JsonObject, known: &[&str]) -> Result<Self, ArgumentError> {
        match arguments.keys().find(|name| !known.contains(&name.as_str()) && *name != IGNORED) {
            Some(unknown) => Err(ArgumentError(format!(
                "unknown argument `{unknown}`; this tool takes: {}",
                known.join(", ")
            ))),
            None => Ok(Self(arguments)),
        }
    }

    pub fn required_text(&self, name: &str) -> Result<String, ArgumentError> {
        self.text(name)?.ok_or_else(|| ArgumentError(format!("`{name}` is missing; it is a string")))
    }

    /// `null` counts as absent, for all types: models write it for an option they do not want.
    pub fn text(&self, name: &str) -> Result<Option<String>, ArgumentError> {
        match self.present(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Err(ArgumentError(format!(
                "`{name}` must be a string, not the number {number}; send \"{number}\" in quotes"
            ))),
            Some(other) => Err(wrong_type(name, "a string", other)),
        }
    }

    /// One of `choices`.
    pub fn choice(&self, name: &str, choices: &[&str]) -> Result<Option<String>, ArgumentError> {
        match self.text(name)? {
            Some(text) if !choices.contains(&text.as_str()) => {
                Err(ArgumentError(format!("`{name}` must be one of {}, not `{text}`", choices.join(", "))))
            }
            text => Ok(text),
        }
    }

    pub fn flag(&self, name: &str) -> Result<Option<bool>, ArgumentError> {
        match self.present(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(wrong_type(name, "true or false", other)),
        }
    }

    /// Whole seconds from 1 to `maximum`.
    pub fn seconds(&self, name: &str, maximum: Duration) -> Result<Option<Duration>, ArgumentError> {
        let Some(value) = self.present(name) else {
            return Ok(None);
        };
        let maximum = maximum.as_secs();
        let expected = format!("a whole number of seconds from 1 to {maximum}");
        let seconds = match value {
            Value::Number(number) => number.as_f64(),
            other => return Err(wrong_type(name, &expected, other)),
        };
        match seconds {
            Some(seconds) if seconds.fract() == 0.0 && (1.0..=maximum as f64).contains(&seconds) => {
                Ok(Some(Duration::from_secs(seconds as u64)))
            }
            _ => Err(ArgumentError(format!("`{name}` must be {expected}, not {value}"))),
        }
    }

    /// A whole number within `range`.
    pub fn integer(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ArgumentError> {
        let Some(value) = self.present(name) else {
            return Ok(None);
        };
        let expected = match *range.end() {
            u64::MAX => format!("a whole number from {} on", range.start()),
            end => format!("a whole number from {} to {end}", range.start()),
        };
        match value {
            Value::Number(number) => match number.as_u64().filter(|number| range.contains(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(ArgumentError(format!("`{name}` must be {expected}, not {number}"))),
            },
            other => Err(wrong_type(name, &expected, other)),
        }
    }

    /// A number within `range`.
    pub fn number(&self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, ArgumentError> {
        match self.present(name) {
            None => Ok(None),
            Some(Value::Number(number)) => match number.as_f64().filter(|number| range.contains(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(ArgumentError(format!(
                    "`{name}` must be a number from {} to {}, not {number}",
                    range.start(),
                    range.end()
                ))),
            },
            Some(other) => Err(wrong_type(name, "a number", other)),
        }
    }

    pub fn required_integer(&self, name: &str, range: RangeInclusive<u64>) -> Result<u64, ArgumentError> {
        self.integer(name, range)?
            .ok_or_else(|| ArgumentError(format!("`{name}` is missing; it is a whole number")))
    }

    fn present(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }
}

fn wrong_type(name: &str, expected: &str, value: &Value) -> ArgumentError {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("the boolean {flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() <= 40 => format!("the string {text:?}"),
        Value::String(_) => "a long string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    ArgumentError(format!("`{name}` must be {expected}, not {found}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: Value) -> Arguments {
        let Value::Object(object) = value else { panic!("not an object") };
        Arguments::new(object, &["command", "timeout", "restart"]).unwrap()
    }

    fn error<T: std::fmt::Debug>(result: Result<T, ArgumentError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn seconds_are_whole_and_in_range() {
        let limit = Duration::from_secs(600);
        let seconds = |value: Value| arguments(json!({ "timeout": value })).seconds("timeout", limit);
        assert_eq!(seconds(json!(600)), Ok(Some(limit)));
        assert_eq!(seconds(json!(1.0)), Ok(Some(Duration::from_secs(1))));
        assert_eq!(seconds(json!(null)), Ok(None));
        for (value, found) in [
            (json!(601), "601"),
            (json!(0), "0"),
            (json!(-5), "-5"),
            (json!(1.5), "1.5"),
            (json!(1e300), "1e+300"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!("10"), "the string \"10\""),
            (json!([10]), "an array"),
            (json!(true), "the boolean true"),
        ] {
            assert_eq!(
                error(seconds(value)),
                format!("`timeout` must be a whole number of seconds from 1 to 600, not {found}")
            );
        }
    }

    #[test]
    fn integers_are_whole_and_in_range() {
        let integer = |value: Value| arguments(json!({ "timeout": value })).integer("timeout", 1..=9);
        assert_eq!(integer(json!(9)), Ok(Some(9)));
        assert_eq!(integer(json!(null)), Ok(None));
        for (value, found) in
            [(json!(10), "10"), (json!(-1), "-1"), (json!(1.5), "1.5"), (json!("3"), "the string \"3\"")]
        {
            assert_eq!(
                error(integer(value)),
                format!("`timeout` must be a whole number from 1 to 9, not {found}")
            );
        }
        let open = arguments(json!({ "timeout": 0 })).required_integer("timeout", 1..=u64::MAX);
        assert_eq!(error(open), "`timeout` must be a whole number from 1 on, not 0");
        let absent = arguments(json!({})).required_integer("timeout", 1..=9);
        assert_eq!(error(absent), "`timeout` is missing; it is a whole number");
    }

    #[test]
    fn text_must_be_text() {
        assert_eq!(
            error(arguments(json!({})).required_text("command")),
            "`command` is missing; it is a string"
        );
        assert_eq!(
            error(arguments(json!({ "command": 5 })).required_text("command")),
            "`command` must be a string, not the number 5; send \"5\" in quotes"
        );
        assert_eq!(
            error(arguments(json!({ "command": ["ls"] })).text("command")),
            "`command` must be a string, not an array"
        );
    }

    #[test]
    fn a_misspelt_name_is_refused_and_a_description_is_not() {
        let object = |value: Value| value.as_object().unwrap().clone();
        assert_eq!(
            error(Arguments::new(object(json!({ "cmd": "ls" })), &["command", "timeout"])),
            "unknown argument `cmd`; this tool takes: command, timeout"
        );
        assert!(
            Arguments::new(object(json!({ "command": "ls", "description": "look" })), &["command"]).is_ok()
        );
    }

    #[test]
    fn a_flag_is_a_boolean() {
        assert_eq!(arguments(json!({ "restart": true })).flag("restart"), Ok(Some(true)));
        assert_eq!(
            error(arguments(json!({ "restart": "true" })).flag("restart")),
            "`restart` must be true or false, not the string \"true\""
        );
    }
}
