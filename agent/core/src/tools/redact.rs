use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use super::spec::without_secrets;
use super::{ServerSpec, ToolOutput, TransportSpec, is_plain_variable};
use crate::message::Part;

/// Shorter values are flags, numbers and words: hiding them would hide half of every text.
const SHORTEST_SECRET_BYTES: usize = 8;

/// Knows the secrets that a server was given and takes them out of what it says.
///
/// A clone knows the same secrets, also those that are added later: tokens change while a server runs.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that contains another one is hidden whole.
    secrets: Arc<RwLock<Vec<Secret>>>,
}

#[derive(Clone, PartialEq)]
struct Secret {
    value: String,
    name: String,
}

impl Redactor {
    /// From now on `value` is shown as `[redacted: NAME]`. Values of less than 8 bytes are not.
    pub fn add(&self, name: &str, value: &str) {
        let escaped = Value::from(value).to_string();
        // A text may hold it as it stands in JSON, and only one line of it at a time.
        let forms = [value.trim(), escaped.trim_matches('"')];
        let lines = value.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
        let mut secrets = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
        for form in forms.into_iter().chain(lines) {
            let known = secrets.iter().any(|secret| secret.value == form);
            if form.len() >= SHORTEST_SECRET_BYTES && !known {
                secrets.push(Secret { value: form.to_owned(), name: name.to_owned() });
            }
        }
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.value.len()));
    }

    /// All that an entry in the config hands to its server.
    pub(super) fn of(spec: &ServerSpec) -> Self {
        let redactor = Self::default();
        match &spec.transport {
            TransportSpec::Stdio { env, .. } => {
                for (name, value) in env.iter().filter(|(name, _)| !is_plain_variable(name)) {
                    redactor.add(name, value);
                    if let Some(password) = password(value) {
                        redactor.add(name, password);
                    }
                }
            }
            TransportSpec::Http { url, headers, bearer_token, .. } => {
                for (name, value) in headers {
                    redactor.add(name, value);
                    // `Bearer abc`: the bare token is as secret as the whole value.
                    if let Some((_, rest)) = value.split_once(' ') {
                        redactor.add(name, rest);
                    }
                }
                if let Some(token) = bearer_token {
                    redactor.add("bearer token", token);
                }
                redactor.add_url(url);
            }
        }
        // After those that have a better name.
        for Secret { value, name } in
            spec.redactor.secrets.read().unwrap_or_else(PoisonError::into_inner).iter()
        {
            redactor.add(name, value);
        }
        redactor
    }

    fn add_url(&self, url: &str) {
        if without_secrets(url) == url {
            return;
        }
        for part in url.split(['?', '#']).skip(1) {
            self.add("url", part);
            for (_, value) in part.split('&').filter_map(|pair| pair.split_once('=')) {
                self.add("url", value);
            }
        }
        if let Some(info) = user_info(url) {
            self.add("url", info);
        }
        if let Some(password) = password(url) {
            self.add("url", password);
        }
    }

    /// The text without any secret.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        for secret in self.secrets.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if redacted.contains(&secret.value) {
                redacted =
                    Cow::Owned(redacted.replace(&secret.value, &format!("[redacted: {}]", secret.name)));
            }
        }
        redacted
    }

    /// Hides the secrets in bytes that are still coming; returns how many of them hold no start of one.
    pub(super) fn redact_bytes(&self, bytes: &mut Vec<u8>) -> usize {
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets.iter() {
            let shown = format!("[redacted: {}]", secret.name);
            let mut from = 0;
            while let Some(found) = memchr::memmem::find(&bytes[from..], secret.value.as_bytes()) {
                let at = from + found;
                bytes.splice(at..at + secret.value.len(), shown.bytes());
                from = at + shown.len();
            }
        }
        let longest = secrets.first().map_or(0, |secret| secret.value.len());
        bytes.len() - longest.saturating_sub(1).min(bytes.len())
    }

    fn knows_nothing(&self) -> bool {
        self.secrets.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Every string and every key in the value.
    pub(super) fn redact_value(&self, value: &mut Value) {
        if self.knows_nothing() {
            return;
        }
        match value {
            Value::String(text) => self.redact_in_place(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.redact_value(value)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| self.redact_value(value));
                if fields.keys().any(|key| matches!(self.redact(key), Cow::Owned(_))) {
                    *fields = std::mem::take(fields)
                        .into_iter()
                        .map(|(key, value)| (self.redact(&key).into_owned(), value))
                        .collect();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    pub(super) fn redact_in_place(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.redact(text) {
            *text = redacted;
        }
    }

    /// All texts of a result; pictures are passed as they are.
    pub(super) fn redact_output(&self, output: &mut ToolOutput) {
        for part in &mut output.content {
            if let Part::Text { text } = part {
                self.redact_in_place(text);
            }
        }
        if let Some(structured) = &mut output.structured {
            self.redact_value(structured);
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.secrets.read().unwrap_or_else(PoisonError::into_inner).len();
        write!(formatter, "Redactor({count})")
    }
}

fn user_info(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
    Some(authority.rsplit_once('@')?.0)
}

fn password(url: &str) -> Option<&str> {
    Some(user_info(url)?.split_once(':')?.1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn redactor(secrets: &[(&str, &str)]) -> Redactor {
        let redactor = Redactor::default();
        for (name, value) in secrets {
            redactor.add(name, value);
        }
        redactor
    }

    #[test]
    fn a_secret_is_named_and_never_shown() {
        let check = |secrets: &[(&str, &str)], text: &str, expected: &str| {
            assert_eq!(redactor(secrets).redact(text), expected);
        };
        check(&[("KEY", "sk-123456")], "401 for sk-123456.", "401 for [redacted: KEY].");
        check(&[("KEY", "short12")], "short12 stays", "short12 stays");
        // The longer one goes first, however they were added.
        check(
            &[("A", "abcdefgh"), ("B", "abcdefgh-and-more")],
            "abcdefgh-and-more abcdefgh",
            "[redacted: B] [redacted: A]",
        );
        check(&[("Q", "with\"quote1")], r#"{"k":"with\"quote1"}"#, r#"{"k":"[redacted: Q]"}"#);
        check(
            &[("PEM", "-----BEGIN-----\nMIIEvQIBADAN\n-----END-----")],
            "line MIIEvQIBADAN",
            "line [redacted: PEM]",
        );
    }

    #[test]
    fn a_secret_that_comes_later_is_known_to_every_clone() {
        let first = Redactor::default();
        let second = first.clone();
        first.add("access token", "at-123456789");
        assert_eq!(second.redact("at-123456789"), "[redacted: access token]");
    }

    #[test]
    fn structure_and_parts_are_searched() {
        let redactor = redactor(&[("KEY", "sk-123456")]);
        let mut output = ToolOutput {
            content: vec![Part::Text { text: "a sk-123456 b".to_owned() }],
            structured: Some(json!({ "sk-123456": ["x", { "y": "sk-123456" }], "n": 1 })),
            is_error: false,
            failure: None,
            whole: None,
            duration: Duration::ZERO,
        };
        redactor.redact_output(&mut output);
        assert_eq!(output.content, [Part::Text { text: "a [redacted: KEY] b".to_owned() }]);
        assert_eq!(
            output.structured,
            Some(json!({ "[redacted: KEY]": ["x", { "y": "[redacted: KEY]" }], "n": 1 }))
        );
    }
}
