use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use super::expand::is_variable_name;

/// What stands for a secret where one must not be shown.
pub const REDACTED: &str = "[redacted]";

/// A text that no output may hold.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// For the wire and for nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(REDACTED)
    }
}

/// The values that must never be written anywhere.
#[derive(Clone, Default)]
pub struct Secrets {
    values: BTreeSet<String>,
}

/// A shorter value would blank out ordinary text.
const MIN_SECRET_BYTES: usize = 6;

impl Secrets {
    pub fn insert(&mut self, value: &str) {
        if value.len() < MIN_SECRET_BYTES {
            return;
        }
        // As it stands in JSON, and in JSON that is text in JSON.
        let mut form = value.to_owned();
        for _depth in 0..3 {
            let quoted = serde_json::Value::from(form.as_str()).to_string();
            let escaped = quoted[1..quoted.len() - 1].to_owned();
            if !self.values.insert(form) || self.values.contains(&escaped) {
                break;
            }
            form = escaped;
        }
    }

    pub fn extend(&mut self, other: &Self) {
        self.values.extend(other.values.iter().cloned());
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(String::as_str)
    }

    /// The text with every secret replaced.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        // The longest first, so that a secret inside another leaves nothing of the longer one.
        let mut values: Vec<&str> = self.iter().collect();
        values.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
        for value in values {
            if redacted.contains(value) {
                redacted = Cow::Owned(redacted.replace(value, REDACTED));
            }
        }
        redacted
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Secrets({})", self.values.len())
    }
}

/// Whether the value of this key is the name of a variable.
pub(crate) fn names_a_variable(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["_env", "_env_var", "_env_vars", "envvar"].iter().any(|end| key.ends_with(end)) || key == "env_vars"
}

/// Whether text that stands where the name of a variable should can be shown: a key that was put there by mistake is none,
/// or is long and mixed as no name is.
pub(crate) fn is_ordinary_variable_name(name: &str) -> bool {
    /// Names that people give are shorter, or have no digits, or no small letters.
    const MIXED_BYTES: usize = 20;
    let is_mixed =
        name.bytes().any(|byte| byte.is_ascii_digit()) && name.bytes().any(|byte| byte.is_ascii_lowercase());
    is_variable_name(name) && (name.len() < MIXED_BYTES || !is_mixed)
}

/// Whether what has this name (a variable, a header, a flag, a query parameter) is likely to be a secret.
/// Names that only name a variable (`api_key_env`) and counts of tokens are not.
pub(crate) fn looks_secret(name: &str) -> bool {
    let name = name.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    if names_a_variable(&name) || name == "tokens" || name.ends_with("_tokens") {
        return false;
    }
    ["key", "token", "secret", "passw", "credential", "authorization", "auth", "cookie"]
        .iter()
        .any(|word| name.contains(word))
}
