use std::path::{Path, PathBuf};

use crate::environment::{CONFIG_DIR, Environment};

/// Where variables in the config get their values from.
pub(super) struct Variables<'a> {
    pub(super) environment: &'a Environment,
    /// Value of `${GAIA_CONFIG_DIR}`.
    pub(super) config_dir: &'a str,
}

/// What an expansion gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) text: String,
    /// Names and values of the variables in it, in order.
    pub(super) used: Vec<(String, String)>,
}

/// Why a text could not be expanded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpandError {
    #[error("environment variable `{name}` is not set")]
    NotSet {
        name: String,
        /// As it stands in the text, for the caret.
        reference: String,
    },
    #[error("`{reference}` is no variable: known are `${{NAME}}`, `${{NAME:-default}}` and `${{env:NAME}}`")]
    Malformed { reference: String },
}

impl ExpandError {
    pub(super) fn reference(&self) -> &str {
        match self {
            ExpandError::NotSet { reference, .. } | ExpandError::Malformed { reference } => reference,
        }
    }
}

impl Variables<'_> {
    /// Expands `${NAME}`, `${NAME:-default}` (taken when unset or empty; may hold variables itself) and the
    /// same with `env:` in front. `$${` gives `${`; a `$` before anything else stays.
    pub(super) fn expand(&self, text: &str) -> Result<Expanded, ExpandError> {
        let mut expanded = Expanded::default();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            if rest[..start].ends_with('$') {
                expanded.text.push_str(&rest[..start - 1]);
                expanded.text.push_str("${");
                rest = &rest[start + 2..];
                continue;
            }
            expanded.text.push_str(&rest[..start]);
            let reference = reference(&rest[start..])
                .ok_or_else(|| ExpandError::Malformed { reference: rest[start..].to_owned() })?;
            self.expand_reference(reference, &mut expanded)?;
            rest = &rest[start + reference.len()..];
        }
        expanded.text.push_str(rest);
        Ok(expanded)
    }

    /// A path as people write it: `~/` is the home folder, what is relative starts at `folder`.
    pub(super) fn path(&self, folder: &Path, path: &Path) -> PathBuf {
        let home = self.environment.get_filled("HOME").filter(|_| path.starts_with("~"));
        match (home, path.strip_prefix("~")) {
            (Some(home), Ok(rest)) => Path::new(home).join(rest),
            _ => folder.join(path),
        }
    }

    fn expand_reference(&self, reference: &str, expanded: &mut Expanded) -> Result<(), ExpandError> {
        let inner = &reference[2..reference.len() - 1];
        let inner = inner.strip_prefix("env:").unwrap_or(inner);
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if !is_variable_name(name) {
            return Err(ExpandError::Malformed { reference: reference.to_owned() });
        }
        let value = match name {
            CONFIG_DIR => Some(self.config_dir),
            _ => self.environment.get(name),
        };
        match (value, default) {
            (Some(value), None) => {
                expanded.text.push_str(value);
                expanded.used.push((name.to_owned(), value.to_owned()));
            }
            (Some(value), Some(_)) if !value.is_empty() => {
                expanded.text.push_str(value);
                expanded.used.push((name.to_owned(), value.to_owned()));
            }
            (_, Some(default)) => {
                let default = self.expand(default)?;
                expanded.text.push_str(&default.text);
                expanded.used.extend(default.used);
            }
            (None, None) => {
                return Err(ExpandError::NotSet { name: name.to_owned(), reference: reference.to_owned() });
            }
        }
        Ok(())
    }
}

/// `text` starts with `${`; the reference up to its own closing brace.
fn reference(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (index, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(&text[..=index]);
                }
            }
            _ => {}
        }
    }
    None
}

/// As POSIX has them.
pub(super) fn is_variable_name(name: &str) -> bool {
    name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// What is left of a text when all variables are taken out; the defaults count as text.
pub(super) fn literal_part(text: &str) -> String {
    let mut literal = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        literal.push_str(&rest[..start]);
        let Some(reference) = reference(&rest[start..]) else { break };
        if let Some((_, default)) = reference[2..reference.len() - 1].split_once(":-") {
            literal.push_str(&literal_part(default));
        }
        rest = &rest[start + reference.len()..];
    }
    literal.push_str(rest);
    literal
}
